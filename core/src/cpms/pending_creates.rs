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
use super::indexes;
pub use super::indexes::LAST_CREATED;
use super::observed::{Observed, PendingCreate};
use super::spec::Spec;
use super::state::State;
use crate::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSetStatus;
use crate::api::meta::{Condition, ObjectMeta};
use crate::model::{
    NewCondition, ObjectRef, PendingCreation, Precondition, UnreadablePendingCreations, pending_creations,
    pending_creations_patch,
};

/// The condition that describes the pending creations to users. No program reads its message.
pub const CREATING: &str = "Creating";
/// The reason of the condition while it is true.
pub const REASON: &str = "MachineRequested";

/// The name of the machine that was created last for this index. An annotation that cannot be read
/// is returned as it is: any text leads to another name.
pub(crate) fn last_created(annotations: &BTreeMap<String, String>, index: u32) -> Option<String> {
    let text = annotations.get(LAST_CREATED)?;
    match serde_json::from_str::<BTreeMap<u32, String>>(text) {
        Ok(mut names) => names.remove(&index),
        Err(_) => Some(text.clone()),
    }
}

/// The creations that are recorded in an object.
///
/// # Errors
/// The annotation cannot be decoded. The object is then degraded, so that no machine is created.
pub fn recorded(object: &ObjectMeta) -> Result<Vec<PendingCreation>, UnreadablePendingCreations> {
    pending_creations(&object.annotations)
}

/// The record of a step; `None` for a step that creates no machine. The index of a machine without
/// one is the number at the end of its name.
pub fn creation(step: &Step, requested_by: &str, requested_at: Timestamp) -> Option<PendingCreation> {
    let Action::Create { .. } = &step.action else {
        return None;
    };
    let machine = step.machine()?;
    Some(PendingCreation {
        index: step.index.or_else(|| indexes::of_name(machine))?,
        machine: machine.to_owned(),
        requested_by: requested_by.to_owned(),
        requested_at,
        revision: None,
    })
}

/// The patch of the object that adds a record of one more creation, without the records that it
/// supersedes. The API server refuses the patch if the object has changed since it was read.
///
/// # Errors
/// The stored record cannot be decoded, and therefore must not be overwritten.
pub fn record(
    object: &ObjectMeta,
    new: &PendingCreation,
    superseded: impl Fn(&PendingCreation) -> bool,
) -> Result<Value, UnreadablePendingCreations> {
    let mut all = recorded(object)?;
    all.retain(|there| there != new && !superseded(there));
    all.push(new.clone());
    let precondition = Precondition {
        uid: object.uid().to_owned(),
        resource_version: object.resource_version.clone().unwrap_or_default(),
    };
    Ok(pending_creations_patch(&all, &precondition))
}

/// The records of an object, and what decides whether they are over.
pub(crate) struct Records<'a> {
    /// The object with the records.
    pub(crate) object: ObjectRef,
    pub(crate) precondition: Precondition,
    pub(crate) annotations: &'a BTreeMap<String, String>,
    /// The creations that the object records.
    pub(crate) recorded: &'a [PendingCreation],
    /// The creation that the plan requests, by index and name.
    pub(crate) next: Option<(u32, &'a str)>,
    /// The creations that may still take effect.
    pub(crate) late: Vec<Late<'a>>,
}

impl<'a> Records<'a> {
    fn of_set(spec: &'a Spec, state: &'a State, plan: &'a Plan, now: Timestamp) -> Option<Self> {
        Some(Self {
            object: set_ref(&spec.namespace, &spec.name),
            precondition: Precondition {
                uid: spec.uid.clone(),
                resource_version: spec.resource_version.clone(),
            },
            annotations: &spec.annotations,
            recorded: spec.pending_creations.as_ref().ok()?,
            next: plan.disruptive().and_then(|step| Some((step.index?, step.machine()?))),
            late: late(state, now).collect(),
        })
    }

    /// The step that removes the records of creations that are over; `None` if there are none.
    /// `keeps` says for which indexes the last name is kept.
    pub(crate) fn cleanup(&self, keeps: impl Fn(u32) -> bool) -> Option<Step> {
        let open: Vec<PendingCreation> = self.open().cloned().collect();
        let over = self.recorded.iter().filter(|creation| !open.contains(creation));
        let over: Vec<&PendingCreation> = over.collect();
        if over.is_empty() {
            return None;
        }
        let mut patch = pending_creations_patch(&open, &self.precondition);
        if let Some(names) = self.last_names(keeps, &over, &open) {
            json_patch::merge(&mut patch, &json!({"metadata": {"annotations": {LAST_CREATED: names}}}));
        }
        let names: Vec<&str> = over.iter().map(|creation| creation.machine.as_str()).collect();
        Some(Step::of_set(
            self.object.clone(),
            Action::Records(patch),
            format!("the creation of {} is over", names.join(", ")),
            self.precondition.clone(),
        ))
    }

