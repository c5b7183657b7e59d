//! The machine controller, the kubelets, and the instances behind them.
//!
//! The steps of a machine are those of the simulated provider, [`next`]; this module decides when
//! they happen, and which faults occur.

use std::sync::Arc;

use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::machine::Machine;
use serde_json::{Value, json};

use crate::api::Part;
use crate::infrastructure::{FINALIZER, Next, Speeds, next};
use crate::simulation::engine::schedule::{MINUTE, SECOND};
use crate::simulation::engine::world::{Actor, World};
use crate::simulation::invariants::moment::provider_id;
use crate::simulation::machine_api::act::MachineFault;
use crate::simulation::machine_api::state::{ControlPlane, Event};
use crate::simulation::machine_api::{kinds, objects};

const PROVIDER: Actor = Actor::Named("provider");

/// How long a step takes, in milliseconds: at least, and at most.
fn duration(step: Next) -> (i64, i64) {
    match step {
        Next::Adopt | Next::BeginDeletion | Next::Release => (SECOND, 5 * SECOND),
        Next::Provision | Next::Fail => (MINUTE, 4 * MINUTE),
        Next::Join => (MINUTE, 3 * MINUTE),
        Next::Ready => (20 * SECOND, MINUTE),
        Next::Drain => (10 * SECOND, 90 * SECOND),
        Next::Terminate => (20 * SECOND, MINUTE),
    }
}

/// The provider id of the instance of a machine.
fn instance_id(uid: &str) -> String {
    format!("aws:///{uid}")
}

impl ControlPlane {
    fn next_machine_step(&self, name: &str) -> Option<Next> {
        let machine = self.machines.get(name)?;
        let uid = machine.metadata.uid();
        let node = self.node_of(machine);
        let drained = self.provider.drained.contains(uid);
        let fault = self.provider.fault(uid);
        next(machine, node.map(|node| &**node), drained, &fault, &Speeds::FAST).map(|(next, _)| next)
    }

    /// The node of a machine: the one that its status names, or the one of its instance.
    pub(super) fn node_of(&self, machine: &Machine) -> Option<&Arc<Node>> {
        let named = machine.node_name().and_then(|name| self.nodes.get(name));
        named.or_else(|| self.node_with_id(machine.spec.provider_id.as_deref()?))
    }

    /// The node that runs on the instance of the machine with this uid.
    pub(super) fn node_of_instance(&self, uid: &str) -> Option<&Arc<Node>> {
        self.node_with_id(&instance_id(uid))
    }

    fn node_with_id(&self, id: &str) -> Option<&Arc<Node>> {
        self.nodes.values().find(|node| provider_id(node) == Some(id))
    }
}

impl World<ControlPlane> {
    /// Queues the next step of a machine.
    pub(crate) fn plan_machine(&mut self, name: &str) {
        let Some(machine) = self.environment.machines.get(name).cloned() else {
            return;
        };
        let uid = machine.metadata.uid().to_owned();
        let provider = &mut self.environment.provider;
        if machine.phase().is_none()
            && !provider.faults.contains_key(&uid)
            && machine.spec.provider_id.is_none()
            && let Some(fault) = provider.next_faults.pop_front()
        {
            provider.faults.insert(uid.clone(), fault);
            self.trace(|| format!("   machine {name} will have the fault {fault:?}"));
        }
        let step = self.environment.next_machine_step(name);
        let provider = &mut self.environment.provider;
        let Some(step) = step else {
            provider.due.remove(&uid);
            return;
        };
        if provider.due.insert(uid.clone(), step) == Some(step) {
            return;
        }
        let is_slow = provider.faults.get(&uid) == Some(&MachineFault::Slow);
        let (least, most) = duration(step);
        let mut delay = self.between(&["machine controller", name, "step"], least, most);
        if is_slow && !self.is_calm() {
            delay += 20 * MINUTE;
        }
        self.schedule(delay, Event::Machine(name.to_owned(), uid));
    }

