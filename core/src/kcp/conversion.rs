//! Conversion of KubeadmControlPlanes and their templates between `v1beta1` and `v1beta2`.
//!
//! Nothing is lost in either direction. A `v1beta1` object carries the `v1beta2` object that it
//! comes from in the annotation that Cluster API uses. On the way back, only what changed in the
//! `v1beta1` object is applied to that `v1beta2` object. A `v1beta2` object carries the fields that
//! `v1beta2` does not have in an annotation of Capstan.
//!
//! Source: the renamed fields in Cluster API's migration from 1.10 to 1.11. The module must never
//! judge an object: a value that cannot be converted is left to the rules.

mod duration;
mod fields;
mod kubeadm;
mod merge;
mod row;
mod status;
mod tree;

use serde_json::{Map, Value};

use crate::api::controlplane_cluster_x_k8s_io::{API_VERSION, API_VERSION_V1BETA1};
use merge::{apply, apply_where_unchanged, difference};
use tree::{remove, set};

/// The annotation of a `v1beta1` object that contains its `v1beta2` object, without metadata.
const HUB_DATA: &str = "cluster.x-k8s.io/conversion-data";
/// The annotation of a `v1beta2` object that contains what only `v1beta1` can express.
const LOST_DATA: &str = "capstan.dev/v1beta1-data";

/// Finds the version of a kind of infrastructure by its group and kind. `v1beta2` objects do not
/// contain it.
pub type Versions<'a> = &'a dyn Fn(&str, &str) -> Option<String>;

/// Why an object cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    /// An annotation with converted data does not contain JSON.
    #[error("the annotation {0} must contain JSON, as the conversion wrote it; remove the annotation")]
    Annotation(&'static str),
    /// The version of a kind is unknown.
    #[error("the version of {kind} in the group {group:?} must be known; install its CRD")]
    UnknownKind {
        /// The group.
        group: String,
        /// The kind.
        kind: String,
    },
}

impl ConversionError {
    /// The field that the error is about.
    pub fn path(&self) -> String {
        match self {
            Self::Annotation(name) => format!("metadata.annotations[{name}]"),
            Self::UnknownKind { .. } => String::from("spec.machineTemplate.spec.infrastructureRef"),
        }
    }
}

/// Converts an object to `v1beta2`. An object of another version is returned as it is.
///
/// # Errors
/// An annotation with converted data cannot be read.
pub fn to_v1beta2(object: &Value) -> Result<Value, ConversionError> {
    if object.get("apiVersion").and_then(Value::as_str) != Some(API_VERSION_V1BETA1) {
        return Ok(object.clone());
    }
    let mut spoke = object.clone();
    let stored = take_annotation(&mut spoke, HUB_DATA)?;
    let mut hub = up(&spoke);
    if let Some(mut stored) = stored {
        // What the v1beta1 object said when it was converted, and what it says now.
        let before = up(&down(&stored));
        let change = difference(&body(&before), &body(&hub));
        apply(&mut stored, &change);
        replace_body(&mut hub, &stored);
    }
    let lost = difference(&body(&down(&hub)), &body(&spoke));
    let lost = merge::without_equal_durations(lost);
    if !lost.is_empty() {
        annotate(&mut hub, LOST_DATA, &merge::to_json(&lost));
    }
    Ok(hub)
}

/// Converts an object to `v1beta1`. An object of another version is returned as it is.
///
/// # Errors
/// The version of the infrastructure is unknown, or an annotation with converted data cannot be
/// read.
pub fn to_v1beta1(object: &Value, versions: Versions<'_>) -> Result<Value, ConversionError> {
    if object.get("apiVersion").and_then(Value::as_str) != Some(API_VERSION) {
        return Ok(object.clone());
    }
    let mut hub = object.clone();
    let lost = take_annotation(&mut hub, LOST_DATA)?;
    let mut spoke = down(&hub);
    if let Some(lost) = lost {
        let lost = merge::of_json(&lost).ok_or(ConversionError::Annotation(LOST_DATA))?;
        let mut restored = body(&spoke);
        apply_where_unchanged(&mut restored, &lost);
        replace_body(&mut spoke, &restored);
    }
    resolve(&mut spoke, versions)?;
    annotate(&mut spoke, HUB_DATA, &body(&hub));
    Ok(spoke)
}

/// An object without its metadata.
fn body(object: &Value) -> Value {
    let mut object = object.clone();
    remove(&mut object, &["metadata"]);
    object
}

fn replace_body(object: &mut Value, body: &Value) {
    let metadata = remove(object, &["metadata"]);
    *object = body.clone();
    if let Some(metadata) = metadata {
        set(object, &["metadata"], metadata);
    }
}

fn take_annotation(object: &mut Value, name: &'static str) -> Result<Option<Value>, ConversionError> {
    let Some(text) = remove(object, &["metadata", "annotations", name]) else {
        return Ok(None);
    };
    let is_last = object
        .pointer("/metadata/annotations")
        .and_then(Value::as_object)
        .is_some_and(Map::is_empty);
    if is_last {
        remove(object, &["metadata", "annotations"]);
    }
    let value: Option<Value> = text.as_str().and_then(|text| serde_json::from_str(text).ok());
    value.map(Some).ok_or(ConversionError::Annotation(name))
}

fn annotate(object: &mut Value, name: &str, value: &Value) {
    set(
        object,
        &["metadata", "annotations", name],
        Value::from(value.to_string()),
    );
}

/// Renames the fields of a `v1beta1` object.
fn up(spoke: &Value) -> Value {
    let mut object = spoke.clone();
    if let Some(spec) = specs(&mut object) {
        fields::up(spec);
        kubeadm::up(spec);
    }
    status::up(&mut object);
    set(&mut object, &["apiVersion"], Value::from(API_VERSION));
    object
}

/// Renames the fields of a `v1beta2` object. A reference keeps its group without a version.
fn down(hub: &Value) -> Value {
    let mut object = hub.clone();
    if let Some(spec) = specs(&mut object) {
        kubeadm::down(spec);
        fields::down(spec);
    }
    status::down(&mut object);
    set(&mut object, &["apiVersion"], Value::from(API_VERSION_V1BETA1));
    object
}

/// The spec of a control plane, and the spec in a template.
fn specs(object: &mut Value) -> Option<&mut Value> {
    let path = if object.pointer("/spec/template").is_some() {
        "/spec/template/spec"
    } else {
        "/spec"
    };
    object.pointer_mut(path).filter(|spec| spec.is_object())
}

/// Adds the version of the infrastructure to a reference that has only its group.
fn resolve(spoke: &mut Value, versions: Versions<'_>) -> Result<(), ConversionError> {
    let namespace = spoke.pointer("/metadata/namespace").cloned();
    let Some(Value::Object(reference)) = spoke.pointer_mut(fields::REFERENCE) else {
        return Ok(());
    };
    let text = |field: &str| {
        reference
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version.contains('/') || (api_version.is_empty() && kind.is_empty()) {
        return Ok(());
    }
    let version = versions(&api_version, &kind).ok_or_else(|| ConversionError::UnknownKind {
        group: api_version.clone(),
        kind: kind.clone(),
    })?;
    reference.insert(
        String::from("apiVersion"),
        Value::from(format!("{api_version}/{version}")),
    );
    if let Some(namespace) = namespace {
        reference.entry("namespace").or_insert(namespace);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
