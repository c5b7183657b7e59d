//! The parse of the `openAPIV3Schema` of a CustomResourceDefinition into a [`Schema`].
//!
//! It reads the keywords of a structural schema. It ignores the keywords that the API server
//! ignores.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};
use thiserror::Error;

use super::format;
use super::node::{Additional, Bound, FieldStep, ListType, NodeRule, Schema, Type};
use crate::cel::rules::{Rule, RuleFile, Segment};
use crate::cel::{CelError, Program};

/// Why a schema is not valid.
#[derive(Debug, Error)]
pub enum SchemaError {
    /// A node is not an object, or a keyword has a value of the wrong type.
    #[error("{path}: {reason}")]
    Malformed {
        /// The path in the objects that the schema describes.
        path: String,
        /// The problem.
        reason: String,
    },
    /// A pattern is not a regular expression.
    #[error("{path}: {source}")]
    Pattern {
        /// The path in the objects that the schema describes.
        path: String,
        /// The message of the parser.
        source: Box<regex::Error>,
    },
    /// A rule is not a CEL expression.
    #[error("{path}: {source}")]
    Rule {
        /// The path in the objects that the schema describes.
        path: String,
        /// The message of the parser.
        source: CelError,
    },
}

/// The greatest depth of a schema. A schema in a manifest is not deeper, and a deeper one could
/// exhaust the stack.
const DEEPEST: usize = 64;

impl Schema {
    /// Parses the `openAPIV3Schema` of a version. `known` are the rules that have ids. A validation
    /// of the schema has the id of the rule with the same path and message.
    ///
    /// # Errors
    /// The schema is malformed, or a pattern or a rule does not compile.
    pub fn parse(schema: &Value, known: &RuleFile) -> Result<Self, SchemaError> {
        Parser { known: &known.rules }.node(schema, "", 0)
    }
}

struct Parser<'k> {
    known: &'k [Rule],
}

/// A node and its path.
struct Node<'s> {
    map: &'s Map<String, Value>,
    path: &'s str,
}

impl Node<'_> {
    fn flag(&self, key: &str) -> bool {
        self.map.get(key) == Some(&Value::Bool(true))
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.map.get(key)?.as_str()
    }

    fn count(&self, key: &str) -> Option<u64> {
        self.map.get(key)?.as_u64()
    }

    fn texts(&self, key: &str) -> Vec<String> {
        let items = self.map.get(key).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn bound(&self, key: &str, exclusive: &str) -> Option<Bound> {
        Some(Bound {
            value: self.map.get(key)?.as_f64()?,
            exclusive: self.flag(exclusive),
        })
    }

    fn malformed(&self, reason: impl Into<String>) -> SchemaError {
        malformed(self.path, reason)
    }
}

fn malformed(path: &str, reason: impl Into<String>) -> SchemaError {
    SchemaError::Malformed {
        path: if path.is_empty() { "the schema" } else { path }.to_owned(),
        reason: reason.into(),
    }
}

