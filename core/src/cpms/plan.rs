//! The plan: at most one disruptive step, the waits, and the reasons why no other step is taken.
//!
//! The plan is a pure function of one snapshot. The surge, the gates and the choice of the index
//! use the same state, so that differences between snapshots cannot lead to a second machine. Each
//! step has its precondition, and each new machine has a derived name. Applying a step twice, or by
//! two leaders, is therefore harmless (decision 15).
//!
//! Source: the ControlPlaneMachineSet enhancement, the update strategies; decisions 6 to 8 and 17.

mod in_place;
mod machine;
mod question;
mod rollout;

use jiff::Timestamp;

use super::degraded::{UnclaimedNodes, allows_repair, degraded, is_about_the_template};
use super::pending_creates;
use super::removal;
use super::spec::{SetState, Spec};
use super::state::State;
use crate::api::machine_openshift_io::control_plane_machine_set::FINALIZER;

pub use super::action::{Action, Plan, Step, Wait, WaitReason};
pub(crate) use machine::machine_of_template;
pub use machine::{made_machine, owner_reference};
pub use question::question;

/// The next steps for this set.
pub fn plan(spec: &Spec, state: &State, now: Timestamp) -> Plan {
    if spec.deleting {
        return removal::plan(spec, &state.observed.machines);
    }
    let mut plan = Plan {
        degraded: degraded(spec, state, now),
        ..Plan::default()
    };
    if spec.state == SetState::Inactive {
        plan.notes.push("the set is Inactive and acts on no machine".to_owned());
        return plan;
    }
    if let Some(step) = finalizer(spec) {
        plan.steps.push(step);
    }
    let mut disruptive = None;
    if let Some(reason) = plan.degraded.iter().find(|reason| !allows_repair(reason)) {
        plan.notes.push(format!(
            "nothing is created or deleted while the control plane is degraded ({})",
            reason.reason
        ));
    } else if let UnclaimedNodes::Joining { until } = UnclaimedNodes::of(state, now) {
        rollout::waits(spec, state, now, &mut plan);
        let message = format!(
            "node {} is not yet claimed by its machine",
            state.unclaimed_nodes.join(", ")
        );
        plan.waits.push(Wait {
            until,
            ..Wait::new(WaitReason::NodeClaimed, message)
        });
    } else {
        if let Some(reason) = plan.degraded.first() {
            plan.notes.push(format!(
                "no replacement is started while the control plane is degraded ({})",
                reason.reason
            ));
        }
        disruptive = rollout::decide(spec, state, now, &mut plan);
    }
    let spared = disruptive
        .as_ref()
        .filter(|step: &&Step| matches!(step.action, Action::Delete { .. }))
        .and_then(|step| step.machine().map(str::to_owned));
    // In-place repair comes first, so that a machine has an owner and a recorded index before other
    // steps depend on them. A machine that is deleted next is not patched, because the patch would
    // invalidate the precondition of its deletion.
    let is_degraded = plan.degraded.iter().any(|reason| !is_about_the_template(reason));
    let repairs = state
        .each_machine()
        .filter(|machine| Some(&machine.name) != spared.as_ref())
        .filter_map(|machine| machine::repair(spec, state, machine, is_degraded));
    plan.steps.extend(repairs);
    plan.steps.extend(disruptive);
    if plan.steps.is_empty() {
        plan.steps.extend(pending_creates::cleanup(spec, state, &plan, now));
    }
    let overdue = rollout::overdue(spec, state, now);
    plan.notes.extend(overdue.iter().map(|late| late.message.clone()));
    plan.waits.sort_by_key(|wait| (wait.index, wait.reason));
    let deadlines = rollout::deadlines(spec, state);
    plan.reconcile_at = plan
        .waits
        .iter()
        .filter_map(|wait| wait.until)
        .chain(deadlines)
        .chain(question::retry_at(state, now))
        .chain(pending_creates::late(state, now).map(|late| late.until))
        .filter(|until| *until > now)
        .min();
    plan
}

/// Messages about machines past their progress deadline; empty without a deadline.
pub fn overdue(spec: &Spec, state: &State, now: Timestamp) -> Vec<String> {
    let late = rollout::overdue(spec, state, now);
    late.into_iter().map(|late| late.message).collect()
}

/// The finalizer is added before the first owner reference, so that a deletion always removes the
/// owner references.
fn finalizer(spec: &Spec) -> Option<Step> {
    if spec.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        return None;
    }
    let mut finalizers = spec.finalizers.clone();
    finalizers.push(FINALIZER.to_owned());
    Some(removal::patch_finalizers(
        spec,
        &finalizers,
        "the finalizer keeps the set until its machines are orphaned",
    ))
}

#[cfg(test)]
mod tests;
