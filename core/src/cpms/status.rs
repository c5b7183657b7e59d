//! What to say: the status of the set, and the conditions of the ClusterOperator.
//!
//! All conditions are computed first and merged with the earlier ones once: the time of a
//! transition moves only when the status of the condition does (defect B8). Reasons are those that
//! today's operator has; where it says `Progressing` for ever (defect B19) or `AsExpected` for what
//! is not (defect B7), the reason here is the true one.

use jiff::Timestamp;

use super::action::{Plan, WaitReason};
use super::machine_state::MachineState;
use super::pending_creates;
use super::plan;
use super::spec::{SetState, Spec};
use super::state::State;
use crate::api::config_openshift_io::cluster_operator::ClusterOperatorCondition;
use crate::api::machine_openshift_io::control_plane_machine_set::{
    ControlPlaneMachineSet, ControlPlaneMachineSetStatus, MachineProgress,
};
use crate::model::{Degradation, NewCondition, merge_conditions};

/// The condition types of a set.
pub mod condition {
    /// Every index has a ready machine.
    pub const AVAILABLE: &str = "Available";
    /// The machines are being brought to what the set asks for.
    pub const PROGRESSING: &str = "Progressing";
    /// Something stops the care of the machines until a person looks at it.
    pub const DEGRADED: &str = "Degraded";
    /// The controller itself cannot work.
    pub const ERROR: &str = "Error";
    pub use crate::cpms::pending_creates::CREATING;
    /// ClusterOperator only: the cluster may be upgraded.
    pub const UPGRADEABLE: &str = "Upgradeable";
}

/// How many machines there are of which sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Machines of the set, those that are being deleted included.
    pub replicas: usize,
    /// Of these, ready.
    pub ready: usize,
    /// Of these, ready, up to date and not being deleted.
    pub updated: usize,
    /// Indexes without a ready machine.
    pub unavailable: usize,
}

impl Counts {
    /// Counts the machines of a state.
    pub fn of(state: &State, now: Timestamp) -> Self {
        let ready = |machine: &MachineState| machine.is_ready() || machine.is_restarting(now);
        let count = |sort: &dyn Fn(&MachineState) -> bool| state.each_machine().filter(|machine| sort(machine)).count();
        Self {
            replicas: state.machines.len(),
            ready: count(&ready),
            updated: count(&|machine| ready(machine) && machine.is_current() && !machine.is_deleting()),
            unavailable: unavailable(state, now).count(),
        }
    }
}

fn unavailable(state: &State, now: Timestamp) -> impl Iterator<Item = u32> {
    let ready = move |machine: &MachineState| machine.is_ready() || machine.is_restarting(now);
    state
        .indexes
        .iter()
        .copied()
        .filter(move |index| !state.of_index(*index).any(ready))
}

/// The status of a set. `error` is what keeps the controller itself from working, if something has
/// for long enough.
pub fn status(
    spec: &Spec,
    state: &State,
    plan: &Plan,
    previous: Option<&ControlPlaneMachineSetStatus>,
    error: Option<&str>,
    now: Timestamp,
) -> ControlPlaneMachineSetStatus {
    let counts = Counts::of(state, now);
    let mut conditions = vec![
        available(state, counts, now),
        degraded_condition(&plan.degraded),
        progressing(spec, state, plan, now),
        error_condition(error),
    ];
    conditions.extend(pending_creates::condition(spec, previous, state, plan, now));
    let number = |count: usize| Some(i32::try_from(count).unwrap_or(i32::MAX));
    let earlier = previous.map_or(&[][..], |previous| &previous.conditions);
    ControlPlaneMachineSetStatus {
        conditions: merge_conditions(earlier, conditions, Some(spec.generation), now),
        observed_generation: Some(spec.generation),
        replicas: number(counts.replicas),
        ready_replicas: number(counts.ready),
        updated_replicas: number(counts.updated),
        unavailable_replicas: number(counts.unavailable),
        selector: Some(spec.selector.to_string()),
        machines: machines(state, plan),
        unknown_fields: previous
            .map(|previous| previous.unknown_fields.clone())
            .unwrap_or_default(),
    }
}

/// How far each machine is. The reason to wait is the first of the plan that names it.
fn machines(state: &State, plan: &Plan) -> Vec<MachineProgress> {
    let progress = |machine: &MachineState| {
        let wait = plan
            .waits
            .iter()
            .find(|wait| wait.machine() == Some(machine.name.as_str()));
        MachineProgress {
            name: machine.name.clone(),
            index: i32::try_from(machine.index).unwrap_or(i32::MAX),
            ready: machine.is_ready(),
            updated: machine.is_current(),
            deleting: machine.is_deleting(),
            waits_for: wait.map(|wait| wait.reason.name().to_owned()),
            message: wait.map(|wait| wait.message.clone()),
            ..MachineProgress::default()
        }
    };
    // More than these nobody reads, and a definition must say how many there may be.
    state.each_machine().take(64).map(progress).collect()
}

