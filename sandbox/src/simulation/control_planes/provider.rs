//! The machine controller, the kubelets, and the instances behind them.
//!
//! The steps of a machine are those of the simulated provider, [`next`]. This module decides when
//! they happen, and which faults occur.

use capstan_core::api::machine_openshift_io::machine::Machine;
use serde_json::{Value, json};

use crate::api::Part;
use crate::infrastructure::{FINALIZER, Next, Speeds, next};
use crate::simulation::engine::schedule::{MINUTE, SECOND};
use crate::simulation::engine::world::{Actor, World};

use super::act::MachineFault;
use super::invariants::moment::zone;
use super::state::{Event, Plane};
use super::{kinds, objects};

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

fn instance_id(uid: &str) -> String {
    format!("aws:///{uid}")
}

impl Plane {
    fn next_machine_step(&self, name: &str) -> Option<Next> {
        let machine = self.machines.get(name)?;
        let uid = machine.metadata.uid();
        let node = self.node_of(machine).map(|node| &**node);
        let (drained, fault) = (self.provider.drained.contains(uid), self.provider.fault(uid));
        next(machine, node, drained, &fault, &Speeds::FAST).map(|(next, _)| next)
    }
}

impl World<Plane> {
    /// Queues the next step of a machine.
    pub(super) fn plan_machine(&mut self, name: &str) {
        let Some(machine) = self.environment.machines.get(name).cloned() else {
            return;
        };
        let uid = machine.metadata.uid().to_owned();
        let provider = &mut self.environment.provider;
        let is_new = machine.phase().is_none() && machine.spec.provider_id.is_none();
        if is_new && provider.full.contains_key(&zone(&machine)) {
            provider.faults.insert(uid.clone(), MachineFault::Fails);
        }
        if is_new
            && !provider.faults.contains_key(&uid)
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
        let mut delay = self.between(&["provider", &uid], least, most);
        if is_slow && !self.is_calm() {
            delay += 20 * MINUTE;
        }
        self.schedule(delay, Event::Machine(name.to_owned(), uid));
    }

