//! The world that Capstan is tried in. Never linked into what a cluster runs.

pub mod api;
pub mod bench;
pub mod control_plane;
pub mod infrastructure;
pub mod installation;
pub mod random;
pub mod simulation;
pub mod tour;
