//! The simulation: defects that it found, and properties of the simulation itself.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

mod both_apis;
mod conditions;
mod control_planes;
mod coverage;
mod machine_pool;
mod mutants;
mod page;
mod regressions;
mod replay;
