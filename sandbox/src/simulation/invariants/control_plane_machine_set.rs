//! The invariants of the ControlPlaneMachineSet controller.
//!
//! The ids are those of section 1.9 of the reliability page; those that begin with `P` are ours.

pub(crate) mod at_end;
pub(crate) mod conditions;
pub(crate) mod idle;
pub(crate) mod machines;
pub(crate) mod members;
pub(crate) mod set;

use super::check::Invariant;

/// The invariants of the ControlPlaneMachineSet controller.
pub(crate) const INVARIANTS: &[Invariant] = &[
    Invariant {
        id: "C1",
        text: "there is at most one machine more than replicas",
    },
    Invariant {
        id: "C2",
        text: "a ready machine is deleted only while another machine of its index is ready and current",
    },
    Invariant {
        id: "C3",
        text: "no machine is created or deleted while a control plane node belongs to no machine, and no machine is replaced while a replacement has failed",
    },
    Invariant {
        id: "C4",
        text: "an Inactive set writes to no machine, and an Active set stays Active",
    },
    Invariant {
        id: "C5",
        text: "the set is named cluster, and has three or five replicas, which do not change",
    },
    Invariant {
        id: "C6",
        text: "a set releases every machine before its finalizer is removed, and the garbage collector deletes no machine",
    },
    Invariant {
        id: "C7",
        text: "under OnDelete, a machine is created only after a user deletes one, and the controller deletes none",
    },
    Invariant {
        id: "C8",
        text: "the zones are balanced at the end",
    },
    Invariant {
        id: "C9",
        text: "a replacement has the index of the machine that it replaces, and no index is new",
    },
    Invariant {
        id: "C10",
        text: "the lifecycle hooks of a machine do not change",
    },
    Invariant {
        id: "C12",
        text: "etcd keeps its quorum: no ready machine is deleted while another machine or an etcd member is unhealthy",
    },
    Invariant {
        id: "C13",
        text: "C1 holds with stale caches",
    },
    Invariant {
        id: "G1",
        text: "no two machines are created for the same purpose",
    },
    Invariant {
        id: "G2",
        text: "no machine is created while a creation for the same purpose may still take effect",
    },
    Invariant {
        id: "G5",
        text: "an event names every machine that is created or deleted",
    },
    Invariant {
        id: "G7",
        text: "every instance belongs to a machine",
    },
    Invariant {
        id: "G9",
        text: "every creation and deletion has a reason that was true, and the controller does not change the spec of the set",
    },
    Invariant {
        id: "P1",
        text: "a paused rollout creates and deletes no machine",
    },
    Invariant {
        id: "P2",
        text: "the controller writes only to control plane machines that the set selects or owns",
    },
    Invariant {
        id: "P3",
        text: "no machine that was created from the template as it is, the only one of its index, is deleted",
    },
    Invariant {
        id: "P4",
        text: "at most twelve machines of an index are created in an hour",
    },
    Invariant {
        id: "P5",
        text: "while an index has no ready machine, a ready machine is deleted only for its ready replacement",
    },
    Invariant {
        id: "P6",
        text: "Progressing is True while a rollout is incomplete and not stopped",
    },
    Invariant {
        id: "P7",
        text: "an empty index gets a machine, and a control plane node without a machine is reported",
    },
    Invariant {
        id: "P8",
        text: "a new machine of an empty index does not have the name of a machine that is gone, unless the machine was gone before the record of its creation was removed",
    },
    Invariant {
        id: "P9",
        text: "a limited rollout replaces no machine once as many indexes as the limit are up to date",
    },
    Invariant {
        id: "P10",
        text: "a ready machine is deleted only after its replacement has been ready for ten seconds",
    },
    Invariant {
        id: "P11",
        text: "the status counts no outdated machine as updated, and the ClusterOperator repeats the conditions of the set",
    },
    Invariant {
        id: "P12",
        text: "an error of ten minutes is reported as the condition Error",
    },
    Invariant {
        id: "P13",
        text: "nodes that may be those of machines that are starting are not reported as unmanaged",
    },
    Invariant {
        id: "P14",
        text: "a machine that changed after it was read live is not deleted",
    },
    Invariant {
        id: "P15",
        text: "of the outdated machines of an index, one that is not ready is deleted first",
    },
];
