//! Lists of type `set` and `map`: their items must be unique.

use serde_json::Value;

use super::node::{Additional, ListType, Schema};
use super::trail::Trail;
use crate::model::{Violation, ViolationKind};

const RULE: &str = "schema-duplicate";

/// Adds a violation for each duplicate in the lists of an object.
pub(super) fn duplicates(schema: &Schema, value: &Value, path: &Trail<'_>, found: &mut Vec<Violation>) {
    if !schema.has_unique_lists {
        return;
    }
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
                ListType::Set => repeated(list, path, found, |one, other| one == other, Value::clone),
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

fn repeated_keys(keys: &[String], list: &[Value], path: &Trail<'_>, found: &mut Vec<Violation>) {
    if let Some((index, item)) = list
        .iter()
        .enumerate()
        .find(|(_, item)| !item.is_object() && !item.is_null())
    {
        let violation = Violation::new(
            RULE,
            path.index(index).path(),
            ViolationKind::Invalid,
            "must be an object for an array of list-type map",
        );
        found.push(violation.got(item));
        return;
    }
    let same = |one: &Value, other: &Value| keys.iter().all(|key| one.get(key) == other.get(key));
    let identity = |item: &Value| {
        let of_key = |key: &String| Some((key.clone(), item.get(key)?.clone()));
        keys.iter().filter_map(of_key).collect::<serde_json::Map<_, _>>().into()
    };
    repeated(list, path, found, same, identity);
}

/// Adds a violation for the second of several equal items. Further ones give no violation.
fn repeated(
    list: &[Value],
    path: &Trail<'_>,
    found: &mut Vec<Violation>,
    same: impl Fn(&Value, &Value) -> bool,
    identity: impl Fn(&Value) -> Value,
) {
    for (index, item) in list.iter().enumerate() {
        if list.iter().take(index).filter(|before| same(before, item)).count() == 1 {
            let path = path.index(index).path();
            found.push(Violation::new(RULE, path, ViolationKind::Duplicate, "").got(&identity(item)));
        }
    }
}
