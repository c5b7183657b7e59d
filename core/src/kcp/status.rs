//! What the controller reports: conditions of the control plane and of its machines, and counters.
//!
//! The status is computed from the state, the plan and the moment. Conditions that come from an
//! inspection of the managed cluster are not computed here: the stored ones are kept. A condition
//! that cannot be known is `Unknown`, never `True`.

mod available;
mod machines;

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::action::{Plan, RemediationRecord, WaitReason};
use super::state::{MachineState, State, condition};
use super::version::Version;
use crate::api::controlplane_cluster_x_k8s_io::annotation::{REMEDIATION_FOR, REMEDIATION_IN_PROGRESS};

pub use crate::model::ReportedCondition as Condition;
pub use machines::machine_conditions;

/// The status of a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Conditions, ordered by type.
    pub conditions: Vec<Condition>,
    /// The selector of the machines, as text.
    pub selector: String,
    /// The number of machines.
    pub replicas: usize,
    /// The number of machines with the condition `Ready`.
    pub ready_replicas: usize,
    /// The number of machines with the condition `Available`.
    pub available_replicas: usize,
    /// The number of machines that agree with the spec, and whose Node has the same version.
    pub up_to_date_replicas: usize,
    /// The versions of the machines with their number, the oldest version first.
    pub versions: Vec<(String, usize)>,
    /// The last remediation.
    pub last_remediation: Option<RemediationRecord>,
}

/// The type of the condition that says that a user must act.
pub const STALLED: &str = "Stalled";
/// Its reason if a step fails again and again.
pub const STEP_FAILS: &str = "StepFails";

impl Status {
    /// Reports a step that has been failing for some time.
    pub fn report_failing(&mut self, error: &str) {
        let stalled = self.conditions.iter_mut().find(|condition| condition.type_ == STALLED);
        let Some(stalled) = stalled else { return };
        let reason = match stalled.status {
            "True" => stalled.reason,
            _ => STEP_FAILS,
        };
        let known = Some(stalled.message.as_str()).filter(|known| !known.is_empty());
        let message: Vec<&str> = known.into_iter().chain([error]).collect();
        *stalled = Condition::new(STALLED, "True", reason, message.join("\n"));
    }
}

/// The status that follows from a state and its plan.
pub fn status(state: &State, plan: &Plan, now: Timestamp) -> Status {
    let is_paused = state.is_paused();
    let mut conditions = vec![
        if is_paused {
            Condition::new("Paused", "True", "Paused", "the control plane or its Cluster is paused")
        } else {
            Condition::new("Paused", "False", "NotPaused", "")
        },
        initialized(state),
        rolling_out(state),
        scaling_up(state, plan),
        scaling_down(state, plan),
        stalled(plan),
        machines::ready(state),
        machines::up_to_date(state, now),
        remediating(state, plan),
        deleting(state),
        available::condition(state, now),
    ];
    conditions.sort_by_key(|condition| condition.type_);
    let count = |is: &dyn Fn(&MachineState) -> bool| state.machines.iter().filter(|machine| is(machine)).count();
    Status {
        conditions,
        selector: format!(
            "cluster.x-k8s.io/cluster-name={},cluster.x-k8s.io/control-plane",
            state.cluster_name
        ),
        replicas: state.machines.len(),
        ready_replicas: count(&|machine| machine.is_true("Ready")),
        available_replicas: count(&|machine| machine.is_true("Available")),
        up_to_date_replicas: count(&|machine| machines::outdated_because(machine).is_empty()),
        versions: versions(state),
        last_remediation: last_remediation(state),
    }
}

fn initialized(state: &State) -> Condition {
    if state.is_initialized() {
        Condition::new("Initialized", "True", "Initialized", "")
    } else {
        Condition::new("Initialized", "False", "NotInitialized", "")
    }
}

/// How many machines are outdated, and all reasons. A change of the version is first.
fn rolling_out(state: &State) -> Condition {
    let outdated: Vec<Vec<String>> = state
        .machines
        .iter()
        .map(machines::outdated_because)
        .filter(|reasons| !reasons.is_empty())
        .collect();
    if outdated.is_empty() {
        return Condition::new("RollingOut", "False", "NotRollingOut", "");
    }
    let mut reasons: Vec<&str> = outdated.iter().flatten().map(String::as_str).collect();
    reasons.sort_unstable_by_key(|reason| (!reason.starts_with(super::outdated::VERSION_PREFIX), *reason));
    reasons.dedup();
    let head = format!("Rolling out {} not up-to-date replicas", outdated.len());
    let message = lines(head, reasons.into_iter());
    Condition::new("RollingOut", "True", "RollingOut", message)
}

/// A headline, and one line for each item.
fn lines<'t>(head: String, items: impl Iterator<Item = &'t str>) -> String {
    items.fold(head, |text, item| format!("{text}\n* {item}"))
}

fn scaling_up(state: &State, plan: &Plan) -> Condition {
    let Some(wanted) = state.replicas() else {
        return replicas_unknown("ScalingUp");
    };
    let count = state.machines.len();
    if count >= wanted {
        return Condition::new("ScalingUp", "False", "NotScalingUp", "");
    }
    let message = scaling("up", count, wanted, plan);
    Condition::new("ScalingUp", "True", "ScalingUp", message)
}

