//! The Machines of a fleet: each runs since long ago, with labels, annotations, hooks, and a full
//! status.

use std::collections::BTreeMap;

use capstan_core::authority::finalizers;
use serde_json::{Value, json};

use crate::cluster::{AWS, CLUSTER_API, MACHINE_API, provider_spec, send};
use crate::players::Cloud;

fn body(name: &str) -> Value {
    json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": name, "finalizers": [finalizers::MACHINE_API],
            "annotations": {"example.com/note": format!("of {name}"), "machine.openshift.io/instance-state": "running"},
            "labels": {
                "example.com/team": "blue",
                "machine.openshift.io/cluster-api-cluster": "prod-x7k2p",
                "machine.openshift.io/cluster-api-machine-role": "worker",
                "machine.openshift.io/cluster-api-machine-type": "worker",
                "machine.openshift.io/instance-type": "m6i.xlarge",
                "machine.openshift.io/region": "us-east-1",
                "machine.openshift.io/zone": "us-east-1a"}},
        "spec": {"authoritativeAPI": "MachineAPI", "providerID": Cloud::id(name),
            "lifecycleHooks": {
                "preDrain": [{"name": "backup", "owner": "example.com/backup"}],
                "preTerminate": [{"name": "detach", "owner": "example.com/storage"}]},
            "metadata": {"labels": {"node-role.kubernetes.io/worker": ""}},
            "taints": [{"key": "example.com/dedicated", "value": "blue", "effect": "NoSchedule"}],
            "providerSpec": {"value": provider_spec()}}})
}

fn status(name: &str) -> Value {
    let time = "2026-01-01T00:00:00Z";
    let instance = Cloud::id(name);
    let instance = instance.rsplit('/').next();
    json!({"status": {"phase": "Running", "lastUpdated": time,
        "nodeRef": {"kind": "Node", "name": name, "uid": format!("uid-of-{name}")},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "InternalDNS", "address": name}],
        "lastOperation": {"description": "Update", "lastUpdated": time, "state": "Successful", "type": "Update"},
        "conditions": [{"type": "Drainable", "status": "True", "lastTransitionTime": time},
            {"type": "InstanceExists", "status": "True", "lastTransitionTime": time},
            {"type": "Terminable", "status": "True", "lastTransitionTime": time}],
        "providerStatus": {"instanceId": instance, "instanceState": "running",
            "conditions": [{"type": "MachineCreation", "status": "True", "reason": "MachineCreationSucceeded",
                "message": "Machine successfully created", "lastTransitionTime": time, "lastProbeTime": time}]}}})
}

/// Creates a Machine of the Machine API that runs.
pub(super) async fn create(client: &kube::Client, name: &str) {
    let path = format!("{MACHINE_API}/machines");
    send(client, "POST", &path, Some(&body(name))).await.unwrap();
    let path = format!("{path}/{name}/status");
    send(client, "PATCH", &path, Some(&status(name))).await.unwrap();
}

/// What of an object must be the same after a migration there and back: everything but its
/// versions, the times and the order of its conditions, and the finalizers, which stay once they
/// are added.
fn lasting(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for volatile in ["resourceVersion", "generation", "managedFields", "finalizers"] {
        metadata.remove(volatile);
    }
    let Some(Value::Object(status)) = object.get_mut("status") else {
        return object;
    };
    for volatile in ["synchronizedGeneration", "observedGeneration"] {
        status.remove(volatile);
    }
    if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
        for condition in conditions.iter_mut() {
            let fields = condition.as_object_mut().unwrap();
            fields.remove("lastTransitionTime");
            fields.remove("observedGeneration");
        }
        conditions.sort_by_key(|condition| condition["type"].to_string());
    }
    object
}

/// The three objects of each Machine, without what changes with each write.
pub(super) async fn snapshot(client: &kube::Client, names: &[String]) -> BTreeMap<String, Value> {
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    for path in [
        format!("{MACHINE_API}/machines"),
        format!("{CLUSTER_API}/machines"),
        format!("{AWS}/awsmachines"),
    ] {
        let list = send(client, "GET", &path, None).await.unwrap();
        let items = list["items"].as_array().unwrap();
        assert_eq!(items.len(), names.len(), "{path}");
        for item in items {
            let key = format!("{path}/{}", item["metadata"]["name"].as_str().unwrap());
            all.insert(key, lasting(item.clone()));
        }
    }
    all
}
