//! Conversion of KubeadmControlPlanes and their templates between `v1beta1` and `v1beta2`.
//!
//! Nothing is lost in either direction. A `v1beta1` object carries the `v1beta2` object that it
//! comes from in the annotation that Cluster API uses. On the way back, only what changed in the
//! `v1beta1` object is applied to that `v1beta2` object. A `v1beta2` object carries the fields that
//! `v1beta2` does not have in an annotation of Capstan.
//!
//! A conversion never fails because of the content of an object: it would stop every list of the
//! kind. A user can write both annotations, so an annotation that cannot be used is ignored. The
//! annotations never set `apiVersion`, `kind`, or `metadata`.
//!
//! Source: the renamed fields in Cluster API's migration from 1.10 to 1.11. The module must never
//! judge an object: a value that cannot be converted is left to the rules.

mod duration;
mod fields;
mod kubeadm;
mod merge;
mod reference;
mod review;
mod row;
mod status;
mod tree;

use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::canonical::without_empty_fields;
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::KubeadmControlPlane;
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane_template::KubeadmControlPlaneTemplate;
use crate::api::controlplane_cluster_x_k8s_io::{API_VERSION, API_VERSION_V1BETA1};
pub use review::{ConversionAnswer, answer_conversion};

pub(super) use reference::unknown_version;

use merge::{apply, apply_where_unchanged, difference};
use tree::{remove, set};

/// The annotation of a `v1beta1` object that contains its `v1beta2` object, without metadata.
const HUB_DATA: &str = "cluster.x-k8s.io/conversion-data";
/// The annotation of a `v1beta2` object that contains what only `v1beta1` can express.
const LOST_DATA: &str = "capstan.dev/v1beta1-data";

/// Finds the version of a kind of infrastructure by its group and kind. `v1beta2` objects do not
/// contain it.
pub type Versions<'a> = &'a dyn Fn(&str, &str) -> Option<String>;
/// The version of a kind of infrastructure whose version is unknown. Most kinds that follow the
/// contract `v1beta1` of Cluster API have it.
pub const FALLBACK_VERSION: &str = "v1beta1";

/// Converts an object to `v1beta2`. An object of another version is returned as it is.
pub fn to_v1beta2(object: &Value) -> Value {
    if object.get("apiVersion").and_then(Value::as_str) != Some(API_VERSION_V1BETA1) {
        return object.clone();
    }
    let mut spoke = object.clone();
    let stored = take_annotation(&mut spoke, HUB_DATA);
    let mut hub = up(&spoke);
    if let Some(mut stored) = stored.filter(Value::is_object) {
        // The v1beta1 object when it was converted, and as it is now.
        let before = up(&down(&stored));
        let change = difference(&body(&before), &body(&hub));
        apply(&mut stored, &change);
        let merged = with_body(&hub, &stored);
        if fits(&merged) || !fits(&hub) {
            hub = merged;
        }
    }
    let lost = difference(&body(&down(&hub)), &body(&spoke));
    let lost = merge::without_equal_durations(lost);
    if !lost.is_empty() {
        annotate(&mut hub, LOST_DATA, &merge::to_json(&lost));
    }
    hub
}

/// Converts an object to `v1beta1`. An object of another version is returned as it is. If the
/// version of the infrastructure is unknown, the reference gets [`FALLBACK_VERSION`].
pub fn to_v1beta1(object: &Value, versions: Versions<'_>) -> Value {
    if object.get("apiVersion").and_then(Value::as_str) != Some(API_VERSION) {
        return object.clone();
    }
    let mut hub = object.clone();
    let lost = take_annotation(&mut hub, LOST_DATA);
    let mut spoke = down(&hub);
    if let Some(lost) = lost.as_ref().and_then(merge::of_json) {
        let mut restored = body(&spoke);
        apply_where_unchanged(&mut restored, &lost);
        let restored = with_body(&spoke, &restored);
        if fits(&up(&restored)) || !fits(&up(&spoke)) {
            spoke = restored;
        }
    }
    reference::resolve(&mut spoke, versions);
    annotate(&mut spoke, HUB_DATA, &body(&hub));
    spoke
}

/// An object without its metadata.
fn body(object: &Value) -> Value {
    let mut object = object.clone();
    remove(&mut object, &["metadata"]);
    object
}

/// An object with the fields of a body. It keeps its own `apiVersion`, `kind`, and `metadata`.
fn with_body(object: &Value, body: &Value) -> Value {
    let mut new = Value::Object(body.as_object().cloned().unwrap_or_default());
    for field in ["apiVersion", "kind", "metadata"] {
        match object.get(field) {
            Some(value) => {
                set(&mut new, &[field], value.clone());
            }
            None => {
                remove(&mut new, &[field]);
            }
        }
    }
    new
}

/// Whether the spec and the status of a `v1beta2` object have the types that the API defines.
fn fits(hub: &Value) -> bool {
    let parts_fit = ["spec", "status"].map(|part| hub.get(part).is_none_or(Value::is_object));
    let mut object = without_empty_fields(hub);
    // Every field of a condition exists in both versions.
    remove(&mut object, &["status", "conditions"]);
    remove(&mut object, &["status", "deprecated"]);
    let is_read = match object.pointer("/spec/template") {
        Some(_) => KubeadmControlPlaneTemplate::deserialize(&object).is_ok(),
        None => KubeadmControlPlane::deserialize(&object).is_ok(),
    };
    is_read && parts_fit == [true, true]
}

/// Removes an annotation, and returns its JSON; `None` if it is absent or contains no JSON.
fn take_annotation(object: &mut Value, name: &str) -> Option<Value> {
    let text = remove(object, &["metadata", "annotations", name])?;
    let is_last = object
        .pointer("/metadata/annotations")
        .and_then(Value::as_object)
        .is_some_and(Map::is_empty);
    if is_last {
        remove(object, &["metadata", "annotations"]);
    }
    text.as_str().and_then(|text| serde_json::from_str(text).ok())
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
    let is_template = object.pointer("/spec/template").is_some();
    if let Some(spec) = specs(&mut object) {
        if is_template {
            fields::default_strategy(spec);
        }
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

#[cfg(test)]
mod tests;
