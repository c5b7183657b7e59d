//! The preview of a change: all of its steps, computed with a provider that never fails and an etcd
//! operator that adds and removes members at once.
//!
//! The preview calls `plan` repeatedly, each time with the previous steps taken. The real change
//! takes the same steps if nothing else changes. What blocks a step now is in the plan.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::action::{Plan, Step, Wait, WaitReason};
use super::members;
use super::plan::plan;
use super::spec::Spec;
use super::state::State;
use crate::api::core_v1::node::{Node, NodeCondition};
use crate::api::machine_openshift_io::control_plane::FINALIZER;
use crate::api::machine_openshift_io::machine::NodeRef;
use crate::cpms::action::Action;
use crate::cpms::observed::Observed;

/// The steps of a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// Every step, in order.
    pub steps: Vec<Step>,
    /// What the first creation or deletion waits for.
    pub waits: Vec<Wait>,
    /// The plan at the end.
    pub end: Plan,
}

/// Computes the change to its end.
pub fn preview(spec: &Spec, state: &State) -> Preview {
    // The finalizer and the records are bookkeeping, and no steps of a change.
    let mut spec = Spec {
        finalizers: vec![FINALIZER.to_owned()],
        pending_creations: Ok(Vec::new()),
        ..spec.clone()
    };
    let mut world = state.observed.clone();
    let mut steps: Vec<Step> = Vec::new();
    let mut waits = Vec::new();
    // Two steps that change the number for each machine, and the marks. The bound only guards
    // against an endless loop.
    let bound = 20 + 10 * (spec.replicas + world.machines.len());
    let mut end = Plan::default();
    for _ in 0..bound {
        let spec = &mut spec;
        let next = plan(spec, &State::observe(spec, world.clone()));
        if next.steps.is_empty() {
            let is_done = next.waits.is_empty() || !next.degraded.is_empty();
            if waits.is_empty() && !steps.iter().any(Step::is_disruptive) {
                waits.clone_from(&next.waits);
            }
            let is_user = next.waits.iter().any(|wait| wait.reason == WaitReason::Acknowledgement);
            end = next;
            let before = world.clone();
            provide(spec, &mut world);
            if is_done || is_user || before == world {
                break;
            }
            continue;
        }
        let is_disruptive = next.disruptive().is_some();
        for step in next.steps {
            match &step.action {
                Action::PatchSet(patch) | Action::Records(patch) => annotate(spec, patch),
                _ => {
                    take(&step, &mut world);
                    steps.push(step);
                }
            }
        }
        // A change in place changes no node and no etcd member.
        if is_disruptive {
            provide(spec, &mut world);
        }
    }
    Preview { steps, waits, end }
}

/// Takes a step as the API server does.
fn take(step: &Step, world: &mut Observed) {
    let name = step.subject.name.as_str();
    match &step.action {
        Action::Create { machine, .. } => {
            let newest = world
                .machines
                .iter()
                .filter_map(|machine| machine.metadata.creation_timestamp)
                .max();
            let now = newest
                .unwrap_or(Timestamp::UNIX_EPOCH)
                .checked_add(SignedDuration::from_secs(1));
            let mut machine = (**machine).clone();
            machine.metadata.uid = Some(format!("preview-{name}"));
            machine.metadata.creation_timestamp = now.ok();
            world.machines.push(Arc::new(machine));
        }
        Action::Delete { .. } => world.machines.retain(|machine| machine.metadata.name() != name),
        Action::Patch { patch, .. } => {
            let found = world
                .machines
                .iter_mut()
                .find(|machine| machine.metadata.name() == name);
            if let Some(machine) = found {
                let mut value = serde_json::to_value(&**machine).unwrap_or_default();
                json_patch::merge(&mut value, patch);
                if let Ok(patched) = serde_json::from_value(value) {
                    *machine = Arc::new(patched);
                }
            }
        }
        // The ControlPlane is no part of the world.
        Action::PatchSet(_) | Action::Records(_) => {}
    }
}

/// Merges the annotations of a patch of the ControlPlane.
fn annotate(spec: &mut Spec, patch: &Value) {
    let changes = patch.pointer("/metadata/annotations").and_then(Value::as_object);
    for (name, value) in changes.into_iter().flatten() {
        match value.as_str() {
            Some(text) => drop(spec.annotations.insert(name.clone(), text.to_owned())),
            None => drop(spec.annotations.remove(name)),
        }
    }
}

/// Machines become ready, machines that are being deleted disappear, and etcd has one healthy
/// member for each machine.
fn provide(spec: &Spec, world: &mut Observed) {
    world.machines.retain(|machine| !machine.metadata.is_deleting());
    let names: Vec<String> = State::observe(spec, world.clone())
        .machines
        .iter()
        .map(|machine| machine.name().to_owned())
        .collect();
    let mut nodes = Vec::new();
    for machine in world
        .machines
        .iter_mut()
        .filter(|machine| names.iter().any(|name| name == machine.metadata.name()))
    {
        let node = machine
            .node_name()
            .map_or_else(|| machine.metadata.name().to_owned(), str::to_owned);
        nodes.push(node.clone());
        if machine.node_name().is_none() {
            let reference = NodeRef {
                name: node.clone(),
                ..NodeRef::default()
            };
            Arc::make_mut(machine).status.get_or_insert_default().node_ref = Some(reference);
        }
        let is_ready = |there: &&Arc<Node>| there.metadata.name() == node && there.is_ready();
        if world.nodes.iter().find(is_ready).is_none() {
            world.nodes.retain(|there| there.metadata.name() != node);
            world.nodes.push(Arc::new(ready(&node)));
        }
    }
    let message = format!("EtcdMembersAvailable: {} members are available", names.len());
    let report = json!({"metadata": {"name": "etcd"}, "status": {"conditions": [
        {"type": "Available", "status": "True", "message": message}]}});
    world.etcd = serde_json::from_value(report).ok().map(Arc::new);
    // All members of the settled control plane vote.
    world.voters = None;
    if world.own_members.is_some() {
        world.own_members = Some(Ok(nodes.iter().map(|node| members::healthy(node)).collect()));
    }
}

fn ready(name: &str) -> Node {
    let mut node = Node::default();
    node.metadata.name = Some(name.to_owned());
    node.status.conditions = vec![NodeCondition {
        type_: "Ready".to_owned(),
        status: "True".to_owned(),
        ..NodeCondition::default()
    }];
    node
}
