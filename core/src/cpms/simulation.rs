//! A control plane in memory, for tests. It stores the writes of plans as an API server does, and
//! its machines change as machines of a provider do. It is deterministic, and checks the
//! precondition of every write.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::action::{Action, Plan, Step};
use super::domains::{FailureDomain, Platform, inject};
use super::observed::{Observed, Settings};
use super::plan::plan;
use super::samples::{json_set, labels, provider_spec, short};
use super::spec::{Gates, ParseContext, Spec, parse};
use super::state::State;
use crate::api::config_openshift_io::cluster_operator::ClusterOperator;
use crate::api::core_v1::node::Node;
use crate::api::machine_openshift_io::machine::Machine;

/// A control plane.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) set: Value,
    pub(crate) observed: Observed,
    pub(crate) now: Timestamp,
    pub(crate) gates: Gates,
    /// Whether machines are created with the hook of the etcd operator, which is removed once
    /// another member is healthy.
    pub(crate) etcd_hook: bool,
    /// What a webhook changes in the provider spec of a machine that is created.
    pub(crate) webhook: fn(&mut Value),
    /// `None` for a platform that Capstan does not support, without failure domains.
    platform: Option<Platform>,
    version: u64,
}

/// A change of a machine by its provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Provisioned(String),
    Joined(String),
    Ready(String),
    Unhooked(String),
    Removed(String),
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, what) = match self {
            Self::Provisioned(name) => (name, "is provisioned"),
            Self::Joined(name) => (name, "has a node"),
            Self::Ready(name) => (name, "is ready"),
            Self::Unhooked(name) => (name, "loses its hook of etcd"),
            Self::Removed(name) => (name, "is gone"),
        };
        write!(f, "{} {what}", short(name))
    }
}

pub(crate) const OLD: &str = "m6i.large";
pub(crate) const NEW: &str = "m6i.xlarge";

impl World {
    /// Machines 0, 1, 2 … of the old instance type in these zones, all ready and owned. The
    /// template has the instance type `wanted`.
    pub(crate) fn new(zones: &str, wanted: &str) -> Self {
        let zones: Vec<&str> = zones.split_whitespace().collect();
        let mut world = Self {
            set: json_set(),
            observed: Observed::default(),
            now: "2026-01-01T12:00:00Z".parse().unwrap(),
            gates: Gates::default(),
            etcd_hook: true,
            webhook: |_| {},
            platform: Some(Platform::Aws),
            version: 1000,
        };
        world.set["spec"]["replicas"] = json!(zones.len());
        world.want(wanted);
        for (index, zone) in zones.iter().enumerate() {
            world.add(&format!("ocp-x7k2p-master-{index}"), zone, OLD);
        }
        world
    }

    /// The same on any platform. On a platform that Capstan does not support, the template sets the
    /// location of all machines.
    pub(crate) fn on(platform: Option<Platform>, zones: &str, wanted: &str) -> Self {
        let mut world = Self::new(zones, wanted);
        if platform == Some(Platform::Aws) {
            return world;
        }
        world.platform = platform;
        let value = match platform {
            Some(Platform::Azure) => json!({"kind": "AzureMachineProviderSpec", "internalLoadBalancer": "lb"}),
            Some(Platform::OpenStack) => {
                json!({"kind": "OpenstackProviderSpec", "rootVolume": {"diskSize": 100, "volumeType": "fast"}})
            }
            Some(other) => json!({ "kind": other.kind() }),
            None => json!({"kind": "BareMetalMachineProviderSpec"}),
        };
        world.template()["spec"]["providerSpec"]["value"] = value;
        let defined = |letter: &str| {
            json!({"name": letter, "region": "r", "zone": letter, "server": "vc", "cluster": {"type": "UUID", "uuid": letter},
                "topology": {"computeCluster": format!("/dc/host/{letter}"), "datacenter": "dc",
                    "datastore": format!("/dc/datastore/{letter}"), "networks": [letter]},
                "subnets": [{"type": "Name", "name": letter}]})
        };
        let domains = ["a", "b", "c", "d"].map(defined);
        let domains = json!({ "failureDomains": domains });
        let infrastructure = json!({"metadata": {"name": "cluster"},
            "spec": {"platformSpec": {"vsphere": domains, "nutanix": domains}},
            "status": {"infrastructureName": "ocp-x7k2p",
                "platformStatus": {"type": platform.map_or("BareMetal", Platform::name)}}});
        world.observed.infrastructure = Some(Arc::new(serde_json::from_value(infrastructure).unwrap()));
        world.zones(zones);
        world.want(wanted);
        world.observed.machines.clear();
        world.observed.nodes.clear();
        for (index, zone) in zones.split_whitespace().enumerate() {
            world.add(&format!("ocp-x7k2p-master-{index}"), zone, OLD);
        }
        world
    }

