//! Records: Machines of a pool whose provider cannot delete a single instance.
//!
//! A record shows an instance by its provider ID. The controllers of Cluster API ignore it, because
//! it is paused, and its infrastructure reference names an object that never exists. A deletion of
//! a record therefore deletes no instance, and Capstan deletes it only after its instance is gone.
//! Source: the MachinePool Machines proposal, "CAPI-only" MachinePool Machines.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::action::{Action, Plan, Step, WaitReason, about, delete, machine_ref, precondition};
use super::desired;
pub use super::state::RECORD;
use super::state::{Member, State};
use crate::api::cluster_x_k8s_io::annotation::PAUSED;
use crate::api::cluster_x_k8s_io::control_plane::Machine;
use crate::api::cluster_x_k8s_io::machine::FINALIZER;
use crate::api::infrastructure_cluster_x_k8s_io::Infrastructure;
use crate::api::meta::ObjectMeta;
use crate::model::{NotStored, ReportedCondition, changed_conditions, hex_hash, status_patch};

/// The longest part of the name of a pool in the name of a record. A name has at most 253
/// characters.
const LONGEST: usize = 240;

impl Member {
    /// Whether the Machine is a record.
    pub fn is_record(&self) -> bool {
        let mut machines = self.machine.iter();
        machines.any(|machine| machine.metadata.annotations.contains_key(RECORD))
    }
}

/// Adds the creation of missing records, and the deletion of one whose instance is gone.
///
/// `is_held`: the pool has the finalizer of Capstan. Without it, the pool can be gone at once. The
/// Machine controller adds its finalizer to a record, and only Capstan removes it.
pub(super) fn decide(state: &State, is_held: bool, plan: &mut Plan) {
    let ids: BTreeSet<&str> = if state.machine_kind().is_some() {
        BTreeSet::new()
    } else {
        state.provider_ids().into_iter().filter(|id| !id.is_empty()).collect()
    };
    let id_of = |member: &'_ Member| {
        let machine = member.machine.as_ref().filter(|_| member.is_record())?;
        Some(machine.spec.provider_id.clone())
    };
    // A provider that stops to report the kind of its machines has Machines that are no records.
    let machines = state.members.iter().filter_map(|member| member.machine.as_ref());
    let known: BTreeSet<&str> = machines.map(|machine| machine.spec.provider_id.as_str()).collect();
    let unknown = state.staying().find(|member| !member.is_record() && lacks_id(member));
    if let (Some(member), false) = (unknown, ids.is_empty()) {
        let message = format!(
            "Machine {} has no provider ID yet, so its instance is not known",
            member.name
        );
        plan.waits.push(about(state, member, WaitReason::MachineReady, message));
    }
    let may_create = is_held && unknown.is_none();
    let missing = ids.iter().filter(|id| may_create && !known.contains(**id));
    plan.steps.extend(missing.map(|id| {
        let record = record(state, id);
        Step {
            subject: machine_ref(state.namespace(), record.metadata.name()),
            action: Action::Create(Box::new(record)),
            index: None,
            because: format!("instance {id} has no Machine"),
            precondition: None,
        }
    }));
    plan.steps.extend(releases(state));
    let mut records = state.staying().filter(|member| member.is_record());
    let gone = records.find(|member| id_of(member).is_some_and(|id| !ids.contains(id.as_str())));
    let because = "its instance does not exist any more";
    plan.steps
        .extend(gone.and_then(|member| delete(state, member, because.to_owned())));
}

/// Whether a Machine of the pool itself has no provider ID yet. Its instance may be any of them.
fn lacks_id(member: &Member) -> bool {
    let mut machines = member.machine.iter();
    machines.any(|machine| machine.metadata.controller().is_some() && machine.spec.provider_id.is_empty())
}

/// Adds the deletion of all records of a pool whose infrastructure is gone.
pub(super) fn delete_all(state: &State, plan: &mut Plan) {
    plan.steps.extend(releases(state));
    let records = state.staying().filter(|member| member.is_record());
    let because = "the MachinePool is being deleted";
    let steps = records.filter_map(|member| delete(state, member, because.to_owned()));
    // Nothing is behind a record, so that all of them can go at once.
    plan.steps.extend(steps.map(|step| Step {
        action: Action::DeleteOwned,
        ..step
    }));
}

