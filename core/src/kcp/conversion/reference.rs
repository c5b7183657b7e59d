//! The reference of a control plane to its infrastructure. `v1beta2` has only its group, and
//! `v1beta1` also its version.

use serde_json::Value;

use super::{FALLBACK_VERSION, Versions, fields};

/// Adds the version of the infrastructure to a `v1beta1` reference that has only its group.
pub(super) fn resolve(spoke: &mut Value, versions: Versions<'_>) {
    let namespace = spoke.pointer("/metadata/namespace").cloned();
    let Some(Value::Object(reference)) = spoke.pointer_mut(fields::REFERENCE) else {
        return;
    };
    let text = |field: &str| {
        let value = reference.get(field).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version.contains('/') || (api_version.is_empty() && kind.is_empty()) {
        return;
    }
    let version = versions(&api_version, &kind).unwrap_or_else(|| FALLBACK_VERSION.to_owned());
    reference.insert(
        String::from("apiVersion"),
        Value::from(format!("{api_version}/{version}")),
    );
    if let Some(namespace) = namespace {
        reference.entry("namespace").or_insert(namespace);
    }
}

/// The group and kind of the infrastructure of a `v1beta2` object, if its version is unknown.
pub(in crate::kcp) fn unknown_version<'o>(object: &'o Value, versions: Versions<'_>) -> Option<(&'o str, &'o str)> {
    let reference = object.pointer("/spec/machineTemplate/spec/infrastructureRef")?;
    let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    let (group, kind) = (text("apiGroup"), text("kind"));
    let is_unknown = !group.is_empty() && !kind.is_empty() && versions(group, kind).is_none();
    is_unknown.then_some((group, kind))
}
