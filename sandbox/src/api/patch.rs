//! JSON patch, merge patch, and the part of strategic merge patch that the built-in kinds need.

use capstan_core::schema::Schema;
use serde_json::{Map, Value};

use super::failure::Failure;
use super::kinds::Kind;
use super::object::Object;
use super::request::PatchKind;

/// Applies a patch to an object. Server-side apply is implemented in [`super::managed`].
pub(super) fn patched(kind: &Kind, how: PatchKind, object: &Object, patch: Value) -> Result<Object, Failure> {
    let patch = match (how, patch) {
        (PatchKind::Merge | PatchKind::Apply, Value::Object(patch)) => return Ok(merged(object, patch)),
        (_, patch) => patch,
    };
    let mut new = object.to_value();
    match how {
        PatchKind::Json => {
            let operations: json_patch::Patch =
                serde_json::from_value(patch).map_err(|error| Failure::bad_request(error.to_string()))?;
            json_patch::patch(&mut new, &operations).map_err(|error| {
                let text = format!("the server rejected our request due to an error in our request: {error}");
                Failure::new(422, "Invalid", text)
            })?;
        }
        PatchKind::Merge | PatchKind::Apply => {
            return Err(Failure::bad_request("json: cannot unmarshal into Go value of type map"));
        }
        PatchKind::Strategic => {
            if kind.is_custom() {
                return Err(no_strategic());
            }
            if !patch.is_object() {
                return Err(Failure::bad_request("json: cannot unmarshal into Go value of type map"));
            }
            strategic(Some(kind.schema()), &mut new, &patch);
        }
    }
    let mut new = Object::of(new).ok_or_else(unrecognised)?;
    new.share(object);
    Ok(new)
}

/// RFC 7386 for a whole object. An unchanged field stays the same value in memory.
fn merged(object: &Object, patch: Map<String, Value>) -> Object {
    let mut new = object.clone();
    for (name, patch) in patch {
        match object.get(&name) {
            _ if patch.is_null() => drop(new.remove(&name)),
            Some(stored) if !changes(stored, &patch) => {}
            stored => new.insert(&name, merge(stored, patch)),
        }
    }
    new
}

/// RFC 7386. Values that the patch replaces are not copied.
fn merge(stored: Option<&Value>, patch: Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch;
    };
    let stored = stored.and_then(Value::as_object);
    let kept = stored
        .into_iter()
        .flatten()
        .filter(|(name, _)| !patch.contains_key(*name));
    let mut new: Map<String, Value> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    for (name, patch) in patch.into_iter().filter(|(_, patch)| !patch.is_null()) {
        let value = merge(stored.and_then(|stored| stored.get(&name)), patch);
        new.insert(name, value);
    }
    new.into()
}

fn changes(stored: &Value, patch: &Value) -> bool {
    match (stored, patch) {
        (Value::Object(stored), Value::Object(patch)) => patch.iter().any(|(name, patch)| match stored.get(name) {
            Some(stored) => patch.is_null() || changes(stored, patch),
            None => !patch.is_null(),
        }),
        (stored, patch) => stored != patch,
    }
}

/// The refusal of a body that is not a JSON object.
pub(super) fn unrecognised() -> Failure {
    Failure::bad_request("the object provided is unrecognized: json: cannot unmarshal into Go value")
}

/// The refusal of a strategic merge patch for a custom kind.
pub(super) fn no_strategic() -> Failure {
    let text = "the body of the request was in an unknown format - accepted media types include: \
                application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    Failure::new(415, "UnsupportedMediaType", text)
}

/// Merges a patch into a value. A list whose items have keys is merged item by item.
fn strategic(schema: Option<&Schema>, value: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *value = patch.clone();
        return;
    };
    if patch.get("$patch").and_then(Value::as_str) == Some("replace") {
        let new: Map<String, Value> = patch
            .iter()
            .filter(|(key, _)| *key != "$patch")
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        *value = new.into();
        return;
    }
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Some(fields) = value.as_object_mut() else { return };
    for (name, patch) in patch {
        if patch.is_null() {
            fields.remove(name);
            continue;
        }
        let child = schema.and_then(|schema| schema.child(name));
        let keys: Option<Vec<String>> = match (name.as_str(), child.and_then(Schema::keys)) {
            (_, Some(keys)) => Some(keys.to_vec()),
            ("ownerReferences", None) => Some(vec!["uid".to_owned()]),
            ("taints", None) => Some(vec!["key".to_owned()]),
            _ => None,
        };
        match (patch, keys) {
            (Value::Array(items), Some(keys)) => {
                let list = fields.entry(name.clone()).or_insert_with(|| Value::Array(Vec::new()));
                merge_items(child, list, items, &keys);
            }
            (Value::Array(items), None) if name == "finalizers" => {
                let list = fields.entry(name.clone()).or_insert_with(|| Value::Array(Vec::new()));
                if let Some(list) = list.as_array_mut() {
                    list.retain(|item| !items.contains(item));
                    list.splice(0..0, items.iter().cloned());
                }
            }
            (Value::Object(_), _) => strategic(child, fields.entry(name.clone()).or_insert(Value::Null), patch),
            _ => {
                fields.insert(name.clone(), patch.clone());
            }
        }
    }
}

fn merge_items(schema: Option<&Schema>, list: &mut Value, items: &[Value], keys: &[String]) {
    let item_schema = schema.and_then(Schema::item);
    let Some(list) = list.as_array_mut() else { return };
    for item in items {
        let same = |stored: &Value| keys.iter().all(|key| stored.get(key) == item.get(key));
        let deletes = item.get("$patch").and_then(Value::as_str) == Some("delete");
        match list.iter_mut().find(|stored| same(stored)) {
            Some(_) if deletes => list.retain(|stored| !same(stored)),
            Some(stored) => strategic(item_schema, stored, item),
            None if deletes => {}
            None => list.push(item.clone()),
        }
    }
}
