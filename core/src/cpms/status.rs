//! The status of a set: counts, the progress of each machine, and conditions.
//!
//! All conditions are computed and then merged with the stored conditions once, so that a
//! transition time moves only with the status of its condition (defect B8). The reasons are those
//! of the operator that OpenShift ships. Two kinds of reasons differ: that operator reports
//! `Progressing` without an end (defect B19), and `AsExpected` for a problem (defect B7).

mod cluster_operator;
mod progressing;

use jiff::Timestamp;

use super::action::Plan;
use super::machine_state::MachineState;
use super::pending_creates;
use super::spec::Spec;
use super::state::State;
use crate::api::machine_openshift_io::control_plane_machine_set::{
    ControlPlaneMachineSet, ControlPlaneMachineSetStatus, MachineProgress,
};
use crate::model::{Degradation, NewCondition, merge_conditions, standard_conditions};

pub use cluster_operator::cluster_operator;

/// The types of conditions.
pub mod condition {
    /// Every index has a ready machine.
    pub const AVAILABLE: &str = "Available";
    /// The set is applying its template to the machines.
    pub const PROGRESSING: &str = "Progressing";
    /// No machine is created or deleted until a user acts.
    pub const DEGRADED: &str = "Degraded";
    /// Reads or writes of the controller fail.
    pub const ERROR: &str = "Error";
    pub use crate::cpms::pending_creates::CREATING;
    /// ClusterOperator only: the cluster may be upgraded.
    pub const UPGRADEABLE: &str = "Upgradeable";
}

/// The largest number of machines in the status. The schema must limit the list.
const MOST_MACHINES: usize = 64;

/// How many machines a set has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Machines of the set, including those that are being deleted.
    pub replicas: usize,
    /// Ready machines.
    pub ready: usize,
    /// Machines that are ready, up to date and not being deleted.
    pub updated: usize,
    /// Indexes without a ready machine.
    pub unavailable: usize,
}

impl Counts {
    /// Counts the machines of a state.
    pub fn of(state: &State, now: Timestamp) -> Self {
        let count =
            |counts: &dyn Fn(&MachineState) -> bool| state.each_machine().filter(|machine| counts(machine)).count();
        Self {
            replicas: state.machines.len(),
            ready: count(&|machine| is_available(machine, now)),
            updated: count(&|machine| is_available(machine, now) && machine.is_current() && !machine.is_deleting()),
            unavailable: unavailable(state, now).count(),
        }
    }
}

/// Whether the status counts a machine as ready. A restart of its node is not an outage.
fn is_available(machine: &MachineState, now: Timestamp) -> bool {
    machine.is_ready() || machine.is_restarting(now)
}

fn unavailable(state: &State, now: Timestamp) -> impl Iterator<Item = u32> {
    state
        .indexes
        .iter()
        .copied()
        .filter(move |index| !state.of_index(*index).any(|machine| is_available(machine, now)))
}

/// The status of a set. `error` is the failure of the controller, if one has lasted for long
/// enough.
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
        degraded(&plan.degraded),
        progressing::progressing(spec, state, plan, now),
        error_condition(error),
    ];
    conditions.extend(standard_conditions(&conditions));
    conditions.extend(pending_creates::condition(spec, previous, state, plan, now));
    let number = |count: usize| Some(i32::try_from(count).unwrap_or(i32::MAX));
    let stored = previous.map_or(&[][..], |previous| &previous.conditions);
    ControlPlaneMachineSetStatus {
        conditions: merge_conditions(stored, conditions, Some(spec.generation), now),
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

/// The progress of each machine. A machine waits for the first wait of the plan that names it.
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
    state.each_machine().take(MOST_MACHINES).map(progress).collect()
}

/// The status of a set that is not managed because it is not valid or cannot be decoded: the counts
/// stay, and the conditions give the reason.
pub fn stopped_status(
    set: &ControlPlaneMachineSet,
    reasons: &[Degradation],
    error: Option<&str>,
    now: Timestamp,
) -> ControlPlaneMachineSetStatus {
    let conditions = vec![
        degraded(reasons),
        progressing::while_degraded(reasons.first()),
        error_condition(error),
    ];
    with_conditions(set, conditions, now)
}

/// The status of a set that is being deleted.
pub fn leaving_status(
    set: &ControlPlaneMachineSet,
    plan: &Plan,
    error: Option<&str>,
    now: Timestamp,
) -> ControlPlaneMachineSetStatus {
    let conditions = vec![
        degraded(&plan.degraded),
        progressing::while_deleting(plan),
        error_condition(error),
    ];
    with_conditions(set, conditions, now)
}

/// The stored status with these conditions.
fn with_conditions(
    set: &ControlPlaneMachineSet,
    mut conditions: Vec<NewCondition>,
    now: Timestamp,
) -> ControlPlaneMachineSetStatus {
    conditions.extend(standard_conditions(&conditions));
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
            let machines: Vec<String> = state.of_index(index).map(unready_machine).collect();
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

fn unready_machine(machine: &MachineState) -> String {
    let because = machine.unready_because().unwrap_or_default();
    format!("machine {} {because}", machine.name)
}

fn degraded(reasons: &[Degradation]) -> NewCondition {
    let Some(first) = reasons.first() else {
        return NewCondition::new(condition::DEGRADED, false, "AsExpected", "");
    };
    let messages: Vec<&str> = reasons.iter().map(|reason| reason.message.as_str()).collect();
    NewCondition::new(condition::DEGRADED, true, first.reason, messages.join(". "))
}

fn error_condition(error: Option<&str>) -> NewCondition {
    match error {
        Some(message) => NewCondition::new(condition::ERROR, true, "ContinuousErrors", message),
        None => NewCondition::new(condition::ERROR, false, "AsExpected", ""),
    }
}

#[cfg(test)]
mod tests;
