//! The condition `Progressing`: whether the rollout has work to do and will do it.
//!
//! It is False only if the rollout is complete, is paused or limited, waits for a user (OnDelete),
//! exceeds its deadline, or if the set is degraded, Inactive or being deleted. A rollout that waits
//! for etcd or for another machine continues without a user, so that the condition stays True and
//! its reason names the wait. Otherwise `kubectl wait` would return in the middle of a rollout.

use jiff::Timestamp;

use super::condition;
use crate::cpms::action::{Plan, WaitReason};
use crate::cpms::degraded::allows_repair;
use crate::cpms::machine_state::MachineState;
use crate::cpms::plan;
use crate::cpms::spec::{SetState, Spec};
use crate::cpms::state::State;
use crate::model::{Act as _, Degradation, NewCondition};

/// The waits of a rollout that has work to do and does not move, the most important first, with the
/// reason and the status of the condition.
const BLOCKED: [(&str, WaitReason, bool); 5] = [
    ("RolloutPaused", WaitReason::Pause, false),
    ("RolloutLimitReached", WaitReason::Limit, false),
    ("WaitingForDelete", WaitReason::UserDelete, false),
    ("WaitingForEtcd", WaitReason::EtcdHealthy, true),
    ("WaitingForReadyMachines", WaitReason::OtherIndex, true),
];

/// The condition of a valid set.
pub(super) fn progressing(spec: &Spec, state: &State, plan: &Plan, now: Timestamp) -> NewCondition {
    let work = Work::of(spec, state, plan);
    let repairs = work.moves && work.is_open() && plan.degraded.iter().all(allows_repair);
    if !plan.degraded.is_empty() && !repairs {
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
        let stopped = if allows_repair(reason) {
            "No replacement is started"
        } else {
            "Nothing is created or deleted"
        };
        format!("{stopped} while degraded ({})", reason.reason)
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

    fn is_open(&self) -> bool {
        self.needs > 0 || self.excess > 0
    }
}

/// The condition of a rollout that has work to do and does not move; `None` if it moves, or if no
/// wait gives a reason.
fn blocked(work: &Work, plan: &Plan) -> Option<NewCondition> {
    if work.moves {
        return None;
    }
    BLOCKED.into_iter().find_map(|(reason, wait, status)| {
        let text = messages(plan, &[wait]);
        (!text.is_empty()).then(|| new(status, reason, text))
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
            WaitReason::OtherIndex,
            WaitReason::Pause,
        ],
    );
    let message = format!("Waiting for {} old replica(s) to be removed; {held}", work.excess);
    let waits_for = |reason: WaitReason| !work.moves && plan.waits.iter().any(|wait| wait.reason == reason);
    if waits_for(WaitReason::UserDelete) {
        new(false, "WaitingForDelete", message)
    } else if waits_for(WaitReason::Pause) {
        new(false, "RolloutPaused", message)
    } else {
        new(true, "ExcessReplicas", message)
    }
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
