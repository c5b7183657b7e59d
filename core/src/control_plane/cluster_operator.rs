//! The condition `ControlPlaneDegraded` of the ClusterOperator `control-plane-machine-set`: whether
//! a user must solve a problem of the ControlPlane. OpenShift shows ClusterOperators to
//! administrators, and collects them for support.
//!
//! Must never change another condition, nor create the ClusterOperator: the controller of
//! ControlPlaneMachineSets has it.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::config_openshift_io::cluster_operator::ClusterOperator;
use crate::api::machine_openshift_io::control_plane::ControlPlaneStatus;
use crate::model::{NewCondition, merge_conditions};

/// The type of the condition.
pub const CONDITION: &str = "ControlPlaneDegraded";

/// The merge patch of the status of the ClusterOperator; `None` if its condition is right. Without
/// a problem, no condition is added.
pub fn patch(operator: &ClusterOperator, status: &ControlPlaneStatus, now: Timestamp) -> Option<Value> {
    let stored = &operator.status.conditions;
    let known = stored.iter().find(|condition| condition.type_ == CONDITION);
    let is_degraded = status.failure_reason.is_some();
    if known.is_none() && !is_degraded {
        return None;
    }
    let reason = status.failure_reason.as_deref().unwrap_or("AsExpected");
    let message = status.failure_message.as_deref().unwrap_or_default();
    let is_right = known.is_some_and(|known| {
        (known.status == "True") == is_degraded
            && known.reason.as_deref().unwrap_or_default() == reason
            && known.message.as_deref().unwrap_or_default() == message
    });
    if is_right {
        return None;
    }
    let new = NewCondition::new(CONDITION, is_degraded, reason, message);
    let meta = &operator.metadata;
    Some(json!({
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": {"conditions": merge_conditions(stored, vec![new], None, now)},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn operator(conditions: &Value) -> ClusterOperator {
        serde_json::from_value(json!({"metadata": {"name": "control-plane-machine-set", "uid": "u",
            "resourceVersion": "7"}, "status": {"conditions": conditions}}))
        .unwrap()
    }

    fn failed(reason: &str) -> ControlPlaneStatus {
        ControlPlaneStatus {
            failure_reason: Some(reason.to_owned()),
            failure_message: Some("act".to_owned()),
            ..ControlPlaneStatus::default()
        }
    }

    #[test]
    fn a_problem_is_reported_once_and_taken_back_and_other_conditions_stay() {
        let other = json!({"type": "Available", "status": "True", "reason": "AsExpected",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let healthy = operator(&json!([other]));
        assert_eq!(patch(&healthy, &ControlPlaneStatus::default(), now()), None);
        let first = patch(&healthy, &failed("EtcdQuorumAtRisk"), now()).unwrap();
        let conditions = &first["status"]["conditions"];
        assert_eq!((&conditions[0], conditions.as_array().unwrap().len()), (&other, 2));
        assert_eq!(
            (&conditions[1]["type"], &conditions[1]["status"]),
            (&json!(CONDITION), &json!("True"))
        );
        assert_eq!(first["metadata"], json!({"uid": "u", "resourceVersion": "7"}));
        let told = operator(conditions);
        assert_eq!(patch(&told, &failed("EtcdQuorumAtRisk"), now()), None);
        let changed = patch(&told, &failed("StrayedMachines"), now()).unwrap();
        assert_eq!(changed["status"]["conditions"][1]["reason"], "StrayedMachines");
        let solved = patch(&told, &ControlPlaneStatus::default(), now()).unwrap();
        assert_eq!(solved["status"]["conditions"][1]["status"], "False");
        let solved = operator(&solved["status"]["conditions"]);
        assert_eq!(patch(&solved, &ControlPlaneStatus::default(), now()), None);
    }
}
