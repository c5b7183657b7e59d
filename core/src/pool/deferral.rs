//! The creations of Machines that wait, because others deleted the Machines while their instances
//! stay.
//!
//! The first Machine of an instance is never deferred, so that a scale-out is as fast as its
//! provider. No other step waits here.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::action::{Action, Plan, Step, Wait, WaitReason};
use super::records;
use super::recreation::{LONGEST, Recreations};
use super::state::State;
use crate::model::Degradation;

/// The longest list of names in a message.
const NAMES: usize = 3;

/// Notes the Machines that exist, in the memory of the controller and in the state.
pub fn observe(known: &mut Recreations, state: &mut State) {
    let ids = state.provider_ids().into_iter();
    let records: BTreeSet<String> = match state.machine_kind() {
        Some(_) => BTreeSet::new(),
        None => ids.map(|id| records::name(state.name(), id)).collect(),
    };
    let members = || state.members.iter();
    let names: BTreeSet<&str> = members().map(|member| member.name.as_str()).collect();
    let existing = members().filter(|member| member.machine.is_some());
    known.observe(existing.map(|member| member.name.as_str()), |name| {
        names.contains(name) || records.contains(name)
    });
    state.recreations = known.clone();
}

/// Notes the steps of a plan that were taken.
pub fn taken<'a>(known: &mut Recreations, steps: impl Iterator<Item = &'a Step>, now: Timestamp) {
    let creations = steps.filter(|step| is_creation(step));
    known.created(creations.map(|step| step.subject.name.as_str()), now);
}

fn is_creation(step: &Step) -> bool {
    matches!(step.action, Action::Create(_))
}

/// The first names of a list.
fn list(names: &[String]) -> String {
    let more = if names.len() > NAMES { ", …" } else { "" };
    let first: Vec<&str> = names.iter().take(NAMES).map(String::as_str).collect();
    format!("{}{more}", first.join(", "))
}

/// Defers the creations that are repeated too soon, and reports that they are repeated.
pub(super) fn defer(state: &State, now: Timestamp, plan: &mut Plan) {
    let known = &state.recreations;
    let is_repeated = |step: &Step| is_creation(step) && known.existed(&step.subject.name);
    let repeated = plan.steps.iter().filter(|step| is_repeated(step));
    let repeated: Vec<String> = repeated.map(|step| step.subject.name.clone()).collect();
    if let (Some(due), false) = (known.deferred_until(now), repeated.is_empty()) {
        plan.steps.retain(|step| !is_repeated(step));
        let message = format!(
            "Machine {} was deleted while its instance exists, and is created again later",
            list(&repeated)
        );
        plan.waits.push(Wait {
            until: Some(due),
            ..Wait::new(WaitReason::CreationDeferred, message)
        });
        plan.reconcile_at = plan.reconcile_at.into_iter().chain([due]).min();
    }
    let Some(until) = known.reported_until(now) else {
        return;
    };
    let minutes = LONGEST.as_mins();
    plan.degraded.push(Degradation {
        reason: "NewMachinesDeleted",
        message: format!(
            "Machine {} is deleted again and again while its instance exists, and not by Capstan: find in the audit \
             log of the API server who deletes it, and stop that. Until then it is created again less and less often, \
             at least every {minutes} minutes",
            list(known.names())
        ),
    });
    plan.reconcile_at = plan.reconcile_at.into_iter().chain([until]).min();
}
