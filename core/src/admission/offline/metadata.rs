//! The labels and annotations that an API server accepts. It checks them in each request, whatever
//! the kind. The name is checked beside the schema.

use serde_json::{Map, Value};

use crate::model::{FieldPath, Violation, ViolationKind, is_label_key, is_label_value};

const RULE: &str = "schema-metadata";
/// The limit of the keys and values of all annotations together.
const ANNOTATION_BYTES: usize = 256 * 1024;

/// What an API server refuses.
pub(super) fn violations(object: &Value) -> Vec<Violation> {
    let map = |field: &str| object.pointer(&format!("/metadata/{field}")).and_then(Value::as_object);
    let mut found = Vec::new();
    found.extend(map("labels").map(labels).into_iter().flatten());
    found.extend(map("annotations").map(annotations).into_iter().flatten());
    found
}

fn at(map: &str) -> FieldPath {
    FieldPath::root().child("metadata").child(map)
}

fn invalid(path: FieldPath, got: &str, allowed: &str, advice: &str) -> Violation {
    Violation::new(RULE, path, ViolationKind::Invalid, allowed)
        .got(&Value::from(got))
        .advice(advice)
}

const KEY: &str = "must be a name of at most 63 letters, digits, '-', '_' or '.', which begins and ends with a letter or \
                   digit, and may have a DNS name and '/' before it";
const LABEL: &str = "must be empty, or at most 63 letters, digits, '-', '_' or '.', which begin and end with a letter or \
                     digit";

fn labels(labels: &Map<String, Value>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (key, value) in labels {
        if !is_label_key(key) {
            found.push(invalid(at("labels"), key, KEY, "choose another key"));
        }
        if let Some(value) = value.as_str().filter(|value| !is_label_value(value)) {
            let advice = "choose another value, or use an annotation";
            found.push(invalid(at("labels").key(key), value, LABEL, advice));
        }
    }
    found
}

fn annotations(annotations: &Map<String, Value>) -> Vec<Violation> {
    // An API server compares the keys of annotations in lower case.
    let invalid_keys = annotations.keys().filter(|key| !is_label_key(&key.to_lowercase()));
    let mut found: Vec<Violation> = invalid_keys
        .map(|key| invalid(at("annotations"), key, KEY, "choose another key"))
        .collect();
    let bytes: usize = annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if bytes > ANNOTATION_BYTES {
        let allowed = format!("must have at most {ANNOTATION_BYTES} bytes; keys and values have {bytes}");
        found.push(
            Violation::new(RULE, at("annotations"), ViolationKind::Invalid, allowed)
                .advice("store large texts in a ConfigMap"),
        );
    }
    found
}
