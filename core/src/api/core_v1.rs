//! What Capstan reads of the core group.

pub mod node;
