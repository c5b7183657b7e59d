//! The path of a walk through an object. It is written out only for a violation.

use std::fmt;

use crate::model::FieldPath;

/// A path, as a list of steps. Most values are valid, so that most paths are never written out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trail<'a> {
    last: Option<(&'a Trail<'a>, Step<'a>)>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Trail<'a> {
    /// The root of the object.
    pub(super) const ROOT: Trail<'static> = Trail { last: None };

    /// A field of the object at this path.
    pub(super) fn child(&'a self, name: &'a str) -> Self {
        Self {
            last: Some((self, Step::Field(name))),
        }
    }

    /// An item of the list at this path.
    pub(super) fn index(&'a self, index: usize) -> Self {
        Self {
            last: Some((self, Step::Index(index))),
        }
    }

    /// An entry of the map at this path.
    pub(super) fn key(&'a self, key: &'a str) -> Self {
        Self {
            last: Some((self, Step::Key(key))),
        }
    }

    pub(super) fn is_root(&self) -> bool {
        self.last.is_none()
    }

    /// The path as text.
    pub(super) fn path(&self) -> FieldPath {
        match self.last {
            None => FieldPath::root(),
            Some((above, Step::Field(name))) => above.path().child(name),
            Some((above, Step::Index(index))) => above.path().index(index),
            Some((above, Step::Key(key))) => above.path().key(key),
        }
    }
}

impl fmt::Display for Trail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trail_is_written_as_a_field_path() {
        assert!(Trail::ROOT.is_root() && Trail::ROOT.path().is_root());
        let spec = Trail::ROOT.child("spec");
        let taints = spec.child("taints");
        let second = taints.index(1);
        let key = second.key("app");
        assert_eq!(key.to_string(), "spec.taints[1][app]");
        assert_eq!(key.path(), FieldPath::new("spec.taints[1][app]"));
    }
}
