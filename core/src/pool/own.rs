//! What Capstan does for a pool that no core manager manages (`--machinepools own`).
//!
//! The pool gets the label and the owner of its Cluster, the name of the bootstrap data, and the
//! provider IDs. Its infrastructure and bootstrap objects get the pool as their controller, and are
//! deleted with it. Nothing here takes an object from another controller.

use serde_json::{Map, Value, json};

use super::action::{Action, Plan, Step};
use super::desired::owner;
use super::rollout::outdated;
use super::state::State;
use crate::api::cluster_x_k8s_io::{API_VERSION, cluster, label};
use crate::api::infrastructure_cluster_x_k8s_io::Infrastructure;
use crate::api::kinds::MACHINE_POOLS;
use crate::api::meta::{ObjectMeta, OwnerReference};
use crate::model::{ObjectRef, Precondition};

/// Adds the patches of the pool and of its objects.
pub(super) fn objects(state: &State, plan: &mut Plan) {
    plan.steps.extend(pool(state));
    for object in [&state.infrastructure, &state.bootstrap].into_iter().flatten() {
        plan.steps.extend(adopted(state, object));
    }
}

/// Adds the deletion of the objects of a pool that is being deleted. One that the pool does not
/// control yet is adopted first, because a deleted pool would wait for it without end.
pub(super) fn delete_objects(state: &State, plan: &mut Plan) {
    let objects = [&state.infrastructure, &state.bootstrap].into_iter().flatten();
    plan.steps
        .extend(objects.clone().filter_map(|object| adopted(state, object)));
    let owned = objects.filter(|object| is_owned(state, &object.metadata) && !object.metadata.is_deleting());
    plan.steps.extend(owned.map(|object| Step {
        action: Action::DeleteOwned,
        subject: reference(state, object),
        index: None,
        because: String::from("the MachinePool is being deleted"),
        precondition: Some(precondition(&object.metadata)),
    }));
}

fn reference(state: &State, object: &Infrastructure) -> ObjectRef {
    let group = object.api_version.split('/').next().unwrap_or_default();
    ObjectRef {
        group: group.to_owned().into(),
        kind: object.kind.clone().into(),
        namespace: state.namespace().to_owned(),
        name: object.metadata.name().to_owned(),
    }
}

