//! Objects for the tests of this module: a healthy control plane, and changes of it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::observed::Observed;
use super::state::{State, condition};

/// The moment of all tests.
pub(super) fn now() -> Timestamp {
    "2026-06-01T12:00:00Z".parse().unwrap()
}

/// The objects of one cluster, as files contain them.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) control_plane: Value,
    pub(super) cluster: Value,
    pub(super) machines: Vec<Value>,
    /// KubeadmConfigs, infrastructure machines and Nodes.
    pub(super) others: Vec<Value>,
    pub(super) etcd: Option<Value>,
}

/// The conditions of a machine that works.
pub(super) const HEALTHY: &[&str] = &[
    condition::API_SERVER,
    condition::CONTROLLER_MANAGER,
    condition::SCHEDULER,
    condition::ETCD_POD,
    condition::ETCD_MEMBER,
    condition::LABELS_AND_TAINTS,
    "Ready",
    "Available",
];

/// The configuration of kubeadm of all tests.
pub(super) fn kubeadm() -> Value {
    json!({
        "clusterConfiguration": {"imageRepository": "registry.k8s.io"},
        "initConfiguration": {"nodeRegistration": {"kubeletExtraArgs": [{"name": "v", "value": "2"}]}},
        "joinConfiguration": {"nodeRegistration": {"kubeletExtraArgs": [{"name": "v", "value": "2"}]}},
    })
}

fn join_config() -> Value {
    let mut config = kubeadm();
    config["initConfiguration"] = json!({});
    config["joinConfiguration"]["controlPlane"] = json!({});
    config
}

