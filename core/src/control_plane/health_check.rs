//! The MachineHealthCheck that a ControlPlane owns: unhealthy machines are deleted, and the
//! controller replaces them (Managing Control Plane machines, "Self-healing").
//!
//! It decides what the health check must be, and the write that makes it so. It must never allow
//! more remediations at once than etcd survives, and it never changes a health check of another
//! owner.

use serde_json::{Map, Value, json};

use super::plan::owner_reference;
use super::spec::Spec;
use super::state::State;
use crate::api::kinds::MACHINE_HEALTH_CHECKS;
use crate::api::machine_openshift_io::control_plane::ControlPlane;
use crate::api::machine_openshift_io::label;
use crate::api::machine_openshift_io::machine_health_check::MachineHealthCheck;
use crate::model::NewCondition;

/// The name of the health check.
pub const NAME: &str = "cluster-control-plane";
/// The condition that says whether machines are repaired.
pub const CONDITION: &str = "SelfHealing";
/// The uid of the ControlPlane that the health check was created for. An orphan deletion takes the
/// owner away, possibly before the controller deletes the health check.
const CREATED_FOR: &str = "capstan.dev/created-for";
/// How long a node may be unhealthy, in the form in which Go stores a duration.
const UNHEALTHY: &str = "5m0s";
/// How long a new machine may take to become a node. Bare metal hosts need more than the default of
/// ten minutes.
const STARTUP: &str = "20m0s";

/// A write to the health check.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It does not exist.
    Create(Value),
    /// It is not as it must be. The patch carries the uid and the resource version.
    Patch(Value),
    /// Machines are not to be repaired any more. The uid and the resource version.
    Delete(String, String),
}

impl Change {
    /// Why it is written, as part of a sentence.
    pub fn because(&self) -> &'static str {
        match self {
            Self::Create(_) => "unhealthy machines are to be repaired",
            Self::Patch(_) => "it must allow only as many remediations as etcd survives",
            Self::Delete(..) => "no controller replaces the machines any more, or enableautorepair is false",
        }
    }
}

/// How many machines may be unhealthy while one is deleted: fewer than half of those that stand,
/// without those that leave already. A rollout and a remediation at the same time do not add up.
/// A single machine is never deleted.
pub fn max_unhealthy(spec: &Spec, state: &State) -> usize {
    let standing = state.standing().count().min(spec.replicas);
    (standing.saturating_sub(1) / 2).saturating_sub(state.leaving().count())
}

/// The write that makes the health check as it must be; `None` if it is, or if another
/// object or a user owns it. `found` is the stored health check.
pub fn change(spec: &Spec, state: &State, found: Option<&MachineHealthCheck>) -> Option<Change> {
    if spec.deleting {
        return None;
    }
    let wanted = wanted(spec, state, found);
    let Some(found) = found else {
        return spec.repairs.then(|| Change::Create(created(spec, &wanted)));
    };
    if !is_ours(spec, found) || found.metadata.is_deleting() {
        return None;
    }
    let meta = &found.metadata;
    let (uid, version) = (meta.uid(), meta.resource_version.clone().unwrap_or_default());
    if !spec.repairs {
        return Some(Change::Delete(uid.to_owned(), version));
    }
    if is_as(found, &wanted) {
        return None;
    }
    Some(Change::Patch(json!({
        "metadata": {"uid": uid, "resourceVersion": version},
        "spec": wanted,
    })))
}

/// The deletion of the health check of a ControlPlane that is being deleted. Otherwise it could
/// stay without an owner, if users keep the dependents, and delete machines without a replacement.
pub fn leave(object: &ControlPlane, found: Option<&MachineHealthCheck>) -> Option<Change> {
    let meta = &found?.metadata;
    let uid = object.metadata.uid();
    let is_ours = match meta.controller() {
        Some(owner) => owner.uid == uid,
        None => meta
            .annotations
            .get(CREATED_FOR)
            .is_some_and(|created_for| created_for == uid),
    };
    let version = meta.resource_version.clone().unwrap_or_default();
    (object.metadata.is_deleting() && is_ours && !meta.is_deleting())
        .then(|| Change::Delete(meta.uid().to_owned(), version))
}

/// Whether machines are repaired, for the status.
pub fn condition(spec: &Spec, found: Option<&MachineHealthCheck>) -> NewCondition {
    let (status, reason, message) = match found {
        _ if !spec.repairs => (false, "Disabled", String::from("spec.enableautorepair is false")),
        None => (
            false,
            "HealthCheckMissing",
            format!("the MachineHealthCheck {NAME} does not exist yet"),
        ),
        Some(found) if !is_ours(spec, found) => (
            false,
            "ForeignHealthCheck",
            format!(
                "the MachineHealthCheck {NAME} does not belong to the ControlPlane; delete or rename it, or set \
                 spec.enableautorepair to false"
            ),
        ),
        Some(_) => (true, "HealthCheckExists", String::new()),
    };
    NewCondition::new(CONDITION, status, reason, message)
}

fn is_ours(spec: &Spec, found: &MachineHealthCheck) -> bool {
    found.metadata.controller().is_some_and(|owner| owner.uid == spec.uid)
}

/// The fields of the spec that the controller keeps, as a merge patch. Other fields belong to the
/// user. A label that was added to the selector is removed: with it, no machine may be selected.
fn wanted(spec: &Spec, state: &State, found: Option<&MachineHealthCheck>) -> Value {
    let added = found.iter().flat_map(|found| found.spec.selector.match_labels.keys());
    let mut labels: Map<String, Value> = added.map(|key| (key.clone(), Value::Null)).collect();
    for key in [label::ROLE, label::TYPE] {
        labels.insert(key.to_owned(), json!("master"));
    }
    let unhealthy = |status: &str| json!({"type": "Ready", "status": status, "timeout": UNHEALTHY});
    json!({
        "selector": {"matchLabels": labels, "matchExpressions": null},
        "maxUnhealthy": max_unhealthy(spec, state),
        "nodeStartupTimeout": STARTUP,
        "unhealthyConditions": [unhealthy("False"), unhealthy("Unknown")],
    })
}

/// Whether the stored health check has these fields. A null is an absent field.
fn is_as(found: &MachineHealthCheck, wanted: &Value) -> bool {
    let mut patched = json!(found.spec);
    let before = patched.clone();
    json_patch::merge(&mut patched, wanted);
    patched == before
}

fn created(spec: &Spec, wanted: &Value) -> Value {
    let mut content = json!({});
    json_patch::merge(&mut content, wanted);
    json!({
        "apiVersion": MACHINE_HEALTH_CHECKS.api_version(),
        "kind": MACHINE_HEALTH_CHECKS.kind,
        "metadata": {
            "name": NAME,
            "namespace": spec.namespace,
            "ownerReferences": [owner_reference(spec)],
            "annotations": {CREATED_FOR: spec.uid},
        },
        "spec": content,
    })
}