fn precondition(metadata: &ObjectMeta) -> Precondition {
    Precondition {
        uid: metadata.uid().to_owned(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
    }
}

fn is_owned(state: &State, metadata: &ObjectMeta) -> bool {
    let controller = metadata.controller();
    controller.is_some_and(|owner| owner.uid == state.pool.metadata.uid())
}

/// The patch of the pool itself.
fn pool(state: &State) -> Option<Step> {
    let pool = &state.pool;
    let mut metadata = Map::new();
    let cluster_name = pool.spec.cluster_name.as_str();
    if pool.metadata.labels.get(label::CLUSTER).map(String::as_str) != Some(cluster_name) {
        metadata.insert(String::from("labels"), json!({label::CLUSTER: cluster_name}));
    }
    if let Some(cluster) = &state.cluster {
        let owners = &pool.metadata.owner_references;
        if !owners.iter().any(|owner| owner.uid == cluster.metadata.uid()) {
            let mut owners = owners.clone();
            owners.push(OwnerReference {
                api_version: API_VERSION.to_owned(),
                kind: cluster::KIND.to_owned(),
                name: cluster.metadata.name().to_owned(),
                uid: cluster.metadata.uid().to_owned(),
                ..OwnerReference::default()
            });
            metadata.insert(String::from("ownerReferences"), json!(owners));
        }
    }
    let mut spec = Map::new();
    let ids = state.provider_ids();
    if state.is_provisioned() && ids != pool.spec.provider_id_list {
        spec.insert(String::from("providerIDList"), json!(ids));
    }
    let current = pool.spec.template.spec.bootstrap.unknown_fields.get("dataSecretName");
    if let Some(secret) = data_secret(state).filter(|secret| current != Some(&json!(secret))) {
        let bootstrap = json!({"bootstrap": {"dataSecretName": secret}});
        spec.insert(String::from("template"), json!({ "spec": bootstrap }));
    }
    if metadata.is_empty() && spec.is_empty() {
        return None;
    }
    let precondition = precondition(&pool.metadata);
    metadata.extend(precondition.metadata());
    let mut patch = json!({ "metadata": metadata });
    if let (Some(fields), false) = (patch.as_object_mut(), spec.is_empty()) {
        fields.insert(String::from("spec"), Value::Object(spec));
    }
    Some(Step {
        action: Action::Patch(patch),
        subject: MACHINE_POOLS.object(state.namespace(), state.name()),
        index: None,
        because: String::from("the pool must show its Cluster, its bootstrap data, and its instances"),
        precondition: Some(precondition),
    })
}

/// The Secret with the bootstrap data, in one of the two forms of the contract.
fn data_secret(state: &State) -> Option<&str> {
    let status = state.bootstrap.as_ref()?.unknown_fields.get("status")?;
    let is = |pointer: &str| status.pointer(pointer) == Some(&Value::Bool(true));
    let is_created = is("/initialization/dataSecretCreated") || is("/ready");
    let name = status.get("dataSecretName").and_then(Value::as_str)?;
    (is_created && !name.is_empty()).then_some(name)
}

/// The patch that makes the pool the controller of one of its objects.
fn adopted(state: &State, object: &Infrastructure) -> Option<Step> {
    let metadata = &object.metadata;
    let is_labelled = metadata.labels.get(label::CLUSTER) == Some(&state.pool.spec.cluster_name);
    let is_foreign = metadata.controller().is_some() && !is_owned(state, metadata);
    if is_foreign || metadata.is_deleting() || (is_labelled && is_owned(state, metadata)) {
        return None;
    }
    let precondition = precondition(metadata);
    let mut patch = precondition.metadata();
    patch.insert(
        String::from("labels"),
        json!({label::CLUSTER: state.pool.spec.cluster_name}),
    );
    if !is_owned(state, metadata) {
        let mut owners = metadata.owner_references.clone();
        owners.push(owner(state));
        patch.insert(String::from("ownerReferences"), json!(owners));
    }
    Some(Step {
        action: Action::Patch(json!({ "metadata": patch })),
        subject: reference(state, object),
        index: None,
        because: String::from("it belongs to the MachinePool"),
        precondition: Some(precondition),
    })
}

/// The fields of the status that the core manager of Cluster API writes otherwise.
pub(super) fn counters(stored: &Value, state: &State, after: &mut Map<String, Value>) {
    let staying = state.members.len();
    let replicas = state.infrastructure.as_ref().and_then(|infrastructure| {
        let status = infrastructure.unknown_fields.get("status")?;
        status.get("replicas").and_then(Value::as_u64)
    });
    let available = state.members.iter().filter(|member| member.is_available).count();
    let up_to_date = staying.saturating_sub(outdated(state).len());
    let count = |members: usize| json!(members);
    after.insert(
        String::from("replicas"),
        replicas.map_or_else(|| count(staying), Value::from),
    );
    after.insert(String::from("readyReplicas"), count(available));
    after.insert(String::from("availableReplicas"), count(available));
    after.insert(String::from("upToDateReplicas"), count(up_to_date));
    let mut initialization = Map::new();
    let before = |field: &str| stored.pointer(&format!("/status/initialization/{field}")).cloned();
    let bootstrap = &state.pool.spec.template.spec.bootstrap;
    let has_data = data_secret(state).is_some() || bootstrap.unknown_fields.contains_key("dataSecretName");
    for (field, holds) in [
        ("bootstrapDataSecretCreated", has_data),
        ("infrastructureProvisioned", state.is_provisioned()),
    ] {
        // Once true, it stays true.
        if holds || before(field) == Some(Value::Bool(true)) {
            initialization.insert(field.to_owned(), Value::Bool(true));
        }
    }
    if !initialization.is_empty() {
        after.insert(String::from("initialization"), Value::Object(initialization));
    }
    after.insert(String::from("phase"), json!(phase(state)));
    if let Some(generation) = stored.pointer("/metadata/generation") {
        after.insert(String::from("observedGeneration"), generation.clone());
    }
}

fn phase(state: &State) -> &'static str {
    let (staying, replicas) = (state.staying().count(), state.replicas());
    if state.pool.metadata.is_deleting() {
        "Deleting"
    } else if state.failure().is_some() {
        "Failed"
    } else if state.infrastructure.is_none() {
        "Pending"
    } else if !state.is_provisioned() {
        "Provisioning"
    } else if state.is_scaled_outside() && staying != replicas {
        "Scaling"
    } else if staying < replicas {
        "ScalingUp"
    } else if staying > replicas {
        "ScalingDown"
    } else if state.staying().all(|member| member.is_available) {
        "Running"
    } else {
        "Provisioned"
    }
}
