//! The clients of managed clusters against real etcd processes and a real API server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

mod connections;
mod etcd;
mod members;
mod plan;
mod rollout;
