//! Merging what is applied into what is there, and removing what is no longer applied.

use capstan_core::schema::Schema;
use serde_json::{Map, Value};

use super::fields::{Fields, Parts, Place, parts};

/// What is there, with what is applied over it.
pub(super) fn merged(schema: &Schema, live: &Value, applied: &Value) -> Value {
    merge(Place::Root(schema), Some(live), applied)
}

fn merge(place: Place<'_>, live: Option<&Value>, applied: &Value) -> Value {
    match (parts(&place, applied), live) {
        (Parts::Object(map), Some(Value::Object(there))) => {
            let mut sum = there.clone();
            for (name, value) in map {
                let child = merge(place.field(name), there.get(name), value);
                sum.insert(name.clone(), child);
            }
            sum.into()
        }
        (Parts::Object(map), _) => {
            let all = map
                .iter()
                .map(|(name, value)| (name.clone(), merge(place.field(name), None, value)));
            all.collect::<Map<_, _>>().into()
        }
        (Parts::List(items), Some(live)) => {
            let Parts::List(there) = parts(&place, live) else {
                return applied.clone();
            };
            // What is applied comes in its order; what is only there keeps its place before the next that both have.
            let mut sum: Vec<Value> = Vec::new();
            let mut rest = there.as_slice();
            for (key, value) in &items {
                let only_there = rest
                    .iter()
                    .take_while(|(there, _)| !items.iter().any(|(key, _)| key == there))
                    .count();
                let (before, after) = rest.split_at(only_there);
                sum.extend(before.iter().map(|(_, value)| (*value).clone()));
                rest = after;
                if let Some(at) = rest.iter().position(|(there, _)| there == key) {
                    let (before, after) = rest.split_at(at);
                    let only_there = before
                        .iter()
                        .filter(|(there, _)| !items.iter().any(|(key, _)| key == there));
                    sum.extend(only_there.map(|(_, value)| (*value).clone()));
                    rest = after.get(1..).unwrap_or_default();
                }
                let live = there.iter().find(|(there, _)| there == key).map(|(_, value)| *value);
                sum.push(merge(place.item(), live, value));
            }
            let only_there = rest
                .iter()
                .filter(|(there, _)| !items.iter().any(|(key, _)| key == there));
            sum.extend(only_there.map(|(_, value)| (*value).clone()));
            sum.into()
        }
        _ => applied.clone(),
    }
}

/// Removes what was owned and is not any more, unless another owns it or something in it.
pub(super) fn prune(schema: &Schema, object: &mut Value, last: &Fields, others: &Fields) {
    remove(Place::Root(schema), object, last, others);
}

fn remove(place: Place<'_>, value: &mut Value, last: &Fields, others: &Fields) {
    let none = Fields::default();
    match value {
        Value::Object(map) => {
            map.retain(|name, value| {
                let element = format!("f:{name}");
                let Some(last) = last.below.get(&element) else {
                    return true;
                };
                keeps(
                    place.field(name),
                    value,
                    last,
                    others.below.get(&element).unwrap_or(&none),
                )
            });
        }
        Value::Array(list) => {
            let all = Value::Array(list.clone());
            let Parts::List(items) = parts(&place, &all) else {
                return;
            };
            let keys: Vec<String> = items.into_iter().map(|(key, _)| key).collect();
            let mut keys = keys.iter();
            list.retain_mut(|value| {
                let Some(last) = keys.next().and_then(|key| Some((key, last.below.get(key)?))) else {
                    return true;
                };
                let (key, last) = last;
                keeps(place.item(), value, last, others.below.get(key).unwrap_or(&none))
            });
        }
        _ => {}
    }
}

fn keeps(place: Place<'_>, value: &mut Value, last: &Fields, others: &Fields) -> bool {
    if last.here && others.is_empty() {
        // What is in it and belongs to nobody goes with it.
        return false;
    }
    let held = !value.is_object() && !value.is_array() || value.as_object().is_some_and(Map::is_empty);
    remove(place, value, last, others);
    let emptied = value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
    held || !emptied || !others.is_empty()
}