impl World {
    /// A control plane of machines `m-0`, `m-1`, … in the failure domains, one for each letter; `-`
    /// stands for no failure domain. Machines with a lower number are older. The failure domains
    /// are a, b and c.
    pub(super) fn new(domains: &str) -> Self {
        let count = domains.len();
        let domain_list = ["a", "b", "c"].map(|name| json!({"name": name, "controlPlane": true}));
        let mut world = Self {
            control_plane: json!({
                "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
                "metadata": {
                    "name": "cp", "namespace": "ns", "uid": "cp-uid", "resourceVersion": "9", "generation": 1,
                    "finalizers": ["kubeadm.controlplane.cluster.x-k8s.io"],
                    "ownerReferences": [{
                        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "c-uid",
                    }],
                },
                "spec": {
                    "replicas": count.max(1), "version": "v1.30.0",
                    "machineTemplate": {"spec": {"infrastructureRef": {
                        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "t1",
                    }}},
                    "kubeadmConfigSpec": kubeadm(),
                },
                "status": {
                    "initialization": {"controlPlaneInitialized": count > 0},
                    "conditions": [{"type": "CertificatesAvailable", "status": "True"}],
                },
            }),
            cluster: json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
                "metadata": {"name": "c", "namespace": "ns"},
                "spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}},
                "status": {
                    "initialization": {"infrastructureProvisioned": true},
                    "failureDomains": domain_list,
                },
            }),
            machines: Vec::new(),
            others: Vec::new(),
            etcd: None,
        };
        for (index, domain) in domains.chars().enumerate() {
            let domain = if domain == '-' {
                String::new()
            } else {
                domain.to_string()
            };
            world.add(index, &domain);
        }
        world.members();
        world
    }

    fn add(&mut self, index: usize, domain: &str) {
        let name = format!("m-{index}");
        self.machines.push(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {
                "name": name, "namespace": "ns", "uid": format!("{name}-uid"), "resourceVersion": "1",
                "creationTimestamp": format!("2026-01-01T0{index}:00:00Z"),
                "labels": {"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/control-plane": ""},
                "annotations": {"pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup": ""},
                "ownerReferences": [{
                    "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
                    "name": "cp", "uid": "cp-uid", "controller": true,
                }],
            },
            "spec": {
                "clusterName": "c", "version": "v1.30.0", "failureDomain": domain,
                "providerID": format!("dev://{name}"),
                "bootstrap": {"configRef": {
                    "apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": name,
                }},
                "infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": name,
                },
            },
            "status": {
                "nodeRef": {"name": format!("n-{index}")},
                "conditions": HEALTHY
                    .iter()
                    .map(|type_| json!({"type": type_, "status": "True"}))
                    .collect::<Vec<Value>>(),
            },
        }));
        self.others.push(json!({
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig",
            "metadata": {"name": name, "namespace": "ns"}, "spec": join_config(),
        }));
        self.others.push(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevMachine",
            "metadata": {"name": name, "namespace": "ns", "annotations": {
                "cluster.x-k8s.io/cloned-from-name": "t1",
                "cluster.x-k8s.io/cloned-from-groupkind": "DevMachineTemplate.infrastructure.cluster.x-k8s.io",
            }},
            "spec": {"providerID": format!("dev://{name}")},
        }));
        self.others.push(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("n-{index}"), "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "spec": {"providerID": format!("dev://{name}")},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }));
    }

    /// Sets the etcd members: one for each machine.
    pub(super) fn members(&mut self) {
        let members: Vec<Value> = (0..self.machines.len())
            .map(|index| json!({"name": format!("n-{index}")}))
            .collect();
        self.etcd = Some(json!({
            "apiVersion": "capstan.dev/v1", "kind": "EtcdMembers", "metadata": {"name": "c"}, "members": members,
        }));
    }

    pub(super) fn spec(&mut self) -> &mut Value {
        &mut self.control_plane["spec"]
    }

    /// Etcd is external.
    pub(super) fn external(mut self) -> Self {
        self.spec()["kubeadmConfigSpec"]["clusterConfiguration"]["etcd"] = json!({"external": {
            "endpoints": ["https://e:2379"], "caFile": "a", "certFile": "b", "keyFile": "c",
        }});
        for other in &mut self.others {
            if other["kind"] == "KubeadmConfig" {
                let etcd = self.control_plane["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["etcd"].clone();
                other["spec"]["clusterConfiguration"]["etcd"] = etcd;
            }
        }
        self.etcd = None;
        self
    }

    /// Sets the status of a condition of a machine.
    pub(super) fn set(&mut self, machine: usize, type_: &str, status: &str) {
        let conditions = self.machines[machine]["status"]["conditions"].as_array_mut().unwrap();
        conditions.retain(|condition| condition["type"] != type_);
        if !status.is_empty() {
            conditions.push(json!({"type": type_, "status": status}));
        }
    }

    /// A health check reports a machine as unhealthy, and leaves its replacement to the owner.
    pub(super) fn unhealthy(&mut self, machine: usize) {
        self.set(machine, condition::HEALTH_CHECK_SUCCEEDED, "False");
        self.set(machine, condition::OWNER_REMEDIATED, "False");
    }

    pub(super) fn annotate(&mut self, machine: usize, name: &str, value: &str) {
        self.machines[machine]["metadata"]["annotations"][name] = json!(value);
    }

    /// The machine is being deleted.
    pub(super) fn delete(&mut self, machine: usize) {
        self.machines[machine]["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:00:00Z");
    }

    /// The machine was created at a time before the others.
    pub(super) fn created(&mut self, machine: usize, at: &str) {
        self.machines[machine]["metadata"]["creationTimestamp"] = json!(at);
    }

    /// The machine has no Node yet.
    pub(super) fn without_node(&mut self, machine: usize) {
        self.machines[machine]["status"] = json!({"conditions": []});
        self.machines[machine]["spec"]["providerID"] = json!("");
        let name = format!("m-{machine}");
        let node = format!("n-{machine}");
        self.others
            .retain(|other| other["kind"] != "DevMachine" || other["metadata"]["name"] != name.as_str());
        self.others
            .retain(|other| other["kind"] != "Node" || other["metadata"]["name"] != node.as_str());
    }

    /// The machine has another version than the control plane.
    pub(super) fn outdated(&mut self, machine: usize) {
        self.machines[machine]["spec"]["version"] = json!("v1.29.0");
    }

    pub(super) fn objects(&self) -> Vec<Value> {
        let first = [&self.control_plane, &self.cluster];
        let objects = first
            .into_iter()
            .chain(&self.machines)
            .chain(&self.others)
            .chain(&self.etcd);
        objects.cloned().collect()
    }

    pub(super) fn observed(&self) -> Observed {
        Observed::of_objects(&self.objects()).unwrap()
    }

    pub(super) fn state(&self) -> State {
        State::observe(&self.observed(), now())
    }
}
