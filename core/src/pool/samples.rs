//! Objects for the tests of this module: a healthy pool, and changes of it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::action::{Action, Mode, Plan};
use super::observed::Observed;
use super::plan::plan;
use super::progress;
use super::state::State;

/// The moment of all tests.
pub(super) fn now() -> Timestamp {
    "2026-06-01T12:00:00Z".parse().unwrap()
}

/// The objects of one pool, as files contain them.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) pool: Value,
    pub(super) infrastructure: Value,
    pub(super) machines: Vec<Value>,
    pub(super) instances: Vec<Value>,
    pub(super) nodes: Vec<Value>,
}

impl World {
    /// A pool of machines `p-0`, `p-1`, … that run v1.33.0. Machines with a lower number are older.
    pub(super) fn new(count: usize) -> Self {
        let mut world = Self {
            pool: json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
                "metadata": {"name": "p", "namespace": "ns", "uid": "p-uid", "resourceVersion": "3", "annotations": {},
                    "finalizers": ["capstan.dev/machine-pool"]},
                "spec": {"clusterName": "c", "replicas": count, "template": {"spec": {
                    "clusterName": "c", "version": "v1.33.0",
                    "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachinePool",
                        "name": "p"}}}},
            }),
            infrastructure: json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevMachinePool",
                "metadata": {"name": "p", "namespace": "ns"},
                "status": {"ready": true, "infrastructureMachineKind": "DevMachinePoolMachine"},
            }),
            machines: Vec::new(),
            instances: Vec::new(),
            nodes: Vec::new(),
        };
        (0..count).for_each(|number| world.add(number));
        world
    }

    /// Adds an instance with its Machine and its Node.
    pub(super) fn add(&mut self, number: usize) {
        let (name, id) = (format!("p-{number}"), format!("dev:///{number}"));
        let labels = json!({"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/pool-name": "p"});
        self.machines.push(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "namespace": "ns", "uid": format!("m-uid-{number}"), "resourceVersion": "7",
                "labels": labels, "annotations": {}, "creationTimestamp": format!("2026-05-01T00:{number:02}:00Z"),
                "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "name": "p",
                    "uid": "p-uid", "controller": true}]},
            "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": ""}, "providerID": id,
                "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachinePoolMachine",
                    "name": name}},
            "status": {"nodeRef": {"name": name}},
        }));
        self.instances.push(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevMachinePoolMachine",
            "metadata": {"name": name, "namespace": "ns", "labels": labels}, "spec": {"providerID": id},
        }));
        self.nodes.push(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"providerID": id},
            "status": {"nodeInfo": {"kubeletVersion": "v1.33.0"},
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-05-01T01:00:00Z"}]},
        }));
    }

    /// Sets an annotation of the pool to JSON text.
    pub(super) fn annotate(&mut self, key: &str, value: &Value) {
        self.pool["metadata"]["annotations"][key] = json!(value.to_string());
    }

    /// The rollout strategy `RollingUpdate` with a limit.
    pub(super) fn rolling(&mut self, max_unavailable: &Value) {
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": max_unavailable}});
        self.annotate("capstan.dev/rollout", &json!({ "strategy": strategy }));
        // The rollout was recorded after all machines were made.
        let version = self.pool["spec"]["template"]["spec"]["version"].clone();
        let model = progress::model(&self.state());
        let progress = json!({"version": version, "model": model, "newest": "2026-05-31T00:00:00Z"});
        self.annotate("capstan.dev/rollout-progress", &progress);
    }

    /// The Node of a machine runs another version.
    pub(super) fn outdate(&mut self, number: usize) {
        self.nodes[number]["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.32.0");
    }

    /// The Node of a machine is not ready.
    pub(super) fn break_node(&mut self, number: usize) {
        self.nodes[number]["status"]["conditions"][0]["status"] = json!("False");
    }

    /// A health check reports a machine.
    pub(super) fn report_unhealthy(&mut self, number: usize) {
        self.machines[number]["status"]["conditions"] = json!([
            {"type": "HealthCheckSucceeded", "status": "False"}, {"type": "OwnerRemediated", "status": "False"}]);
    }

    /// The deletion of a machine was requested.
    pub(super) fn delete(&mut self, number: usize) {
        self.machines[number]["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:59:00Z");
    }

    pub(super) fn state(&self) -> State {
        let mut objects = vec![self.pool.clone(), self.infrastructure.clone()];
        objects.extend(
            [&self.machines, &self.instances, &self.nodes]
                .into_iter()
                .flatten()
                .cloned(),
        );
        State::observe(&Observed::of_objects(&objects).unwrap(), now())
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.state(), Mode::Extend, now())
    }

    /// The Machine that the plan deletes.
    pub(super) fn deleted(&self) -> Option<String> {
        let plan = self.plan();
        let mut steps = plan.steps.iter().filter(|step| step.action == Action::Delete);
        let first = steps.next().map(|step| step.subject.name.clone());
        assert_eq!(steps.next(), None, "a plan deletes one Machine");
        first
    }

    /// The reasons of the waits of the plan.
    pub(super) fn waits(&self) -> Vec<&'static str> {
        self.plan().waits.iter().map(|wait| wait.reason.name()).collect()
    }
}
