//! The objects of the simulation, and how the actors read them.

use capstan_core::api::kind::KindInfo;
use serde_json::{Value, json};

use crate::api::Object;
use crate::infrastructure::groups::definition;

/// The namespace of all objects.
pub(super) const NAMESPACE: &str = "clusters";
/// The name of the control plane, and of its Cluster.
pub(super) const NAME: &str = "c";
/// The first minor version of Kubernetes.
pub(super) const FIRST_MINOR: u64 = 31;
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
/// The hook of the controller on each Machine.
pub(super) const HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup";
/// The beginning of the names of such hooks.
pub(super) const HOOKS: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";

/// The pause of everything, and that of the rollout.
pub(super) const PAUSED: &str = "cluster.x-k8s.io/paused";
pub(super) const PAUSED_ROLLOUT: &str = "capstan.dev/paused-rollout";
/// The mark of a machine that goes first.
pub(super) const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";
/// The failure domains.
pub(super) const DOMAINS: [&str; 3] = ["a", "b", "c"];

/// Infrastructure machines.
pub(super) static INSTANCES: KindInfo = KindInfo::namespaced(INFRASTRUCTURE, "v1beta2", "DevMachine", "devmachines");
/// Their templates.
pub(super) static TEMPLATES: KindInfo =
    KindInfo::namespaced(INFRASTRUCTURE, "v1beta2", "DevMachineTemplate", "devmachinetemplates");

/// The CRDs as YAML documents. They accept any field.
pub(super) fn definitions() -> String {
    let all = [
        definition("cluster.x-k8s.io", "Cluster"),
        definition("cluster.x-k8s.io", "Machine"),
        definition("cluster.x-k8s.io", "MachinePool"),
        definition("bootstrap.cluster.x-k8s.io", "KubeadmConfig"),
        definition("controlplane.cluster.x-k8s.io", "KubeadmControlPlane"),
        definition(INFRASTRUCTURE, "DevMachine"),
        definition(INFRASTRUCTURE, "DevMachineTemplate"),
    ];
    let texts: Vec<String> = all.iter().map(Value::to_string).collect();
    texts.join("\n---\n")
}

pub(super) fn cluster() -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443},
            "controlPlaneRef": {
                "apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": NAME,
            },
        },
    })
}

/// The status that the core manager writes when the infrastructure of the Cluster exists.
pub(super) fn cluster_status() -> Value {
    let domains = DOMAINS.map(|name| json!({"name": name, "controlPlane": true}));
    json!({"status": {"initialization": {"infrastructureProvisioned": true}, "failureDomains": domains}})
}

/// The templates that the control plane can refer to.
pub(super) fn templates() -> [Value; 2] {
    ["t1", "t2"].map(|name| {
        json!({
            "apiVersion": format!("{INFRASTRUCTURE}/v1beta2"), "kind": "DevMachineTemplate",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"template": {"spec": {"model": name}}},
        })
    })
}

/// The number of versions of Kubernetes.
pub(super) const VERSIONS: u64 = 8;

/// A version of Kubernetes, so many steps after the first. The texts have the order of the
/// versions.
pub(super) fn version(step: u64) -> String {
    format!("v1.{}.{}", FIRST_MINOR + step / 2, step % 2)
}

pub(super) fn control_plane() -> Value {
    json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
        "metadata": {
            "name": NAME, "namespace": NAMESPACE, "labels": {"cluster.x-k8s.io/cluster-name": NAME},
        },
        "spec": {
            "replicas": 3, "version": version(0),
            "kubeadmConfigSpec": {
                "clusterConfiguration": {"imageRepository": "registry.k8s.io"},
                "initConfiguration": {"nodeRegistration": {"name": "n"}},
                "joinConfiguration": {"nodeRegistration": {"name": "n"}},
            },
            "machineTemplate": {"spec": {"infrastructureRef": template("t1")}},
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
        },
    })
}

/// The reference to a template.
pub(super) fn template(name: &str) -> Value {
    json!({"apiGroup": INFRASTRUCTURE, "kind": "DevMachineTemplate", "name": name})
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

/// The name of the Node of a Machine, which its etcd member has too.
pub(super) fn node_of(machine: &str) -> String {
    format!("n-{machine}")
}

/// The conditions of an object.
pub(super) fn conditions(object: &Object) -> Vec<Value> {
    let stored = object.pointer("/status/conditions").and_then(Value::as_array);
    stored.cloned().unwrap_or_default()
}

/// Whether a condition of an object has these fields.
fn has_condition(object: &Object, fields: &[(&str, &str)]) -> bool {
    let stored = object.pointer("/status/conditions").and_then(Value::as_array);
    let is_it = |one: &Value| {
        let mut fields = fields.iter();
        fields.all(|(field, value)| one.get(field).and_then(Value::as_str) == Some(value))
    };
    stored.into_iter().flatten().any(is_it)
}

/// Whether a condition of an object has this status.
pub(super) fn has(object: &Object, type_: &str, status: &str) -> bool {
    has_condition(object, &[("type", type_), ("status", status)])
}

/// Whether an object has this condition: its type, its status, and its reason.
pub(super) fn reports(object: &Object, (type_, status, reason): (&str, &str, &str)) -> bool {
    has_condition(object, &[("type", type_), ("status", status), ("reason", reason)])
}

/// Whether a health check demands the replacement of a Machine.
pub(super) fn is_unhealthy(machine: &Object) -> bool {
    has(machine, "HealthCheckSucceeded", "False") && has(machine, "OwnerRemediated", "False")
}

/// The annotations of an object whose names begin with a text.
pub(super) fn annotations<'o>(object: &'o Object, prefix: &'static str) -> impl Iterator<Item = &'o str> {
    let stored = object.pointer("/metadata/annotations").and_then(Value::as_object);
    let names = stored.into_iter().flat_map(|stored| stored.keys().map(String::as_str));
    names.filter(move |name| name.starts_with(prefix))
}

pub(super) fn replicas(control_plane: &Object) -> usize {
    let replicas = control_plane.pointer("/spec/replicas").and_then(Value::as_u64);
    usize::try_from(replicas.unwrap_or(0)).unwrap_or(0)
}

/// How many machines a rollout may add.
pub(super) fn surge(control_plane: &Object) -> usize {
    let pointer = "/spec/rollout/strategy/rollingUpdate/maxSurge";
    usize::from(control_plane.pointer(pointer) == Some(&json!(1)))
}

/// Whether a Machine differs from the control plane in its version or in its template.
pub(super) fn is_outdated(machine: &Object, instance: Option<&Object>, control_plane: &Object) -> bool {
    let template = "/spec/machineTemplate/spec/infrastructureRef/name";
    let cloned = instance.map(|one| text(one, "/metadata/annotations/cluster.x-k8s.io~1cloned-from-name"));
    text(machine, "/spec/version") != text(control_plane, "/spec/version")
        || cloned.is_some_and(|cloned| cloned != text(control_plane, template))
}
