//! Lists the fields that an edit changes, so that a refusal can name them.

use serde_json::{Map, Value};

use crate::model::FieldPath;

/// The largest number of fields that a refusal names.
const MOST: usize = 5;

/// The deepest fields below `path` that differ. Lists are compared as a whole.
pub(super) fn changed(path: &str, old: Option<&Value>, new: Option<&Value>) -> Vec<FieldPath> {
    let mut found = Vec::new();
    walk(&FieldPath::new(path), old, new, &mut found);
    found
}

fn walk(path: &FieldPath, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<FieldPath>) {
    // Adding the first label or removing the last one adds or removes the map. The key is named.
    let is_key_map = path.as_str() == "metadata.labels" || path.as_str() == "metadata.annotations";
    let none = Value::Object(Map::new());
    let (old, new) = match (old, new) {
        (Some(old), None) if is_key_map => (Some(old), Some(&none)),
        (None, Some(new)) if is_key_map => (Some(&none), Some(new)),
        both => both,
    };
    match (old, new) {
        (old, new) if old == new => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let keys = old.keys().chain(new.keys().filter(|key| !old.contains_key(*key)));
            for key in keys {
                let child = if key.contains(['.', '/']) {
                    path.key(key)
                } else {
                    path.child(key)
                };
                walk(&child, old.get(key), new.get(key), found);
            }
        }
        _ => found.push(path.clone()),
    }
}

/// The fields as a comma-separated list, at most [`MOST`] of them.
pub(super) fn listed(fields: &[FieldPath]) -> String {
    let names: Vec<&str> = fields.iter().take(MOST).map(FieldPath::as_str).collect();
    match fields.len() {
        0 => String::new(),
        all if all > MOST => format!("{} and {} more", names.join(", "), all - MOST),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_deepest_fields_that_differ_are_named() {
        let old = json!({"a": {"b": 1, "c": [1]}, "labels": {"x/y": "1"}});
        let new = json!({"a": {"b": 2, "c": [1, 2]}, "d": {}, "labels": {"x/y": "2"}});
        assert_eq!(
            listed(&changed("spec", Some(&old), Some(&new))),
            "spec.a.b, spec.a.c, spec.labels[x/y], spec.d"
        );
        assert!(changed("spec", Some(&old), Some(&old)).is_empty());
        assert_eq!(listed(&changed("spec", None, Some(&new))), "spec");
        let labels = json!({"a.io/x": "1"});
        for (old, new) in [(None, Some(&labels)), (Some(&labels), None)] {
            assert_eq!(listed(&changed("metadata.labels", old, new)), "metadata.labels[a.io/x]");
        }
    }
}
