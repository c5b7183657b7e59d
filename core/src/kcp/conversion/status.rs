//! The status of a control plane.

use serde_json::Value;

use super::row::How::Same;
use super::row::{self, Row};
use super::tree::{get, set, take};

/// The conditions and counters of `v1beta1` make room for those of `v1beta2`, so the order matters.
const ROWS: &[Row] = &[
    ("conditions", "deprecated.v1beta1.conditions", Same),
    ("failureReason", "deprecated.v1beta1.failureReason", Same),
    ("failureMessage", "deprecated.v1beta1.failureMessage", Same),
    ("updatedReplicas", "deprecated.v1beta1.updatedReplicas", Same),
    ("readyReplicas", "deprecated.v1beta1.readyReplicas", Same),
    ("unavailableReplicas", "deprecated.v1beta1.unavailableReplicas", Same),
    ("v1beta2.conditions", "conditions", Same),
    ("v1beta2.readyReplicas", "readyReplicas", Same),
    ("v1beta2.availableReplicas", "availableReplicas", Same),
    ("v1beta2.upToDateReplicas", "upToDateReplicas", Same),
    ("initialized", "initialization.controlPlaneInitialized", Same),
    ("lastRemediation.timestamp", "lastRemediation.time", Same),
];

pub(super) fn up(object: &mut Value) {
    if let Some(status) = object.get_mut("status").filter(|status| status.is_object()) {
        // It follows from the number of ready machines.
        take(status, &["ready"]);
        row::up(status, ROWS);
    }
}

pub(super) fn down(object: &mut Value) {
    if let Some(status) = object.get_mut("status").filter(|status| status.is_object()) {
        row::down(status, ROWS);
        if let Some(ready) = get(status, &["readyReplicas"]).and_then(Value::as_i64) {
            set(status, &["ready"], Value::from(ready > 0));
        }
    }
}
