//! The metadata that an API server accepts. It checks them in each request, whatever the kind: it
//! refuses a request whose metadata it cannot decode, and invalid names, labels, annotations,
//! finalizers, and owner references.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::Checked;
use crate::admission::response::Status;
use crate::model::{FieldPath, Violation, ViolationKind, is_label_key, is_label_value, is_subdomain};

const RULE: &str = "schema-metadata";
/// The limit of the keys and values of all annotations together.
const ANNOTATION_BYTES: usize = 256 * 1024;

/// What an API server refuses in metadata that it can decode. An update has the stored object.
pub(super) fn violations(object: &Value, old: Option<&Value>) -> Vec<Violation> {
    let map = |field: &str| object.pointer(&format!("/metadata/{field}")).and_then(Value::as_object);
    let list = |field: &str| object.pointer(&format!("/metadata/{field}")).and_then(Value::as_array);
    let mut found = name(object);
    found.extend(map("labels").map(labels).into_iter().flatten());
    found.extend(map("annotations").map(annotations).into_iter().flatten());
    found.extend(list("finalizers").into_iter().flatten().filter_map(finalizer));
    found.extend(list("ownerReferences").map(|list| owners(list)).into_iter().flatten());
    found.extend(old.and_then(|old| deletion(object, old)));
    found
}

/// The type of a field of metadata.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Time,
    Number,
    Flag,
    Texts,
    Map,
    Owners,
}

const FIELDS: [(&str, Type); 12] = [
    ("name", Type::Text),
    ("generateName", Type::Text),
    ("namespace", Type::Text),
    ("uid", Type::Text),
    ("resourceVersion", Type::Text),
    ("generation", Type::Number),
    ("creationTimestamp", Type::Time),
    ("deletionTimestamp", Type::Time),
    ("labels", Type::Map),
    ("annotations", Type::Map),
    ("finalizers", Type::Texts),
    ("ownerReferences", Type::Owners),
];
const OWNER: [(&str, Type); 6] = [
    ("apiVersion", Type::Text),
    ("kind", Type::Text),
    ("name", Type::Text),
    ("uid", Type::Text),
    ("controller", Type::Flag),
    ("blockOwnerDeletion", Type::Flag),
];

/// The refusal of an object whose metadata an API server cannot decode.
pub(super) fn undecodable(object: &Value) -> Option<Checked> {
    let root = FieldPath::root().child("metadata");
    let mut found = Vec::new();
    match object.get("metadata") {
        None | Some(Value::Null) => {}
        Some(Value::Object(metadata)) => fields(metadata, &FIELDS, &root, &mut found),
        Some(other) => found.push(mistyped(
            root,
            other,
            "must be an object",
            "write the fields of metadata",
        )),
    }
    let first = found.first()?;
    let message = format!("the object cannot be decoded: {first}");
    Some(Checked {
        status: Some(Status::plain(400, "BadRequest", message)),
        violations: found,
        ..Checked::default()
    })
}

fn mistyped(path: FieldPath, got: &Value, allowed: &str, advice: &str) -> Violation {
    Violation::new(RULE, path, ViolationKind::TypeInvalid, allowed)
        .got(got)
        .advice(advice)
}

fn fields(object: &Map<String, Value>, known: &[(&str, Type)], path: &FieldPath, found: &mut Vec<Violation>) {
    for (name, kind) in known {
        if let Some(value) = object.get(*name).filter(|value| !value.is_null()) {
            value_of(*kind, value, path.child(name), found);
        }
    }
}

/// Checks the type of a value. A list or a map decodes null to an empty text.
fn value_of(kind: Type, value: &Value, path: FieldPath, found: &mut Vec<Violation>) {
    let quoted = "put the value in quotes";
    match (kind, value) {
        (Type::Text, Value::String(_))
        | (Type::Number, Value::Number(_))
        | (Type::Flag, Value::Bool(_))
        | (Type::Text | Type::Owners, Value::Null) => {}
        (Type::Time, Value::String(text)) if text.parse::<Timestamp>().is_ok() => {}
        (Type::Texts, Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                value_of(Type::Text, item, path.index(index), found);
            }
        }
        (Type::Map, Value::Object(map)) => {
            for (key, item) in map {
                value_of(Type::Text, item, path.key(key), found);
            }
        }
        (Type::Owners, Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                match item {
                    Value::Object(owner) => fields(owner, &OWNER, &path.index(index), found),
                    other => value_of(Type::Owners, other, path.index(index), found),
                }
            }
        }
        (Type::Text, other) => found.push(mistyped(path, other, "must be a text", quoted)),
        (Type::Time, other) => {
            let advice = "write a time such as 2026-01-02T03:04:05Z, or leave it out";
            found.push(mistyped(path, other, "must be a time in RFC 3339", advice));
        }
        (Type::Number, other) => found.push(mistyped(path, other, "must be a number", "leave it out")),
        (Type::Flag, other) => found.push(mistyped(path, other, "must be true or false", "remove the quotes")),
        (Type::Texts, other) => found.push(mistyped(path, other, "must be a list of texts", "write a list")),
        (Type::Map, other) => {
            let advice = "write one key and one value in each line";
            found.push(mistyped(path, other, "must be a map of texts", advice));
        }
        (Type::Owners, other) => found.push(mistyped(path, other, "must be a list of objects", "write a list")),
    }
}

