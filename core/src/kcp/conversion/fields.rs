//! The fields of a control plane, apart from the kubeadm configuration.

use serde_json::Value;

use super::row::How::{Reference, Same, Seconds};
use super::row::{self, Row};

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

pub(super) fn up(spec: &mut Value) {
    row::up(spec, ROWS);
}

pub(super) fn down(spec: &mut Value) {
    row::down(spec, ROWS);
}
