//! Pending creations of a set: machines that do not exist and may still be created.
//!
//! The controller records a creation in the set before it sends the request, with the version of
//! the set from which the plan was made. If two leaders have different snapshots of the cluster,
//! one of them gets a conflict before it requests a machine. A process that starts or becomes the
//! leader reads the requests of the previous process in the set, and counts them. A process does
//! not rely on the record of another process, which that process may remove. Each process records
//! its own requests, also for the same machine.
//!
//! A record stays until its creation can no longer take effect, and is then removed. An earlier
//! request may create a machine for a second time, after the machine was created and deleted.
//!
//! The removal of a record also stores the name of the machine as the one that was created last for
//! its index. The name of the next machine for that index, if the index has no machine, is derived
//! from it, so that it is another name (decision 68). The name also shows later that the set
//! created the machine, if a policy of the cluster takes the machine out of the set.
//!
//! This module must never prevent a process from requesting the same machine again: the API server
//! creates only one machine with a name.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::action::{Action, Plan, Step, set_ref};
pub use super::indexes::LAST_CREATED;
use super::observed::PendingCreate;
use super::spec::Spec;
use super::state::State;
use crate::api::machine_openshift_io::control_plane_machine_set::{
    ControlPlaneMachineSet, ControlPlaneMachineSetStatus,
};
use crate::model::{
    NewCondition, PendingCreation, Precondition, UnreadablePendingCreations, pending_creations, pending_creations_patch,
};

/// The condition that describes the pending creations to users. No program reads its message.
pub const CREATING: &str = "Creating";
/// The reason of the condition while it is true.
pub const REASON: &str = "MachineRequested";

/// The name of the machine that was created last for this index. An annotation that cannot be read
/// is returned as it is: any text leads to another name.
pub(super) fn last_created(spec: &Spec, index: u32) -> Option<String> {
    let text = spec.annotations.get(LAST_CREATED)?;
    match serde_json::from_str::<BTreeMap<u32, String>>(text) {
        Ok(mut names) => names.remove(&index),
        Err(_) => Some(text.clone()),
    }
}

/// The creations that are recorded in a set.
///
/// # Errors
/// The annotation cannot be decoded. The set is then degraded, so that no machine is created.
pub fn recorded(set: &ControlPlaneMachineSet) -> Result<Vec<PendingCreation>, UnreadablePendingCreations> {
    pending_creations(&set.metadata.annotations)
}

/// The record of a step; `None` for a step that creates no machine.
pub fn creation(step: &Step, requested_by: &str, requested_at: Timestamp) -> Option<PendingCreation> {
    match (&step.action, step.index, step.machine()) {
        (Action::Create { .. }, Some(index), Some(machine)) => Some(PendingCreation {
            index,
            machine: machine.to_owned(),
            requested_by: requested_by.to_owned(),
            requested_at,
        }),
        _ => None,
    }
}

/// The patch of the set that adds a record of one more creation, without the records that it
/// supersedes. The API server refuses the patch if the set has changed since it was read.
///
/// # Errors
/// The stored record cannot be decoded, and therefore must not be overwritten.
pub fn record(
    set: &ControlPlaneMachineSet,
    new: &PendingCreation,
    superseded: impl Fn(&PendingCreation) -> bool,
) -> Result<Value, UnreadablePendingCreations> {
    let mut all = recorded(set)?;
    all.retain(|there| there != new && !superseded(there));
    all.push(new.clone());
    let precondition = Precondition {
        uid: set.metadata.uid().to_owned(),
        resource_version: set.metadata.resource_version.clone().unwrap_or_default(),
    };
    Ok(pending_creations_patch(&all, &precondition))
}

/// The step that removes the records of creations that are over; `None` if there are none.
///
/// The step is taken only if there is no other step, so that it delays none. In a steady state the
/// set has no annotation, and the controller writes nothing.
pub(super) fn cleanup(spec: &Spec, state: &State, plan: &Plan, now: Timestamp) -> Option<Step> {
    let recorded = spec.pending_creations.as_ref().ok()?;
    let open: Vec<PendingCreation> = open(recorded, state, plan, now).cloned().collect();
    let over = recorded.iter().filter(|creation| !open.contains(creation));
    let over: Vec<&PendingCreation> = over.collect();
    if over.is_empty() {
        return None;
    }
    let precondition = Precondition {
        uid: spec.uid.clone(),
        resource_version: spec.resource_version.clone(),
    };
    let mut patch = pending_creations_patch(&open, &precondition);
    if let Some(names) = last_names(spec, state, &over, &open) {
        json_patch::merge(&mut patch, &json!({"metadata": {"annotations": {LAST_CREATED: names}}}));
    }
    let names: Vec<&str> = over.iter().map(|creation| creation.machine.as_str()).collect();
    Some(Step::of_set(
        set_ref(&spec.namespace, &spec.name),
        Action::RemoveRecords(patch),
        format!("the creation of {} is over", names.join(", ")),
        precondition,
    ))
}

