//! `metadata` as the API server reads, fills in and judges it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::kinds::Kind;
use super::object::{Fields, Object};

/// A cause of a refusal: field, text, reason.
pub(super) type Cause = (String, String, &'static str);

const INVALID: &str = "FieldValueInvalid";
const FORBIDDEN: &str = "FieldValueForbidden";
const REQUIRED: &str = "FieldValueRequired";

/// Texts of `metadata`.
const TEXTS: [&str; 8] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generateName",
    "selfLink",
    "creationTimestamp",
    "deletionTimestamp",
];

/// A field of `metadata`.
pub(super) fn field<'v>(object: &'v impl Fields, field: &str) -> Option<&'v Value> {
    object.field("metadata")?.get(field)
}

/// The text of a field of `metadata`; empty if there is none.
pub(super) fn text<'v>(object: &'v impl Fields, name: &str) -> &'v str {
    field(object, name).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a deletion was asked for.
pub(super) fn is_deleting(object: &impl Fields) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// The finalizers of an object.
pub(super) fn finalizers(object: &impl Fields) -> Vec<String> {
    let list = field(object, "finalizers").and_then(Value::as_array);
    let list = list.into_iter().flatten().filter_map(Value::as_str);
    list.map(str::to_owned).collect()
}

/// Sets a field of `metadata`; null removes it.
pub(super) fn set(object: &mut impl Fields, name: &str, value: Value) {
    let is_so = match field(object, name) {
        Some(there) => *there == value && !value.is_null(),
        None => value.is_null() && object.field("metadata").is_some(),
    };
    if is_so {
        return;
    }
    let Some(meta) = object.field_mut("metadata") else {
        return;
    };
    if meta.is_null() {
        *meta = json!({});
    }
    if let Some(meta) = meta.as_object_mut() {
        if value.is_null() {
            meta.remove(name);
        } else {
            meta.insert(name.to_owned(), value);
        }
    }
}

/// Sets a field of an object.
pub(super) fn put(object: &mut Value, field: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(field.to_owned(), value);
    }
}

/// Reads `metadata` as its Go type does: what has the wrong type is refused, what is empty is dropped.
pub(super) fn normalise(object: &mut Object) -> Result<(), Failure> {
    let wrong = |field: &str, wanted: &str| {
        Failure::bad_request(format!(
            "json: cannot unmarshal into Go struct field ObjectMeta.metadata.{field} of type {wanted}"
        ))
    };
    let Some(meta) = object.field_mut("metadata") else {
        return Err(Failure::bad_request("the body is no object"));
    };
    if meta.is_null() {
        *meta = json!({});
    }
    let meta = meta.as_object_mut().ok_or_else(|| wrong("", "v1.ObjectMeta"))?;
    if meta.values().any(Value::is_null) {
        meta.retain(|_, value| !value.is_null());
    }
    for field in TEXTS {
        match meta.get(field) {
            Some(Value::String(text)) if text.is_empty() => drop(meta.remove(field)),
            None | Some(Value::String(_)) => {}
            Some(_) => return Err(wrong(field, "string")),
        }
    }
    for field in ["labels", "annotations"] {
        match meta.get_mut(field) {
            Some(Value::Object(map)) => {
                for value in map.values_mut() {
                    if value.is_null() {
                        *value = "".into();
                    }
                }
                if map.values().any(|value| !value.is_string()) {
                    return Err(wrong(field, "string"));
                }
                if map.is_empty() {
                    meta.remove(field);
                }
            }
            None => {}
            Some(_) => return Err(wrong(field, "map[string]string")),
        }
    }
    for field in ["finalizers", "ownerReferences"] {
        let texts = field == "finalizers";
        match meta.get(field) {
            Some(Value::Array(list)) if list.is_empty() => drop(meta.remove(field)),
            Some(Value::Array(list))
                if list
                    .iter()
                    .any(|item| if texts { !item.is_string() } else { !item.is_object() }) =>
            {
                return Err(wrong(field, "list"));
            }
            None | Some(Value::Array(_)) => {}
            Some(_) => return Err(wrong(field, "list")),
        }
    }
    for owner in meta
        .get_mut("ownerReferences")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let Some(owner) = owner.as_object_mut() else { continue };
        if owner.values().any(Value::is_null) {
            owner.retain(|_, value| !value.is_null());
        }
        for field in ["apiVersion", "kind", "name", "uid"] {
            match owner.get(field) {
                Some(Value::String(_)) => {}
                None => drop(owner.insert(field.to_owned(), "".into())),
                Some(_) => return Err(wrong("ownerReferences", "string")),
            }
        }
    }
    Ok(())
}

