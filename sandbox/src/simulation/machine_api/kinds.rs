//! The kinds of the environment and the keys of their objects.

use capstan_core::api::config_openshift_io::cluster_operator::ClusterOperator;
use capstan_core::api::core_v1::node::Node;
use capstan_core::api::kinds as table;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::machine::Machine;

use crate::simulation::engine::kinds::{CachedKind, KindId, ObjectKey};

use super::reading;

/// Machines.
pub const MACHINE: KindId = KindId::of(&table::MACHINES);
/// ControlPlaneMachineSets.
pub const SET: KindId = KindId::of(&table::CONTROL_PLANE_MACHINE_SETS);
/// Nodes.
pub const NODE: KindId = KindId::of(&table::NODES);
/// ClusterOperators.
pub const OPERATOR: KindId = KindId::of(&table::CLUSTER_OPERATORS);

/// The namespace of the Machine API.
pub(crate) const NAMESPACE: &str = "openshift-machine-api";
/// The name of the set.
pub(crate) const SET_NAME: &str = "cluster";

/// The kinds that replicas cache, one line for each, in the order in which a replica lists them.
pub(crate) const KINDS: [CachedKind; 4] = [
    CachedKind::of::<Machine>(MACHINE).read_by(reading::machine),
    CachedKind::of::<ControlPlaneMachineSet>(SET)
        .read_by(reading::set)
        .owning(),
    CachedKind::of::<Node>(NODE).read_by(reading::node),
    CachedKind::of::<ClusterOperator>(OPERATOR).read_by(reading::operator),
];

/// The key of a machine.
pub(crate) fn machine(name: &str) -> ObjectKey {
    MACHINE.key(NAMESPACE, name)
}

/// The key of the set.
pub(crate) fn set() -> ObjectKey {
    SET.key(NAMESPACE, SET_NAME)
}

/// The key of a node.
pub(crate) fn node(name: &str) -> ObjectKey {
    NODE.key(NAMESPACE, name)
}

/// The key of a ClusterOperator.
pub(crate) fn operator(name: &str) -> ObjectKey {
    OPERATOR.key(NAMESPACE, name)
}
