//! Compares two objects. The result is sets of fields.

use std::collections::BTreeMap;

use capstan_core::schema::Schema;
use serde_json::Value;

use super::fields::{Fields, Parts, Place, parts};

/// The fields that differ between two objects.
#[derive(Clone, Debug, Default)]
pub(super) struct Comparison {
    pub(super) added: Fields,
    pub(super) modified: Fields,
    pub(super) removed: Fields,
}

/// Compares two objects of a kind.
pub(super) fn compare(schema: &Schema, old: &Value, new: &Value) -> Comparison {
    let mut found = Comparison::default();
    walk(
        Place::Root(schema),
        Some(old),
        Some(new),
        &mut found.added,
        &mut found.modified,
        &mut found.removed,
    );
    for fields in [&mut found.added, &mut found.modified, &mut found.removed] {
        fields.here = false;
    }
    found
}

fn walk(
    place: Place<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    added: &mut Fields,
    modified: &mut Fields,
    removed: &mut Fields,
) {
    match (old, new) {
        (None, Some(_)) => added.here = true,
        (Some(_), None) => removed.here = true,
        _ => {}
    }
    let (left, right) = (old.map(|old| parts(&place, old)), new.map(|new| parts(&place, new)));
    let mut pairs: BTreeMap<String, (Option<&Value>, Option<&Value>, Place<'_>)> = BTreeMap::new();
    let object = |parts: &Option<Parts<'_>>| matches!(parts, None | Some(Parts::Object(_)));
    let list = |parts: &Option<Parts<'_>>| matches!(parts, None | Some(Parts::List(_)));
    if object(&left) && object(&right) {
        for (name, value) in old.and_then(Value::as_object).into_iter().flatten() {
            pairs
                .entry(format!("f:{name}"))
                .or_insert((None, None, place.field(name)))
                .0 = Some(value);
        }
        for (name, value) in new.and_then(Value::as_object).into_iter().flatten() {
            pairs
                .entry(format!("f:{name}"))
                .or_insert((None, None, place.field(name)))
                .1 = Some(value);
        }
    } else if list(&left) && list(&right) {
        if let Some(Parts::List(items)) = left {
            for (key, value) in items {
                pairs.entry(key).or_insert((None, None, place.item())).0 = Some(value);
            }
        }
        if let Some(Parts::List(items)) = right {
            for (key, value) in items {
                pairs.entry(key).or_insert((None, None, place.item())).1 = Some(value);
            }
        }
    } else {
        if old.is_some() && new.is_some() && old != new {
            modified.here = true;
        }
        return;
    }
    for (element, (old, new, place)) in pairs {
        if old == new {
            continue;
        }
        walk(
            place,
            old,
            new,
            added.child(element.clone()),
            modified.child(element.clone()),
            removed.child(element),
        );
    }
}
