//! Validates the `metadata` of an object that is written.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{finalizers, is_deleting, text};
use crate::api::failure::Cause;
use crate::api::kinds::Kind;
use crate::api::object::Object;

const INVALID: &str = "FieldValueInvalid";
const FORBIDDEN: &str = "FieldValueForbidden";
const REQUIRED: &str = "FieldValueRequired";
const TOO_LONG: &str = "FieldValueTooLong";

/// The largest total size of annotations in bytes, keys and values together.
const ANNOTATION_BYTES: usize = 256 * 1024;

/// The causes for which the metadata of an object is refused. `old` is the stored object that it
/// replaces.
pub(crate) fn check(kind: &Kind, object: &Object, old: Option<&Object>) -> Vec<Cause> {
    let mut causes = Causes(Vec::new());
    if old.is_some_and(|old| object.has_same(old, "metadata")) {
        return causes.0;
    }
    let empty = Map::new();
    let meta = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    check_name(kind, text(object, "name"), old.is_none(), &mut causes);
    check_labels(meta, &mut causes);
    check_annotations(meta, &mut causes);
    let finalizers = finalizers(object);
    check_finalizers(&finalizers, &mut causes);
    check_owners(meta, &mut causes);
    if let Some(old) = old {
        check_unchanged(object, old, &mut causes);
        check_added_finalizers(&finalizers, old, &mut causes);
    }
    causes.0
}

/// The causes found so far.
struct Causes(Vec<Cause>);

impl Causes {
    fn add(&mut self, field: &str, text: impl Into<String>, reason: &'static str) {
        self.0.push((format!("metadata.{field}"), text.into(), reason));
    }
}

fn check_name(kind: &Kind, name: &str, is_new: bool, causes: &mut Causes) {
    if name.is_empty() {
        causes.add("name", "Required value: name or generateName is required", REQUIRED);
        return;
    }
    let is_valid = if kind.plural == "namespaces" {
        is_label(name)
    } else {
        is_subdomain(name)
    };
    if is_new && !is_valid {
        let text = format!("Invalid value: {name:?}: a lowercase RFC 1123 name is wanted");
        causes.add("name", text, INVALID);
    }
}

fn check_labels(meta: &Map<String, Value>, causes: &mut Causes) {
    let labels = meta.get("labels").and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        if !is_qualified(key) {
            let text = format!("Invalid value: {key:?}: a qualified name is wanted");
            causes.add("labels", text, INVALID);
        }
        if !value.as_str().is_some_and(is_label_value) {
            let text = format!("Invalid value: {value}: a label value is wanted");
            causes.add("labels", text, INVALID);
        }
    }
}

fn check_annotations(meta: &Map<String, Value>, causes: &mut Causes) {
    let Some(annotations) = meta.get("annotations").and_then(Value::as_object) else {
        return;
    };
    for key in annotations.keys().filter(|key| !is_qualified(&key.to_lowercase())) {
        let text = format!("Invalid value: {key:?}: a qualified name is wanted");
        causes.add("annotations", text, INVALID);
    }
    let sizes = annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len));
    if sizes.sum::<usize>() > ANNOTATION_BYTES {
        let text = format!("Too long: may not be more than {ANNOTATION_BYTES} bytes");
        causes.add("annotations", text, TOO_LONG);
    }
}

fn check_finalizers(finalizers: &[String], causes: &mut Causes) {
    for finalizer in finalizers.iter().filter(|finalizer| !is_qualified(finalizer)) {
        let text = format!("Invalid value: {finalizer:?}: a qualified name is wanted");
        causes.add("finalizers", text, INVALID);
    }
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let text = "Invalid value: orphan and foregroundDeletion exclude each other";
        causes.add("finalizers", text, INVALID);
    }
}

fn check_owners(meta: &Map<String, Value>, causes: &mut Causes) {
    let owners = meta.get("ownerReferences").and_then(Value::as_array);
    let mut controllers = 0;
    for owner in owners.into_iter().flatten() {
        let of = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        let mut invalid = |text: &str| causes.add("ownerReferences", format!("Invalid value: {text}"), INVALID);
        for field in ["kind", "name", "uid"] {
            if of(field).is_empty() {
                invalid(&format!("\"\": {field} must not be empty"));
            }
        }
        if of("apiVersion").is_empty() {
            invalid("\"\": version must not be empty");
        }
        if of("kind") == "Event" && of("apiVersion") == "v1" {
            invalid("Event is disallowed from being an owner");
        }
        controllers += usize::from(owner.get("controller") == Some(&Value::Bool(true)));
    }
    if controllers > 1 {
        let text = "Invalid value: Only one reference can have Controller set to true";
        causes.add("ownerReferences", text, INVALID);
    }
}

fn check_unchanged(object: &Object, old: &Object, causes: &mut Causes) {
    for field in ["name", "namespace", "uid", "creationTimestamp"] {
        let value = text(object, field);
        if value != text(old, field) {
            causes.add(field, format!("Invalid value: {value:?}: field is immutable"), INVALID);
        }
    }
}

fn check_added_finalizers(new: &[String], old: &Object, causes: &mut Causes) {
    let before: BTreeSet<String> = finalizers(old).into_iter().collect();
    let added: Vec<&String> = new.iter().filter(|finalizer| !before.contains(*finalizer)).collect();
    if is_deleting(old) && !added.is_empty() {
        let text = format!(
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
        );
        causes.add("finalizers", text, FORBIDDEN);
    }
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