    /// The annotation [`LAST_CREATED`] after these creations; `None` if it does not change. An
    /// index with an open creation keeps its entry, because the name of that creation follows from
    /// it.
    fn last_names(
        &self,
        keeps: impl Fn(u32) -> bool,
        over: &[&PendingCreation],
        open: &[PendingCreation],
    ) -> Option<String> {
        let text = self.annotations.get(LAST_CREATED);
        let stored: BTreeMap<u32, String> = text
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let mut names = stored.clone();
        let is_open = |index: u32| open.iter().any(|creation| creation.index == index);
        for creation in over.iter().filter(|creation| !is_open(creation.index)) {
            names.insert(creation.index, creation.machine.clone());
        }
        names.retain(|index, _| keeps(*index));
        (names != stored).then(|| serde_json::to_string(&names).unwrap_or_default())
    }

    /// The condition; `None` for an object that never had a pending creation.
    pub(crate) fn condition(&self, previous: &[Condition]) -> Option<NewCondition> {
        if self.recorded.is_empty() && !previous.iter().any(|condition| condition.type_ == CREATING) {
            return None;
        }
        let open: Vec<String> = self.open().map(ToString::to_string).collect();
        Some(if open.is_empty() {
            NewCondition::new(CREATING, false, "AsExpected", "")
        } else {
            NewCondition::new(CREATING, true, REASON, open.join("; "))
        })
    }

    /// The recorded creations that are not over: the machine may still be created, also for a
    /// second time, or the plan requests it again.
    fn open(&self) -> impl Iterator<Item = &'a PendingCreation> {
        self.recorded.iter().filter(|creation| {
            self.next
                .is_some_and(|(index, machine)| creation.is_for(index, machine))
                || self.late.iter().any(|late| late.is(creation))
        })
    }
}

/// The step that removes the records of creations that are over; `None` if there are none.
///
/// The step is taken only if there is no other step, so that it delays none. In a steady state the
/// set has no annotation, and the controller writes nothing.
pub(super) fn cleanup(spec: &Spec, state: &State, plan: &Plan, now: Timestamp) -> Option<Step> {
    Records::of_set(spec, state, plan, now)?.cleanup(|index| state.indexes.contains(&index))
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
    let previous = previous.map_or(&[][..], |status| &status.conditions);
    Records::of_set(spec, state, plan, now)?.condition(previous)
}

/// Whether a machine of this name was requested for this index, and its creation is neither
/// confirmed nor over.
pub(crate) fn is_requested(observed: &Observed, index: u32, machine: &str) -> bool {
    let mut own = observed.unanswered.iter();
    own.any(|sent| sent.index == index && sent.machine.metadata.name() == machine)
        || observed
            .pending
            .iter()
            .any(|pending| pending.creation.is_for(index, machine))
}

/// A creation that may still take effect.
pub(crate) struct Late<'a> {
    index: u32,
    pub(crate) machine: &'a str,
    /// The record, if another process requested the machine. This process knows which of its own
    /// requests were answered, and needs no record for them.
    record: Option<&'a PendingCreate>,
    /// When it can no longer take effect.
    pub(crate) until: Timestamp,
    /// Whether the machine exists, from this request or from another.
    pub(crate) exists: bool,
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
    let is_member = |index: u32, name: &str| {
        let mut machines = state.each_machine();
        machines.any(|there| there.index == index && there.name == *name)
    };
    late_of(&state.observed, is_member).filter(move |late| late.until > now)
}

/// The creations that may still take effect, at the time of the snapshot. `is_member` says whether
/// a machine of this index and name belongs to the object.
pub(crate) fn late_of<'a>(
    observed: &'a Observed,
    is_member: impl Fn(u32, &str) -> bool,
) -> impl Iterator<Item = Late<'a>> {
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
    let others = observed.pending.iter().map(move |pending| {
        let PendingCreation { index, machine, .. } = &pending.creation;
        Late {
            index: *index,
            machine,
            record: Some(pending),
            until: pending.until,
            exists: is_member(*index, machine),
        }
    });
    own.chain(others)
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
