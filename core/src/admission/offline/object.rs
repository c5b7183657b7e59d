//! Objects in the form in which an API server decodes them, with or without their status.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// The text at a JSON pointer; empty if the pointer has no value.
pub(super) fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The fields of metadata that map texts to texts.
const MAPS: [&str; 2] = ["labels", "annotations"];

/// An object after decoding: a field of metadata that is null is absent, a label or an annotation
/// that is null is the empty text, and there is always metadata.
pub(super) fn decoded(object: &Value) -> Cow<'_, Value> {
    let has_null = |map: &str, fields: &Map<String, Value>| {
        let texts = fields.get(map).and_then(Value::as_object);
        texts.is_some_and(|texts| texts.values().any(Value::is_null))
    };
    let has_nulls = match object.get("metadata") {
        Some(Value::Object(fields)) => {
            fields.values().any(Value::is_null) || MAPS.iter().any(|map| has_null(map, fields))
        }
        metadata => metadata.is_none_or(Value::is_null),
    };
    if !has_nulls {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    if let Value::Object(fields) = &mut object {
        let metadata = fields.entry("metadata").or_insert(Value::Null);
        match metadata {
            Value::Object(fields) => {
                fields.retain(|_, value| !value.is_null());
                for map in MAPS {
                    let texts = fields.get_mut(map).and_then(Value::as_object_mut);
                    for text in texts
                        .into_iter()
                        .flat_map(Map::values_mut)
                        .filter(|text| text.is_null())
                    {
                        *text = Value::String(String::new());
                    }
                }
            }
            other => *other = Value::Object(Map::new()),
        }
    }
    Cow::Owned(object)
}

/// An object without its status. A request for the object itself does not write the status.
pub(super) fn without_status(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object
}

/// An object with the status of another one.
pub(super) fn with_status_of(object: &Value, other: &Value) -> Value {
    let mut object = without_status(object);
    if let (Some(fields), Some(status)) = (object.as_object_mut(), other.get("status")) {
        fields.insert(String::from("status"), status.clone());
    }
    object
}