    /// Executes the next step of a machine, if it still is the one that was planned.
    pub(super) fn step_machine(&mut self, name: &str, uid: &str) {
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
            Some(Next::Adopt) => self.take_up(name, &machine),
            Some(Next::Provision) => {
                provider.instances.insert(uid.to_owned());
                self.write(name, json!({"spec": {"providerID": instance_id(uid)}}));
                self.write_status(name, &json!({"phase": "Provisioned"}));
            }
            Some(Next::Fail) => {
                let failure = json!({"phase": "Failed", "errorReason": "CreateError", "errorMessage": "no capacity"});
                self.write_status(name, &failure);
            }
            Some(Next::Join) => {
                let node = objects::node(name, &instance_id(uid));
                let _made = self.create(PROVIDER, &kinds::node(name), node);
                self.set_ready(name, "Unknown");
                let status = json!({"phase": "Running", "nodeRef": {"kind": "Node", "name": name}});
                self.write_status(name, &status);
            }
            Some(Next::Ready) => self.set_ready(name, "True"),
            Some(Next::BeginDeletion) => self.write_status(name, &json!({"phase": "Deleting"})),
            Some(Next::Drain) => drop(provider.drained.insert(uid.to_owned())),
            Some(Next::Terminate) => {
                provider.instances.remove(uid);
                let _gone = self.delete(PROVIDER, &kinds::node(name));
            }
            Some(Next::Release) => {
                provider.instances.remove(uid);
                let others = machine.metadata.finalizers.iter().filter(|one| *one != FINALIZER);
                let others: Vec<&String> = others.collect();
                self.write(name, json!({"metadata": {"finalizers": others}}));
            }
            None => {}
        }
        self.plan_machine(name);
    }

    fn take_up(&mut self, name: &str, machine: &Machine) {
        let mut finalizers = machine.metadata.finalizers.clone();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
            self.write(name, json!({"metadata": {"finalizers": finalizers}}));
        }
        if machine.phase().is_none() {
            self.write_status(name, &json!({"phase": "Provisioning"}));
        }
    }

    fn write_status(&mut self, name: &str, status: &Value) {
        let _written = self.patch(
            PROVIDER,
            &kinds::machine(name),
            Part::Status,
            json!({ "status": status }),
        );
    }

    fn write(&mut self, name: &str, patch: Value) {
        let _written = self.patch(PROVIDER, &kinds::machine(name), Part::Main, patch);
    }

    /// Sets the condition `Ready` of a node.
    pub(super) fn set_ready(&mut self, node: &str, status: &str) {
        let now = self.timestamp();
        let now = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
        let patch = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": objects::address(node)}],
            "conditions": [
                {"type": "Ready", "status": status, "reason": "Simulated", "lastTransitionTime": now.to_string()}],
        }});
        let _written = self.patch(PROVIDER, &kinds::node(node), Part::Status, patch);
    }

    /// The node of a machine is not ready for a time.
    pub(super) fn node_down(&mut self, name: &str, time: i64) {
        if !self.environment.has_ready_node(name) {
            return;
        }
        self.trace(|| format!("   node {name} is not ready for {}s", time / SECOND));
        self.environment.evidence.disturbed.insert(name.to_owned());
        *self.environment.provider.down.entry(name.to_owned()).or_default() += 1;
        self.set_ready(name, "False");
        self.schedule(time, Event::NodeBack(name.to_owned()));
    }

    /// A node is ready again.
    pub(super) fn node_back(&mut self, node: &str) {
        let environment = &mut self.environment;
        if environment.provider.down.remove(node).is_some() && environment.nodes.contains_key(node) {
            self.set_ready(node, "True");
        }
    }

    /// The instance of a machine disappears, and the cloud's node controller deletes its node. The
    /// last instance stays: without it there is no API server, and only a backup helps.
    pub(super) fn instance_gone(&mut self, name: &str) {
        let environment = &mut self.environment;
        let others = environment.machines.iter().filter(|(other, machine)| {
            *other != name && !machine.metadata.is_deleting() && environment.has_ready_node(other)
        });
        let is_last = others.count() == 0;
        let machine = environment.machines.get(name).cloned();
        let Some(machine) = machine.filter(|machine| machine.node_name().is_some() && !is_last) else {
            return;
        };
        environment.evidence.disturbed.insert(name.to_owned());
        environment.provider.instances.remove(machine.metadata.uid());
        self.trace(|| format!("   the instance of machine {name} disappears"));
        let _gone = self.delete(PROVIDER, &kinds::node(name));
    }

    /// No instance can be created in a failure domain for a time.
    pub(super) fn no_capacity(&mut self, position: usize, time: i64) {
        let domains = objects::domains(self.environment.zones.max(position + 1));
        let name = domains.pointer(&format!("/aws/{position}/placement/availabilityZone"));
        let Some(name) = name.and_then(Value::as_str).map(str::to_owned) else {
            return;
        };
        self.trace(|| format!("   {name} has no capacity for {}s", time / SECOND));
        *self.environment.provider.full.entry(name.clone()).or_default() += 1;
        self.schedule(time, Event::HasCapacity(name));
    }

    /// A failure domain has capacity again.
    pub(super) fn has_capacity(&mut self, zone: &str) {
        let full = &mut self.environment.provider.full;
        match full.get_mut(zone) {
            Some(faults) if *faults > 1 => *faults -= 1,
            _ => drop(full.remove(zone)),
        }
    }

    /// Ends the faults of all machines. A machine that has failed stays failed.
    pub(super) fn end_machine_faults(&mut self) {
        let provider = &mut self.environment.provider;
        provider.next_faults.clear();
        provider.faults.clear();
        provider.full.clear();
        let names: Vec<String> = self.environment.machines.keys().cloned().collect();
        for name in names {
            self.plan_machine(&name);
        }
    }

    /// Creates a machine as an installer leaves it, with a ready node.
    pub(super) fn install_machine(&mut self, position: u32, name: &str) {
        let (machine, node) = (kinds::machine(name), kinds::node(name));
        let mut object = objects::machine(name, position, objects::FIRST_TYPE);
        // Its hook is that of the etcd operator.
        if self.environment.setup.own_members
            && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
        {
            spec.remove("lifecycleHooks");
        }
        let _made = self.create(Actor::Installer, &machine, object);
        let id = format!("aws:///i-{position}");
        let _made = self.create(Actor::Installer, &node, objects::node(name, &id));
        self.set_ready(name, "True");
        let status = json!({"status": {"phase": "Running", "nodeRef": {"kind": "Node", "name": name}}});
        let _written = self.patch(Actor::Installer, &machine, Part::Status, status);
        let environment = &mut self.environment;
        if let Some(machine) = environment.machines.get(name) {
            let uid = machine.metadata.uid().to_owned();
            environment.provider.instances.insert(uid);
        }
    }
}