impl Parser<'_> {
    fn node(&self, schema: &Value, path: &str, depth: usize) -> Result<Schema, SchemaError> {
        if depth > DEEPEST {
            return Err(malformed(path, "the schema is too deep"));
        }
        let map = schema
            .as_object()
            .ok_or_else(|| malformed(path, "a schema must be an object"))?;
        let node = Node { map, path };
        let types = types(&node)?;
        let mut parsed = Schema {
            nullable: node.flag("nullable"),
            format: node
                .text("format")
                .filter(|name| format::is_known(name, &types))
                .map(str::to_owned),
            default: map.get("default").cloned().filter(|default| !default.is_null()),
            allowed: map.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            required: node.texts("required"),
            min_properties: node.count("minProperties"),
            max_properties: node.count("maxProperties"),
            preserve: node.flag("x-kubernetes-preserve-unknown-fields"),
            atomic: node.text("x-kubernetes-map-type") == Some("atomic"),
            embedded: node.flag("x-kubernetes-embedded-resource"),
            min_items: node.count("minItems"),
            max_items: node.count("maxItems"),
            list: match node.text("x-kubernetes-list-type") {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map(node.texts("x-kubernetes-list-map-keys")),
                _ => ListType::Atomic,
            },
            min_length: node.count("minLength"),
            max_length: node.count("maxLength"),
            pattern: pattern(&node)?,
            minimum: node.bound("minimum", "exclusiveMinimum"),
            maximum: node.bound("maximum", "exclusiveMaximum"),
            multiple_of: map.get("multipleOf").and_then(Value::as_f64),
            types,
            ..Schema::default()
        };
        self.below(&node, &mut parsed, depth)?;
        parsed.rules = self.rules(&node, &parsed)?;
        parsed.has_rules = !parsed.rules.is_empty() || below(&parsed).any(|schema| schema.has_rules);
        parsed.has_defaults = parsed.default.is_some() || below(&parsed).any(|schema| schema.has_defaults);
        parsed.has_unique_lists =
            parsed.list != ListType::Atomic || below(&parsed).any(|schema| schema.has_unique_lists);
        Ok(parsed)
    }

    /// Parses the schemas within a schema.
    fn below(&self, node: &Node<'_>, parsed: &mut Schema, depth: usize) -> Result<(), SchemaError> {
        if let Some(properties) = node.map.get("properties") {
            let properties = properties
                .as_object()
                .ok_or_else(|| node.malformed("properties must be an object"))?;
            let fields: Result<BTreeMap<_, _>, SchemaError> = properties
                .iter()
                .map(|(name, property)| {
                    let path = if node.path.is_empty() {
                        name.clone()
                    } else {
                        format!("{}.{name}", node.path)
                    };
                    Ok((name.clone(), self.node(property, &path, depth + 1)?))
                })
                .collect();
            parsed.properties = fields?;
        }
        let items = format!("{}[]", node.path);
        parsed.additional = match node.map.get("additionalProperties") {
            None | Some(Value::Bool(false)) => None,
            Some(Value::Bool(true)) => Some(Additional::Any),
            Some(schema) => Some(Additional::Schema(Box::new(self.node(schema, &items, depth + 1)?))),
        };
        if let Some(schema) = node.map.get("items") {
            parsed.items = Some(Box::new(self.node(schema, &items, depth + 1)?));
        }
        let members = |key: &str| -> Result<Vec<Schema>, SchemaError> {
            let members = node.map.get(key).and_then(Value::as_array);
            members
                .into_iter()
                .flatten()
                .map(|member| self.node(member, node.path, depth + 1))
                .collect()
        };
        parsed.all_of = members("allOf")?;
        parsed.any_of = members("anyOf")?;
        parsed.one_of = members("oneOf")?;
        if let Some(schema) = node.map.get("not") {
            parsed.not = Some(Box::new(self.node(schema, node.path, depth + 1)?));
        }
        Ok(())
    }

    fn rules(&self, node: &Node<'_>, parsed: &Schema) -> Result<Vec<NodeRule>, SchemaError> {
        let rules = node.map.get("x-kubernetes-validations").and_then(Value::as_array);
        rules
            .into_iter()
            .flatten()
            .map(|rule| self.rule(node, parsed, rule))
            .collect()
    }

    fn rule(&self, node: &Node<'_>, parsed: &Schema, rule: &Value) -> Result<NodeRule, SchemaError> {
        let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default().trim();
        let program = Program::compile(text("rule")).map_err(|source| SchemaError::Rule {
            path: node.path.to_owned(),
            source,
        })?;
        let message = match text("message") {
            "" => format!("failed rule: {}", text("rule")),
            message => message.to_owned(),
        };
        let known = self
            .known
            .iter()
            .find(|known| known.message.trim() == message && plain_path(known) == node.path);
        Ok(NodeRule {
            id: known.map_or("schema-cel", |known| known.id.as_str()).to_owned(),
            advice: known.map(|known| known.advice.clone()).unwrap_or_default(),
            program,
            message,
            reason: text("reason").to_owned(),
            field_path: field_path(text("fieldPath"), parsed),
            optional_old_self: rule.get("optionalOldSelf") == Some(&Value::Bool(true)),
        })
    }
}

/// The path of a rule with `[]` for items of any list.
fn plain_path(rule: &Rule) -> String {
    let mut path = String::new();
    for segment in rule.segments() {
        match segment {
            Segment::Field(field) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&field);
            }
            Segment::Items | Segment::ItemsBy(_) => path.push_str("[]"),
        }
    }
    path
}

/// The schemas of the direct children.
fn below(schema: &Schema) -> impl Iterator<Item = &Schema> {
    let additional = match &schema.additional {
        Some(Additional::Schema(schema)) => Some(&**schema),
        Some(Additional::Any) | None => None,
    };
    schema
        .properties
        .values()
        .chain(schema.items.as_deref())
        .chain(additional)
}

fn types(node: &Node<'_>) -> Result<Vec<Type>, SchemaError> {
    if node.flag("x-kubernetes-int-or-string") {
        return Ok(vec![Type::Integer, Type::String]);
    }
    Ok(match node.text("type") {
        None | Some("") => Vec::new(),
        Some("object") => vec![Type::Object],
        Some("array") => vec![Type::Array],
        Some("string") => vec![Type::String],
        Some("integer") => vec![Type::Integer],
        Some("number") => vec![Type::Number],
        Some("boolean") => vec![Type::Boolean],
        Some(other) => return Err(node.malformed(format!("{other:?} is not a type"))),
    })
}

fn pattern(node: &Node<'_>) -> Result<Option<Regex>, SchemaError> {
    let Some(pattern) = node.text("pattern").filter(|pattern| !pattern.is_empty()) else {
        return Ok(None);
    };
    Regex::new(pattern).map(Some).map_err(|source| SchemaError::Pattern {
        path: node.path.to_owned(),
        source: Box::new(source),
    })
}

/// Reads `.field`, `['field']` and `['key']`, relative to the node.
fn field_path(text: &str, schema: &Schema) -> Vec<FieldStep> {
    let mut steps = Vec::new();
    let mut schema = Some(schema);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (name, remaining) = if first == '[' {
            let inner = rest.strip_prefix("['").unwrap_or(rest);
            inner.split_once("']").unwrap_or((inner, ""))
        } else {
            let inner = rest.strip_prefix('.').unwrap_or(rest);
            let end = inner.find(['.', '[']).unwrap_or(inner.len());
            inner.split_at(end)
        };
        let named = schema.is_none_or(|schema| schema.properties.contains_key(name));
        steps.push(if named {
            FieldStep::Field(name.to_owned())
        } else {
            FieldStep::Key(name.to_owned())
        });
        schema = schema.and_then(|schema| schema.field(name));
        rest = remaining;
    }
    steps
}