/// The patches that release records whose deletion was requested.
fn releases(state: &State) -> impl Iterator<Item = Step> {
    let machines = state.members.iter().filter_map(|member| member.machine.as_ref());
    machines.filter_map(|machine| release(machine))
}

/// The patch that releases a record whose deletion was requested; `None` for other Machines, and
/// for a record that has nothing to release. The Machine controller adds its finalizer before it
/// finds that a Machine is paused, and does not remove it then.
pub fn release(machine: &Machine) -> Option<Step> {
    let metadata = &machine.metadata;
    let is_held = metadata.finalizers.iter().any(|one| one == FINALIZER);
    if !is_held || !metadata.is_deleting() || !metadata.annotations.contains_key(RECORD) {
        return None;
    }
    let mut finalizers = metadata.finalizers.clone();
    finalizers.retain(|one| one != FINALIZER);
    let precondition = precondition(machine);
    let mut metadata = precondition.metadata();
    metadata.insert(String::from("finalizers"), json!(finalizers));
    Some(Step {
        action: Action::Patch(json!({ "metadata": metadata })),
        subject: machine_ref(
            machine.metadata.namespace.as_deref().unwrap_or_default(),
            machine.metadata.name(),
        ),
        index: None,
        because: String::from("nothing is behind the record"),
        precondition: Some(precondition),
    })
}

/// The name of the record of an instance.
pub(super) fn name(pool: &str, id: &str) -> String {
    let start: String = pool.chars().take(LONGEST).collect();
    format!("{start}-{}", hex_hash(&json!([pool, id]), 10))
}

fn record(state: &State, id: &str) -> Machine {
    let name = name(state.name(), id);
    let infrastructure = state.infrastructure.as_deref().cloned().unwrap_or_default();
    let absent = Infrastructure {
        metadata: ObjectMeta {
            name: Some(name),
            ..ObjectMeta::default()
        },
        ..infrastructure
    };
    let mut machine = desired::machine(state, &absent);
    machine.spec.provider_id = id.to_owned();
    let annotations = &mut machine.metadata.annotations;
    annotations.insert(RECORD.to_owned(), String::from("true"));
    annotations.insert(PAUSED.to_owned(), String::from("true"));
    machine
}

/// The patch of the status of a record; `None` if it is stored as far as the API server stores it.
/// No controller of Cluster API writes it, because the record is paused.
pub fn status(member: &Member, not_stored: &NotStored, now: jiff::Timestamp) -> Option<Value> {
    let machine = member.machine.as_ref().filter(|_| member.is_record())?;
    // Wire types always serialise.
    let mut stored = serde_json::to_value(machine.as_ref()).ok()?;
    let conditions = stored.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        // The wire type leaves an empty message out, and the API server demands it.
        condition.entry("message").or_insert_with(|| json!(""));
    }
    let is = |holds: bool| if holds { "True" } else { "False" };
    let has_node = !member.node.is_empty();
    let node = if has_node { "NodeExists" } else { "NodeDoesNotExist" };
    let available = if member.is_available {
        "Available"
    } else {
        "NotAvailable"
    };
    let conditions = [
        ReportedCondition::new("Available", is(member.is_available), available, ""),
        ReportedCondition::new(
            "Deletable",
            "False",
            "ProviderCannotDeleteInstances",
            "the provider cannot delete a single instance; a deletion of this Machine deletes nothing else",
        ),
        ReportedCondition::new("NodeReady", is(has_node && member.is_available), node, ""),
        ReportedCondition::new("Ready", is(member.is_available), available, ""),
    ];
    let mut after = Map::new();
    after.insert(
        String::from("phase"),
        json!(if has_node { "Running" } else { "Provisioned" }),
    );
    if has_node {
        after.insert(String::from("nodeRef"), json!({"name": member.node}));
    }
    let conditions = changed_conditions(&stored, &conditions, now);
    after.extend(conditions.map(|conditions| (String::from("conditions"), conditions)));
    status_patch(&stored, after).filter(|patch| !not_stored.repeats(&stored, patch))
}
