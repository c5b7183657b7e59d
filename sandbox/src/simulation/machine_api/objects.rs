//! The objects that a run begins with, and the kinds that its API server serves.

use std::sync::{Arc, LazyLock};

use anyhow::Result;
use serde_json::{Value, json};

use crate::api::Kind;
use crate::infrastructure::{FINALIZER, HOOK, OWNER};

use super::kinds::NAMESPACE;

/// The prefix of machine names.
pub(crate) const PREFIX: &str = "ocp-x7k2p-master";
/// The label that a user removes to take a machine out of the set.
pub(crate) const SELECTED: &str = "machine.openshift.io/cluster-api-machine-type";
/// The failure domains, in the order in which a set lists them. At first it lists three.
const ZONES: [&str; 4] = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"];

static KINDS: LazyLock<Option<Arc<Vec<Kind>>>> = LazyLock::new(|| load(true).ok().map(Arc::new));
static PRUNING_KINDS: LazyLock<Option<Arc<Vec<Kind>>>> = LazyLock::new(|| load(false).ok().map(Arc::new));

/// The kinds that the API server serves, parsed once. The CRD of the set contains the field `status.machines`, or it does not,
/// as the CRD of OpenShift.
///
/// # Errors
/// When a CRD that is built in cannot be parsed.
pub(crate) fn kinds(keeps_machines: bool) -> Result<Arc<Vec<Kind>>> {
    let known = if keeps_machines { &KINDS } else { &PRUNING_KINDS };
    let known: Option<Arc<Vec<Kind>>> = Option::clone(known);
    known.map_or_else(|| load(keeps_machines).map(Arc::new), Ok)
}

fn load(keeps_machines: bool) -> Result<Vec<Kind>> {
    let mut kinds = Kind::built_ins()?;
    for text in [
        include_str!("../../../../manifests/crds/machine.openshift.io_machines.yaml"),
        include_str!("../../../../manifests/crds/machine.openshift.io_controlplanemachinesets.yaml"),
    ] {
        let mut definition: Value = serde_saphyr::from_str(text)?;
        if !keeps_machines {
            remove_machines(&mut definition);
        }
        kinds.push(Kind::of_definition(&definition)?);
    }
    let open = |field: &str| {
        (
            field.to_owned(),
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        )
    };
    let properties: Value = [open("spec"), open("status")]
        .into_iter()
        .collect::<serde_json::Map<_, _>>()
        .into();
    kinds.push(Kind::of_definition(&json!({
        "metadata": {"name": "clusteroperators.config.openshift.io"},
        "spec": {"group": "config.openshift.io", "scope": "Cluster",
            "names": {"kind": "ClusterOperator", "plural": "clusteroperators"},
            "versions": [{"name": "v1", "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}]},
    }))?);
    Ok(kinds)
}

/// Removes the field `status.machines`, which the CRD of OpenShift does not contain.
fn remove_machines(definition: &mut Value) {
    let versions = definition.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        let status = version.pointer_mut("/schema/openAPIV3Schema/properties/status/properties");
        if let Some(status) = status.and_then(Value::as_object_mut) {
            status.remove("machines");
        }
    }
}

/// The labels that the set selects machines by.
pub(crate) fn labels() -> Value {
    json!({
        "machine.openshift.io/cluster-api-cluster": "ocp-x7k2p",
        "machine.openshift.io/cluster-api-machine-role": "master",
        "machine.openshift.io/cluster-api-machine-type": "master",
    })
}

/// A provider spec, with or without a zone.
pub(crate) fn provider_spec(instance_type: &str, zone: Option<&str>) -> Value {
    let mut placement = json!({"region": "us-east-1"});
    if let (Some(zone), Some(placement)) = (zone, placement.as_object_mut()) {
        placement.insert("availabilityZone".into(), zone.into());
    }
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "AWSMachineProviderConfig",
        "ami": {"id": "ami-0123"}, "instanceType": instance_type,
        "credentialsSecret": {"name": "aws-cloud-credentials"}, "userDataSecret": {"name": "master-user-data"},
        "placement": placement,
    })
}

/// The first so many failure domains.
pub(crate) fn domains(count: usize) -> Value {
    let zones = ZONES
        .iter()
        .take(count)
        .map(|zone| json!({"placement": {"availabilityZone": zone}}));
    json!({"platform": "AWS", "aws": zones.collect::<Vec<_>>()})
}

/// A set.
pub(crate) fn set(replicas: u32, strategy: &str, state: &str, instance_type: &str) -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet",
        "metadata": {"name": "cluster", "namespace": NAMESPACE},
        "spec": {
            "state": state, "replicas": replicas, "strategy": {"type": strategy},
            "selector": {"matchLabels": labels()},
            "template": {"machineType": "machines_v1beta1_machine_openshift_io", "machines_v1beta1_machine_openshift_io": {
                "failureDomains": domains(3), "metadata": {"labels": labels()},
                "spec": {"providerSpec": {"value": provider_spec(instance_type, None)}}}},
        },
    })
}

/// A machine that an installer created.
pub(crate) fn machine(index: u32, instance_type: &str) -> Value {
    let zone = ZONES.iter().take(3).cycle().nth(index as usize).copied();
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": format!("{PREFIX}-{index}"), "namespace": NAMESPACE, "labels": labels(), "finalizers": [FINALIZER]},
        "spec": {"providerSpec": {"value": provider_spec(instance_type, zone)}, "providerID": format!("aws:///i-{index}"),
            "lifecycleHooks": {"preDrain": [{"name": HOOK, "owner": OWNER}]}},
    })
}

/// A machine that a user creates.
pub(crate) fn new_machine(name: &str, instance_type: &str, zone: Option<&str>) -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels()},
        "spec": {"providerSpec": {"value": provider_spec(instance_type, zone)}},
    })
}

/// A control plane node.
pub(crate) fn node(name: &str, provider_id: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"node-role.kubernetes.io/master": "", "node-role.kubernetes.io/control-plane": ""}},
        "spec": {"providerID": provider_id},
    })
}

/// A ClusterOperator.
pub(crate) fn operator(name: &str) -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": name}, "spec": {}})
}
