//! An object as it is, looked at field by field.
//!
//! Whoever asks about an update knows most of the object twice, as it is and as it would be. So the
//! rules never ask for the tree of the object as it is, but for its fields, and those that the
//! update leaves alone may be the same in memory.

use std::borrow::Cow;
use std::fmt::Debug;

use serde_json::Value;

/// An object as it is.
pub trait Stored: Debug + Sync {
    /// A field of the object.
    fn field(&self, name: &str) -> Option<&Value>;

    /// The object as one tree; made of its fields where it is none.
    fn whole(&self) -> Cow<'_, Value>;

    /// What stands at a dotted path of fields.
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

/// Whether two values are equal, which what is the same in memory is without a look.
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
    fn a_path_leads_through_fields_only() {
        let object = json!({"metadata": {"labels": {"a": "b"}}, "spec": [1], "status": null});
        assert_eq!(object.at("metadata.labels.a"), Some(&json!("b")));
        assert_eq!(object.at("spec"), Some(&json!([1])));
        assert_eq!(object.at("status"), Some(&json!(null)));
        for nowhere in ["", "spec.0", "spec.a", "metadata.labels.a.b", "other"] {
            assert_eq!(object.at(nowhere), None, "{nowhere:?}");
        }
    }

    #[test]
    fn equal_values_are_the_same_wherever_they_are() {
        let (one, other, third) = (json!({"a": [1]}), json!({"a": [1]}), json!({"a": [2]}));
        assert!(is_same(Some(&one), Some(&one)) && is_same(Some(&one), Some(&other)) && is_same(None, None));
        assert!(!is_same(Some(&one), Some(&third)) && !is_same(Some(&one), None) && !is_same(None, Some(&json!(null))));
    }
}
