//! The environment in which Capstan is tested: real and simulated control planes, simulated
//! machines, the tour and the benchmark. It must never be linked into the binary that a cluster
//! runs.

pub mod api;
pub mod bench;
pub mod control_plane;
mod environment;
mod go;
pub mod infrastructure;
pub mod installation;
pub mod neighbours;
pub mod random;
pub mod release;
pub mod simulation;
pub mod tour;