    /// The field of a provider spec in which the machines of this platform differ.
    fn field(&self) -> &'static str {
        match self.platform {
            Some(Platform::Aws) => "instanceType",
            Some(Platform::Azure) => "vmSize",
            Some(Platform::Gcp) => "machineType",
            Some(Platform::OpenStack) => "flavor",
            Some(Platform::VSphere) => "snapshot",
            Some(Platform::Nutanix) => "bootType",
            None => "hostSelector",
        }
    }

    /// A failure domain in the form of a set.
    fn entry(&self, letter: &str) -> Value {
        match self.platform {
            Some(Platform::Aws) => json!({"placement": {"availabilityZone": format!("us-east-1{letter}")}}),
            Some(Platform::Azure | Platform::Gcp) => json!({ "zone": letter }),
            Some(Platform::OpenStack) => {
                json!({"availabilityZone": letter, "rootVolume": {"availabilityZone": letter, "volumeType": "fast"}})
            }
            Some(Platform::VSphere | Platform::Nutanix) | None => json!({ "name": letter }),
        }
    }

    /// Changes the instance type of the template.
    pub(crate) fn want(&mut self, instance_type: &str) {
        let field = self.field();
        self.template()["spec"]["providerSpec"]["value"][field] = json!(instance_type);
    }

    pub(crate) fn template(&mut self) -> &mut Value {
        &mut self.set["spec"]["template"]["machines_v1beta1_machine_openshift_io"]
    }

    pub(crate) fn annotate(&mut self, key: &str, value: &str) {
        self.set["metadata"]["annotations"][key] = json!(value);
    }

    pub(crate) fn strategy(&mut self, strategy: &str) {
        self.set["spec"]["strategy"] = json!({ "type": strategy });
    }

    pub(crate) fn zones(&mut self, zones: &str) {
        let Some(platform) = self.platform else {
            let template = self.template().as_object_mut().unwrap();
            template.remove("failureDomains");
            return;
        };
        let distinct: BTreeSet<&str> = zones.split_whitespace().collect();
        let list: Vec<Value> = distinct.into_iter().map(|zone| self.entry(zone)).collect();
        self.template()["failureDomains"] = json!({"platform": platform.name(), platform.member(): list});
    }

    /// Adds a machine that has been ready for a day.
    pub(crate) fn add(&mut self, name: &str, zone: &str, instance_type: &str) {
        let mut spec = match self.platform {
            Some(Platform::Aws) => provider_spec(instance_type),
            _ => self.template()["spec"]["providerSpec"]["value"].clone(),
        };
        spec[self.field()] = json!(instance_type);
        if let Some(platform) = self.platform {
            let domain = FailureDomain::new(platform, self.entry(zone));
            spec = inject(&spec, &domain, self.observed.infrastructure.as_deref()).unwrap();
        }
        let hooks = if self.etcd_hook { etcd_hook() } else { json!({}) };
        self.version += 1;
        let machine = json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "metadata": {"name": name, "namespace": "openshift-machine-api", "uid": format!("uid-{name}"),
                "resourceVersion": self.version.to_string(), "labels": labels(),
                "creationTimestamp": self.ago(24 * 3600),
                "ownerReferences": [{"apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet",
                    "name": "cluster", "uid": "set-uid", "controller": true, "blockOwnerDeletion": true}]},
            "spec": {"lifecycleHooks": hooks, "providerSpec": {"value": spec}},
            "status": {"phase": "Running", "nodeRef": {"name": node_name(name)}},
        });
        let machine: Machine = serde_json::from_value(machine).unwrap();
        self.observed.machines.push(Arc::new(machine));
        let since = self.ago(23 * 3600);
        self.set_node(name, "True", since);
    }

    pub(crate) fn ago(&self, seconds: i64) -> Timestamp {
        self.now.checked_sub(SignedDuration::from_secs(seconds)).unwrap()
    }

    /// The kubelet of the machine reports `status` since `since`.
    pub(crate) fn set_node(&mut self, machine: &str, status: &str, since: Timestamp) {
        let name = node_name(machine);
        let old = self.observed.nodes.iter().find(|node| node.metadata.name() == name);
        let created = old.map_or(since, |node| node.metadata.creation_timestamp.unwrap());
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": name, "creationTimestamp": created,
                         "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}]},
        }))
        .unwrap();
        self.observed.nodes.retain(|node| node.metadata.name() != name);
        self.observed.nodes.push(Arc::new(node));
    }

    /// The node is not ready until a test changes it.
    pub(crate) fn node_down(&mut self, machine: &str) {
        let since = self.ago(60);
        self.set_node(machine, "Unknown", since);
    }

    /// Deletes the Node object.
    pub(crate) fn node_gone(&mut self, machine: &str) {
        let name = node_name(machine);
        self.observed.nodes.retain(|node| node.metadata.name() != name);
    }

    pub(crate) fn machine(&mut self, name: &str) -> &mut Machine {
        self.version += 1;
        let version = self.version.to_string();
        let machine = self
            .observed
            .machines
            .iter_mut()
            .find(|machine| machine.metadata.name() == name)
            .unwrap_or_else(|| panic!("no machine {name}"));
        let machine = Arc::make_mut(machine);
        machine.metadata.resource_version = Some(version);
        machine
    }

    /// A user deletes a machine.
    pub(crate) fn delete(&mut self, name: &str) {
        let now = self.now;
        let machine = self.machine(name);
        machine.metadata.deletion_timestamp.get_or_insert(now);
        machine.status.get_or_insert_default().phase = Some("Deleting".to_owned());
    }

    /// The machine controller sets the phase Failed.
    pub(crate) fn fail(&mut self, name: &str, message: &str) {
        let status = self.machine(name).status.get_or_insert_default();
        status.phase = Some("Failed".to_owned());
        status.error_message = Some(message.to_owned());
    }

    pub(crate) fn etcd(&mut self, available: &str, message: &str) {
        let etcd: ClusterOperator =
            serde_json::from_value(json!({"metadata": {"name": "etcd"}, "status": {"conditions": [
                {"type": "Available", "status": available, "message": message, "lastTransitionTime": self.now},
                {"type": "Degraded", "status": "False", "lastTransitionTime": self.now}]}}))
            .unwrap();
        self.observed.etcd = Some(Arc::new(etcd));
    }

    pub(crate) fn spec(&self) -> Spec {
        let context = ParseContext {
            infrastructure: self.observed.infrastructure.as_deref(),
            gates: self.gates,
            ignore_gated_fields: true,
        };
        parse(&serde_json::from_value(self.set.clone()).unwrap(), &context).unwrap()
    }

    pub(crate) fn state(&self) -> State {
        State::observe(&self.spec(), self.observed.clone(), Settings::default())
    }

    pub(crate) fn plan(&self) -> Plan {
        plan(&self.spec(), &self.state(), self.now)
    }

    /// Takes a step as the API server does. A refusal fails the test.
    pub(crate) fn apply(&mut self, step: &Step) {
        assert!(self.try_apply(step), "refused: {step:?}");
    }

    /// Takes a step as the API server does. It refuses the step if the precondition does not hold,
    /// or if the name exists.
    pub(crate) fn try_apply(&mut self, step: &Step) -> bool {
        if let Some(name) = step.machine() {
            let there = self
                .observed
                .machines
                .iter()
                .find(|machine| machine.metadata.name() == name);
            let meets = match (&step.precondition, there) {
                (Some(precondition), Some(machine)) => {
                    machine.metadata.uid() == precondition.uid
                        && machine.metadata.resource_version.as_ref() == Some(&precondition.resource_version)
                }
                (None, None) => true,
                _ => false,
            };
            if !meets {
                return false;
            }
        }
        match &step.action {
            Action::Create { machine, .. } => self.create(machine),
            Action::Delete { .. } => self.delete(step.machine().unwrap()),
            Action::Patch { patch, .. } => {
                let name = step.machine().unwrap();
                let machine = self.machine(name);
                let version = machine.metadata.resource_version.clone();
                let mut value = serde_json::to_value(&*machine).unwrap();
                json_patch::merge(&mut value, patch);
                *machine = serde_json::from_value(value).unwrap();
                machine.metadata.resource_version = version;
            }
            Action::PatchSet(patch) | Action::Records(patch) => json_patch::merge(&mut self.set, patch),
        }
        true
    }

    fn create(&mut self, machine: &Machine) {
        let name = machine.metadata.name().to_owned();
        self.version += 1;
        let mut machine = machine.clone();
        machine.metadata.uid = Some(format!("uid-{name}-{}", self.version));
        machine.metadata.creation_timestamp = Some(self.now);
        if let Some(provider_spec) = &mut machine.spec.provider_spec.value {
            (self.webhook)(provider_spec);
        }
        self.observed.machines.push(Arc::new(machine));
        if self.etcd_hook {
            self.machine(&name).spec.lifecycle_hooks = serde_json::from_value(etcd_hook()).unwrap();
        } else {
            self.machine(&name);
        }
    }

    /// All possible changes by the provider, in a fixed order.
    pub(crate) fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        let ready = |machine: &&Arc<Machine>| !machine.metadata.is_deleting() && self.is_ready(machine);
        let served = self.observed.machines.iter().filter(ready).count();
        let wanted = usize::try_from(self.set["spec"]["replicas"].as_u64().unwrap()).unwrap();
        for machine in &self.observed.machines {
            let name = machine.metadata.name().to_owned();
            if machine.metadata.is_deleting() {
                let all = self
                    .observed
                    .machines
                    .iter()
                    .filter(|machine| self.is_ready(machine))
                    .count();
                let hooked = machine
                    .spec
                    .lifecycle_hooks
                    .as_ref()
                    .is_some_and(|hooks| !hooks.pre_drain.is_empty());
                if !hooked {
                    events.push(Event::Removed(name));
                } else if served >= wanted || (all > wanted && self.is_ready(machine)) || self.recreates() {
                    events.push(Event::Unhooked(name));
                }
                continue;
            }
            match (machine.phase(), machine.node_name()) {
                (Some("Failed"), _) => {}
                (None, _) => events.push(Event::Provisioned(name)),
                (Some(_), None) => events.push(Event::Joined(name)),
                (Some(_), Some(_)) if !self.is_ready(machine) => events.push(Event::Ready(name)),
                _ => {}
            }
        }
        events
    }

    fn recreates(&self) -> bool {
        self.set["spec"]["strategy"]["type"] == "Recreate"
    }

    pub(crate) fn is_ready(&self, machine: &Machine) -> bool {
        let running = matches!(machine.phase(), Some("Running" | "Deleting"));
        let node = machine
            .node_name()
            .and_then(|name| self.observed.nodes.iter().find(|node| node.metadata.name() == name));
        running && node.is_some_and(|node| node.is_ready())
    }

    pub(crate) fn happen(&mut self, event: &Event) {
        match event {
            Event::Provisioned(name) => {
                self.machine(name).status.get_or_insert_default().phase = Some("Provisioned".to_owned());
            }
            Event::Joined(name) => {
                let status = json!({"phase": "Running", "nodeRef": {"name": node_name(name)}});
                self.machine(name).status = serde_json::from_value(status).unwrap();
                let now = self.now;
                self.set_node(name, "False", now);
            }
            Event::Ready(name) => {
                let now = self.now;
                self.set_node(name, "True", now);
            }
            Event::Unhooked(name) => self.machine(name).spec.lifecycle_hooks = None,
            Event::Removed(name) => {
                self.observed.machines.retain(|machine| machine.metadata.name() != name);
                self.node_gone(name);
            }
        }
    }

    pub(crate) fn pass(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }
}

pub(crate) fn node_name(machine: &str) -> String {
    format!("node-of-{machine}")
}

fn etcd_hook() -> Value {
    json!({"preDrain": [{"name": "EtcdQuorumOperator", "owner": "clusteroperator/etcd"}]})
}
