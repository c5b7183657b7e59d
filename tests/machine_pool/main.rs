//! The controller of MachinePools beside the real core manager of Cluster API. The reference
//! provider of the sandbox has the instances.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a panic fails the test, and the sizes are of interest"
)]

mod drain;
mod extend;
mod large;
mod live;
mod outage;
mod own;
mod records;
mod world;
