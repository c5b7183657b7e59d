//! The invariants of the ControlPlaneMachineSet controller.
//!
//! The ids are those of section 1.9 of the reliability page; `P1` is ours.

pub(crate) mod at_rest;
pub(crate) mod machines;
pub(crate) mod members;
pub(crate) mod set;

use super::check::Invariant;

/// The invariants of the ControlPlaneMachineSet controller.
pub(crate) const INVARIANTS: &[Invariant] = &[
    Invariant {
        id: "C1",
        text: "no more machines are made than replicas and one",
    },
    Invariant {
        id: "C2",
        text: "what serves is deleted only when another machine of its index serves and is current",
    },
    Invariant {
        id: "C3",
        text: "nothing is made or deleted while a node belongs to nobody, and nothing is replaced while a replacement has failed",
    },
    Invariant {
        id: "C4",
        text: "an Inactive set writes to no machine, and an Active one stays so",
    },
    Invariant {
        id: "C5",
        text: "the set is called cluster, and has three or five replicas that do not change",
    },
    Invariant {
        id: "C6",
        text: "a set lets go of every machine before its finalizer goes, and the garbage collector deletes none",
    },
    Invariant {
        id: "C7",
        text: "under OnDelete a machine is made only for one that a user deletes, and none is deleted",
    },
    Invariant {
        id: "C8",
        text: "the zones are even once everything has come to rest",
    },
    Invariant {
        id: "C9",
        text: "a machine that replaces another has its index, and no index is new",
    },
    Invariant {
        id: "C10",
        text: "the hooks of a machine are not touched",
    },
    Invariant {
        id: "C12",
        text: "etcd keeps its quorum: nothing that serves is deleted while another machine or a member is not well",
    },
    Invariant {
        id: "C13",
        text: "C1 holds whatever the caches show",
    },
    Invariant {
        id: "G1",
        text: "no two machines are made for the same purpose",
    },
    Invariant {
        id: "G2",
        text: "no machine is made while another for the same purpose may be on its way",
    },
    Invariant {
        id: "G5",
        text: "every machine that is made or deleted is told in an event",
    },
    Invariant {
        id: "G7",
        text: "every instance belongs to a machine",
    },
    Invariant {
        id: "G9",
        text: "every creation and deletion has a reason that was true, and a user's spec stays as it is",
    },
    Invariant {
        id: "P1",
        text: "a paused rollout begins nothing",
    },
];
