//! The clients of managed clusters against real etcd processes and a real API server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a panic fails the test, and figures are printed"
)]

mod connections;
mod etcd;
mod forward;
mod members;
mod plan;
mod rollout;
