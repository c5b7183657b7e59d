//! What to do next: at most one disruptive step, what is waited for, and why nothing else happens.
//!
//! A pure function of one snapshot: the surge, the gates and the choice of index all come from the same state, so that
//! no staleness of one view against another can let a second machine through. Every step carries its precondition, and
//! every new machine a derived name: applying a step twice, or by two leaders at once, is harmless (decision 15).
//!
//! Source: the ControlPlaneMachineSet enhancement, the update strategies; decisions 6 to 8 and 17.

mod in_place;
mod machine;
mod rollout;

use jiff::Timestamp;
use serde_json::Value;

use super::degraded::{Degradation, degraded, nodes_are_joining};
use super::domains::FailureDomain;
use super::pending_creates;
use super::removal;
use super::spec::{SetState, Spec};
use super::state::State;
use crate::api::machine_openshift_io::control_plane_machine_set::FINALIZER;
use crate::api::machine_openshift_io::machine::Machine;

pub use machine::{made_machine, owner_reference};

/// What to do next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Steps, in the order in which they are taken; the first that fails stops the rest. Only the last may be
    /// disruptive.
    pub steps: Vec<Step>,
    /// What is waited for, by index.
    pub waits: Vec<Wait>,
    /// What a person should know: why nothing happens, what is overdue.
    pub notes: Vec<String>,
    /// What stops the rollout; see [`degraded`].
    pub degraded: Vec<Degradation>,
    /// When to look again although nothing changed: a wait that ends with time.
    pub look_again: Option<Timestamp>,
}

impl Plan {
    /// The step that creates or deletes a machine, if there is one.
    pub fn disruptive(&self) -> Option<&Step> {
        self.steps.iter().find(|step| step.is_disruptive())
    }
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What is written.
    pub action: Action,
    /// The index it is about; `None` for the set itself.
    pub index: Option<u32>,
    /// The machine it is about; `None` for the set itself.
    pub machine: Option<String>,
    /// Where that machine stands or will stand.
    pub failure_domain: Option<FailureDomain>,
    /// Why, as a sentence.
    pub because: String,
    /// What must still be true of the object; `None` for a creation, which the derived name guards.
    pub precondition: Option<Precondition>,
}

impl Step {
    /// Whether the step creates or deletes a machine.
    pub fn is_disruptive(&self) -> bool {
        matches!(self.action, Action::Create(_) | Action::Delete)
    }
}

/// What is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A machine is created.
    Create(Box<Machine>),
    /// A machine is deleted, in the background, with the precondition in the delete options.
    Delete,
    /// A machine is patched in place: a JSON merge patch that carries the precondition in its metadata.
    Patch(Value),
    /// The set is patched: a JSON merge patch that carries the precondition in its metadata.
    PatchSet(Value),
}

impl Action {
    /// `create`, `delete` or `patch`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Delete => "delete",
            Self::Patch(_) | Self::PatchSet(_) => "patch",
        }
    }
}

/// What must still be true of an object when it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precondition {
    /// Its uid: not a namesake.
    pub uid: String,
    /// Its version: not one that changed since.
    pub resource_version: String,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// A new machine is to become ready.
    MachineReady,
    /// The node of a machine that served before is to come back.
    NodeReady,
    /// A machine is ready, and is to stay so for the minimal time.
    MinReady,
    /// A machine that is being deleted is to go.
    MachineRemoved,
    /// The etcd operator is to report healthy members.
    EtcdHealthy,
    /// The one surge machine is in use elsewhere.
    SurgeFree,
    /// Another index needs its machine first.
    OtherIndex,
    /// Strategy OnDelete: somebody is to delete the machine.
    UserDelete,
    /// The annotation that pauses the rollout is to be removed.
    Pause,
    /// The annotation that limits the rollout is to be raised or removed.
    Limit,
    /// A node is to be claimed by its machine.
    NodeClaimed,
}

impl WaitReason {
    /// Stable, CamelCase: a label of the metric, and `for` in `capstan plan -o json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::MachineReady => "MachineReady",
            Self::NodeReady => "NodeReady",
            Self::MinReady => "MinReady",
            Self::MachineRemoved => "MachineRemoved",
            Self::EtcdHealthy => "EtcdHealthy",
            Self::SurgeFree => "SurgeFree",
            Self::OtherIndex => "OtherIndex",
            Self::UserDelete => "UserDelete",
            Self::Pause => "Pause",
            Self::Limit => "Limit",
            Self::NodeClaimed => "NodeClaimed",
        }
    }
}

/// Something that is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The index that waits.
    pub index: Option<u32>,
    /// The machine that waits, or that is waited for.
    pub machine: Option<String>,
    /// What for.
    pub reason: WaitReason,
    /// The whole story, as a sentence.
    pub message: String,
    /// When the wait ends by itself, if time ends it.
    pub until: Option<Timestamp>,
}

/// What to do next about this set.
pub fn plan(spec: &Spec, state: &State, now: Timestamp) -> Plan {
    if spec.deleting {
        return removal::plan(spec, &state.observed.machines);
    }
    let mut plan = Plan {
        degraded: degraded(spec, state),
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
    if let Some(reason) = plan.degraded.first() {
        plan.notes.push(format!(
            "nothing is created or deleted while the control plane is degraded ({})",
            reason.reason
        ));
    } else if !state.unclaimed_nodes.is_empty() && nodes_are_joining(state) {
        plan.waits.push(Wait {
            index: None,
            machine: None,
            reason: WaitReason::NodeClaimed,
            message: format!(
                "node {} is not yet claimed by its machine",
                state.unclaimed_nodes.join(", ")
            ),
            until: None,
        });
    } else {
        disruptive = rollout::decide(spec, state, now, &mut plan);
    }
    let spared = disruptive
        .as_ref()
        .filter(|step: &&Step| step.action == Action::Delete)
        .and_then(|step| step.machine.clone());
    // In-place repair comes first: a machine has an owner and a recorded index before anything follows from them. What
    // is deleted next is not patched, since that would break the precondition of its deletion.
    let repairs = state
        .each_machine()
        .filter(|machine| Some(&machine.name) != spared.as_ref())
        .filter_map(|machine| machine::repair(spec, state, machine));
    plan.steps.extend(repairs);
    plan.steps.extend(disruptive);
    let overdue = rollout::overdue(spec, state, now);
    plan.notes.extend(overdue.iter().map(|late| late.message.clone()));
    plan.waits.sort_by_key(|wait| (wait.index, wait.reason));
    let deadlines = rollout::deadlines(spec, state);
    plan.look_again = plan
        .waits
        .iter()
        .filter_map(|wait| wait.until)
        .chain(deadlines)
        .chain(pending_creates::late(state, now).map(|late| late.until))
        .filter(|until| *until > now)
        .min();
    plan
}

/// What is past its progress deadline, in words; empty without a deadline.
pub fn overdue(spec: &Spec, state: &State, now: Timestamp) -> Vec<String> {
    let late = rollout::overdue(spec, state, now);
    late.into_iter().map(|late| late.message).collect()
}

/// The finalizer comes before the first owner reference, so that a deletion can always strip them.
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