    /// Executes the next step of a machine, if it still is the one that was planned.
    pub(crate) fn step_machine(&mut self, name: &str, uid: &str) {
        let Some(machine) = self.environment.machines.get(name).cloned() else {
            return;
        };
        let step = self.environment.next_machine_step(name);
        let provider = &mut self.environment.provider;
        if machine.metadata.uid() != uid || step.is_none() || provider.due.get(uid) != step.as_ref() {
            return;
        }
        provider.due.remove(uid);
        match step {
            Some(Next::Adopt) => self.adopt(name, &machine),
            Some(Next::Provision) => self.provision(name, uid),
            Some(Next::Fail) => self.fail(name, uid),
            Some(Next::Join) => self.join(name, uid),
            Some(Next::Ready) => {
                if let Some(node) = machine.node_name() {
                    self.set_ready(node, "True");
                }
            }
            Some(Next::BeginDeletion) => self.write_status(name, &json!({"phase": "Deleting"})),
            Some(Next::Drain) => {
                provider.drained.insert(uid.to_owned());
                self.plan_machine(name);
            }
            Some(Next::Terminate) => self.terminate(&machine),
            Some(Next::Release) => self.release(name, &machine),
            None => {}
        }
        self.plan_machine(name);
    }

    fn write_status(&mut self, name: &str, status: &Value) {
        let patch = json!({ "status": status });
        let _written = self.patch(PROVIDER, &kinds::machine(name), Part::Status, patch);
    }

    fn write(&mut self, name: &str, patch: Value) {
        let _written = self.patch(PROVIDER, &kinds::machine(name), Part::Main, patch);
    }