/// The name, or the beginning of a name that the API server completes.
fn name(object: &Value) -> Vec<Violation> {
    let field = |name: &str| object.pointer(&format!("/metadata/{name}")).and_then(Value::as_str);
    let (name, prefix) = (
        field("name").unwrap_or_default(),
        field("generateName").unwrap_or_default(),
    );
    let allowed = "must be lowercase letters, digits, '-' or '.', and begin and end with a letter or digit";
    let mut found = Vec::new();
    if name.is_empty() && prefix.is_empty() {
        let allowed = "name or generateName is required";
        let missing = Violation::new("schema-name", "metadata.name", ViolationKind::Required, allowed);
        found.push(missing.advice("set metadata.name"));
    }
    // The API server appends letters and digits to the prefix.
    for (field, value, complete) in [
        ("name", name, name.to_owned()),
        ("generateName", prefix, format!("{prefix}a")),
    ] {
        if !value.is_empty() && !is_subdomain(&complete) {
            let invalid = Violation::new("schema-name", at(field), ViolationKind::Invalid, allowed);
            found.push(invalid.got(&Value::from(value)).advice("choose another name"));
        }
    }
    found
}

fn finalizer(value: &Value) -> Option<Violation> {
    let text = value.as_str().filter(|text| !is_label_key(text))?;
    Some(invalid(at("finalizers"), text, KEY, "correct or remove the finalizer"))
}

/// Each owner is named completely, and at most one of them is the controller.
fn owners(list: &[Value]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, owner) in list.iter().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner.get(field).and_then(Value::as_str).unwrap_or_default().is_empty() {
                let path = at("ownerReferences").index(index).child(field);
                let missing = Violation::new(RULE, path, ViolationKind::Required, "must not be empty");
                found.push(missing.advice("name the owner with its uid, or remove the reference"));
            }
        }
    }
    let is_controller = |owner: &&Value| owner.get("controller") == Some(&Value::Bool(true));
    if list.iter().filter(is_controller).count() > 1 {
        let allowed = "only one reference can have controller set to true";
        let several = Violation::new(RULE, at("ownerReferences"), ViolationKind::Invalid, allowed);
        found.push(several.advice("set controller to false on the others"));
    }
    found
}

/// An update cannot delete an object. An API server keeps the time of a requested deletion.
fn deletion(object: &Value, old: &Value) -> Option<Violation> {
    const TIME: &str = "/metadata/deletionTimestamp";
    let time = object.pointer(TIME).and_then(Value::as_str)?;
    let is_stored = old.pointer(TIME).is_some_and(|stored| !stored.is_null());
    (!is_stored).then(|| {
        let advice = "leave it out; delete the object with kubectl delete";
        invalid(at("deletionTimestamp"), time, "field is immutable", advice)
    })
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The paths that an API server refuses.
    fn refused(metadata: &Value, old: Option<&Value>) -> Vec<String> {
        let (object, old) = (json!({"metadata": metadata}), old.map(|old| json!({"metadata": old})));
        let found = match undecodable(&object) {
            Some(checked) => checked.violations,
            None => violations(&object, old.as_ref()),
        };
        found.iter().map(|one| one.path.as_str().to_owned()).collect()
    }

    #[test]
    fn w76_metadata_that_an_api_server_cannot_decode_is_refused() {
        for (metadata, path) in [
            (json!("a"), "metadata"),
            (json!({"name": 1}), "metadata.name"),
            (json!({"name": "a", "labels": {"team": 1}}), "metadata.labels[team]"),
            (json!({"name": "a", "labels": {"team": true}}), "metadata.labels[team]"),
            (json!({"name": "a", "labels": ["a"]}), "metadata.labels"),
            (json!({"name": "a", "annotations": 1}), "metadata.annotations"),
            (json!({"name": "a", "finalizers": "a"}), "metadata.finalizers"),
            (json!({"name": "a", "ownerReferences": "a"}), "metadata.ownerReferences"),
            (
                json!({"name": "a", "ownerReferences": [{"uid": 1}]}),
                "metadata.ownerReferences[0].uid",
            ),
            (
                json!({"name": "a", "creationTimestamp": "yesterday"}),
                "metadata.creationTimestamp",
            ),
        ] {
            assert_eq!(refused(&metadata, None), [path], "{metadata}");
        }
    }

    #[test]
    fn w76_metadata_that_an_api_server_refuses_is_refused() {
        let owner = json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u", "controller": true});
        let mut nameless = owner.clone();
        nameless["uid"] = json!("");
        for (metadata, path) in [
            (json!({}), "metadata.name"),
            (json!({"generateName": "A_"}), "metadata.generateName"),
            (json!({"name": "a", "finalizers": ["a.b/c d"]}), "metadata.finalizers"),
            (
                json!({"name": "a", "ownerReferences": [nameless]}),
                "metadata.ownerReferences[0].uid",
            ),
            (
                json!({"name": "a", "ownerReferences": [owner, owner]}),
                "metadata.ownerReferences",
            ),
        ] {
            assert_eq!(refused(&metadata, None), [path], "{metadata}");
        }
        for metadata in [
            json!({"generateName": "a-"}),
            json!({"name": "a", "labels": {"a": "b"}, "ownerReferences": [owner], "finalizers": ["a.b/c"]}),
            json!({"name": "a", "creationTimestamp": "2026-01-02T03:04:05Z", "generation": 1}),
        ] {
            assert!(refused(&metadata, None).is_empty(), "{metadata}");
        }
    }

    #[test]
    fn w76_an_update_does_not_set_the_time_of_a_deletion() {
        let (stored, deleted) = (
            json!({"name": "a"}),
            json!({"name": "a", "deletionTimestamp": "2026-01-02T03:04:05Z"}),
        );
        assert_eq!(refused(&deleted, Some(&stored)), ["metadata.deletionTimestamp"]);
        assert!(refused(&deleted, Some(&deleted)).is_empty());
        // A creation ignores it.
        assert!(refused(&deleted, None).is_empty());
    }
}
