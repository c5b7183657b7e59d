//! The machine controller, the kubelets and the instances behind them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::machine::Machine;
use serde_json::{Value, json};

use crate::api::Part;
use crate::infrastructure::{FINALIZER, Fault, Next, Speeds, next};
use crate::simulation::objects::{self, Sort};
use crate::simulation::schedule::{MINUTE, SECOND, Trouble};

use super::{Actor, Due, World};

/// What the provider knows.
#[derive(Debug, Default)]
pub(super) struct Provider {
    /// What is due to a machine, by uid.
    due: BTreeMap<String, Next>,
    drained: BTreeSet<String>,
    /// What goes wrong with a machine, by uid.
    troubles: BTreeMap<String, Trouble>,
    /// What goes wrong with the next machines.
    pub(super) coming: VecDeque<Trouble>,
    /// Instances, by the uid of their machine.
    pub(super) instances: BTreeSet<String>,
    /// Nodes that are away, and how many faults say so.
    pub(super) down: BTreeMap<String, u32>,
}

impl Provider {
    fn fault(&self, uid: &str) -> Fault {
        match self.troubles.get(uid) {
            Some(Trouble::Fails | Trouble::Ghost) => Fault::Fails("no capacity".to_owned()),
            Some(Trouble::NeverJoins) => Fault::NeverJoins,
            Some(Trouble::NeverReady) => Fault::NeverReady,
            Some(Trouble::NeverEnds) => Fault::NeverEnds,
            Some(Trouble::Slow | Trouble::OtherName) | None => Fault::None,
        }
    }
}

impl World {
    /// Plans what is next for a machine.
    pub(super) fn look_after(&mut self, name: &str) {
        let Some(machine) = self.machines.get(name).cloned() else {
            return;
        };
        let uid = machine.metadata.uid().to_owned();
        if machine.phase().is_none()
            && !self.provider.troubles.contains_key(&uid)
            && machine.spec.provider_id.is_none()
            && let Some(trouble) = self.provider.coming.pop_front()
        {
            self.trace(|| format!("   machine {name} will have trouble: {trouble:?}"));
            self.provider.troubles.insert(uid.clone(), trouble);
        }
        let Some(step) = self.next_of(name) else {
            self.provider.due.remove(&uid);
            return;
        };
        if self.provider.due.get(&uid) == Some(&step) {
            return;
        }
        self.provider.due.insert(uid.clone(), step);
        let (least, most) = match step {
            Next::Adopt | Next::BeginDeletion | Next::Release => (SECOND, 5 * SECOND),
            Next::Provision | Next::Fail => (MINUTE, 4 * MINUTE),
            Next::Join => (MINUTE, 3 * MINUTE),
            Next::Ready => (20 * SECOND, MINUTE),
            Next::Drain => (10 * SECOND, 90 * SECOND),
            Next::Terminate => (20 * SECOND, MINUTE),
        };
        let mut delay = self.between(least, most);
        if self.provider.troubles.get(&uid) == Some(&Trouble::Slow) && !self.calm {
            delay += 20 * MINUTE;
        }
        self.after_ms(delay, Due::Provider(name.to_owned(), uid));
    }

    fn next_of(&self, name: &str) -> Option<Next> {
        let machine = self.machines.get(name)?;
        let uid = machine.metadata.uid();
        let node = self.node_of(machine);
        let drained = self.provider.drained.contains(uid);
        let fault = self.provider.fault(uid);
        next(machine, node.map(|node| &**node), drained, &fault, &Speeds::FAST).map(|(next, _)| next)
    }

    /// The node of a machine: the one that it names, or the one that its instance became, which it may not know yet.
    fn node_of(&self, machine: &Machine) -> Option<&Arc<Node>> {
        let named = machine.node_name().and_then(|name| self.nodes.get(name));
        named.or_else(|| self.with_id(machine.spec.provider_id.as_deref()?))
    }

    fn with_id(&self, id: &str) -> Option<&Arc<Node>> {
        let is_of = |node: &&Arc<Node>| {
            let spec = node.unknown_fields.get("spec");
            spec.and_then(|spec| spec.get("providerID")?.as_str()) == Some(id)
        };
        self.nodes.values().find(is_of)
    }