fn scaling_down(state: &State, plan: &Plan) -> Condition {
    let Some(wanted) = state.replicas() else {
        return replicas_unknown("ScalingDown");
    };
    let count = state.machines.len();
    if count <= wanted {
        return Condition::new("ScalingDown", "False", "NotScalingDown", "");
    }
    let message = scaling("down", count, wanted, plan);
    Condition::new("ScalingDown", "True", "ScalingDown", message)
}

/// A condition of scaling before the number of replicas is set.
fn replicas_unknown(type_: &'static str) -> Condition {
    Condition::new(
        type_,
        "Unknown",
        "WaitingForReplicasSet",
        "Waiting for spec.replicas set",
    )
}

/// The number of machines that exist and are wanted, and what the plan waits for.
fn scaling(direction: &str, count: usize, wanted: usize, plan: &Plan) -> String {
    let head = format!("Scaling {direction} from {count} to {wanted} replicas");
    let blocking: Vec<&str> = plan
        .waits
        .iter()
        .map(|wait| wait.message.as_str())
        .chain(plan.degraded.iter().map(|reason| reason.message.as_str()))
        .collect();
    if blocking.is_empty() {
        return head;
    }
    lines(format!("{head} is blocked because:"), blocking.into_iter())
}

fn remediating(state: &State, plan: &Plan) -> Condition {
    const TYPE: &str = "Remediating";
    let names = |is: &dyn Fn(&MachineState) -> bool| -> Vec<&str> {
        let machines = state.machines.iter().filter(|machine| is(machine));
        machines.map(MachineState::name).collect()
    };
    let requested = names(&MachineState::needs_remediation);
    if requested.is_empty() {
        let unhealthy = names(&MachineState::is_unhealthy);
        let message = if unhealthy.is_empty() {
            String::new()
        } else {
            format!(
                "a health check reports machines as unhealthy, and leaves them to another controller: {}",
                unhealthy.join(", ")
            )
        };
        return Condition::new(TYPE, "False", "NotRemediating", message);
    }
    let head = format!("Unhealthy machines: {}", requested.join(", "));
    let is_about = |reason: WaitReason| {
        matches!(
            reason,
            WaitReason::RemediationDeferred | WaitReason::CannotBeRemediated | WaitReason::Replacement
        )
    };
    let waits = plan.waits.iter().filter(|wait| is_about(wait.reason));
    let message = lines(head, waits.map(|wait| wait.message.as_str()));
    Condition::new(TYPE, "True", "Remediating", message)
}

/// What a user must correct before the control plane continues.
fn stalled(plan: &Plan) -> Condition {
    let Some(first) = plan.degraded.first() else {
        return Condition::new(STALLED, "False", "NotStalled", "");
    };
    let messages: Vec<&str> = plan.degraded.iter().map(|reason| reason.message.as_str()).collect();
    Condition::new(STALLED, "True", first.reason, messages.join("\n"))
}

fn deleting(state: &State) -> Condition {
    const TYPE: &str = "Deleting";
    if !state.is_deleting() {
        return Condition::new(TYPE, "False", "NotDeleting", "");
    }
    let count = state.machines.len();
    if count == 0 {
        return Condition::new(TYPE, "True", "DeletionCompleted", "");
    }
    if !state.workers.is_empty() {
        let message = format!("Waiting for machines of workers: {}", state.workers.join(", "));
        return Condition::new(TYPE, "True", "WaitingForWorkersDeletion", message);
    }
    let message = format!("Deleting {count} machine(s)");
    Condition::new(TYPE, "True", "WaitingForMachineDeletion", message)
}

/// The versions with their number of machines. A version that cannot be read is the oldest.
fn versions(state: &State) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for machine in &state.machines {
        *counts.entry(&machine.machine.spec.version).or_default() += 1;
    }
    let mut versions: Vec<(String, usize)> = counts
        .into_iter()
        .filter(|(version, _)| !version.is_empty())
        .map(|(version, count)| (version.to_owned(), count))
        .collect();
    versions.sort_by(|(left, _), (right, _)| Version::tolerant(left).cmp(&Version::tolerant(right)));
    versions
}

/// The remediation in progress, or else the newest one that a machine records.
fn last_remediation(state: &State) -> Option<RemediationRecord> {
    let pending = state.annotation(REMEDIATION_IN_PROGRESS);
    if let Some(Ok(record)) = pending.map(RemediationRecord::parse) {
        return Some(record);
    }
    let texts = state
        .machines
        .iter()
        .filter_map(|machine| machine.machine.metadata.annotations.get(REMEDIATION_FOR));
    let records = texts.filter_map(|text| RemediationRecord::parse(text).ok());
    records.max_by_key(|record| (record.timestamp, record.machine.clone()))
}

/// Whether the conditions that a machine needs to serve the API are true.
fn serves(state: &State, machine: &MachineState) -> bool {
    state.components().iter().all(|type_| machine.is_true(type_))
}

/// Whether a component has not been healthy for more than ten seconds. A short failure changes no
/// message.
fn fails_for_long(state: &State, machine: &MachineState, now: Timestamp) -> bool {
    const LONG: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);
    state.components().iter().any(|type_| match machine.condition(type_) {
        None => false,
        Some(found) if found.status == "True" => false,
        Some(found) => found
            .last_transition_time
            .is_none_or(|since| now.duration_since(since) > LONG),
    })
}

/// Whether the member of a machine is known as healthy.
fn has_healthy_member(machine: &MachineState) -> bool {
    machine.is_true(condition::ETCD_MEMBER)
}

#[cfg(test)]
mod tests;
