//! Fields of a JSON object by their path.

use serde_json::{Map, Value};

/// The value at a path.
pub(super) fn get<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// Sets the value at a path, and creates the objects above it. Returns whether that was possible: a
/// field above it may have another type.
pub(super) fn set(value: &mut Value, path: &[&str], new: Value) -> bool {
    let Some((name, rest)) = path.split_first() else {
        *value = new;
        return true;
    };
    let Some(fields) = value.as_object_mut() else {
        return false;
    };
    if rest.is_empty() {
        fields.insert((*name).to_owned(), new);
        return true;
    }
    let child = fields.entry(*name).or_insert_with(|| Value::Object(Map::new()));
    set(child, rest, new)
}

/// Removes the value at a path.
pub(super) fn remove(value: &mut Value, path: &[&str]) -> Option<Value> {
    let (name, rest) = path.split_first()?;
    let fields = value.as_object_mut()?;
    if rest.is_empty() {
        return fields.remove(*name);
    }
    remove(fields.get_mut(*name)?, rest)
}

/// Removes the value at a path, and the objects above it that become empty.
pub(super) fn take(value: &mut Value, path: &[&str]) -> Option<Value> {
    let taken = remove(value, path)?;
    for depth in (1..path.len()).rev() {
        let above = path.get(..depth)?;
        let is_empty = get(value, above).and_then(Value::as_object).is_some_and(Map::is_empty);
        if !is_empty {
            break;
        }
        remove(value, above);
    }
    Some(taken)
}
