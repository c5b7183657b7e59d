//! From the JSON schema of a wire type to the structural schema that a CustomResourceDefinition
//! wants.
//!
//! The wire types say names, types and descriptions; what they say about defaults and presence is
//! about serde, not about the API, so it is dropped, and what the API defaults and requires is said
//! in `schemars` attributes (`x-default`, `required`).

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Whether fields that a type does not name are kept or pruned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// The type is complete: a field that it does not name is a mistake.
    Prune,
    /// The type reads what Capstan needs of a kind that has more (decision 3).
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
        // `true`: anything at all.
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

/// An absent field is left out, never null: `null` goes out of a type and out of a union with one
/// other member.
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

/// A flattened map of other fields makes a schema open; what is pruned and what is kept is ours to
/// say.
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

/// Lines of one paragraph become one line.
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
    fn a_type_becomes_a_structural_schema_without_null_defaults_of_serde_or_open_objects() {
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
    fn a_type_that_is_incomplete_keeps_what_it_does_not_name() {
        let schema = schema_of::<Thing>(Unknown::Keep);
        assert_eq!(schema.get(PRESERVE), Some(&json!(true)));
        assert_eq!(
            schema.pointer("/properties/part").and_then(|part| part.get(PRESERVE)),
            None
        );
    }
}