    pub(super) fn provide(&mut self, name: &str, uid: &str) {
        let Some(machine) = self.machines.get(name).cloned() else {
            return;
        };
        let step = self.next_of(name);
        if machine.metadata.uid() != uid || step.is_none() || self.provider.due.get(uid) != step.as_ref() {
            return;
        }
        self.provider.due.remove(uid);
        let Some(step) = step else { return };
        let status = |world: &mut Self, status: Value| {
            let _written = world.patch(
                Actor::Provider,
                Sort::Machine,
                name,
                Part::Status,
                json!({ "status": status }),
            );
        };
        match step {
            Next::Adopt => {
                let mut finalizers = machine.metadata.finalizers.clone();
                if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
                    finalizers.push(FINALIZER.to_owned());
                    let patch = json!({"metadata": {"finalizers": finalizers}});
                    let _written = self.patch(Actor::Provider, Sort::Machine, name, Part::Main, patch);
                }
                if machine.phase().is_none() {
                    status(self, json!({"phase": "Provisioning"}));
                }
            }
            Next::Provision => {
                self.provider.instances.insert(uid.to_owned());
                let patch = json!({"spec": {"providerID": format!("aws:///{uid}")}});
                let _written = self.patch(Actor::Provider, Sort::Machine, name, Part::Main, patch);
                status(self, json!({"phase": "Provisioned"}));
            }
            Next::Fail => {
                status(
                    self,
                    json!({"phase": "Failed", "errorReason": "CreateError", "errorMessage": "no capacity"}),
                );
                if self.provider.troubles.get(uid) == Some(&Trouble::Ghost) {
                    self.trace(|| format!("   the instance of machine {name} comes up all the same"));
                    self.provider.instances.insert(uid.to_owned());
                    let ghost = format!("ghost-{}", uid.get(..8).unwrap_or(name));
                    let node = objects::node(&ghost, &format!("aws:///{uid}"));
                    let _made = self.make(Actor::Provider, Sort::Node, node);
                    self.set_ready(&ghost, "True");
                }
            }
            Next::Join => self.join(name, uid),
            Next::Ready => {
                if let Some(node) = machine.node_name().map(str::to_owned) {
                    self.set_ready(&node, "True");
                }
            }
            Next::BeginDeletion => status(self, json!({"phase": "Deleting"})),
            Next::Drain => {
                self.provider.drained.insert(uid.to_owned());
                self.look_after(name);
            }
            Next::Terminate => {
                self.provider.instances.remove(uid);
                let node = self.node_of(&machine).map(|node| node.metadata.name().to_owned());
                if let Some(node) = node {
                    let _gone = self.remove(Actor::Provider, Sort::Node, &node);
                }
            }
            Next::Release => {
                self.provider.instances.remove(uid);
                if let Some(ghost) = self.with_id(&format!("aws:///{uid}")) {
                    let ghost = ghost.metadata.name().to_owned();
                    let _gone = self.remove(Actor::Provider, Sort::Node, &ghost);
                }
                let rest: Vec<&String> = machine
                    .metadata
                    .finalizers
                    .iter()
                    .filter(|one| *one != FINALIZER)
                    .collect();
                let patch = json!({"metadata": {"finalizers": rest}});
                let _written = self.patch(Actor::Provider, Sort::Machine, name, Part::Main, patch);
            }
        }
        self.look_after(name);
    }

    /// The node joins; the machine learns of it a little later.
    fn join(&mut self, name: &str, uid: &str) {
        let other = self.provider.troubles.get(uid) == Some(&Trouble::OtherName);
        let node = if other {
            format!("ip-{}", uid.get(..8).unwrap_or(name))
        } else {
            name.to_owned()
        };
        if self.nodes.contains_key(&node) {
            let status = json!({"status": {"phase": "Running", "nodeRef": {"kind": "Node", "name": node}}});
            let _written = self.patch(Actor::Provider, Sort::Machine, name, Part::Status, status);
            return;
        }
        let _made = self.make(
            Actor::Provider,
            Sort::Node,
            objects::node(&node, &format!("aws:///{uid}")),
        );
        self.set_ready(&node, "Unknown");
        let delay = self.between(SECOND, 10 * SECOND);
        self.provider.due.insert(uid.to_owned(), Next::Join);
        self.after_ms(delay, Due::Provider(name.to_owned(), uid.to_owned()));
    }

    pub(super) fn set_ready(&mut self, node: &str, status: &str) {
        let now = self.timestamp();
        let now = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
        let patch = json!({"status": {"conditions": [
            {"type": "Ready", "status": status, "reason": "Simulated", "lastTransitionTime": now.to_string()}]}});
        let _written = self.patch(Actor::Provider, Sort::Node, node, Part::Status, patch);
    }

    pub(super) fn node_down(&mut self, node: &str, time: i64) {
        if !self.nodes.get(node).is_some_and(|node| node.is_ready()) {
            return;
        }
        self.trace(|| format!("   node {node} is not ready for {}s", time / 1000));
        *self.provider.down.entry(node.to_owned()).or_default() += 1;
        self.set_ready(node, "False");
        self.after_ms(time, Due::NodeBack(node.to_owned()));
    }

    pub(super) fn node_back(&mut self, node: &str) {
        if self.provider.down.remove(node).is_some() && self.nodes.contains_key(node) {
            self.set_ready(node, "True");
        }
    }

    /// The instance vanishes: the cloud's node controller removes the node. Not the last one: that would take the API
    /// server along, and what is done about it is the restoring of a backup.
    pub(super) fn instance_gone(&mut self, name: &str) {
        let Some(machine) = self.machines.get(name).cloned() else {
            return;
        };
        let Some(node) = machine.node_name().map(str::to_owned) else {
            return;
        };
        let others = self
            .machines
            .values()
            .filter(|other| other.metadata.name() != name && !other.metadata.is_deleting());
        let mut others = others.filter_map(|other| self.nodes.get(other.node_name()?));
        if others.next().is_none() {
            return;
        }
        self.trace(|| format!("   the instance of machine {name} vanishes"));
        self.truth.vanished.insert(name.to_owned());
        self.provider.instances.remove(machine.metadata.uid());
        let _gone = self.remove(Actor::Provider, Sort::Node, &node);
    }

    /// Nothing is wrong with machines any more that has not failed yet.
    pub(super) fn calm_machines(&mut self) {
        self.provider.coming.clear();
        let names: Vec<String> = self.machines.keys().cloned().collect();
        self.provider
            .troubles
            .retain(|_, trouble| *trouble == Trouble::OtherName);
        for name in names {
            self.look_after(&name);
        }
    }
}

impl World {
    /// Instances that run, by the uid of their machine.
    pub(in crate::simulation) fn instances(&self) -> impl Iterator<Item = &str> {
        self.provider.instances.iter().map(String::as_str)
    }
}
