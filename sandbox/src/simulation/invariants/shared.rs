//! Invariants of every controller. They look at objects as they are stored, and know no kind.

use serde_json::Value;

use crate::api::Object;

use super::check::Invariant;

/// The invariants of every controller.
pub(crate) const INVARIANTS: &[Invariant] = &[
    Invariant {
        id: "G4",
        text: "once nothing changes, nothing is written",
    },
    Invariant {
        id: "G6",
        text: "no generation is observed before it is there, and a condition's time moves with its status",
    },
    Invariant {
        id: "G8",
        text: "no finalizer goes before its time, and nothing that is deleted stays for ever",
    },
    Invariant {
        id: "ESR",
        text: "once users and faults stop, everything comes to rest as the set asks, and the set says so",
    },
];

/// G6: a status reports a generation that the object does not have yet.
pub(crate) fn generation_observed_early(object: &Object) -> Option<String> {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    let (observed, generation) = (number("/status/observedGeneration"), number("/metadata/generation"));
    (observed > generation).then(|| format!("generation {observed:?} is observed, and {generation:?} is the last"))
}

/// G6: the transition time of a condition changes, and its status does not.
pub(crate) fn transition_time_moved(old: &Object, new: &Object) -> Option<String> {
    if old.has_same(new, "status") {
        return None;
    }
    let moved = |now: &&Value| {
        let same = |before: &Value, field: &str| before.get(field) == now.get(field);
        let before = conditions(old).find(|before| same(before, "type"));
        before.is_some_and(|before| same(before, "status") && !same(before, "lastTransitionTime"))
    };
    let condition = conditions(new).find(moved)?;
    let name = condition.get("type").and_then(Value::as_str).unwrap_or_default();
    Some(format!("the time of condition {name} moves, and its status does not"))
}

/// G8, at rest: an object is still being deleted.
pub(crate) fn stuck<'a>(mut objects: impl Iterator<Item = &'a Object>) -> Option<String> {
    let stuck = objects.find(|object| object.pointer("/metadata/deletionTimestamp").is_some())?;
    let text = |pointer: &str| stuck.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, name) = (text("/kind"), text("/metadata/name"));
    Some(format!("{kind} {name} is being deleted, and is never gone"))
}

fn conditions(object: &Object) -> impl Iterator<Item = &Value> {
    let list = object.pointer("/status/conditions").and_then(Value::as_array);
    list.into_iter().flatten()
}
