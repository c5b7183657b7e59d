//! Reads and sets the fields of `metadata`.
//!
//! [`decode`] reads `metadata` as the Go type `ObjectMeta` does, and [`check`] validates it.

mod check;
mod decode;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::object::Fields;

pub(super) use check::check;
pub(super) use decode::decode;

/// A time as `metadata` stores it, in whole seconds.
pub(super) fn seconds(now: Timestamp) -> Value {
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    whole.to_string().into()
}

/// A field of `metadata`.
pub(super) fn field<'v>(object: &'v impl Fields, field: &str) -> Option<&'v Value> {
    object.field("metadata")?.get(field)
}

/// The text of a field of `metadata`; empty if the field is absent.
pub(super) fn text<'v>(object: &'v impl Fields, name: &str) -> &'v str {
    field(object, name).and_then(Value::as_str).unwrap_or_default()
}

/// Whether the object has a deletion timestamp.
pub(super) fn is_deleting(object: &impl Fields) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// The finalizers of an object.
pub(super) fn finalizers(object: &impl Fields) -> Vec<String> {
    let list = field(object, "finalizers").and_then(Value::as_array);
    let list = list.into_iter().flatten().filter_map(Value::as_str);
    list.map(str::to_owned).collect()
}

/// Sets a field of `metadata`; null removes it.
pub(super) fn set(object: &mut impl Fields, name: &str, value: Value) {
    let is_set = match field(object, name) {
        Some(stored) => *stored == value && !value.is_null(),
        None => value.is_null() && object.field("metadata").is_some(),
    };
    if is_set {
        return;
    }
    let Some(meta) = object.field_mut("metadata") else {
        return;
    };
    if meta.is_null() {
        *meta = json!({});
    }
    if let Some(meta) = meta.as_object_mut() {
        if value.is_null() {
            meta.remove(name);
        } else {
            meta.insert(name.to_owned(), value);
        }
    }
}
