//! The Machine that an instance is to have, and the patch that makes an existing Machine so.
//!
//! Cluster API's core manager sets the labels, the annotations, and the references. It leaves the
//! failure domain, the timeouts of a deletion, the readiness gates, `minReadySeconds`, and the
//! taints of the template out. A field that the template does not set is left as it is.

use serde_json::{Map, Value, json};

use super::action::{Mode, precondition};
use super::state::{Member, State};
use crate::api::cluster_x_k8s_io::control_plane::{Bootstrap, Machine, MachineSpec};
use crate::api::cluster_x_k8s_io::machine_pool;
use crate::api::cluster_x_k8s_io::{API_VERSION, ContractReference, label, label_value, machine};
use crate::api::infrastructure_cluster_x_k8s_io::Infrastructure;
use crate::api::meta::{ObjectMeta, OwnerReference};

/// The Machine of an instance that has none.
pub(super) fn machine(state: &State, instance: &Infrastructure) -> Machine {
    let template = &state.pool.spec.template;
    let mut bootstrap = Bootstrap::default();
    // The instances of a pool share one source of bootstrap data, so that a Machine has none.
    bootstrap
        .unknown_fields
        .insert(String::from("dataSecretName"), json!(""));
    let mut spec = MachineSpec {
        cluster_name: state.pool.spec.cluster_name.clone(),
        bootstrap,
        infrastructure_ref: ContractReference {
            api_group: instance.api_version.split('/').next().unwrap_or_default().to_owned(),
            kind: instance.kind.clone(),
            name: instance.metadata.name().to_owned(),
            ..ContractReference::default()
        },
        readiness_gates: template.spec.readiness_gates.clone(),
        failure_domain: template.spec.failure_domain.clone(),
        ..MachineSpec::default()
    };
    for (field, value) in copied(state) {
        if field != "readinessGates" {
            spec.unknown_fields.insert(field.to_owned(), value);
        }
    }
    let mut labels = template.metadata.labels.clone();
    labels.extend(own_labels(state));
    Machine {
        api_version: API_VERSION.to_owned(),
        kind: machine::KIND.to_owned(),
        metadata: ObjectMeta {
            name: Some(instance.metadata.name().to_owned()),
            namespace: state.pool.metadata.namespace.clone(),
            labels,
            annotations: template.metadata.annotations.clone(),
            owner_references: vec![owner(state)],
            ..ObjectMeta::default()
        },
        spec,
        ..Machine::default()
    }
}

/// The patch that gives a Machine that is being deleted the timeouts of the template; `None` if it
/// has them. Without them, a drain that is held has no end, and an edit of the timeout would not
/// end it.
pub(super) fn deletion_patch(state: &State, member: &Member) -> Option<Value> {
    let machine = member.machine.as_ref()?;
    let wanted = &state.pool.spec.template.spec.deletion;
    let is_set = wanted.as_object().is_some_and(|deletion| !deletion.is_empty());
    let existing = machine.spec.unknown_fields.get("deletion");
    let metadata = precondition(machine).metadata();
    let is_needed = is_set && machine.metadata.is_deleting() && !contains(existing, wanted);
    is_needed.then(|| json!({"metadata": metadata, "spec": {"deletion": wanted}}))
}

/// The patch that gives a Machine what the template demands; `None` if it has all of it.
pub(super) fn patch(state: &State, member: &Member, mode: Mode) -> Option<Value> {
    let machine = member.machine.as_ref()?;
    let existing = serde_json::to_value(&machine.spec).ok()?;
    let template = &state.pool.spec.template;
    let mut spec: Map<String, Value> = copied(state)
        .into_iter()
        .filter(|(field, value)| !contains(existing.get(*field), value))
        .map(|(field, value)| (field.to_owned(), value))
        .collect();
    // The instances of a pool may be in several failure domains, which only the provider knows.
    if machine.spec.failure_domain.is_empty() && !template.spec.failure_domain.is_empty() {
        spec.insert(String::from("failureDomain"), json!(template.spec.failure_domain));
    }
    let mut metadata = precondition(machine).metadata();
    let precondition_fields = metadata.len();
    if mode == Mode::Own {
        let mut labels = template.metadata.labels.clone();
        labels.extend(own_labels(state));
        labels.retain(|key, value| machine.metadata.labels.get(key) != Some(value));
        if !labels.is_empty() {
            metadata.insert(String::from("labels"), json!(labels));
        }
        let mut annotations = template.metadata.annotations.clone();
        annotations.retain(|key, value| machine.metadata.annotations.get(key) != Some(value));
        if !annotations.is_empty() {
            metadata.insert(String::from("annotations"), json!(annotations));
        }
        if machine.metadata.controller().is_none() {
            let mut owners = machine.metadata.owner_references.clone();
            owners.push(owner(state));
            metadata.insert(String::from("ownerReferences"), json!(owners));
        }
    }
    let is_needed = !spec.is_empty() || metadata.len() > precondition_fields;
    let mut patch = json!({ "metadata": metadata });
    if let (Some(fields), false) = (patch.as_object_mut(), spec.is_empty()) {
        fields.insert(String::from("spec"), Value::Object(spec));
    }
    is_needed.then_some(patch)
}

/// The fields of the spec that a Machine has from the template.
fn copied(state: &State) -> Vec<(&'static str, Value)> {
    let spec = &state.pool.spec.template.spec;
    let mut fields = Vec::new();
    if let Some(seconds) = spec.min_ready_seconds {
        fields.push(("minReadySeconds", json!(seconds)));
    }
    if !spec.readiness_gates.is_empty() {
        fields.push(("readinessGates", json!(spec.readiness_gates)));
    }
    if spec.deletion.as_object().is_some_and(|deletion| !deletion.is_empty()) {
        fields.push(("deletion", spec.deletion.clone()));
    }
    if !spec.taints.is_empty() {
        fields.push(("taints", json!(spec.taints)));
    }
    fields
}

/// Whether a value has everything of another one. Defaults of the API server may be added to it.
fn contains(existing: Option<&Value>, wanted: &Value) -> bool {
    match (existing, wanted) {
        (Some(Value::Object(existing)), Value::Object(wanted)) => {
            wanted.iter().all(|(field, value)| contains(existing.get(field), value))
        }
        (Some(Value::Array(existing)), Value::Array(wanted)) => {
            let mut pairs = existing.iter().zip(wanted);
            existing.len() == wanted.len() && pairs.all(|(existing, wanted)| contains(Some(existing), wanted))
        }
        (existing, wanted) => existing == Some(wanted),
    }
}

fn own_labels(state: &State) -> [(String, String); 2] {
    [
        (label::CLUSTER.to_owned(), state.pool.spec.cluster_name.clone()),
        (label::POOL_NAME.to_owned(), label_value(state.name())),
    ]
}

/// The pool as the controller of an object.
pub(super) fn owner(state: &State) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: machine_pool::KIND.to_owned(),
        name: state.name().to_owned(),
        uid: state.pool.metadata.uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
