//! The kinds of the environment and the keys of their objects.

use capstan_core::api::config_openshift_io::cluster_operator::ClusterOperator;
use capstan_core::api::config_openshift_io::infrastructure::{self, Infrastructure};
use capstan_core::api::core_v1::config_map::{ConfigMap, ETCD_ENDPOINTS, ETCD_NAMESPACE};
use capstan_core::api::core_v1::node::Node;
use capstan_core::api::kinds as table;
use capstan_core::api::machine_openshift_io::control_plane::{ControlPlane, NAME};
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::machine_openshift_io::machine_health_check::MachineHealthCheck;
use capstan_core::control_plane::health_check;

use crate::simulation::engine::kinds::{CachedKind, KindId, ObjectKey};

pub(super) use crate::simulation::machine_api::kinds::{MACHINE, NAMESPACE, NODE, OPERATOR, SET};
pub(super) use crate::simulation::machine_api::kinds::{machine, node, operator};

/// ControlPlanes.
pub(super) const CONTROL_PLANE: KindId = KindId::of(&table::CONTROL_PLANES);
/// MachineHealthChecks.
pub(super) const HEALTH_CHECK: KindId = KindId::of(&table::MACHINE_HEALTH_CHECKS);

/// Infrastructures.
pub(super) const INFRASTRUCTURE: KindId = KindId::of(&table::INFRASTRUCTURES);

/// ConfigMaps.
pub(super) const CONFIG_MAP: KindId = KindId::of(&table::CONFIG_MAPS);

/// The kinds that replicas cache, in the order in which a replica lists them.
pub(super) const KINDS: [CachedKind; 8] = [
    CachedKind::of::<Machine>(MACHINE),
    CachedKind::of::<ControlPlane>(CONTROL_PLANE).owning(),
    CachedKind::of::<MachineHealthCheck>(HEALTH_CHECK),
    CachedKind::of::<ControlPlaneMachineSet>(SET),
    CachedKind::of::<Node>(NODE),
    CachedKind::of::<ClusterOperator>(OPERATOR),
    CachedKind::of::<Infrastructure>(INFRASTRUCTURE),
    CachedKind::of::<ConfigMap>(CONFIG_MAP),
];

/// The key of the ControlPlane.
pub(super) fn control_plane() -> ObjectKey {
    CONTROL_PLANE.key(NAMESPACE, NAME)
}

/// The key of the list of the etcd members that vote.
pub(super) fn etcd_endpoints() -> ObjectKey {
    CONFIG_MAP.key(ETCD_NAMESPACE, ETCD_ENDPOINTS)
}

/// The key of the Infrastructure.
pub(super) fn infrastructure() -> ObjectKey {
    INFRASTRUCTURE.key("", infrastructure::NAME)
}

/// The key of the health check of the ControlPlane.
pub(super) fn health_check() -> ObjectKey {
    HEALTH_CHECK.key(NAMESPACE, health_check::NAME)
}
