//! Lists that are sets or maps hold nothing twice.

use serde_json::{Map, Value};

use super::node::{Additional, ListType, Schema};
use crate::model::{FieldPath, Violation, ViolationKind};

const RULE: &str = "schema-duplicate";

/// What stands twice in the lists of an object.
pub(super) fn duplicates(schema: &Schema, value: &Value, path: &FieldPath, found: &mut Vec<Violation>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(Additional::Schema(schema)) = &schema.additional {
                    duplicates(schema, value, &path.key(name), found);
                }
                if let Some(schema) = schema.properties.get(name) {
                    duplicates(schema, value, &path.child(name), found);
                }
            }
        }
        Value::Array(list) => {
            match &schema.list {
                ListType::Atomic => {}
                ListType::Set => repeated(list, path, found, Value::clone),
                ListType::Map(keys) => repeated_keys(keys, list, path, found),
            }
            if let Some(schema) = &schema.items {
                for (index, item) in list.iter().enumerate() {
                    duplicates(schema, item, &path.index(index), found);
                }
            }
        }
        _ => {}
    }
}

fn repeated_keys(keys: &[String], list: &[Value], path: &FieldPath, found: &mut Vec<Violation>) {
    if let Some((index, item)) = list
        .iter()
        .enumerate()
        .find(|(_, item)| !item.is_object() && !item.is_null())
    {
        let violation = Violation::new(
            RULE,
            path.index(index),
            ViolationKind::Invalid,
            "must be an object for an array of list-type map",
        );
        found.push(violation.got(item));
        return;
    }
    repeated(list, path, found, |item| {
        let of_key = |key: &String| Some((key.clone(), item.get(key)?.clone()));
        Value::Object(keys.iter().filter_map(of_key).collect::<Map<_, _>>())
    });
}

/// Names the second of those that are the same; a third is not named again.
fn repeated(list: &[Value], path: &FieldPath, found: &mut Vec<Violation>, identity: impl Fn(&Value) -> Value) {
    let identities: Vec<Value> = list.iter().map(identity).collect();
    for (index, identity) in identities.iter().enumerate() {
        if identities
            .iter()
            .take(index)
            .filter(|before| *before == identity)
            .count()
            == 1
        {
            found.push(Violation::new(RULE, path.index(index), ViolationKind::Duplicate, "").got(identity));
        }
    }
}
