//! Merges an applied configuration into a live object, and removes fields that are no longer
//! applied.

use capstan_core::schema::Schema;
use serde_json::{Map, Value};

use super::fields::{Fields, Parts, Place, parts};

/// The live object with the applied configuration merged into it.
pub(super) fn merged(schema: &Schema, live: &Value, applied: &Value) -> Value {
    merge(Place::Root(schema), Some(live), applied)
}

fn merge(place: Place<'_>, live: Option<&Value>, applied: &Value) -> Value {
    match (parts(&place, applied), live) {
        (Parts::Object(map), Some(Value::Object(stored))) => {
            let mut sum = stored.clone();
            for (name, value) in map {
                let child = merge(place.field(name), stored.get(name), value);
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
            let Parts::List(stored) = parts(&place, live) else {
                return applied.clone();
            };
            // Applied items keep the order in which they are applied. An item that is only in the
            // live list stays before the next item that both lists have.
            let mut sum: Vec<Value> = Vec::new();
            let mut rest = stored.as_slice();
            for (key, value) in &items {
                let only_live = rest
                    .iter()
                    .take_while(|(stored, _)| !items.iter().any(|(key, _)| key == stored))
                    .count();
                let (before, after) = rest.split_at(only_live);
                sum.extend(before.iter().map(|(_, value)| (*value).clone()));
                rest = after;
                if let Some(at) = rest.iter().position(|(stored, _)| stored == key) {
                    let (before, after) = rest.split_at(at);
                    let only_live = before
                        .iter()
                        .filter(|(stored, _)| !items.iter().any(|(key, _)| key == stored));
                    sum.extend(only_live.map(|(_, value)| (*value).clone()));
                    rest = after.get(1..).unwrap_or_default();
                }
                let live = stored.iter().find(|(stored, _)| stored == key).map(|(_, value)| *value);
                sum.push(merge(place.item(), live, value));
            }
            let only_live = rest
                .iter()
                .filter(|(stored, _)| !items.iter().any(|(key, _)| key == stored));
            sum.extend(only_live.map(|(_, value)| (*value).clone()));
            sum.into()
        }
        _ => applied.clone(),
    }
}

/// Removes the fields that the manager applied last and no longer applies, unless another manager
/// owns them or a field below.
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
        // Fields below that no manager owns are removed with it.
        return false;
    }
    let held = !value.is_object() && !value.is_array() || value.as_object().is_some_and(Map::is_empty);
    remove(place, value, last, others);
    let emptied = value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
    held || !emptied || !others.is_empty()
}