/// The status of a set with which nothing is done, since it is not valid or cannot even be read:
/// what was counted before stays, and the conditions say why.
pub fn stopped_status(
    set: &ControlPlaneMachineSet,
    reasons: &[Degradation],
    error: Option<&str>,
    now: Timestamp,
) -> ControlPlaneMachineSetStatus {
    let progressing = stopped_by(reasons.first());
    over(
        set,
        vec![degraded_condition(reasons), progressing, error_condition(error)],
        now,
    )
}

/// The status of a set that is being deleted and does not go yet.
pub fn leaving_status(
    set: &ControlPlaneMachineSet,
    plan: &Plan,
    error: Option<&str>,
    now: Timestamp,
) -> ControlPlaneMachineSetStatus {
    let progressing = deleting(&plan.notes.join("; "));
    let conditions = vec![degraded_condition(&plan.degraded), progressing, error_condition(error)];
    over(set, conditions, now)
}

fn over(set: &ControlPlaneMachineSet, conditions: Vec<NewCondition>, now: Timestamp) -> ControlPlaneMachineSetStatus {
    let mut status = set.status.clone().unwrap_or_default();
    status.observed_generation = set.metadata.generation;
    status.conditions = merge_conditions(&status.conditions, conditions, set.metadata.generation, now);
    status
}

fn available(state: &State, counts: Counts, now: Timestamp) -> NewCondition {
    if counts.unavailable == 0 {
        return NewCondition::new(condition::AVAILABLE, true, "AllReplicasAvailable", "");
    }
    let texts: Vec<String> = unavailable(state, now)
        .map(|index| {
            let machines: Vec<String> = state
                .of_index(index)
                .map(|machine| {
                    format!(
                        "machine {} {}",
                        machine.name,
                        machine.unready_because().unwrap_or_default()
                    )
                })
                .collect();
            if machines.is_empty() {
                format!("index {index} has no machine")
            } else {
                format!("index {index}: {}", machines.join(", "))
            }
        })
        .collect();
    let message = format!(
        "Missing {} available replica(s): {}",
        counts.unavailable,
        texts.join("; ")
    );
    NewCondition::new(condition::AVAILABLE, false, "UnavailableReplicas", message)
}

fn degraded_condition(reasons: &[Degradation]) -> NewCondition {
    let Some(first) = reasons.first() else {
        return NewCondition::new(condition::DEGRADED, false, "AsExpected", "");
    };
    let messages: Vec<&str> = reasons.iter().map(|reason| reason.message.as_str()).collect();
    NewCondition::new(condition::DEGRADED, true, first.reason, messages.join(". "))
}

fn stopped_by(reason: Option<&Degradation>) -> NewCondition {
    let message = reason.map_or_else(String::new, |reason| {
        format!("Nothing is created or deleted while degraded ({})", reason.reason)
    });
    NewCondition::new(condition::PROGRESSING, false, "OperatorDegraded", message)
}

fn deleting(story: &str) -> NewCondition {
    NewCondition::new(condition::PROGRESSING, false, "Deleting", story)
}

fn error_condition(error: Option<&str>) -> NewCondition {
    match error {
        Some(message) => NewCondition::new(condition::ERROR, true, "ContinuousErrors", message),
        None => NewCondition::new(condition::ERROR, false, "AsExpected", ""),
    }
}

