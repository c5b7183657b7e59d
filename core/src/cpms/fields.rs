//! Fields of a JSON object, by path. A path without a value reads as absent. A write creates the
//! objects on the path.

use serde_json::{Map, Value};

/// The value at `path`; `None` if it is absent or null.
pub(super) fn get<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter()
        .try_fold(value, |value, field| value.get(*field))
        .filter(|value| !value.is_null())
}

/// The text at `path`; `None` if it is absent or empty, because Go encodes an unset string as an
/// empty string.
pub(super) fn text<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    get(value, path)?.as_str().filter(|text| !text.is_empty())
}

/// Writes `new` at `path`. It creates missing objects on the path, and replaces values on the path
/// that are not objects.
pub(super) fn set(value: &mut Value, path: &[&str], new: Value) {
    let Some((first, rest)) = path.split_first() else {
        *value = new;
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    if let Value::Object(map) = value {
        set(map.entry((*first).to_owned()).or_insert(Value::Null), rest, new);
    }
}

/// Removes the value at `path`, and the objects on the path that are empty then.
pub(super) fn remove(value: &mut Value, path: &[&str]) {
    let Value::Object(map) = value else { return };
    match path {
        [] => {}
        [field] => {
            map.remove(*field);
        }
        [field, rest @ ..] => {
            let Some(child) = map.get_mut(*field) else { return };
            remove(child, rest);
            if child.as_object().is_some_and(Map::is_empty) {
                map.remove(*field);
            }
        }
    }
}

/// The last part of a path with slashes.
pub(super) fn basename(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_through_a_scalar_reads_as_absent_and_can_be_written() {
        let mut value = json!({"placement": "nowhere"});
        assert_eq!(text(&value, &["placement", "availabilityZone"]), None);
        set(&mut value, &["placement", "availabilityZone"], json!("a"));
        assert_eq!(value, json!({"placement": {"availabilityZone": "a"}}));
    }

    #[test]
    fn removing_the_last_field_removes_the_object_around_it() {
        let mut value = json!({"placement": {"availabilityZone": "a"}, "kind": "K"});
        remove(&mut value, &["placement", "availabilityZone"]);
        assert_eq!(value, json!({"kind": "K"}));
        remove(&mut value, &["absent", "field"]);
        assert_eq!(value, json!({"kind": "K"}));
    }

    #[test]
    fn the_last_part_of_a_path_is_its_name() {
        assert_eq!(basename("/dc/vm/rhcos"), "rhcos");
        assert_eq!(basename("rhcos"), "rhcos");
        assert_eq!(basename("/"), "/");
    }
}
