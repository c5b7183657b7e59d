//! Tests of the conversion.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "a value written in place is easier to read without a reference"
)]

mod admission;
pub(super) mod hits;
mod menus;
mod random;
mod rules;
mod samples;