fn progressing(spec: &Spec, state: &State, plan: &Plan, now: Timestamp) -> NewCondition {
    let type_ = condition::PROGRESSING;
    if !plan.degraded.is_empty() {
        return stopped_by(plan.degraded.first());
    }
    if spec.deleting {
        return deleting(&plan.notes.join("; "));
    }
    if spec.state == SetState::Inactive {
        return NewCondition::new(type_, false, "Inactive", "The set is Inactive and acts on no machine");
    }
    let late = plan::overdue(spec, state, now);
    if !late.is_empty() {
        return NewCondition::new(type_, false, "ProgressDeadlineExceeded", late.join("; "));
    }
    let lacking: Vec<u32> = state
        .indexes
        .iter()
        .copied()
        .filter(|index| {
            !state
                .of_index(*index)
                .any(|machine| machine.is_current() && !machine.is_deleting())
        })
        .collect();
    let coming = plan
        .waits
        .iter()
        .filter(|wait| matches!(wait.reason, WaitReason::MachineReady | WaitReason::MinReady))
        .count();
    let needs = lacking.len() + coming;
    let stories = |reasons: &[WaitReason]| {
        let texts: Vec<&str> = plan
            .waits
            .iter()
            .filter(|wait| reasons.contains(&wait.reason))
            .map(|wait| wait.message.as_str())
            .collect();
        texts.join("; ")
    };
    let going = state.each_machine().any(MachineState::is_deleting);
    let moves = plan.disruptive().is_some() || coming > 0 || going;
    if needs > 0 && !moves {
        // Something is to be done, and nothing is: the reason is what stops it, not progress
        // (defect B19).
        for (reason, waits) in [
            ("RolloutPaused", WaitReason::Pause),
            ("RolloutLimitReached", WaitReason::Limit),
            ("WaitingForDelete", WaitReason::UserDelete),
            ("WaitingForEtcd", WaitReason::EtcdHealthy),
            ("WaitingForReadyMachines", WaitReason::OtherIndex),
        ] {
            let text = stories(&[waits]);
            if !text.is_empty() {
                return NewCondition::new(type_, false, reason, text);
            }
        }
    }
    if needs > 0 {
        let updated = state.indexes.len().saturating_sub(needs);
        let next = plan.disruptive().map_or_else(
            || {
                stories(&[
                    WaitReason::MachineReady,
                    WaitReason::MinReady,
                    WaitReason::MachineRemoved,
                ])
            },
            |step| format!("next: {} {}", step.verb(), step.machine().unwrap_or_default()),
        );
        let message = format!(
            "Observed {needs} replica(s) in need of update, {updated} of {} up to date; {next}",
            state.indexes.len()
        );
        return NewCondition::new(type_, true, "NeedsUpdateReplicas", message);
    }
    let excess = state.machines.len().saturating_sub(spec.replicas.count());
    if excess > 0 {
        let held = stories(&[
            WaitReason::MachineRemoved,
            WaitReason::UserDelete,
            WaitReason::EtcdHealthy,
            WaitReason::Pause,
        ]);
        let message = format!("Waiting for {excess} old replica(s) to be removed; {held}");
        let status = moves || plan.waits.iter().any(|wait| wait.reason == WaitReason::EtcdHealthy);
        let reason = if status { "ExcessReplicas" } else { "WaitingForDelete" };
        return NewCondition::new(type_, status, reason, message);
    }
    NewCondition::new(type_, false, "AllReplicasUpdated", "")
}

/// The conditions of the ClusterOperator: those of the set, and `Upgradeable`. A set that is
/// Inactive, or none at all, says that all is good: nothing is managed.
pub fn cluster_operator(
    set: Option<&ControlPlaneMachineSetStatus>,
    active: bool,
    previous: &[ClusterOperatorCondition],
    now: Timestamp,
) -> Vec<ClusterOperatorCondition> {
    let good = |type_, status| NewCondition::new(type_, status, "AsExpected", "");
    let new = match set.filter(|_| active) {
        None => vec![
            good(condition::AVAILABLE, true),
            good(condition::DEGRADED, false),
            good(condition::PROGRESSING, false),
            NewCondition::new(
                condition::UPGRADEABLE,
                true,
                "AsExpected",
                "cluster operator is upgradable",
            ),
        ],
        Some(status) => {
            let mut copied: Vec<NewCondition> = [condition::AVAILABLE, condition::DEGRADED, condition::PROGRESSING]
                .into_iter()
                .filter_map(|type_| {
                    let there = status.conditions.iter().find(|condition| condition.type_ == type_)?;
                    Some(NewCondition::new(
                        type_,
                        there.status == "True",
                        &there.reason,
                        &there.message,
                    ))
                })
                .collect();
            copied.push(upgradeable(status));
            copied
        }
    };
    merge_conditions(previous, new, None, now)
}

/// Not while degraded, in error, past a deadline or short of a machine; the reason is the true one
/// (defect B7).
fn upgradeable(status: &ControlPlaneMachineSetStatus) -> NewCondition {
    let find = |type_: &str, bad: &str| {
        let there = status.conditions.iter().find(|condition| condition.type_ == type_)?;
        (there.status == bad).then_some(there)
    };
    let late = find(condition::PROGRESSING, "False").filter(|there| there.reason == "ProgressDeadlineExceeded");
    let stops = find(condition::DEGRADED, "True")
        .or_else(|| find(condition::ERROR, "True"))
        .or(late)
        .or_else(|| find(condition::AVAILABLE, "False"));
    match stops {
        Some(there) => NewCondition::new(condition::UPGRADEABLE, false, &there.reason, &there.message),
        None => NewCondition::new(
            condition::UPGRADEABLE,
            true,
            "AsExpected",
            "cluster operator is upgradable",
        ),
    }
}

#[cfg(test)]
mod tests;
