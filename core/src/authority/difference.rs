//! Compares a wanted JSON tree with the stored one, and makes the merge patch between them.
//!
//! An API server adds defaults and may remove fields. So a stored tree can differ from the wanted
//! one for ever, although every write succeeded. [`Difference`] tells additions of the API server
//! from wanted values that are not stored.

use serde_json::{Map, Value};

/// What differs between a wanted tree and the stored tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Paths of wanted values that are not stored.
    pub(super) missing: Vec<String>,
    /// Paths of wanted values in the place of which another value is stored. They are in `missing`
    /// too.
    pub(super) changed: Vec<String>,
    /// Paths of stored values that are not wanted.
    pub(super) extra: Vec<String>,
}

impl Difference {
    /// Compares two trees. A null, and an empty string, list or object equal an absent value.
    pub(super) fn between(wanted: &Value, stored: &Value, path: &str) -> Self {
        let mut found = Self::default();
        found.compare(wanted, stored, path);
        found
    }

    /// Whether both trees are equal.
    pub(super) fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.extra.is_empty()
    }

    fn compare(&mut self, wanted: &Value, stored: &Value, path: &str) {
        match (wanted, stored) {
            (wanted, stored) if wanted == stored || (is_empty(wanted) && is_empty(stored)) => {}
            (Value::Object(wanted), Value::Object(stored)) => {
                for (field, value) in wanted {
                    self.compare(value, stored.get(field).unwrap_or(&Value::Null), &child(path, field));
                }
                for (field, value) in stored.iter().filter(|(field, _)| !wanted.contains_key(*field)) {
                    self.compare(&Value::Null, value, &child(path, field));
                }
            }
            (Value::Array(wanted), Value::Array(stored)) if wanted.len() == stored.len() => {
                for (at, (wanted, stored)) in wanted.iter().zip(stored).enumerate() {
                    self.compare(wanted, stored, &format!("{path}[{at}]"));
                }
            }
            (wanted, _) if is_empty(wanted) => self.extra.push(path.to_owned()),
            (_, stored) => {
                if !is_empty(stored) {
                    self.changed.push(path.to_owned());
                }
                self.missing.push(path.to_owned());
            }
        }
    }
}

fn child(path: &str, field: &str) -> String {
    if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// The JSON merge patch that makes `wanted` of `stored`. `None` if they are equal.
pub(super) fn merge_patch(wanted: &Value, stored: &Value) -> Option<Value> {
    match (wanted, stored) {
        (wanted, stored) if wanted == stored => None,
        (Value::Object(wanted), Value::Object(stored)) => {
            let mut patch = Map::new();
            for (field, value) in wanted {
                let change = match stored.get(field) {
                    Some(stored) => merge_patch(value, stored),
                    None => Some(value.clone()),
                };
                patch.extend(change.map(|change| (field.clone(), change)));
            }
            for field in stored.keys().filter(|field| !wanted.contains_key(*field)) {
                patch.insert(field.clone(), Value::Null);
            }
            (!patch.is_empty()).then(|| patch.into())
        }
        (wanted, _) => Some(wanted.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_are_extra_and_lost_values_are_missing() {
        let wanted = json!({"a": 1, "b": {"c": [{"d": 1}]}, "e": {}, "g": 2});
        let stored = json!({"a": 2, "b": {"c": [{"d": 1, "x": true}]}, "f": 0});
        let found = Difference::between(&wanted, &stored, "spec");
        assert_eq!(found.missing, ["spec.a", "spec.g"]);
        assert_eq!(found.changed, ["spec.a"]);
        assert_eq!(found.extra, ["spec.b.c[0].x", "spec.f"]);
        assert!(Difference::between(&stored, &stored, "").is_empty());
    }

    #[test]
    fn a_merge_patch_makes_the_wanted_tree() {
        let wanted = json!({"a": 1, "b": {"c": [1]}, "n": {"x": {"y": 1}}});
        let mut stored = json!({"a": 2, "b": {"c": [2], "d": 1}, "f": 0});
        let patch = merge_patch(&wanted, &stored).unwrap();
        json_patch::merge(&mut stored, &patch);
        assert_eq!(stored, wanted);
        assert_eq!(merge_patch(&wanted, &stored), None);
    }
}
