//! The whole rollout, before it happens: the plan, run forward against a provider that never fails.
//!
//! Not a second opinion on what a rollout does: the same `plan` is asked again and again, over a
//! snapshot in which its steps were taken. So what it lists is what then happens, as long as
//! nothing else does.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::action::{Action, Plan, Step};
use super::etcd::Etcd;
use super::machine_state::{MachineState, NodeState};
use super::observed::Observed;
use super::plan::plan;
use super::reconcile_cache::ReconcileCache;
use super::spec::{Spec, Strategy};
use super::state::State;
use crate::api::core_v1::node::{CONTROL_PLANE_LABEL, Node, NodeCondition};
use crate::api::machine_openshift_io::machine::{Machine, NodeRef};

/// What lies ahead.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// Every step, in order.
    pub steps: Vec<Step>,
    /// The plan at the end: what the rollout then waits for, or what stops it.
    pub end: Plan,
}

/// Runs the plan forward to the end. Machines that are not ready now are taken to become ready, and
/// etcd to become healthy: what blocks a rollout now is said by the plan, not here.
pub fn preview(spec: &Spec, state: &State, now: Timestamp) -> Preview {
    let mut spec = spec.clone();
    let mut world = state.observed.clone();
    let mut now = now;
    let mut steps = Vec::new();
    // Two steps a machine, and as many again for what an earlier rollout left behind; the bound
    // only guards.
    let bound = 20 + 10 * (spec.replicas.count() + world.machines.len());
    let mut end = Plan::default();
    let mut cache = ReconcileCache::default();
    for _ in 0..bound {
        let state = State::observe_with(&spec, world.clone(), state.settings, &mut cache);
        let next = plan(&spec, &state, now);
        now = now.checked_add(TURN).unwrap_or(now);
        if next.steps.is_empty() {
            // What waits for time alone goes on by itself.
            let waited = next.reconcile_at.is_some_and(|at| at <= now);
            let moved = next.degraded.is_empty() && (provide(&spec, &state, &mut world, now) || waited);
            end = next;
            if !moved {
                break;
            }
            continue;
        }
        for step in next.steps {
            take(&mut spec, &step, &mut world, now);
            steps.push(step);
        }
    }
    Preview { steps, end }
}

/// Longer than any node must be ready for.
const TURN: SignedDuration = SignedDuration::from_hours(1);

/// Takes a step, as the API server would.
fn take(spec: &mut Spec, step: &Step, world: &mut Observed, now: Timestamp) {
    let named = |machine: &&mut Arc<Machine>| Some(machine.metadata.name()) == step.machine();
    match &step.action {
        Action::Create { machine, .. } => {
            let mut machine = (**machine).clone();
            machine.metadata.uid = Some(format!("preview-{}", machine.metadata.name()));
            machine.metadata.creation_timestamp = Some(now);
            world.machines.push(Arc::new(machine));
        }
        Action::Delete { .. } => {
            if let Some(machine) = world.machines.iter_mut().find(named) {
                Arc::make_mut(machine).metadata.deletion_timestamp.get_or_insert(now);
            }
        }
        Action::Patch { patch, .. } => {
            if let Some(machine) = world.machines.iter_mut().find(named) {
                let mut value = serde_json::to_value(&**machine).unwrap_or_default();
                json_patch::merge(&mut value, patch);
                if let Ok(patched) = serde_json::from_value(value) {
                    *machine = Arc::new(patched);
                }
            }
        }
        Action::PatchSet(patch) => {
            let finalizers = patch
                .pointer("/metadata/finalizers")
                .cloned()
                .unwrap_or_else(|| json!([]));
            spec.finalizers = serde_json::from_value(finalizers).unwrap_or_default();
        }
        // Nothing stays pending in a preview.
        Action::RemoveRecords(_) => spec.pending_creations = Ok(Vec::new()),
    }
}

/// What a provider that never fails does until the next plan; whether it did anything.
fn provide(spec: &Spec, state: &State, world: &mut Observed, now: Timestamp) -> bool {
    let gone: Vec<&MachineState> = state
        .each_machine()
        .filter(|machine| machine.is_deleting() && may_go(spec, state, machine))
        .collect();
    let coming: Vec<&MachineState> = state
        .each_machine()
        .filter(|machine| !machine.is_deleting() && !machine.is_ready())
        .collect();
    for machine in &gone {
        world.machines.retain(|there| there.metadata.name() != machine.name);
        if let Some(node) = machine.node.name() {
            world.nodes.retain(|there| there.metadata.name() != node);
        }
    }
    for machine in &coming {
        bring_up(machine, world, now);
    }
    let unhealthy = matches!(state.etcd, Etcd::Unhealthy { .. });
    if unhealthy && coming.is_empty() {
        world.etcd = None;
    }
    !gone.is_empty() || !coming.is_empty() || unhealthy
}

/// The etcd operator lets a machine go once another serves its index; with Recreate a person does.
fn may_go(spec: &Spec, state: &State, machine: &MachineState) -> bool {
    let served = |other: &MachineState| !other.is_deleting() && other.is_ready();
    spec.strategy == Strategy::Recreate || state.of_index(machine.index).any(served) || {
        // Two of one index that are both going: one of them serves no purpose.
        let going: Vec<&MachineState> = state.of_index(machine.index).collect();
        going.len() > 1 && going.first().is_some_and(|first| first.name == machine.name)
    }
}

fn bring_up(machine: &MachineState, world: &mut Observed, now: Timestamp) {
    let name = match &machine.node {
        NodeState::None => machine.name.clone(),
        there => there.name().unwrap_or(&machine.name).to_owned(),
    };
    if let Some(there) = world
        .machines
        .iter_mut()
        .find(|there| there.metadata.name() == machine.name)
    {
        let status = Arc::make_mut(there).status.get_or_insert_default();
        status.phase = Some("Running".to_owned());
        status.error_message = None;
        status.error_reason = None;
        status.node_ref = Some(NodeRef {
            name: name.clone(),
            ..NodeRef::default()
        });
    }
    world.nodes.retain(|node| node.metadata.name() != name);
    let mut node = Node::default();
    node.metadata.name = Some(name);
    node.metadata
        .labels
        .insert(CONTROL_PLANE_LABEL.to_owned(), String::new());
    node.status.conditions.push(NodeCondition {
        type_: "Ready".to_owned(),
        status: "True".to_owned(),
        last_transition_time: now.checked_sub(TURN).ok(),
        ..NodeCondition::default()
    });
    world.nodes.push(Arc::new(node));
}

#[cfg(test)]
mod tests;
