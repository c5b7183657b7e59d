//! Decodes `metadata` as the Go type `ObjectMeta` does.

use serde_json::{Map, Value, json};

use crate::api::failure::Failure;
use crate::api::object::{Fields as _, Object};

/// The fields of `metadata` that hold a string.
const STRINGS: [&str; 8] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generateName",
    "selfLink",
    "creationTimestamp",
    "deletionTimestamp",
];

/// Decodes `metadata` in place: null and empty fields are removed.
///
/// # Errors
/// 400 for a field of the wrong type.
pub(crate) fn decode(object: &mut Object) -> Result<(), Failure> {
    let Some(meta) = object.field_mut("metadata") else {
        return Err(Failure::bad_request("the body is no object"));
    };
    if meta.is_null() {
        *meta = json!({});
    }
    let meta = meta.as_object_mut().ok_or_else(|| wrong_type("", "v1.ObjectMeta"))?;
    if meta.values().any(Value::is_null) {
        meta.retain(|_, value| !value.is_null());
    }
    for field in STRINGS {
        match meta.get(field) {
            Some(Value::String(text)) if text.is_empty() => drop(meta.remove(field)),
            None | Some(Value::String(_)) => {}
            Some(_) => return Err(wrong_type(field, "string")),
        }
    }
    for field in ["labels", "annotations"] {
        decode_map(meta, field)?;
    }
    decode_list(meta, "finalizers", Value::is_string)?;
    decode_list(meta, "ownerReferences", Value::is_object)?;
    decode_owners(meta)
}

fn wrong_type(field: &str, wanted: &str) -> Failure {
    Failure::bad_request(format!(
        "json: cannot unmarshal into Go struct field ObjectMeta.metadata.{field} of type {wanted}"
    ))
}

/// Decodes a map of strings. A null value becomes the empty string.
fn decode_map(meta: &mut Map<String, Value>, field: &str) -> Result<(), Failure> {
    match meta.get_mut(field) {
        Some(Value::Object(map)) => {
            for value in map.values_mut().filter(|value| value.is_null()) {
                *value = "".into();
            }
            if map.values().any(|value| !value.is_string()) {
                return Err(wrong_type(field, "string"));
            }
            if map.is_empty() {
                meta.remove(field);
            }
            Ok(())
        }
        None => Ok(()),
        Some(_) => Err(wrong_type(field, "map[string]string")),
    }
}

/// Decodes a list whose items must all satisfy `is_item`.
fn decode_list(meta: &mut Map<String, Value>, field: &str, is_item: fn(&Value) -> bool) -> Result<(), Failure> {
    match meta.get(field) {
        Some(Value::Array(list)) if list.is_empty() => {
            meta.remove(field);
            Ok(())
        }
        None => Ok(()),
        Some(Value::Array(list)) if list.iter().all(is_item) => Ok(()),
        Some(_) => Err(wrong_type(field, "list")),
    }
}

/// Decodes the owner references. An absent field becomes the empty string, as in Go.
fn decode_owners(meta: &mut Map<String, Value>) -> Result<(), Failure> {
    let owners = meta.get_mut("ownerReferences").and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten().filter_map(Value::as_object_mut) {
        if owner.values().any(Value::is_null) {
            owner.retain(|_, value| !value.is_null());
        }
        for field in ["apiVersion", "kind", "name", "uid"] {
            match owner.get(field) {
                Some(Value::String(_)) => {}
                None => drop(owner.insert(field.to_owned(), "".into())),
                Some(_) => return Err(wrong_type("ownerReferences", "string")),
            }
        }
    }
    Ok(())
}
