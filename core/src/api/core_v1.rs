//! The kinds of the core group that Capstan reads.

pub mod config_map;
pub mod node;
pub mod pod;
