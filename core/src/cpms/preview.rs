//! The preview of a rollout: all of its steps, computed with a simulated provider that never fails.
//!
//! The preview calls `plan` repeatedly, each time with a snapshot in which the previous steps were
//! taken. The real rollout takes the same steps if nothing else changes.

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

/// The steps of a rollout.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// Every step, in order.
    pub steps: Vec<Step>,
    /// The plan at the end, with its waits and the reasons to stop.
    pub end: Plan,
}

/// Computes the rollout to its end. The preview assumes that unready machines become ready and that
/// etcd becomes healthy. The plan reports what blocks a rollout now.
pub fn preview(spec: &Spec, state: &State, now: Timestamp) -> Preview {
    let mut spec = spec.clone();
    let mut world = state.observed.clone();
    let mut now = now;
    let mut steps = Vec::new();
    // Two steps for each machine, and as many for the machines of an earlier rollout. The bound
    // only guards against an endless loop.
    let bound = 20 + 10 * (spec.replicas.count() + world.machines.len());
    let mut end = Plan::default();
    let mut cache = ReconcileCache::default();
    for _ in 0..bound {
        let state = State::observe_with(&spec, world.clone(), state.settings, &mut cache);
        let next = plan(&spec, &state, now);
        now = now.checked_add(ROUND).unwrap_or(now);
        if next.steps.is_empty() {
            // A wait for time ends without a change.
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

/// Longer than the longest minimum time of a ready node.
const ROUND: SignedDuration = SignedDuration::from_hours(1);

/// Takes a step as the API server does.
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
        // A preview has no pending creations.
        Action::Records(_) => spec.pending_creations = Ok(Vec::new()),
    }
}

/// Applies the changes of a provider that never fails until the next plan. Returns whether there
/// was a change.
fn provide(spec: &Spec, state: &State, world: &mut Observed, now: Timestamp) -> bool {
    let gone: Vec<&MachineState> = state
        .each_machine()
        .filter(|machine| machine.is_deleting() && can_be_removed(spec, state, machine))
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

/// Whether a machine that is being deleted can be removed: the etcd operator removes its hook once
/// another machine serves its index. With Recreate, a user does.
fn can_be_removed(spec: &Spec, state: &State, machine: &MachineState) -> bool {
    let served = |other: &MachineState| !other.is_deleting() && other.is_ready();
    spec.strategy == Strategy::Recreate || state.of_index(machine.index).any(served) || {
        // If both machines of an index are being deleted, one of them is not needed.
        let machines: Vec<&MachineState> = state.of_index(machine.index).collect();
        machines.len() > 1 && machines.first().is_some_and(|first| first.name == machine.name)
    }
}

fn bring_up(machine: &MachineState, world: &mut Observed, now: Timestamp) {
    let name = match &machine.node {
        NodeState::None | NodeState::OfAnother { .. } => machine.name.clone(),
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
        last_transition_time: now.checked_sub(ROUND).ok(),
        ..NodeCondition::default()
    });
    world.nodes.push(Arc::new(node));
}

#[cfg(test)]
mod tests;
