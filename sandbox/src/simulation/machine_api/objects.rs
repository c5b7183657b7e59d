//! The objects that a run begins with, and the kinds that its API server serves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use serde_json::{Value, json};

use crate::api::Kind;
use crate::infrastructure::{FINALIZER, HOOK, OWNER};

use super::kinds::NAMESPACE;

/// The prefix of machine names.
pub(crate) const PREFIX: &str = "ocp-x7k2p-master";
/// The label that a user removes to take a machine out of the set.
pub(crate) const SELECTED: &str = "machine.openshift.io/cluster-api-machine-type";
/// The label that all machines of the cluster have.
pub(crate) const CLUSTER: &str = "machine.openshift.io/cluster-api-cluster";
/// The name of the cluster.
pub(crate) const CLUSTER_NAME: &str = "ocp-x7k2p";
/// The field of the provider spec that the webhook of another component drops for a time.
pub(crate) const DROPPED: &str = "keyName";
/// The failure domains, in the order in which a set lists them. At first it lists three.
const ZONES: [&str; 4] = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"];

/// The optional fields of the status that the CRD of the set contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StatusFields {
    pub(crate) machines: bool,
    pub(crate) selector: bool,
}

impl StatusFields {
    /// All fields, as in the CRD of Capstan. The CRD of OpenShift contains none of them.
    pub(crate) const ALL: Self = Self {
        machines: true,
        selector: true,
    };
}

static KINDS: Mutex<BTreeMap<StatusFields, Arc<Vec<Kind>>>> = Mutex::new(BTreeMap::new());

/// The kinds that the API server serves, parsed once.
///
/// # Errors
/// When a CRD that is built in cannot be parsed.
pub(crate) fn kinds(fields: StatusFields) -> Result<Arc<Vec<Kind>>> {
    let mut known = KINDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kinds) = known.get(&fields) {
        return Ok(Arc::clone(kinds));
    }
    let kinds = Arc::new(load(fields)?);
    known.insert(fields, Arc::clone(&kinds));
    Ok(kinds)
}

/// The kinds, parsed anew.
///
/// # Errors
/// When a CRD that is built in cannot be parsed.
pub(crate) fn load(fields: StatusFields) -> Result<Vec<Kind>> {
    let mut kinds = Kind::built_ins()?;
    for text in [
        include_str!("../../../../manifests/crds/machine.openshift.io_machines.yaml"),
        include_str!("../../../../manifests/crds/machine.openshift.io_controlplanemachinesets.yaml"),
    ] {
        let mut definition: Value = serde_saphyr::from_str(text)?;
        remove_fields(&mut definition, fields);
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

/// Removes fields of the status from the CRD of the set.
fn remove_fields(definition: &mut Value, fields: StatusFields) {
    if definition.pointer("/spec/names/kind").and_then(Value::as_str) != Some("ControlPlaneMachineSet") {
        return;
    }
    let versions = definition.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        let status = version.pointer_mut("/schema/openAPIV3Schema/properties/status/properties");
        if let Some(status) = status.and_then(Value::as_object_mut) {
            status.retain(|field, _| match field.as_str() {
                "machines" => fields.machines,
                "selector" => fields.selector,
                _ => true,
            });
        }
    }
}

/// The labels that the set selects machines by.
pub(crate) fn labels() -> Value {
    json!({
        CLUSTER: CLUSTER_NAME,
        "machine.openshift.io/cluster-api-machine-role": "master",
        "machine.openshift.io/cluster-api-machine-type": "master",
    })
}

/// The labels of a machine that is not a control plane machine of this cluster.
fn worker_labels(is_of_other_cluster: bool) -> Value {
    if is_of_other_cluster {
        return json!({
            CLUSTER: "ocp-b4d1c",
            "machine.openshift.io/cluster-api-machine-role": "master",
            "machine.openshift.io/cluster-api-machine-type": "master",
        });
    }
    json!({
        CLUSTER: CLUSTER_NAME,
        "machine.openshift.io/cluster-api-machine-role": "worker",
        "machine.openshift.io/cluster-api-machine-type": "worker",
    })
}

/// A selector that also matches machines that are not control plane machines.
pub(crate) fn wide_selector() -> Value {
    json!({"matchLabels": {CLUSTER: CLUSTER_NAME}})
}

/// A machine that is not a control plane machine of this cluster: a worker, or a control plane
/// machine of another cluster.
pub(crate) fn worker(name: &str, is_of_other_cluster: bool) -> Value {
    let mut machine = new_machine(name, "m6i.large", Some("us-east-1a"));
    if let Some(labels) = machine.pointer_mut("/metadata/labels") {
        *labels = worker_labels(is_of_other_cluster);
    }
    machine
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

/// A machine that an installer created, at a position.
pub(crate) fn machine(name: &str, position: u32, instance_type: &str) -> Value {
    let zone = ZONES.iter().take(3).cycle().nth(position as usize).copied();
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels(), "finalizers": [FINALIZER]},
        "spec": {"providerSpec": {"value": provider_spec(instance_type, zone)}, "providerID": format!("aws:///i-{position}"),
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
