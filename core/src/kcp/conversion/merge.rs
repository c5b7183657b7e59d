//! The difference between two JSON objects, and its application to a third.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::duration::nanoseconds;
use super::tree::{get, set, take};

/// A field that differs. A list is one field; an absent value is `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Change {
    path: Vec<String>,
    /// The value in the first object.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    was: Option<Value>,
    /// The value in the second object.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    is: Option<Value>,
}

/// Reads a value that is present, which may be null.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The fields in which two objects differ.
pub(super) fn difference(old: &Value, new: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    compare(Some(old), Some(new), &mut Vec::new(), &mut changes);
    changes
}

fn compare(old: Option<&Value>, new: Option<&Value>, path: &mut Vec<String>, changes: &mut Vec<Change>) {
    if old == new {
        return;
    }
    let fields = |value: Option<&Value>| {
        value
            .and_then(Value::as_object)
            .filter(|fields| !fields.is_empty())
            .cloned()
    };
    let (inner_old, inner_new) = (fields(old), fields(new));
    // An empty object, a list and a scalar are compared as a whole.
    let is_leaf = |value: Option<&Value>, inner: &Option<Map<String, Value>>| value.is_some() && inner.is_none();
    // Fields that are added to an empty object are added one by one.
    let is_filled = old.is_some_and(is_empty) && inner_new.is_some();
    if (is_leaf(old, &inner_old) && !is_filled) || is_leaf(new, &inner_new) {
        changes.push(Change {
            path: path.clone(),
            was: old.cloned(),
            is: new.cloned(),
        });
        return;
    }
    let (old, new) = (inner_old.unwrap_or_default(), inner_new.unwrap_or_default());
    let removed = old.keys().filter(|name| !new.contains_key(*name));
    for name in removed.chain(new.keys()) {
        path.push(name.clone());
        compare(old.get(name), new.get(name), path, changes);
        path.pop();
    }
}

/// Makes the changes in an object, whatever it contains.
pub(super) fn apply(object: &mut Value, changes: &[Change]) {
    for change in changes {
        change.apply(object);
    }
}

/// Makes the changes whose fields still have their first value.
pub(super) fn apply_where_unchanged(object: &mut Value, changes: &[Change]) {
    for change in changes {
        let path: Vec<&str> = change.path.iter().map(String::as_str).collect();
        if get(object, &path) == change.was.as_ref() {
            change.apply(object);
        }
    }
}

impl Change {
    fn apply(&self, object: &mut Value) {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        match &self.is {
            // An object that appears without fields does not remove those of the other version.
            Some(value)
                if self.was.is_none() && is_empty(value) && get(object, &path).is_some_and(Value::is_object) => {}
            Some(value) => {
                set(object, &path, value.clone());
            }
            None => {
                take(object, &path);
            }
        }
    }

    fn is_same_duration(&self) -> bool {
        let read = |value: &Option<Value>| value.as_ref().and_then(Value::as_str).and_then(nanoseconds);
        read(&self.was).is_some_and(|was| Some(was) == read(&self.is))
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

/// The changes without those between two spellings of one duration.
pub(super) fn without_equal_durations(mut changes: Vec<Change>) -> Vec<Change> {
    changes.retain(|change| !change.is_same_duration());
    changes
}

/// Changes as JSON.
pub(super) fn to_json(changes: &[Change]) -> Value {
    serde_json::to_value(changes).unwrap_or_default()
}

/// Reads changes from JSON.
pub(super) fn of_json(changes: &Value) -> Option<Vec<Change>> {
    Vec::deserialize(changes).ok()
}
