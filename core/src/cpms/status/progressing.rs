//! The condition `Progressing`: whether the rollout moves, and if not, why.
//!
//! A rollout that waits for a user, for etcd or for another machine makes no progress, and its
//! reason names what it waits for (defect B19).

use jiff::Timestamp;

use super::condition;
use crate::cpms::action::{Plan, WaitReason};
use crate::cpms::machine_state::MachineState;
use crate::cpms::plan;
use crate::cpms::spec::{SetState, Spec};
use crate::cpms::state::State;
use crate::model::{Act as _, Degradation, NewCondition};

/// The reasons for which a rollout that has work to do may make no progress, the most important
/// first.
const BLOCKED: [(&str, WaitReason); 5] = [
    ("RolloutPaused", WaitReason::Pause),
    ("RolloutLimitReached", WaitReason::Limit),
    ("WaitingForDelete", WaitReason::UserDelete),
    ("WaitingForEtcd", WaitReason::EtcdHealthy),
    ("WaitingForReadyMachines", WaitReason::OtherIndex),
];

/// The condition of a valid set.
pub(super) fn progressing(spec: &Spec, state: &State, plan: &Plan, now: Timestamp) -> NewCondition {
    if !plan.degraded.is_empty() {
        return while_degraded(plan.degraded.first());
    }
    if spec.deleting {
        return while_deleting(plan);
    }
    if spec.state == SetState::Inactive {
        return new(false, "Inactive", "The set is Inactive and acts on no machine");
    }
    let late = plan::overdue(spec, state, now);
    if !late.is_empty() {
        return new(false, "ProgressDeadlineExceeded", late.join("; "));
    }
    let work = Work::of(spec, state, plan);
    if work.needs > 0 {
        return blocked(&work, plan).unwrap_or_else(|| updating(&work, state, plan));
    }
    if work.excess > 0 {
        return removing(&work, plan);
    }
    new(false, "AllReplicasUpdated", "")
}

/// The condition of a degraded set.
pub(super) fn while_degraded(reason: Option<&Degradation>) -> NewCondition {
    let message = reason.map_or_else(String::new, |reason| {
        format!("Nothing is created or deleted while degraded ({})", reason.reason)
    });
    new(false, "OperatorDegraded", message)
}

/// The condition of a set that is being deleted.
pub(super) fn while_deleting(plan: &Plan) -> NewCondition {
    new(false, "Deleting", plan.notes.join("; "))
}

/// What a rollout still has to do.
struct Work {
    /// Replicas that are not up to date, or not ready yet.
    needs: usize,
    /// Machines more than replicas.
    excess: usize,
    /// Whether something happens now.
    moves: bool,
}

impl Work {
    fn of(spec: &Spec, state: &State, plan: &Plan) -> Self {
        let has_current = |index: u32| {
            let mut machines = state.of_index(index);
            machines.any(|machine| machine.is_current() && !machine.is_deleting())
        };
        let outdated = state.indexes.iter().filter(|index| !has_current(**index)).count();
        let starting = plan
            .waits
            .iter()
            .filter(|wait| matches!(wait.reason, WaitReason::MachineReady | WaitReason::MinReady))
            .count();
        let deleting = state.each_machine().any(MachineState::is_deleting);
        Self {
            needs: outdated + starting,
            excess: state.machines.len().saturating_sub(spec.replicas.count()),
            moves: plan.disruptive().is_some() || starting > 0 || deleting,
        }
    }
}

/// The condition of a rollout that has work to do and does not move; `None` if it moves, or if no
/// wait gives a reason.
fn blocked(work: &Work, plan: &Plan) -> Option<NewCondition> {
    if work.moves {
        return None;
    }
    BLOCKED.into_iter().find_map(|(reason, wait)| {
        let text = messages(plan, &[wait]);
        (!text.is_empty()).then(|| new(false, reason, text))
    })
}

fn updating(work: &Work, state: &State, plan: &Plan) -> NewCondition {
    let waits = [
        WaitReason::MachineReady,
        WaitReason::MinReady,
        WaitReason::MachineRemoved,
    ];
    let next = plan.disruptive().map_or_else(
        || messages(plan, &waits),
        |step| format!("next: {} {}", step.action.verb(), step.machine().unwrap_or_default()),
    );
    let (needs, of) = (work.needs, state.indexes.len());
    let updated = of.saturating_sub(needs);
    let message = format!("Observed {needs} replica(s) in need of update, {updated} of {of} up to date; {next}");
    new(true, "NeedsUpdateReplicas", message)
}

fn removing(work: &Work, plan: &Plan) -> NewCondition {
    let held = messages(
        plan,
        &[
            WaitReason::MachineRemoved,
            WaitReason::UserDelete,
            WaitReason::EtcdHealthy,
            WaitReason::Pause,
        ],
    );
    let message = format!("Waiting for {} old replica(s) to be removed; {held}", work.excess);
    let waits_for_etcd = || plan.waits.iter().any(|wait| wait.reason == WaitReason::EtcdHealthy);
    let status = work.moves || waits_for_etcd();
    let reason = if status { "ExcessReplicas" } else { "WaitingForDelete" };
    new(status, reason, message)
}

/// The messages of the waits for these reasons.
fn messages(plan: &Plan, reasons: &[WaitReason]) -> String {
    let texts: Vec<&str> = plan
        .waits
        .iter()
        .filter(|wait| reasons.contains(&wait.reason))
        .map(|wait| wait.message.as_str())
        .collect();
    texts.join("; ")
}

fn new(status: bool, reason: &str, message: impl Into<String>) -> NewCondition {
    NewCondition::new(condition::PROGRESSING, status, reason, message)
}
