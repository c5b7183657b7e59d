//! The conversion of the JSON schema of a wire type into the structural schema of a
//! CustomResourceDefinition.
//!
//! Names, types and descriptions come from the wire type. Its defaults and required fields describe
//! serde and not the API, so they are dropped. The `schemars` attributes `x-default` and `required`
//! describe the API.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Whether unknown fields are kept or pruned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// The type is complete: unknown fields are pruned.
    Prune,
    /// The type is a part of a kind with more fields (decision 3): unknown fields are kept.
    Keep,
}

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// The structural schema of a wire type.
pub(super) fn schema_of<T: JsonSchema>(unknown: Unknown) -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.transforms.clear();
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    make_structural(&mut schema, unknown);
    schema
}

fn make_structural(schema: &mut Value, unknown: Unknown) {
    let Value::Object(node) = schema else {
        // `true` allows any value.
        *schema = json!({PRESERVE: true});
        return;
    };
    for dropped in ["title", "default", "components", "$schema"] {
        node.remove(dropped);
    }
    drop_null(node);
    if let Some(default) = node.remove("x-default") {
        node.insert("default".into(), default);
    }
    if let Some(Value::String(description)) = node.get_mut("description") {
        *description = unwrap_lines(description);
    }
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        properties
            .values_mut()
            .for_each(|property| make_structural(property, unknown));
    }
    if let Some(items) = node.get_mut("items") {
        make_structural(items, unknown);
    }
    close(node, unknown);
}

/// Removes `null` from a type, and from a union with one other member: an absent field is omitted
/// and never null.
fn drop_null(node: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = node.get_mut("type") {
        types.retain(|name| name != "null");
        if let (1, Some(only)) = (types.len(), types.first().cloned()) {
            node.insert("type".into(), only);
        }
    }
    node.remove("nullable");
    if let Some(Value::Array(mut members)) = node.remove("anyOf") {
        members.retain(|member| member.get("type").is_none_or(|name| name != "null"));
        if let (1, Some(Value::Object(only))) = (members.len(), members.first().cloned()) {
            for (key, value) in only {
                node.entry(key).or_insert(value);
            }
        } else {
            node.insert("anyOf".into(), members.into());
        }
    }
}

/// Removes the open schema of a flattened map of unknown fields; `unknown` decides about unknown
/// fields.
fn close(node: &mut Map<String, Value>, unknown: Unknown) {
    node.remove("unevaluatedProperties");
    let Some(mut additional) = node.remove("additionalProperties") else {
        return;
    };
    let anything = additional == Value::Bool(true) || additional == json!({});
    if anything && (unknown == Unknown::Keep || !node.contains_key("properties")) {
        node.insert(PRESERVE.into(), true.into());
    } else if !anything && additional != Value::Bool(false) {
        make_structural(&mut additional, unknown);
        node.insert("additionalProperties".into(), additional);
    }
}

/// Joins the lines of a paragraph.
fn unwrap_lines(text: &str) -> String {
    text.split("\n\n")
        .map(|paragraph| paragraph.split('\n').map(str::trim).collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("\n\n")
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::api::UnknownFields;

    /// A thing
    /// with two lines.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Thing {
        /// A name.
        #[serde(default)]
        name: String,
        #[schemars(extend("x-default" = 3))]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<i32>,
        #[serde(default)]
        part: Option<Part>,
        value: Option<Value>,
        #[serde(flatten)]
        unknown_fields: UnknownFields,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Part {
        labels: std::collections::BTreeMap<String, String>,
    }

    #[test]
    fn the_schema_of_a_type_has_no_null_no_defaults_of_serde_and_no_open_objects() {
        assert_eq!(
            schema_of::<Thing>(Unknown::Prune),
            json!({
                "type": "object",
                "description": "A thing with two lines.",
                "properties": {
                    "name": {"type": "string", "description": "A name."},
                    "size": {"type": "integer", "format": "int32", "default": 3},
                    "part": {
                        "type": "object",
                        "properties": {"labels": {"type": "object", "additionalProperties": {"type": "string"}}},
                        "required": ["labels"],
                    },
                    "value": {PRESERVE: true},
                },
            })
        );
    }

    #[test]
    fn an_incomplete_type_keeps_unknown_fields() {
        let schema = schema_of::<Thing>(Unknown::Keep);
        assert_eq!(schema.get(PRESERVE), Some(&json!(true)));
        assert_eq!(
            schema.pointer("/properties/part").and_then(|part| part.get(PRESERVE)),
            None
        );
    }
}
