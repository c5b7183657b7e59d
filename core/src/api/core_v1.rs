//! The kinds of the core group that Capstan reads.

pub mod node;
pub mod pod;