/// The annotation [`LAST_CREATED`] after these creations; `None` if it does not change. An index
/// with an open creation keeps its entry, because the name of that creation follows from it.
fn last_names(spec: &Spec, state: &State, over: &[&PendingCreation], open: &[PendingCreation]) -> Option<String> {
    let text = spec.annotations.get(LAST_CREATED);
    let stored: BTreeMap<u32, String> = text
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let mut names = stored.clone();
    let is_open = |index: u32| open.iter().any(|creation| creation.index == index);
    for creation in over.iter().filter(|creation| !is_open(creation.index)) {
        names.insert(creation.index, creation.machine.clone());
    }
    names.retain(|index, _| state.indexes.contains(index));
    (names != stored).then(|| serde_json::to_string(&names).unwrap_or_default())
}

/// The condition; `None` for a set that never had a pending creation, and while the record cannot
/// be decoded.
pub(super) fn condition(
    spec: &Spec,
    previous: Option<&ControlPlaneMachineSetStatus>,
    state: &State,
    plan: &Plan,
    now: Timestamp,
) -> Option<NewCondition> {
    let recorded = spec.pending_creations.as_ref().ok()?;
    let mut conditions = previous.into_iter().flat_map(|status| &status.conditions);
    if recorded.is_empty() && !conditions.any(|condition| condition.type_ == CREATING) {
        return None;
    }
    let open: Vec<String> = open(recorded, state, plan, now).map(ToString::to_string).collect();
    Some(if open.is_empty() {
        NewCondition::new(CREATING, false, "AsExpected", "")
    } else {
        NewCondition::new(CREATING, true, REASON, open.join("; "))
    })
}

/// The recorded creations that are not over: the machine may still be created, also for a second
/// time, or the plan requests it again.
fn open<'a>(
    recorded: &'a [PendingCreation],
    state: &State,
    plan: &Plan,
    now: Timestamp,
) -> impl Iterator<Item = &'a PendingCreation> {
    let next = plan.disruptive().and_then(|step| Some((step.index?, step.machine()?)));
    let late: Vec<Late<'_>> = late(state, now).collect();
    recorded.iter().filter(move |creation| {
        next.is_some_and(|(index, machine)| creation.is_for(index, machine))
            || late.iter().any(|late| late.is(creation))
    })
}

/// Whether a machine of this name was requested for this index, and its creation is neither
/// confirmed nor over.
pub(super) fn is_requested(state: &State, index: u32, machine: &str) -> bool {
    let observed = &state.observed;
    let mut own = observed.unanswered.iter();
    own.any(|sent| sent.index == index && sent.machine.metadata.name() == machine)
        || observed
            .pending
            .iter()
            .any(|pending| pending.creation.is_for(index, machine))
}

/// A creation that may still take effect.
pub(super) struct Late<'a> {
    index: u32,
    machine: &'a str,
    /// The record, if another process requested the machine. This process knows which of its own
    /// requests were answered, and needs no record for them.
    record: Option<&'a PendingCreate>,
    /// When it can no longer take effect.
    pub(super) until: Timestamp,
    /// Whether the machine exists, from this request or from another.
    exists: bool,
}

impl Late<'_> {
    /// Whether the record in the set is for this creation.
    fn is(&self, creation: &PendingCreation) -> bool {
        self.record.map_or_else(
            || creation.is_for(self.index, self.machine),
            |record| record.creation == *creation,
        )
    }
}

/// The creations that may still take effect.
pub(super) fn late(state: &State, now: Timestamp) -> impl Iterator<Item = Late<'_>> {
    let observed = &state.observed;
    let own = observed.unanswered.iter().filter_map(|sent| {
        let machine = sent.machine.metadata.name();
        Some(Late {
            index: sent.index,
            machine,
            record: None,
            until: sent.until?,
            exists: observed.has_machine(machine),
        })
    });
    let others = observed.pending.iter().map(|pending| {
        let PendingCreation { index, machine, .. } = &pending.creation;
        let mut machines = state.each_machine();
        Late {
            index: *index,
            machine,
            record: Some(pending),
            until: pending.until,
            exists: machines.any(|there| there.index == *index && there.name == *machine),
        }
    });
    own.chain(others).filter(move |late| late.until > now)
}

/// The machines that do not exist and may still be created, by name and index, with the time when
/// they can no longer be created. Each would be one machine more.
pub(super) fn coming(state: &State, now: Timestamp) -> BTreeMap<(String, u32), Timestamp> {
    let mut coming = BTreeMap::new();
    for late in late(state, now).filter(|late| !late.exists) {
        let until = coming
            .entry((late.machine.to_owned(), late.index))
            .or_insert(late.until);
        *until = late.until.max(*until);
    }
    coming
}

#[cfg(test)]
mod tests;
