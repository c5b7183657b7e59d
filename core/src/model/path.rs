//! Field paths, in the notation of the API server.

use std::fmt;

/// A path to a field, such as `spec.template.spec.taints[0].key` or `metadata.labels[app]`.
///
/// Paths are ordered by their text, so that a list of violations has one order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(String);

impl FieldPath {
    /// The object itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// A path in its textual form, with dots and brackets.
    pub fn new(path: impl Into<String>) -> Self {
        Self(path.into())
    }

    /// A field of the object at this path.
    #[must_use]
    pub fn child(&self, field: &str) -> Self {
        if self.0.is_empty() {
            Self(field.to_owned())
        } else {
            Self([self.0.as_str(), ".", field].concat())
        }
    }

    /// An item of the list at this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// An entry of the map at this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The text of the path; empty for the object itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `other` is this field or a part of it.
    pub fn contains(&self, other: &Self) -> bool {
        other
            .0
            .strip_prefix(&self.0)
            .is_some_and(|rest| self.is_root() || rest.is_empty() || rest.starts_with(['.', '[']))
    }

    /// Whether this is the object itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for FieldPath {
    fn from(path: &str) -> Self {
        Self(path.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::FieldPath;

    #[test]
    fn a_field_contains_its_parts_and_not_its_neighbours() {
        let field = FieldPath::from("spec.a");
        for inside in ["spec.a", "spec.a.b", "spec.a[0]"] {
            assert!(field.contains(&inside.into()), "{inside}");
        }
        for outside in ["spec", "spec.ab", "metadata"] {
            assert!(!field.contains(&outside.into()), "{outside}");
        }
        assert!(FieldPath::root().contains(&field));
    }
}