    fn adopt(&mut self, name: &str, machine: &Machine) {
        let mut finalizers = machine.metadata.finalizers.clone();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
            self.write(name, json!({"metadata": {"finalizers": finalizers}}));
        }
        if machine.phase().is_none() {
            self.write_status(name, &json!({"phase": "Provisioning"}));
        }
    }

    fn provision(&mut self, name: &str, uid: &str) {
        self.environment.provider.instances.insert(uid.to_owned());
        self.write(name, json!({"spec": {"providerID": instance_id(uid)}}));
        self.write_status(name, &json!({"phase": "Provisioned"}));
    }

    fn fail(&mut self, name: &str, uid: &str) {
        self.write_status(
            name,
            &json!({"phase": "Failed", "errorReason": "CreateError", "errorMessage": "no capacity"}),
        );
        let provider = &mut self.environment.provider;
        if provider.faults.get(uid) == Some(&MachineFault::Ghost) {
            provider.instances.insert(uid.to_owned());
            self.trace(|| format!("   the instance of machine {name} starts nevertheless"));
            let ghost = format!("ghost-{}", uid.get(..8).unwrap_or(name));
            let node = objects::node(&ghost, &instance_id(uid));
            let _made = self.create(PROVIDER, &kinds::node(&ghost), node);
            self.set_ready(&ghost, "True");
        }
    }

    /// The node joins. The status of the machine names it a little later.
    fn join(&mut self, name: &str, uid: &str) {
        let provider = &self.environment.provider;
        let node = if provider.faults.get(uid) == Some(&MachineFault::OtherName) {
            format!("ip-{}", uid.get(..8).unwrap_or(name))
        } else {
            name.to_owned()
        };
        if let Some(known) = self.environment.nodes.get(&node) {
            if provider_id(known).is_none_or(str::is_empty) {
                let patch = json!({"spec": {"providerID": instance_id(uid)}});
                let _written = self.patch(PROVIDER, &kinds::node(&node), Part::Main, patch);
            }
            let status = json!({"phase": "Running", "nodeRef": {"kind": "Node", "name": node}});
            return self.write_status(name, &status);
        }
        let fault = self.environment.provider.faults.get(uid).copied();
        let is_unknown = fault == Some(MachineFault::EarlyUnknownNode);
        let is_early = is_unknown || fault == Some(MachineFault::EarlyNode);
        let id = if is_unknown { String::new() } else { instance_id(uid) };
        let _made = self.create(PROVIDER, &kinds::node(&node), objects::node(&node, &id));
        self.set_ready(&node, if is_early { "True" } else { "Unknown" });
        let delay = if is_early {
            self.between(&["kubelet", name, "join"], 5 * MINUTE, 30 * MINUTE)
        } else {
            self.between(&["kubelet", name, "join"], SECOND, 10 * SECOND)
        };
        self.environment.provider.due.insert(uid.to_owned(), Next::Join);
        self.schedule(delay, Event::Machine(name.to_owned(), uid.to_owned()));
    }

    fn terminate(&mut self, machine: &Machine) {
        let environment = &mut self.environment;
        environment.provider.instances.remove(machine.metadata.uid());
        let node = environment.node_of(machine);
        if let Some(node) = node.map(|node| node.metadata.name().to_owned()) {
            let _gone = self.delete(PROVIDER, &kinds::node(&node));
        }
    }

    fn release(&mut self, name: &str, machine: &Machine) {
        let uid = machine.metadata.uid();
        let environment = &mut self.environment;
        environment.provider.instances.remove(uid);
        let ghost = environment.node_with_id(&instance_id(uid));
        // The node of a machine may have joined without an id.
        let ghost = ghost.or_else(|| environment.nodes.get(name));
        if let Some(ghost) = ghost.map(|ghost| ghost.metadata.name().to_owned()) {
            let _gone = self.delete(PROVIDER, &kinds::node(&ghost));
        }
        let finalizers = machine.metadata.finalizers.iter();
        let others: Vec<&String> = finalizers.filter(|one| *one != FINALIZER).collect();
        self.write(name, json!({"metadata": {"finalizers": others}}));
    }

    /// Sets the condition `Ready` of a node.
    pub(crate) fn set_ready(&mut self, node: &str, status: &str) {
        let now = self.timestamp();
        let now = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
        let patch = json!({"status": {"conditions": [
            {"type": "Ready", "status": status, "reason": "Simulated", "lastTransitionTime": now.to_string()}]}});
        let _written = self.patch(PROVIDER, &kinds::node(node), Part::Status, patch);
    }

    /// A node is not ready for a time.
    pub(crate) fn node_down(&mut self, node: &str, time: i64) {
        if !self.environment.nodes.get(node).is_some_and(|node| node.is_ready()) {
            return;
        }
        self.trace(|| format!("   node {node} is not ready for {}s", time / SECOND));
        *self.environment.provider.down.entry(node.to_owned()).or_default() += 1;
        self.set_ready(node, "False");
        self.schedule(time, Event::NodeBack(node.to_owned()));
    }

    /// A node is ready again.
    pub(crate) fn node_back(&mut self, node: &str) {
        let environment = &mut self.environment;
        if environment.provider.down.remove(node).is_some() && environment.nodes.contains_key(node) {
            self.set_ready(node, "True");
        }
    }

    /// The instance of a machine disappears, and the cloud's node controller deletes its node. The
    /// last instance stays: without it there is no API server, and only a backup helps.
    pub(crate) fn instance_gone(&mut self, name: &str) {
        let environment = &mut self.environment;
        let Some(machine) = environment.machines.get(name).cloned() else {
            return;
        };
        let Some(node) = machine.node_name() else { return };
        let mut others = environment
            .machines
            .values()
            .filter(|other| other.metadata.name() != name && !other.metadata.is_deleting())
            .filter_map(|other| environment.nodes.get(other.node_name()?));
        if others.next().is_none() {
            return;
        }
        environment.evidence.vanished.insert(name.to_owned());
        environment.provider.instances.remove(machine.metadata.uid());
        self.trace(|| format!("   the instance of machine {name} disappears"));
        let _gone = self.delete(PROVIDER, &kinds::node(node));
    }

    /// Ends the faults of all machines. A machine that has failed stays failed.
    pub(crate) fn end_machine_faults(&mut self) {
        let provider = &mut self.environment.provider;
        provider.next_faults.clear();
        provider.faults.retain(|_, fault| *fault == MachineFault::OtherName);
        let names: Vec<String> = self.environment.machines.keys().cloned().collect();
        for name in names {
            self.plan_machine(&name);
        }
    }
}
