//! The CRDs of the reference provider, and of a cluster whose infrastructure and control plane are
//! managed elsewhere.

use serde_json::{Value, json};

/// The CRDs. They accept any field.
pub fn definitions() -> Vec<Value> {
    vec![
        definition("infrastructure.cluster.x-k8s.io", "SimulatedMachinePool"),
        definition("infrastructure.cluster.x-k8s.io", "SimulatedMachine"),
        definition("infrastructure.cluster.x-k8s.io", "SimulatedCluster"),
        definition("controlplane.cluster.x-k8s.io", "SimulatedControlPlane"),
    ]
}

/// A CRD of a namespaced kind that accepts any field.
pub(crate) fn definition(group: &str, kind: &str) -> Value {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        // The label names the versions that follow the contract v1beta2 of Cluster API.
        "metadata": {"name": format!("{plural}.{group}"), "labels": {"cluster.x-k8s.io/v1beta2": "v1beta2"}},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": singular, "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1beta2", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": any, "status": any}}},
            }],
        },
    })
}
