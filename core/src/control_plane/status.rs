//! The status of a ControlPlane: counts, conditions, and the failure of what only a user can solve.
//!
//! All conditions are computed and then merged with the stored conditions once, so that a
//! transition time moves only with the status of its condition.

use jiff::Timestamp;

use super::action::{Plan, WaitReason};
use super::pending;
use super::plan::{Spread, spread};
use super::spec::Spec;
use super::state::{MachineState, State};
use crate::api::machine_openshift_io::control_plane::{ControlPlane, ControlPlaneStatus};
use crate::api::machine_openshift_io::label;
use crate::cpms::status::condition;
use crate::model::{NewCondition, merge_conditions, standard_conditions};

/// The reason of the failure while the quorum of etcd waits for a user.
const QUORUM: &str = "EtcdQuorumAtRisk";

/// The status of a valid ControlPlane, with the condition about repairs, and the failure of the
/// controller if one has lasted for long enough.
pub fn status(
    spec: &Spec,
    state: &State,
    plan: &Plan,
    previous: Option<&ControlPlaneStatus>,
    (repairs, error): (Option<NewCondition>, Option<&str>),
    now: Timestamp,
) -> ControlPlaneStatus {
    let stored = previous.map_or(&[][..], |previous| &previous.conditions);
    let count = |counts: &dyn Fn(&MachineState) -> bool| state.standing().filter(|machine| counts(machine)).count();
    let (standing, ready) = (count(&|_| true), count(&MachineState::is_ready));
    let missing = spec.replicas.saturating_sub(ready);
    let mut conditions = vec![
        available(spec, ready),
        degraded(plan),
        progressing(spec, state, plan),
        error_condition(error),
    ];
    conditions.extend(standard_conditions(&conditions));
    conditions.extend(repairs);
    conditions.extend(pending::condition(spec, stored, state, plan));
    let number = |count: usize| Some(i32::try_from(count).unwrap_or(i32::MAX));
    let (failure_reason, failure_message) = failure(plan).unzip();
    ControlPlaneStatus {
        conditions: merge_conditions(stored, conditions, Some(spec.generation), now),
        observed_generation: Some(spec.generation),
        replicas: number(standing),
        updated_replicas: number(count(&MachineState::is_current)),
        ready_replicas: number(ready),
        unavailable_replicas: number(missing),
        selector: Some(selector()),
        failure_reason,
        failure_message,
        unknown_fields: previous
            .map(|previous| previous.unknown_fields.clone())
            .unwrap_or_default(),
    }
}

/// The status of a ControlPlane with which nothing is done, or that is being deleted: the counts
/// stay, and the conditions give the reason.
pub fn stopped_status(object: &ControlPlane, plan: &Plan, error: Option<&str>, now: Timestamp) -> ControlPlaneStatus {
    let progressing = match plan.degraded.first() {
        Some(reason) => stopped_because(reason.reason),
        None => {
            let waits = plan.waits.iter().map(|wait| wait.message.as_str());
            let texts: Vec<&str> = plan.notes.iter().map(String::as_str).chain(waits).collect();
            new(condition::PROGRESSING, false, "Deleting", texts.join("; "))
        }
    };
    let mut conditions = vec![degraded(plan), progressing, error_condition(error)];
    conditions.extend(standard_conditions(&conditions));
    let mut status = object.status.clone().unwrap_or_default();
    let generation = object.metadata.generation;
    (status.failure_reason, status.failure_message) = failure(plan).unzip();
    status.observed_generation = generation;
    status.conditions = merge_conditions(&status.conditions, conditions, generation, now);
    status
}

/// The labels of the machines, for the scale subresource.
fn selector() -> String {
    format!("{}=master,{}=master", label::ROLE, label::TYPE)
}

fn available(spec: &Spec, ready: usize) -> NewCondition {
    if ready >= spec.replicas {
        return new(condition::AVAILABLE, true, "AllReplicasAvailable", String::new());
    }
    let message = format!("{ready} of {} machines are ready", spec.replicas);
    new(condition::AVAILABLE, false, "UnavailableReplicas", message)
}

fn degraded(plan: &Plan) -> NewCondition {
    let Some(first) = plan.degraded.first() else {
        return new(condition::DEGRADED, false, "AsExpected", String::new());
    };
    let messages: Vec<&str> = plan.degraded.iter().map(|reason| reason.message.as_str()).collect();
    new(condition::DEGRADED, true, first.reason, messages.join(". "))
}

