//! The invariants of the controller of ControlPlanes.
//!
//! Checks look at what is stored, at the instances that run, and at the etcd members. A reason to
//! create or delete a machine must have been true at some moment of the reconcile that requested
//! it. Checks never look at what the controller believes.

pub(super) mod at_end;
pub(super) mod moment;
mod writes;

use crate::simulation::invariants::Invariant;

/// The invariants, beside those of every controller.
pub const INVARIANTS: &[Invariant] = &[
    Invariant {
        id: "H1",
        text: "etcd never loses its quorum, unless machines, nodes, or members fail, or a user removes hooks or \
               deletes machines before Capstan sets its hooks",
    },
    Invariant {
        id: "H2",
        text: "a machine is created only while there are too few, or one more than replicas for a replacement or a \
               better spread",
    },
    Invariant {
        id: "H3",
        text: "no two creations may take effect at once",
    },
    Invariant {
        id: "H4",
        text: "a machine is created only while all others have a ready node, and at most one member is not healthy; \
               without an etcd operator, none that has no machine",
    },
    Invariant {
        id: "H5",
        text: "a machine is deleted only while there are too many, all are ready, none leaves, and all members are healthy",
    },
    Invariant {
        id: "H6",
        text: "an outdated machine is deleted before a current one",
    },
    Invariant {
        id: "H7",
        text: "the only machine is replaced only after a user accepts it",
    },
    Invariant {
        id: "H8",
        text: "the controller writes to no machine of another owner, and to no hook of another owner",
    },
    Invariant {
        id: "H9",
        text: "the health check of the controller never allows more remediations than etcd survives",
    },
    Invariant {
        id: "H10",
        text: "the garbage collector deletes no machine; a machine has no owner without a finalizer, and is released \
               before the finalizer is removed",
    },
    Invariant {
        id: "H11",
        text: "at the end the machines are spread evenly, as many as replicas, and never an even number",
    },
    Invariant {
        id: "H12",
        text: "at the end each machine has one instance and one voting member, and nothing else has one",
    },
    Invariant {
        id: "H13",
        text: "the controller never changes the spec of the ControlPlane",
    },
    Invariant {
        id: "H14",
        text: "a machine is moved for a better spread only once from the same spread to the same failure domain",
    },
    Invariant {
        id: "H15",
        text: "no machine is created or deleted while the member of a machine that stays is a learner",
    },
];
