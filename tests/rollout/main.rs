//! Rollouts on a real API server with its garbage collector: the controllers under their own Role, machines simulated.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails is what these are for"
)]
// A test binary has no outside.
#![allow(unreachable_pub)]

mod cohosted;
mod crashing;
mod deleting;
mod foretelling;
mod generating;
mod holding;
mod resting;
mod rolling;
mod telling;
mod world;
