//! Conditions whose status may be `Unknown`, and the patch of a status with them.
//!
//! A list of conditions is replaced as a whole, so a patch has the resource version of the object
//! from which it was computed. Conditions of other controllers are kept. A status that is stored
//! gives no patch.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// A condition that was computed, without its transition time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedCondition {
    /// The observation, in CamelCase.
    pub type_: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// The reason, in CamelCase. Programs may compare it.
    pub reason: &'static str,
    /// An explanation for users; may be empty.
    pub message: String,
}

impl ReportedCondition {
    /// A condition.
    pub fn new(type_: &'static str, status: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            type_,
            status,
            reason,
            message: message.into(),
        }
    }
}

/// The patch of the fields of a status that differ from the stored ones, with the precondition;
/// `None` if none differs.
pub fn status_patch(stored: &Value, mut after: Map<String, Value>) -> Option<Value> {
    let before = stored.get("status").unwrap_or(&Value::Null);
    after.retain(|field, value| before.get(field).unwrap_or(&Value::Null) != value);
    if after.is_empty() {
        return None;
    }
    let of = |pointer: &str| stored.pointer(pointer).cloned().unwrap_or_default();
    let metadata = json!({"uid": of("/metadata/uid"), "resourceVersion": of("/metadata/resourceVersion")});
    Some(json!({"metadata": metadata, "status": after}))
}

/// The conditions to store, ordered by type. A condition keeps its transition time while its
/// status stays, and is stored as it is if only the generation of the object has changed.
pub fn merge_reported(stored: &Value, new: &[ReportedCondition], now: Timestamp) -> Value {
    let generation = stored.pointer("/metadata/generation").and_then(Value::as_i64);
    let stored = stored
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let is_replaced = |condition: &&Value| new.iter().any(|one| one.type_ == text(condition, "type"));
    let mut all: Vec<Value> = stored
        .iter()
        .filter(|condition| !is_replaced(condition))
        .cloned()
        .collect();
    // Times in the API have whole seconds.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    for condition in new {
        let before = stored.iter().find(|before| text(before, "type") == condition.type_);
        let before = before.filter(|before| text(before, "status") == condition.status);
        let is_same = |before: &&Value| {
            text(before, "reason") == condition.reason && text(before, "message") == condition.message
        };
        if let Some(same) = before.filter(is_same) {
            all.push(same.clone());
            continue;
        }
        let since = before.and_then(|before| before.get("lastTransitionTime").cloned());
        let mut object = json!({
            "type": condition.type_, "status": condition.status, "reason": condition.reason,
            "message": condition.message, "lastTransitionTime": since.unwrap_or_else(|| json!(now)),
        });
        if let (Some(fields), Some(generation)) = (object.as_object_mut(), generation) {
            fields.insert(String::from("observedGeneration"), json!(generation));
        }
        all.push(object);
    }
    all.sort_by(|left, right| text(left, "type").cmp(text(right, "type")));
    Value::Array(all)
}

/// The conditions to store, as [`merge_reported`]; `None` if they are stored.
pub fn changed_conditions(stored: &Value, new: &[ReportedCondition], now: Timestamp) -> Option<Value> {
    let Some(list) = stored.pointer("/status/conditions").and_then(Value::as_array) else {
        return Some(merge_reported(stored, new, now));
    };
    let is_stored = |one: &ReportedCondition| {
        let found = list.iter().find(|known| text(known, "type") == one.type_);
        found.is_some_and(|known| {
            let fields = [
                ("status", one.status),
                ("reason", one.reason),
                ("message", one.message.as_str()),
            ];
            fields.into_iter().all(|(field, value)| text(known, field) == value)
        })
    };
    let is_ordered = list.windows(2).all(|pair| match pair {
        [left, right] => text(left, "type") < text(right, "type"),
        _ => true,
    });
    if is_ordered && new.iter().all(is_stored) {
        return None;
    }
    Some(merge_reported(stored, new, now))
}

fn text<'v>(condition: &'v Value, field: &str) -> &'v str {
    condition.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn conditions_change_exactly_if_the_merge_differs_from_what_is_stored() {
        let new = |status, message: &str| {
            [
                ReportedCondition::new("Available", "True", "Up", ""),
                ReportedCondition::new("Ready", status, "Why", message),
            ]
        };
        let merged = merge_reported(&json!({"metadata": {"generation": 3}}), &new("True", "x"), at(10));
        let stored = |conditions: &Value| json!({"metadata": {"generation": 4}, "status": {"conditions": conditions}});
        let mut with_other = merged.clone();
        with_other
            .as_array_mut()
            .unwrap()
            .push(json!({"type": "Theirs", "status": "True"}));
        let mut unordered = merged.clone();
        unordered.as_array_mut().unwrap().reverse();
        for stored in [stored(&merged), stored(&with_other), stored(&unordered), json!({})] {
            for new in [new("True", "x"), new("True", "y"), new("False", "x")] {
                let merged = merge_reported(&stored, &new, at(20));
                let is_stored = stored.pointer("/status/conditions") == Some(&merged);
                let changed = changed_conditions(&stored, &new, at(20));
                assert_eq!(changed, (!is_stored).then_some(merged), "{stored} {new:?}");
            }
        }
    }
}
