//! The stored object of an edit, read field by field.
//!
//! A review of an update contains the object twice, before and after the edit. The rules read
//! single fields of the stored object, so that fields that the edit does not change can share
//! memory.

use std::borrow::Cow;
use std::fmt::Debug;

use serde_json::Value;

/// A stored object.
pub trait Stored: Debug + Sync {
    /// A field of the object.
    fn field(&self, name: &str) -> Option<&Value>;

    /// The object as one tree. An object that is kept as fields is assembled.
    fn whole(&self) -> Cow<'_, Value>;

    /// The value at a dotted path of fields.
    fn at(&self, path: &str) -> Option<&Value> {
        let (field, below) = path
            .split_once('.')
            .map_or((path, None), |(field, below)| (field, Some(below)));
        let mut below = below.into_iter().flat_map(|below| below.split('.'));
        below.try_fold(self.field(field)?, |value, field| value.get(field))
    }
}

impl Stored for Value {
    fn field(&self, name: &str) -> Option<&Value> {
        self.get(name)
    }

    fn whole(&self) -> Cow<'_, Value> {
        Cow::Borrowed(self)
    }
}

/// Whether two values are equal. Values at the same address are equal without a comparison.
pub fn is_same(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => std::ptr::eq(one, other) || one == other,
        (None, None) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_contains_fields_only() {
        let object = json!({"metadata": {"labels": {"a": "b"}}, "spec": [1], "status": null});
        assert_eq!(object.at("metadata.labels.a"), Some(&json!("b")));
        assert_eq!(object.at("spec"), Some(&json!([1])));
        assert_eq!(object.at("status"), Some(&json!(null)));
        for nowhere in ["", "spec.0", "spec.a", "metadata.labels.a.b", "other"] {
            assert_eq!(object.at(nowhere), None, "{nowhere:?}");
        }
    }

    #[test]
    fn equal_values_at_different_addresses_are_the_same() {
        let (one, other, third) = (json!({"a": [1]}), json!({"a": [1]}), json!({"a": [2]}));
        assert!(is_same(Some(&one), Some(&one)) && is_same(Some(&one), Some(&other)) && is_same(None, None));
        assert!(!is_same(Some(&one), Some(&third)) && !is_same(Some(&one), None) && !is_same(None, Some(&json!(null))));
    }
}