fn progressing(spec: &Spec, state: &State, plan: &Plan) -> NewCondition {
    if let Some(reason) = plan.degraded.first().filter(|_| plan.disruptive().is_none()) {
        return stopped_because(reason.reason);
    }
    let outdated = state.standing().filter(|machine| !machine.is_current()).count();
    let standing = state.standing().count();
    let messages: Vec<&str> = plan.waits.iter().map(|wait| wait.message.as_str()).collect();
    let message = messages.join("; ");
    if plan.waits.iter().any(|wait| wait.reason == WaitReason::Acknowledgement) {
        return new(condition::PROGRESSING, false, "WaitingForAcknowledgement", message);
    }
    let machines: Vec<&MachineState> = state.standing().collect();
    let spread = spread(spec, &machines);
    let reason = if standing < spec.replicas {
        "ScalingOut"
    } else if outdated > 0 {
        "NeedsUpdateReplicas"
    } else if state.machines.len() > spec.replicas {
        "ScalingIn"
    } else if matches!(spread, Spread::Improvable { .. }) {
        "Rebalancing"
    } else if !message.is_empty() {
        "WaitingForMachines"
    } else if spread != Spread::Even {
        return new(condition::PROGRESSING, false, "SpreadUneven", plan.notes.join("; "));
    } else {
        return new(condition::PROGRESSING, false, "AllReplicasUpdated", String::new());
    };
    new(condition::PROGRESSING, true, reason, message)
}

fn stopped_because(reason: &str) -> NewCondition {
    let message = format!("Nothing is created or deleted while degraded ({reason})");
    new(condition::PROGRESSING, false, "OperatorDegraded", message)
}

fn error_condition(error: Option<&str>) -> NewCondition {
    match error {
        Some(message) => new(condition::ERROR, true, "ContinuousErrors", message.to_owned()),
        None => new(condition::ERROR, false, "AsExpected", String::new()),
    }
}

/// A problem that only a user can solve: the first reason of the degradation, or a quorum of etcd
/// that a step would cost.
fn failure(plan: &Plan) -> Option<(String, String)> {
    if let Some(first) = plan.degraded.first() {
        return Some((first.reason.to_owned(), first.message.clone()));
    }
    let mut waits = plan.waits.iter();
    let quorum = waits.find(|wait| wait.reason == WaitReason::EtcdQuorum)?;
    Some((QUORUM.to_owned(), quorum.message.clone()))
}

fn new(type_: &'static str, status: bool, reason: &str, message: String) -> NewCondition {
    NewCondition::new(type_, status, reason, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::control_plane::plan::plan;
    use crate::control_plane::samples::control_plane;
    use crate::control_plane::spec::parse;
    use crate::cpms::observed::{Observed, Unparsable};
    use crate::cpms::spec::ParseContext;

    fn status_of(observed: Observed, previous: Option<&ControlPlaneStatus>, second: i64) -> ControlPlaneStatus {
        let object = serde_json::from_value(control_plane(3)).unwrap();
        let spec = parse(&object, "ocp-x7k2p", &ParseContext::default()).unwrap();
        let state = State::observe(&spec, observed);
        let plan = plan(&spec, &state);
        let now = Timestamp::from_second(second).unwrap();
        status(&spec, &state, &plan, previous, (None, None), now)
    }

    fn shown(status: &ControlPlaneStatus) -> Vec<String> {
        let conditions = status.conditions.iter();
        conditions
            .map(|one| format!("{}={}/{}", one.type_, one.status, one.reason))
            .collect()
    }

    #[test]
    fn a_status_reports_the_counts_and_a_later_equal_one_is_the_same() {
        let first = status_of(Observed::default(), None, 10);
        assert_eq!(
            shown(&first),
            [
                "Available=False/UnavailableReplicas",
                "Degraded=False/AsExpected",
                "Error=False/AsExpected",
                "Progressing=True/ScalingOut",
                "Ready=False/UnavailableReplicas",
                "Reconciling=True/ScalingOut",
                "Stalled=False/AsExpected"
            ]
        );
        let counts = json!([
            first.replicas,
            first.ready_replicas,
            first.updated_replicas,
            first.unavailable_replicas
        ]);
        assert_eq!(counts, json!([0, 0, 0, 3]));
        assert_eq!(
            first.selector.as_deref(),
            Some(
                "machine.openshift.io/cluster-api-machine-role=master,machine.openshift.io/cluster-api-machine-type=master"
            )
        );
        assert_eq!(status_of(Observed::default(), Some(&first), 20), first);
    }

    #[test]
    fn what_a_user_must_solve_is_the_failure() {
        let broken = Unparsable {
            kind: "Machine".to_owned(),
            name: "broken".to_owned(),
            message: "expected a map".to_owned(),
        };
        let observed = Observed {
            unparsable: vec![broken],
            ..Observed::default()
        };
        let status = status_of(observed, None, 10);
        assert_eq!(status.failure_reason.as_deref(), Some("UnparsableObjects"));
        assert!(
            status
                .failure_message
                .as_ref()
                .is_some_and(|message| message.contains("broken"))
        );
        assert!(shown(&status).contains(&"Progressing=False/OperatorDegraded".to_owned()));
    }
}
