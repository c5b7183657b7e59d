//! The control plane as a tree, for `capstan status`: indexes, their domains, machines, nodes and hooks, how far the
//! rollout is, and why each machine waits. Says nothing that plan and state do not.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::plan::Plan;
use super::spec::Spec;
use super::state::{MachineState, State};

/// The tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Indexes with a machine that is up to date, ready and not going, and no other.
    pub done: usize,
    /// Indexes that there should be.
    pub of: usize,
    /// Every index, in order.
    pub indexes: Vec<IndexProgress>,
}

/// An index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexProgress {
    /// The index.
    pub index: u32,
    /// Where its machine belongs; `None` without failure domains.
    pub domain: Option<String>,
    /// Its machines, oldest first.
    pub machines: Vec<MachineProgress>,
    /// What the index waits for where no machine of it does.
    pub waits: Vec<String>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineProgress {
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: Option<String>,
    /// Its phase.
    pub phase: Option<String>,
    /// Whether it is ready, and has been for as long as a rollout asks.
    pub ready: bool,
    /// Why it is not ready.
    pub unready_because: Option<String>,
    /// Whether it is up to date.
    pub current: bool,
    /// Fields in which it differs from the template.
    pub changes: Vec<String>,
    /// Since when it is being deleted.
    pub deleting: Option<Timestamp>,
    /// Hooks that hold back its deletion.
    pub hooks: Vec<String>,
    /// What it waits for, or what is waited for of it.
    pub waits: Vec<String>,
}

/// Reads the tree out of plan and state.
pub fn progress(spec: &Spec, state: &State, plan: &Plan, now: Timestamp) -> Progress {
    let indexes: Vec<IndexProgress> = state
        .indexes
        .iter()
        .map(|index| IndexProgress {
            index: *index,
            domain: state.placement.get(index).map(ToString::to_string),
            machines: state
                .of_index(*index)
                .map(|machine| of_machine(state, plan, machine, now))
                .collect(),
            waits: plan
                .waits
                .iter()
                .filter(|wait| wait.index == Some(*index) && wait.machine.is_none())
                .map(|wait| wait.message.clone())
                .collect(),
        })
        .collect();
    let done = |index: &&IndexProgress| matches!(index.machines.as_slice(), [only] if only.current && only.ready && only.deleting.is_none());
    Progress {
        done: indexes.iter().filter(done).count(),
        of: spec.replicas.count(),
        indexes,
    }
}

fn of_machine(state: &State, plan: &Plan, machine: &MachineState, now: Timestamp) -> MachineProgress {
    MachineProgress {
        name: machine.name.clone(),
        node: machine.node.name().map(str::to_owned),
        phase: machine.phase.clone(),
        ready: state.is_stable(machine, now),
        unready_because: machine.unready_because(),
        current: machine.is_current(),
        changes: machine.changes.iter().map(ToString::to_string).collect(),
        deleting: machine.deleting,
        hooks: machine.hooks.clone(),
        waits: plan
            .waits
            .iter()
            .filter(|wait| wait.machine.as_deref() == Some(machine.name.as_str()))
            .map(|wait| wait.message.clone())
            .collect(),
    }
}

impl Progress {
    /// The tree as `capstan status -o json` prints it.
    pub fn to_json(&self) -> Value {
        let machine = |machine: &MachineProgress| {
            json!({
                "name": machine.name,
                "node": machine.node,
                "phase": machine.phase,
                "ready": machine.ready,
                "because": machine.unready_because,
                "current": machine.current,
                "changes": machine.changes,
                "deleting": machine.deleting,
                "hooks": machine.hooks,
                "waits": machine.waits,
            })
        };
        let indexes: Vec<Value> = self
            .indexes
            .iter()
            .map(|index| {
                json!({
                    "index": index.index,
                    "failureDomain": index.domain,
                    "machines": index.machines.iter().map(machine).collect::<Vec<Value>>(),
                    "waits": index.waits,
                })
            })
            .collect();
        json!({"done": self.done, "of": self.of, "indexes": indexes})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpms::simulation::{NEW, World};

    #[test]
    fn the_tree_says_how_far_a_rollout_is_and_why_each_machine_waits() {
        let mut world = World::new("a b c", NEW);
        let step = world.plan().steps.pop().unwrap();
        world.apply(&step);
        let (spec, state) = (world.spec(), world.state());
        let tree = progress(&spec, &state, &world.plan(), world.now);
        assert_eq!((tree.done, tree.of), (0, 3));
        let first = &tree.indexes[0];
        assert_eq!(first.domain.as_deref(), Some("us-east-1a"));
        assert_eq!(first.machines[0].hooks, ["EtcdQuorumOperator (clusteroperator/etcd)"]);
        assert!(first.machines[1].waits[0].contains("has no node yet"));
        assert!(
            tree.indexes
                .iter()
                .skip(1)
                .all(|index| index.machines[0].waits.len() == 1)
        );
        assert_eq!(tree.to_json()["indexes"][0]["machines"][1]["current"], true);
    }
}
