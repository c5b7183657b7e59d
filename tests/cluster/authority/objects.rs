//! The objects of both APIs and their infrastructure, by kind and name.

use serde_json::{Value, json};

pub(crate) const MACHINE_API: &str = "openshift-machine-api";
pub(crate) const CLUSTER_API: &str = "openshift-cluster-api";
pub(crate) const FINALIZER: &str = "sync.machine.openshift.io/finalizer";
pub(crate) const PAUSED: &str = "cluster.x-k8s.io/paused";

/// The three mirrored kinds.
pub(crate) const KINDS: [&str; 3] = ["Machine", "MachineSet", "MachineHealthCheck"];

/// The resource of a kind in the Machine API, as kubectl takes it.
pub(crate) fn machine_api_resource(kind: &str) -> String {
    format!("{}s.machine.openshift.io", kind.to_lowercase())
}

/// The resource of a kind in Cluster API.
pub(crate) fn cluster_api_resource(kind: &str) -> String {
    format!("{}s.cluster.x-k8s.io", kind.to_lowercase())
}

fn provider_spec() -> Value {
    json!({"value": {"kind": "AWSMachineProviderConfig", "ami": {"id": "ami-1"}, "instanceType": "m6i.xlarge",
        "userDataSecret": {"name": "worker-user-data"}}})
}

/// An object of the Machine API, without a status. An empty authority is left out.
pub(crate) fn machine_api(kind: &str, name: &str, authority: &str) -> Value {
    let mut spec = match kind {
        "Machine" => json!({"providerSpec": provider_spec()}),
        "MachineSet" => json!({"replicas": 3, "selector": {"matchLabels": {"set": name}},
            "template": {"metadata": {"labels": {"set": name}}, "spec": {"providerSpec": provider_spec()}}}),
        _ => json!({"selector": {"matchLabels": {"set": name}},
            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": "300s"}]}),
    };
    if !authority.is_empty() {
        spec["authoritativeAPI"] = json!(authority);
    }
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": kind,
        "metadata": {"name": name, "namespace": MACHINE_API, "labels": {"team": "blue"}},
        "spec": spec,
    })
}

/// An object of Cluster API.
pub(crate) fn cluster_api(kind: &str, name: &str, paused: bool) -> Value {
    let machine = |infrastructure: &str, reference: &str| {
        json!({"clusterName": "prod", "bootstrap": {"dataSecretName": "worker-user-data"},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": infrastructure, "name": reference}})
    };
    let spec = match kind {
        "Machine" => machine("AWSMachine", name),
        "MachineSet" => json!({"clusterName": "prod", "replicas": 3, "selector": {"matchLabels": {"set": name}},
            "template": {"metadata": {"labels": {"set": name}}, "spec": machine("AWSMachineTemplate", name)}}),
        _ => json!({"clusterName": "prod", "selector": {"matchLabels": {"set": name}},
            "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}]}}),
    };
    let mut object = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
        "metadata": {"name": name, "namespace": CLUSTER_API, "labels": {"team": "blue"}},
        "spec": spec,
    });
    if paused {
        object["metadata"]["annotations"] = json!({PAUSED: ""});
    }
    object
}

/// The infrastructure machine of a Machine of Cluster API.
pub(crate) fn aws_machine(name: &str, paused: bool) -> Value {
    let mut object = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachine",
        "metadata": {"name": name, "namespace": CLUSTER_API},
        "spec": {"ami": {"id": "ami-1"}, "instanceType": "m6i.xlarge"},
    });
    if paused {
        object["metadata"]["annotations"] = json!({PAUSED: ""});
    }
    object
}

/// The infrastructure template of a MachineSet of Cluster API.
pub(crate) fn aws_template(name: &str, set: &str) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachineTemplate",
        "metadata": {"name": name, "namespace": CLUSTER_API, "annotations": {PAUSED: ""},
            "labels": {"machine.openshift.io/cluster-api-machineset": set}},
        "spec": {"template": {"spec": {"ami": {"id": "ami-1"}, "instanceType": "m6i.xlarge"}}},
    })
}

/// The status that the sync controller writes.
pub(crate) fn status(authority: &str) -> Value {
    let paused = if authority == "MachineAPI" { "False" } else { "True" };
    let source = if authority == "Migrating" {
        "MachineAPI"
    } else {
        authority
    };
    json!({"authoritativeAPI": authority, "synchronizedAPI": source, "conditions": [
        {"type": "Paused", "status": paused}, {"type": "Synchronized", "status": "True", "reason": "ResourceSynchronized"}]})
}
