//! The number of machines, written to the object or to its scale subresource.

use serde_json::Value;

use super::table::{REPLICAS_ODD, REPLICAS_POSITIVE};
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::KubeadmControlPlane;
use crate::kcp::spec::read;
use crate::model::{Violation, ViolationKind};

/// Judges a Scale. `old` is the control plane that it scales.
pub(super) fn judge(scale: &Value, old: Option<&Value>, found: &mut Vec<Violation>) {
    // An API server reads an absent number as 0.
    let wanted = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    let current: Option<KubeadmControlPlane> = old.and_then(|old| read(old).ok());
    let external = current.is_some_and(|current| {
        current
            .spec
            .kubeadm_config_spec
            .cluster_configuration
            .has_external_etcd()
    });
    found.extend(replicas(wanted, external));
}

/// The reasons to refuse a number of machines.
pub(super) fn replicas(replicas: i64, external_etcd: bool) -> Vec<Violation> {
    let mut found = Vec::new();
    let advice = if external_etcd {
        "set 1 or more"
    } else {
        "set 1, 3 or 5"
    };
    if replicas <= 0 {
        found.push(REPLICAS_POSITIVE.violation("spec.replicas", ViolationKind::Forbidden));
    }
    if replicas % 2 == 0 && !external_etcd {
        found.push(REPLICAS_ODD.violation("spec.replicas", ViolationKind::Forbidden));
    }
    let detailed = found.into_iter().map(|violation| violation.got(&Value::from(replicas)));
    detailed.map(|violation| violation.advice(advice)).collect()
}
