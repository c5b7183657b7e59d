//! The fields of a control plane, apart from the kubeadm configuration.

use serde_json::Value;

use super::row::How::{Reference, Same, Seconds};
use super::row::{self, Row};
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::ROLLING_UPDATE;

/// Where a `v1beta1` control plane refers to infrastructure, as a JSON pointer.
pub(super) const REFERENCE: &str = "/spec/machineTemplate/infrastructureRef";

const ROWS: &[Row] = &[
    ("rolloutBefore", "rollout.before", Same),
    ("rolloutAfter", "rollout.after", Same),
    ("rolloutStrategy", "rollout.strategy", Same),
    ("remediationStrategy.maxRetry", "remediation.maxRetry", Same),
    (
        "remediationStrategy.retryPeriod",
        "remediation.retryPeriodSeconds",
        Seconds,
    ),
    (
        "remediationStrategy.minHealthyPeriod",
        "remediation.minHealthyPeriodSeconds",
        Seconds,
    ),
    ("machineNamingStrategy", "machineNaming", Same),
    (
        "machineTemplate.infrastructureRef",
        "machineTemplate.spec.infrastructureRef",
        Reference,
    ),
    (
        "machineTemplate.readinessGates",
        "machineTemplate.spec.readinessGates",
        Same,
    ),
    ("machineTemplate.taints", "machineTemplate.spec.taints", Same),
    (
        "machineTemplate.nodeDrainTimeout",
        "machineTemplate.spec.deletion.nodeDrainTimeoutSeconds",
        Seconds,
    ),
    (
        "machineTemplate.nodeVolumeDetachTimeout",
        "machineTemplate.spec.deletion.nodeVolumeDetachTimeoutSeconds",
        Seconds,
    ),
    (
        "machineTemplate.nodeDeletionTimeout",
        "machineTemplate.spec.deletion.nodeDeletionTimeoutSeconds",
        Seconds,
    ),
];

/// Sets the type of a rollout strategy without one. Cluster API does so in templates; the type of a
/// control plane has a default.
pub(super) fn default_strategy(spec: &mut Value) {
    let strategy = spec.get_mut("rolloutStrategy").and_then(Value::as_object_mut);
    let Some(strategy) = strategy else { return };
    let type_ = strategy.get("type").and_then(Value::as_str).unwrap_or_default();
    if type_.is_empty()
        && strategy
            .get("type")
            .is_none_or(|value| value.is_null() || value.is_string())
    {
        strategy.insert(String::from("type"), Value::from(ROLLING_UPDATE));
    }
}

pub(super) fn up(spec: &mut Value) {
    row::up(spec, ROWS);
}

pub(super) fn down(spec: &mut Value) {
    row::down(spec, ROWS);
}
