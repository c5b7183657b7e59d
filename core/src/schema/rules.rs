//! The evaluation of the CEL rules of a schema.

use serde_json::Value;

use super::correlate::{Pair, Stored, same_item};
use super::node::{Additional, FieldStep, NodeRule, Schema, Type};
use super::trail::Trail;
use crate::model::{Violation, ViolationKind};

/// The old value with which a node is compared.
#[derive(Clone, Copy, Debug, Default)]
struct Ratchet<'a> {
    current: Option<Pair<'a>>,
    /// The nearest node above with a known old value, if the old value of the node itself is
    /// unknown.
    nearest: Option<Pair<'a>>,
}

impl<'a> Ratchet<'a> {
    fn unchanged(self) -> bool {
        self.current.or(self.nearest).is_some_and(Pair::unchanged)
    }

    fn below(self, next: impl Fn(Pair<'a>) -> Option<Pair<'a>>) -> Self {
        match self.current {
            None => self,
            Some(current) => Self {
                current: next(current),
                nearest: Some(current),
            },
        }
    }
}

/// Evaluates the rules of a schema. `old` is the whole old object.
pub(super) fn judge(schema: &Schema, object: &Value, old: Option<&Value>, stored: Stored<'_>) -> Vec<Violation> {
    let ratchet = Ratchet {
        current: old.map(|old| Pair {
            schema,
            new: object,
            old,
            stored,
        }),
        nearest: None,
    };
    let mut found = Vec::new();
    walk(schema, object, old, ratchet, &Trail::ROOT, &mut found);
    found
}

/// Evaluates the rules of one field of an object.
pub(super) fn judge_field<'a>(
    schema: &'a Schema,
    value: &'a Value,
    pair: Option<Pair<'a>>,
    path: &Trail<'_>,
) -> Vec<Violation> {
    let ratchet = Ratchet {
        current: pair,
        nearest: None,
    };
    let mut found = Vec::new();
    walk(schema, value, pair.map(|pair| pair.old), ratchet, path, &mut found);
    found
}

fn walk<'a>(
    schema: &'a Schema,
    value: &'a Value,
    old: Option<&'a Value>,
    ratchet: Ratchet<'a>,
    path: &Trail<'_>,
    found: &mut Vec<Violation>,
) {
    if !schema.has_rules || value.is_null() || ratchet.current.is_some_and(Pair::judged) {
        return;
    }
    let old = old.filter(|old| !old.is_null());
    for rule in &schema.rules {
        found.extend(violation(schema, rule, value, old, ratchet, path));
    }
    match value {
        Value::Object(map) => {
            let before = |name: &str| old?.as_object()?.get(name);
            for (name, value) in map {
                let below = ratchet.below(|pair| pair.field(name));
                if let Some(Additional::Schema(schema)) = &schema.additional {
                    walk(schema, value, before(name), below, &path.key(name), found);
                }
                if let Some(schema) = schema.properties.get(name) {
                    walk(schema, value, before(name), below, &path.child(name), found);
                }
            }
        }
        Value::Array(list) => {
            let Some(items) = schema.items.as_deref() else { return };
            for (index, item) in list.iter().enumerate() {
                let before = old.and_then(|old| same_item(schema, old, item));
                let below = ratchet.below(|pair| pair.item(index));
                walk(items, item, before, below, &path.index(index), found);
            }
        }
        _ => {}
    }
}

fn violation(
    schema: &Schema,
    rule: &NodeRule,
    value: &Value,
    old: Option<&Value>,
    ratchet: Ratchet<'_>,
    path: &Trail<'_>,
) -> Option<Violation> {
    let transition = rule.program.uses_old_self();
    if transition && old.is_none() && !rule.optional_old_self {
        return None;
    }
    let verdict = if rule.optional_old_self {
        rule.program.evaluate_optional(value, old)
    } else {
        rule.program.evaluate(value, old)
    };
    match verdict {
        Ok(true) => None,
        // A violation of a value that the update leaves unchanged is ignored.
        Ok(false) if !transition && ratchet.unchanged() => None,
        Ok(false) => Some(refusal(schema, rule, value, path)),
        Err(error) => {
            let type_ = schema.types.first().map_or("", |type_| type_.as_str());
            let allowed = format!("{error} evaluating rule: {}", rule.message);
            let violation = Violation::new(&rule.id, path.path(), ViolationKind::Invalid, allowed);
            Some(violation.got(&Value::from(type_)))
        }
    }
}

fn refusal(schema: &Schema, rule: &NodeRule, value: &Value, path: &Trail<'_>) -> Violation {
    let path = rule.field_path.iter().fold(path.path(), |path, step| match step {
        FieldStep::Field(name) => path.child(name),
        FieldStep::Key(name) => path.key(name),
    });
    let kind = match rule.reason.as_str() {
        "FieldValueForbidden" => ViolationKind::Forbidden,
        "FieldValueRequired" => ViolationKind::Required,
        "FieldValueDuplicate" => ViolationKind::Duplicate,
        _ => ViolationKind::Invalid,
    };
    let message = if kind == ViolationKind::Duplicate {
        ""
    } else {
        &rule.message
    };
    let violation = Violation::new(&rule.id, path, kind, message).advice(&rule.advice);
    if schema.has_type(Type::Object) || schema.has_type(Type::Array) {
        violation
    } else {
        violation.got(value)
    }
}
