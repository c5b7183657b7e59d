//! JSON patch, merge patch, and strategic merge patch as far as built-in kinds need it.

use capstan_core::schema::Schema;
use serde_json::{Map, Value};

use super::failure::Failure;
use super::kinds::Kind;
use super::request::PatchKind;

/// The object that a patch makes of another. Server-side apply is not a patch of this sort.
pub(super) fn patched(kind: &Kind, how: PatchKind, object: &Value, patch: &Value) -> Result<Value, Failure> {
    let mut new = object.clone();
    match how {
        PatchKind::Json => {
            let operations: json_patch::Patch =
                serde_json::from_value(patch.clone()).map_err(|error| Failure::bad_request(error.to_string()))?;
            json_patch::patch(&mut new, &operations).map_err(|error| {
                let text = format!("the server rejected our request due to an error in our request: {error}");
                Failure::new(422, "Invalid", text)
            })?;
        }
        PatchKind::Merge | PatchKind::Apply => {
            if !patch.is_object() {
                return Err(Failure::bad_request("json: cannot unmarshal into Go value of type map"));
            }
            json_patch::merge(&mut new, patch);
        }
        PatchKind::Strategic => {
            if kind.is_custom() {
                return Err(no_strategic());
            }
            if !patch.is_object() {
                return Err(Failure::bad_request("json: cannot unmarshal into Go value of type map"));
            }
            strategic(Some(kind.schema()), &mut new, patch);
        }
    }
    Ok(new)
}

/// Custom kinds have no strategic merge patch.
pub(super) fn no_strategic() -> Failure {
    let text = "the body of the request was in an unknown format - accepted media types include: \
                application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    Failure::new(415, "UnsupportedMediaType", text)
}

/// Merges a patch into a value; lists whose items have keys are merged item by item.
fn strategic(schema: Option<&Schema>, value: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *value = patch.clone();
        return;
    };
    if patch.get("$patch").and_then(Value::as_str) == Some("replace") {
        let rest: Map<String, Value> = patch
            .iter()
            .filter(|(key, _)| *key != "$patch")
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        *value = rest.into();
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
        let same = |there: &Value| keys.iter().all(|key| there.get(key) == item.get(key));
        let deletes = item.get("$patch").and_then(Value::as_str) == Some("delete");
        match list.iter_mut().find(|there| same(there)) {
            Some(_) if deletes => list.retain(|there| !same(there)),
            Some(there) => strategic(item_schema, there, item),
            None if deletes => {}
            None => list.push(item.clone()),
        }
    }
}
