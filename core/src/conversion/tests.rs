//! Tests of the conversion.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

mod admission;
mod generated;
pub(super) mod hits;
mod laws;
mod losses;
mod menus;
mod random;
mod samples;
