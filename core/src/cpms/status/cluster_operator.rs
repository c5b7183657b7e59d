//! The conditions of the ClusterOperator `control-plane-machine-set`: three conditions of the set,
//! and `Upgradeable`.

use jiff::Timestamp;

use super::condition;
use crate::api::config_openshift_io::cluster_operator::ClusterOperatorCondition;
use crate::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSetStatus;
use crate::model::{NewCondition, merge_conditions};

/// The message of `Upgradeable` while it is true.
const UPGRADEABLE: &str = "cluster operator is upgradable";

/// The conditions to store. Without a set, and while the set is Inactive, no machine is managed,
/// and the conditions report no problem.
pub fn cluster_operator(
    set: Option<&ControlPlaneMachineSetStatus>,
    active: bool,
    previous: &[ClusterOperatorCondition],
    now: Timestamp,
) -> Vec<ClusterOperatorCondition> {
    let new = set.filter(|_| active).map_or_else(all_is_well, of_set);
    merge_conditions(previous, new, None, now)
}

fn all_is_well() -> Vec<NewCondition> {
    let expected = |type_, status| NewCondition::new(type_, status, "AsExpected", "");
    vec![
        expected(condition::AVAILABLE, true),
        expected(condition::DEGRADED, false),
        expected(condition::PROGRESSING, false),
        NewCondition::new(condition::UPGRADEABLE, true, "AsExpected", UPGRADEABLE),
    ]
}

fn of_set(status: &ControlPlaneMachineSetStatus) -> Vec<NewCondition> {
    let copied = |type_| {
        let there = status.conditions.iter().find(|there| there.type_ == type_)?;
        let (is_true, reason) = (there.status == "True", there.reason.as_str());
        Some(NewCondition::new(type_, is_true, reason, there.message.as_str()))
    };
    let types = [condition::AVAILABLE, condition::DEGRADED, condition::PROGRESSING];
    let mut conditions: Vec<NewCondition> = types.into_iter().filter_map(copied).collect();
    conditions.push(upgradeable(status));
    conditions
}

/// The cluster must not be upgraded while the set is degraded, in error, past its deadline, or
/// lacks a machine. The reason is that of the condition (defect B7).
fn upgradeable(status: &ControlPlaneMachineSetStatus) -> NewCondition {
    let find = |type_: &str, bad: &str| {
        let there = status.conditions.iter().find(|there| there.type_ == type_)?;
        (there.status == bad).then_some(there)
    };
    let late = find(condition::PROGRESSING, "False").filter(|there| there.reason == "ProgressDeadlineExceeded");
    let blocks = find(condition::DEGRADED, "True")
        .or_else(|| find(condition::ERROR, "True"))
        .or(late)
        .or_else(|| find(condition::AVAILABLE, "False"));
    match blocks {
        Some(there) => {
            let (reason, message) = (there.reason.as_str(), there.message.as_str());
            NewCondition::new(condition::UPGRADEABLE, false, reason, message)
        }
        None => NewCondition::new(condition::UPGRADEABLE, true, "AsExpected", UPGRADEABLE),
    }
}