/// What is wrong with the metadata of an object that is written.
pub(super) fn check(kind: &Kind, object: &Object, old: Option<&Object>) -> Vec<Cause> {
    let mut found = Vec::new();
    if old.is_some_and(|old| object.has_same(old, "metadata")) {
        return found;
    }
    let meta = object.get("metadata").and_then(Value::as_object);
    let none = Map::new();
    let meta = meta.unwrap_or(&none);
    let mut cause = |path: &str, text: String, reason: &'static str| {
        found.push((format!("metadata.{path}"), text, reason));
    };
    let name = text(object, "name");
    if name.is_empty() {
        cause(
            "name",
            "Required value: name or generateName is required".into(),
            REQUIRED,
        );
    } else if old.is_none() {
        let valid = if kind.plural == "namespaces" {
            is_label(name)
        } else {
            is_subdomain(name)
        };
        if !valid {
            cause(
                "name",
                format!("Invalid value: {name:?}: a lowercase RFC 1123 name is wanted"),
                INVALID,
            );
        }
    }
    if let Some(labels) = meta.get("labels").and_then(Value::as_object) {
        for (key, value) in labels {
            if !is_qualified(key) {
                cause(
                    "labels",
                    format!("Invalid value: {key:?}: a qualified name is wanted"),
                    INVALID,
                );
            }
            if !value.as_str().is_some_and(is_label_value) {
                cause(
                    "labels",
                    format!("Invalid value: {value}: a label value is wanted"),
                    INVALID,
                );
            }
        }
    }
    if let Some(annotations) = meta.get("annotations").and_then(Value::as_object) {
        for key in annotations.keys().filter(|key| !is_qualified(&key.to_lowercase())) {
            cause(
                "annotations",
                format!("Invalid value: {key:?}: a qualified name is wanted"),
                INVALID,
            );
        }
        let size: usize = annotations
            .iter()
            .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
            .sum();
        if size > 256 * 1024 {
            cause(
                "annotations",
                "Too long: may not be more than 262144 bytes".into(),
                "FieldValueTooLong",
            );
        }
    }
    let new_finalizers = finalizers(object);
    for finalizer in new_finalizers.iter().filter(|finalizer| !is_qualified(finalizer)) {
        cause(
            "finalizers",
            format!("Invalid value: {finalizer:?}: a qualified name is wanted"),
            INVALID,
        );
    }
    let both = ["orphan", "foregroundDeletion"]
        .iter()
        .all(|wanted| new_finalizers.iter().any(|f| f == wanted));
    if both {
        cause(
            "finalizers",
            "Invalid value: orphan and foregroundDeletion exclude each other".into(),
            INVALID,
        );
    }
    let owners = meta
        .get("ownerReferences")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let mut controllers = 0;
    for owner in owners {
        let of = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        for field in ["kind", "name", "uid"] {
            if of(field).is_empty() {
                cause(
                    "ownerReferences",
                    format!("Invalid value: \"\": {field} must not be empty"),
                    INVALID,
                );
            }
        }
        if of("apiVersion").is_empty() {
            cause(
                "ownerReferences",
                "Invalid value: \"\": version must not be empty".into(),
                INVALID,
            );
        }
        if of("kind") == "Event" && of("apiVersion") == "v1" {
            cause(
                "ownerReferences",
                "Invalid value: Event is disallowed from being an owner".into(),
                INVALID,
            );
        }
        controllers += usize::from(owner.get("controller") == Some(&Value::Bool(true)));
    }
    if controllers > 1 {
        cause(
            "ownerReferences",
            "Invalid value: Only one reference can have Controller set to true".into(),
            INVALID,
        );
    }
    if let Some(old) = old {
        for field in ["name", "namespace", "uid", "creationTimestamp"] {
            if text(object, field) != text(old, field) {
                cause(
                    field,
                    format!("Invalid value: {:?}: field is immutable", text(object, field)),
                    INVALID,
                );
            }
        }
        let before: BTreeSet<String> = finalizers(old).into_iter().collect();
        let added: Vec<&String> = new_finalizers
            .iter()
            .filter(|finalizer| !before.contains(*finalizer))
            .collect();
        if is_deleting(old) && !added.is_empty() {
            let text = format!(
                "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
            );
            cause("finalizers", text, FORBIDDEN);
        }
    }
    found
}

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.len() <= 63 && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_subdomain(text: &str) -> bool {
    let label = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && part.chars().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

fn is_word(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63 && text.chars().all(inner) && edge(text.chars().next()) && edge(text.chars().last())
}

fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_word(text)
}

fn is_qualified(text: &str) -> bool {
    match text.split_once('/') {
        None => is_word(text),
        Some((prefix, name)) => is_subdomain(prefix) && is_word(name),
    }
}
