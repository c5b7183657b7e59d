//! The kinds of the environment and the keys of their objects.

use capstan_core::api::config_openshift_io::cluster_operator;

use crate::simulation::engine::kinds::{CachedKind, KindId, ObjectKey};

use super::reading;

/// Machines.
pub const MACHINE: KindId = KindId::new("machine.openshift.io", "Machine", "machines");
/// ControlPlaneMachineSets.
pub const SET: KindId = KindId::new("machine.openshift.io", "Set", "controlplanemachinesets");
/// Nodes.
pub const NODE: KindId = KindId::new("", "Node", "nodes");
/// ClusterOperators.
pub const OPERATOR: KindId = KindId::new("config.openshift.io", "Operator", cluster_operator::PLURAL);

/// The namespace of the Machine API.
pub(crate) const NAMESPACE: &str = "openshift-machine-api";
/// The name of the set.
pub(crate) const SET_NAME: &str = "cluster";

/// Everything that is known of a kind, one line for each kind, in the order in which a replica lists them.
pub(crate) const KINDS: [CachedKind; 4] = [
    CachedKind {
        id: MACHINE,
        read: reading::machine,
        owns: false,
    },
    CachedKind {
        id: SET,
        read: reading::set,
        owns: true,
    },
    CachedKind {
        id: NODE,
        read: reading::node,
        owns: false,
    },
    CachedKind {
        id: OPERATOR,
        read: reading::operator,
        owns: false,
    },
];

/// The kinds that caches lag for in scenarios, in the order of [`KINDS`].
pub(crate) const IDS: [KindId; 4] = [MACHINE, SET, NODE, OPERATOR];

fn key(kind: KindId, name: &str) -> ObjectKey {
    let namespaced = kind == MACHINE || kind == SET;
    ObjectKey::new(kind, if namespaced { NAMESPACE } else { "" }, name)
}

/// The key of a machine.
pub(crate) fn machine(name: &str) -> ObjectKey {
    key(MACHINE, name)
}

/// The key of the set.
pub(crate) fn set() -> ObjectKey {
    key(SET, SET_NAME)
}

/// The key of a node.
pub(crate) fn node(name: &str) -> ObjectKey {
    key(NODE, name)
}

/// The key of a ClusterOperator.
pub(crate) fn operator(name: &str) -> ObjectKey {
    key(OPERATOR, name)
}
