//! Builds the schema of an object, field by field, for one of the two versions of the API.
//!
//! `v1beta2` has conventions that `v1beta1` does not have: an optional object or list is not empty,
//! and a list is replaced as a whole. Nothing here knows a field.

use serde_json::{Map, Value, json};

/// A version of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// The older version.
    V1Beta1,
    /// The stored version.
    V1Beta2,
}

use Version::{V1Beta1, V1Beta2};

/// The schema of an object.
#[derive(Clone, Debug)]
pub(super) struct Object {
    version: Version,
    properties: Map<String, Value>,
    required: Vec<Value>,
    keywords: Map<String, Value>,
}

impl Object {
    /// An object without fields.
    pub(super) fn new(version: Version) -> Self {
        Self {
            version,
            properties: Map::new(),
            required: Vec::new(),
            keywords: Map::new(),
        }
    }

    /// Adds an optional field.
    pub(super) fn field(mut self, name: &str, schema: Value, description: &str) -> Self {
        let mut schema = schema;
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("description".into(), description.into());
        }
        self.properties.insert(name.to_owned(), schema);
        self
    }

    /// Adds a required field.
    pub(super) fn required(mut self, name: &str, schema: Value, description: &str) -> Self {
        self.required.push(name.into());
        self.field(name, schema, description)
    }

    /// Adds an optional field that only `v1beta1` has.
    pub(super) fn v1beta1(self, name: &str, schema: Value, description: &str) -> Self {
        if self.version == V1Beta1 {
            self.field(name, schema, description)
        } else {
            self
        }
    }

    /// Adds an optional field that only `v1beta2` has.
    pub(super) fn v1beta2(self, name: &str, schema: Value, description: &str) -> Self {
        if self.version == V1Beta2 {
            self.field(name, schema, description)
        } else {
            self
        }
    }

    /// Adds a field that only one version requires.
    pub(super) fn required_in(self, version: Version, name: &str, schema: Value, description: &str) -> Self {
        if self.version == version {
            self.required(name, schema, description)
        } else {
            self.field(name, schema, description)
        }
    }

    /// Sets a keyword of the schema.
    pub(super) fn with(mut self, keyword: &str, value: Value) -> Self {
        self.keywords.insert(keyword.to_owned(), value);
        self
    }

    /// The object is replaced as a whole by a server-side apply.
    pub(super) fn atomic(self) -> Self {
        self.with("x-kubernetes-map-type", "atomic".into())
    }

    /// The schema.
    pub(super) fn build(self) -> Value {
        let mut schema = self.keywords;
        schema.insert("type".into(), "object".into());
        schema.insert("properties".into(), self.properties.into());
        if !self.required.is_empty() {
            schema.insert("required".into(), self.required.into());
        }
        Value::Object(schema)
    }

    /// The schema of an object that has at least one field in `v1beta2`.
    pub(super) fn not_empty(self) -> Value {
        if self.version == V1Beta2 {
            self.with("minProperties", 1.into()).build()
        } else {
            self.build()
        }
    }
}

/// A text of any length.
pub(super) fn string() -> Value {
    json!({"type": "string"})
}

/// A text of one or more characters.
pub(super) fn text(longest: u32) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": longest})
}

/// A text that matches a pattern.
pub(super) fn matching(longest: u32, pattern: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": longest, "pattern": pattern})
}

/// One of these texts.
pub(super) fn one_of(values: &[&str]) -> Value {
    json!({"type": "string", "enum": values})
}

/// True or false.
pub(super) fn boolean() -> Value {
    json!({"type": "boolean"})
}

/// A number of 32 bits.
pub(super) fn int32() -> Value {
    json!({"type": "integer", "format": "int32"})
}

/// A number of 32 bits that is at least `least`.
pub(super) fn int32_from(least: u32) -> Value {
    json!({"type": "integer", "format": "int32", "minimum": least})
}

/// A number of 32 bits in a range.
pub(super) fn int32_in(least: u32, most: u32) -> Value {
    json!({"type": "integer", "format": "int32", "minimum": least, "maximum": most})
}

/// A number of 32 bits that has a minimum in `v1beta2` only.
pub(super) fn int32_from_in_v1beta2(version: Version, least: u32) -> Value {
    match version {
        V1Beta1 => int32(),
        V1Beta2 => int32_from(least),
    }
}

/// A time as in RFC 3339.
pub(super) fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

/// A number, or a text.
pub(super) fn int_or_string() -> Value {
    json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
}

/// Values with names.
pub(super) fn map(values: &Value) -> Value {
    json!({"type": "object", "additionalProperties": values})
}

/// A list with at most `most` items, which is not empty in `v1beta2`.
pub(super) fn list(version: Version, most: u32, items: &Value) -> Value {
    match version {
        V1Beta1 => json!({"type": "array", "maxItems": most, "items": items}),
        V1Beta2 => json!({"type": "array", "minItems": 1, "maxItems": most, "items": items,
            "x-kubernetes-list-type": "atomic"}),
    }
}

/// A list with at most `most` items, which may be empty.
pub(super) fn list_or_empty(version: Version, most: u32, items: &Value) -> Value {
    match version {
        V1Beta1 => json!({"type": "array", "maxItems": most, "items": items}),
        V1Beta2 => json!({"type": "array", "maxItems": most, "items": items, "x-kubernetes-list-type": "atomic"}),
    }
}

/// A list whose items have unique keys.
pub(super) fn keyed(keys: &[&str], least: u32, most: u32, items: &Value) -> Value {
    let mut schema = json!({"type": "array", "maxItems": most, "items": items, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": keys});
    if let (true, Some(schema)) = (least > 0, schema.as_object_mut()) {
        schema.insert("minItems".into(), least.into());
    }
    schema
}

/// Adds a rule in CEL about the form of a value, which Cluster API has too.
pub(super) fn validation(schema: &mut Value, rule: &str, message: &str) {
    if let Some(schema) = schema.as_object_mut() {
        schema.insert(
            "x-kubernetes-validations".into(),
            json!([{"rule": rule, "message": message}]),
        );
    }
}
