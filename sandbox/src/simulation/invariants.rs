//! The invariants: what must hold in every run, whatever users, faults, and caches do.
//!
//! Checks look at what is stored, at the instances that run, and at the etcd members, after every
//! change. They never look at what a controller believes. An invariant is a list of checks, each of
//! which is made on one occasion: a write to a machine, a write to the set, the end of a reconcile,
//! or the end of the run.

pub(crate) mod check;
pub(crate) mod control_plane_machine_set;
pub(crate) mod evidence;
mod exemptions;
pub(crate) mod generator;
pub(crate) mod moment;
pub(crate) mod shared;

pub use check::Invariant;
pub use exemptions::{EXEMPTIONS, Exemption};

/// All invariants: first those of every controller, then those of one controller.
pub fn invariants() -> impl Iterator<Item = Invariant> {
    let all = [
        shared::INVARIANTS,
        control_plane_machine_set::INVARIANTS,
        generator::INVARIANTS,
    ];
    all.into_iter().flatten().copied()
}
