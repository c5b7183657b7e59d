//! A parsed schema: the values that a node of an object may have.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use crate::cel::Program;

/// A structural schema.
#[derive(Debug, Default)]
pub struct Schema {
    /// The types that the value may have; empty for any type.
    pub(super) types: Vec<Type>,
    pub(super) nullable: bool,
    /// A format that the API server checks for this type. It ignores other formats.
    pub(super) format: Option<String>,
    pub(super) default: Option<Value>,
    pub(super) allowed: Vec<Value>,

    pub(super) properties: BTreeMap<String, Schema>,
    pub(super) additional: Option<Additional>,
    pub(super) required: Vec<String>,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
    /// Whether unknown fields are kept.
    pub(super) preserve: bool,
    /// Whether the object is atomic in server-side apply (`x-kubernetes-map-type: atomic`).
    pub(super) atomic: bool,
    /// Whether the value is an embedded object, with type and metadata.
    pub(super) embedded: bool,

    pub(super) items: Option<Box<Schema>>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) list: ListType,

    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) pattern: Option<Regex>,

    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<f64>,

    pub(super) all_of: Vec<Schema>,
    pub(super) any_of: Vec<Schema>,
    pub(super) one_of: Vec<Schema>,
    pub(super) not: Option<Box<Schema>>,

    pub(super) rules: Vec<NodeRule>,
    /// Whether this node or a node below it has rules.
    pub(super) has_rules: bool,
    /// Whether this node or a node below it has a default.
    pub(super) has_defaults: bool,
    /// Whether this node or a node below it is a list with unique items.
    pub(super) has_unique_lists: bool,
}

/// A JSON type with its name in a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// The schema of fields that are not listed.
#[derive(Debug)]
pub(super) enum Additional {
    /// `additionalProperties: true`.
    Any,
    /// All fields have this schema.
    Schema(Box<Schema>),
}

/// How items of a list correspond to items of the old list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ListType {
    /// They do not correspond.
    #[default]
    Atomic,
    /// The items are unique.
    Set,
    /// Items with equal values of these fields correspond.
    Map(Vec<String>),
}

/// A limit of a range of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    pub(super) value: f64,
    pub(super) exclusive: bool,
}

impl Bound {
    /// Whether a number is below this lower limit.
    pub(super) fn is_above(self, number: f64) -> bool {
        number < self.value || (self.exclusive && number == self.value)
    }

    /// Whether a number is above this upper limit.
    pub(super) fn is_below(self, number: f64) -> bool {
        number > self.value || (self.exclusive && number == self.value)
    }
}

/// An entry of `x-kubernetes-validations`.
#[derive(Debug)]
pub(super) struct NodeRule {
    /// The id of the rule, or `schema-cel` for a rule without an id.
    pub(super) id: String,
    pub(super) program: Program,
    pub(super) message: String,
    pub(super) advice: String,
    pub(super) reason: String,
    /// The field of the violation, relative to the node.
    pub(super) field_path: Vec<FieldStep>,
    pub(super) optional_old_self: bool,
}

/// A step of the `fieldPath` of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldStep {
    /// A field of an object.
    Field(String),
    /// An entry of a map.
    Key(String),
}

impl Schema {
    /// The schema of a field, listed or not.
    pub(super) fn field(&self, name: &str) -> Option<&Schema> {
        match (self.properties.get(name), &self.additional) {
            (Some(property), _) => Some(property),
            (None, Some(Additional::Schema(schema))) => Some(schema),
            _ => None,
        }
    }

    /// The schema of a field of an object, listed or not.
    pub fn child(&self, name: &str) -> Option<&Schema> {
        self.field(name)
    }

    /// Whether the schema lists the field: a field of a struct, and not a key of a map.
    pub fn names(&self, field: &str) -> bool {
        self.properties.contains_key(field)
    }

    /// The schema of the items of a list.
    pub fn item(&self) -> Option<&Schema> {
        self.items.as_deref()
    }

    /// The fields by which items of a list correspond (`x-kubernetes-list-type: map`).
    pub fn keys(&self) -> Option<&[String]> {
        match &self.list {
            ListType::Map(keys) => Some(keys),
            ListType::Atomic | ListType::Set => None,
        }
    }

    /// Whether the list is a set.
    pub fn is_set(&self) -> bool {
        self.list == ListType::Set
    }

    /// Whether the object is atomic in server-side apply (`x-kubernetes-map-type: atomic`).
    pub fn is_atomic(&self) -> bool {
        self.atomic
    }

    /// The types in the format of a message.
    pub(super) fn type_names(&self) -> String {
        let names: Vec<&str> = self.types.iter().map(|name| name.as_str()).collect();
        names.join(",")
    }

    /// Whether the value may be of this type.
    pub(super) fn has_type(&self, wanted: Type) -> bool {
        self.types.contains(&wanted)
    }
}
