//! Rollouts on a real API server with its garbage collector. The controllers run with the
//! permissions of their Role, and the machines are simulated.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test reports a failure by a panic"
)]
// A test binary exports nothing.
#![allow(unreachable_pub)]

mod blocking;
mod command_line;
mod control_plane;
mod control_plane_commands;
mod control_plane_stories;
mod crashes;
mod dashboard;
mod deletion;
mod etcd_members;
#[allow(dead_code, reason = "another test uses the rest")]
#[path = "../workload/members.rs"]
mod etcd_processes;
mod generator;
mod neighbours;
mod platforms;
mod reporting;
mod rolling_update;
mod shared_process;
mod steady_state;
mod world;
