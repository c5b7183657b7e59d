//! The controllers: they watch the cluster, hand what they see to [`capstan_core`], and write what it answers.
//!
//! They decide nothing that core could decide. What they own is the order of reads and writes: what is read from a
//! cache and what is read live, which precondition a write carries, and what is remembered of it until the caches show
//! it. Safety never rests on being the only process that runs (decision 15).

mod caches;
mod follow;
mod kind;
mod object;
mod store;

pub use caches::{Caches, View};
