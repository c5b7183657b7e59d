//! A parsed schema: what one node of an object may hold.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use crate::cel::Program;

/// A structural schema, parsed once and used often.
#[derive(Debug, Default)]
pub struct Schema {
    /// What the value may be; empty for anything.
    pub(super) types: Vec<Type>,
    pub(super) nullable: bool,
    /// A format that the API server knows for this type; others are ignored, as there.
    pub(super) format: Option<String>,
    pub(super) default: Option<Value>,
    pub(super) allowed: Vec<Value>,

    pub(super) properties: BTreeMap<String, Schema>,
    pub(super) additional: Option<Additional>,
    pub(super) required: Vec<String>,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
    /// Unknown fields are kept.
    pub(super) preserve: bool,
    /// The object has one owner, and no parts (`x-kubernetes-map-type: atomic`).
    pub(super) atomic: bool,
    /// The value is an object of its own, with type and metadata.
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
    /// Whether this node or one below it has rules: others are not walked for them.
    pub(super) has_rules: bool,
    /// Whether here or below stands a default.
    pub(super) has_defaults: bool,
    /// Whether here or below stands a list that holds nothing twice.
    pub(super) has_unique_lists: bool,
}

/// A JSON type, as schemas name them.
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

/// Fields that are not named.
#[derive(Debug)]
pub(super) enum Additional {
    /// `additionalProperties: true`.
    Any,
    /// Each of them is like this.
    Schema(Box<Schema>),
}

/// How the items of a list relate to those of its older self.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ListType {
    /// Not at all.
    #[default]
    Atomic,
    /// No item stands twice.
    Set,
    /// Items are the same when these fields are.
    Map(Vec<String>),
}

/// An end of a range of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    pub(super) value: f64,
    pub(super) exclusive: bool,
}

impl Bound {
    /// Whether a number is less than this end of a range allows.
    pub(super) fn is_above(self, number: f64) -> bool {
        number < self.value || (self.exclusive && number == self.value)
    }

    /// Whether a number is more than this end of a range allows.
    pub(super) fn is_below(self, number: f64) -> bool {
        number > self.value || (self.exclusive && number == self.value)
    }
}

/// One of `x-kubernetes-validations`.
#[derive(Debug)]
pub(super) struct NodeRule {
    /// The id that the rule has among those that we know, or `schema-cel`.
    pub(super) id: String,
    pub(super) program: Program,
    pub(super) message: String,
    pub(super) advice: String,
    pub(super) reason: String,
    /// Where below the node the rule points; names, from the node down.
    pub(super) field_path: Vec<FieldStep>,
    pub(super) optional_old_self: bool,
}

/// A step of a rule's `fieldPath`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldStep {
    /// A field of an object.
    Field(String),
    /// An entry of a map.
    Key(String),
}

impl Schema {
    /// The schema of a field, named or not.
    pub(super) fn field(&self, name: &str) -> Option<&Schema> {
        match (self.properties.get(name), &self.additional) {
            (Some(property), _) => Some(property),
            (None, Some(Additional::Schema(schema))) => Some(schema),
            _ => None,
        }
    }

    /// What is known of a field of an object: by name, or as one of those that are not named.
    pub fn child(&self, name: &str) -> Option<&Schema> {
        self.field(name)
    }

    /// Whether the field stands in the schema by its name: a struct's field, not a map's key.
    pub fn names(&self, field: &str) -> bool {
        self.properties.contains_key(field)
    }

    /// What is known of the items of a list.
    pub fn item(&self) -> Option<&Schema> {
        self.items.as_deref()
    }

    /// The fields that make two items of a list the same one (`x-kubernetes-list-type: map`).
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

    /// Whether the object is replaced as a whole, and owned as a whole (`x-kubernetes-map-type:
    /// atomic`).
    pub fn is_atomic(&self) -> bool {
        self.atomic
    }

    /// The types as a message lists them.
    pub(super) fn type_names(&self) -> String {
        let names: Vec<&str> = self.types.iter().map(|name| name.as_str()).collect();
        names.join(",")
    }

    /// Whether the value may be of this type.
    pub(super) fn has_type(&self, wanted: Type) -> bool {
        self.types.contains(&wanted)
    }
}
