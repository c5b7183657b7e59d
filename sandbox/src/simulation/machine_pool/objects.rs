//! The objects of the simulation, and how the actors read them.

use std::collections::BTreeMap;

use capstan_core::api::kind::KindInfo;
use capstan_core::pool::Mode;
use serde_json::{Value, json};

use crate::api::Object;
use crate::infrastructure::groups;

/// The namespace of the pool.
pub(super) const NAMESPACE: &str = "pools";
/// The name of the pool, and of its group.
pub(super) const POOL: &str = "p";
/// The finalizer of the core manager on a pool.
pub(super) const POOL_FINALIZER: &str = "machinepool.cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
/// Groups of instances.
pub(super) static GROUPS: KindInfo = KindInfo::namespaced(
    INFRASTRUCTURE,
    "v1beta2",
    "SimulatedMachinePool",
    "simulatedmachinepools",
);
/// Infrastructure machines.
pub(super) static INSTANCES: KindInfo =
    KindInfo::namespaced(INFRASTRUCTURE, "v1beta2", "SimulatedMachine", "simulatedmachines");

/// The CRDs as YAML documents. Those of Cluster API accept any field.
pub(super) fn definitions() -> String {
    with_pools(groups::definition("cluster.x-k8s.io", "MachinePool"))
}

/// The same with a CRD of MachinePools that has few fields of the status.
pub(super) fn definitions_with_few_fields() -> String {
    let mut pools = groups::definition("cluster.x-k8s.io", "MachinePool");
    let text = json!({"type": "string"});
    let condition = json!({"type": "object",
        "properties": {"type": text, "status": text, "reason": text, "lastTransitionTime": text}});
    let status = json!({"type": "object", "properties": {
        "phase": text, "conditions": {"type": "array", "items": condition}}});
    if let Some(known) = pools.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/status") {
        *known = status;
    }
    with_pools(pools)
}

fn with_pools(pools: Value) -> String {
    let own = [
        pools,
        groups::definition("cluster.x-k8s.io", "Machine"),
        groups::definition("cluster.x-k8s.io", "Cluster"),
    ];
    let all = groups::definitions().into_iter().chain(own);
    all.map(|definition| definition.to_string())
        .collect::<Vec<String>>()
        .join("\n---\n")
}

pub(super) fn cluster() -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": NAMESPACE}, "spec": {}})
}

pub(super) fn group() -> Value {
    json!({"apiVersion": format!("{INFRASTRUCTURE}/v1beta2"), "kind": "SimulatedMachinePool",
        "metadata": {"name": POOL, "namespace": NAMESPACE, "finalizers": ["group"]}, "spec": {}})
}

/// A pool with the finalizer of a core manager, if one manages it.
pub(super) fn pool(mode: Mode) -> Value {
    let finalizers: &[&str] = match mode {
        Mode::Extend => &[POOL_FINALIZER],
        Mode::Own => &[],
    };
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
        "metadata": {"name": POOL, "namespace": NAMESPACE, "finalizers": finalizers},
        "spec": {"clusterName": "c", "replicas": 3, "template": {"spec": {
            "clusterName": "c", "version": "v1.0.0", "bootstrap": {"dataSecretName": "boot"},
            "deletion": {"nodeDrainTimeoutSeconds": 30, "nodeDeletionTimeoutSeconds": 60},
            "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "SimulatedMachinePool", "name": POOL}}}},
    })
}

/// A text of an object; empty if the object has no such field.
pub(super) fn text<'o>(object: &'o Object, pointer: &str) -> &'o str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn name(object: &Object) -> &str {
    text(object, "/metadata/name")
}

pub(super) fn is_deleting(object: &Object) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

pub(super) fn is_paused(object: &Object) -> bool {
    object
        .pointer("/metadata/annotations/cluster.x-k8s.io~1paused")
        .is_some()
}

pub(super) fn finalizers(object: &Object) -> Vec<String> {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    let names = list.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

/// The labels of the machines of the pool.
pub(super) fn labels() -> Value {
    json!({"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/pool-name": POOL})
}

/// The annotations of an object.
pub(super) fn annotations(object: &Object) -> BTreeMap<String, String> {
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    let texts = annotations.into_iter().flatten();
    texts
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// Whether a condition of an object has this status.
pub(super) fn has(object: &Object, type_: &str, status: &str) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one.get("type") == Some(&json!(type_)) && one.get("status") == Some(&json!(status)))
}

/// Whether a health check demands the remediation of a Machine.
pub(super) fn is_unhealthy(machine: &Object) -> bool {
    has(machine, "HealthCheckSucceeded", "False") && has(machine, "OwnerRemediated", "False")
}

pub(super) fn replicas(pool: &Object) -> usize {
    let replicas = pool.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
    usize::try_from(replicas).unwrap_or(0)
}
