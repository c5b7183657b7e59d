//! The value at a path before and after an edit, and which keys of a map changed.

use std::cell::OnceCell;

use serde_json::Value;

use super::file::Segment;
use crate::model::{Edit, Operation, Stored, is_same};

/// The value at the path of a rule, before and after an edit.
pub(super) struct EditedValue<'s, 'e> {
    pub(super) path: &'s [Segment],
    old: Option<&'e Value>,
    new: Option<&'e Value>,
    /// Whether the edit is an update that did not change the value. Always false for the object
    /// itself.
    pub(super) unchanged: bool,
    changed_keys: OnceCell<Vec<&'e str>>,
}

impl<'s, 'e> EditedValue<'s, 'e> {
    pub(super) fn of(edit: &Edit<'e>, path: &'s [Segment]) -> Self {
        let (old, new) = (
            edit.old.and_then(|old| value_at(old, path)),
            edit.object.and_then(|new| value_at(new, path)),
        );
        let update = edit.operation == Operation::Update && edit.old.is_some() && edit.object.is_some();
        let fields = !path.is_empty() && path.iter().all(|segment| matches!(segment, Segment::Field(_)));
        Self {
            path,
            old,
            new,
            unchanged: update && fields && is_same(old, new),
            changed_keys: OnceCell::new(),
        }
    }

    /// The keys of a map that the edit adds, changes or removes, each once.
    pub(super) fn changed_keys(&self) -> &[&'e str] {
        let map = |value: Option<&'e Value>| value.and_then(Value::as_object).into_iter().flatten();
        let compare = || {
            let (mut old, mut new) = (map(self.old).peekable(), map(self.new).peekable());
            let mut changed = Vec::new();
            // Both maps are ordered by key.
            loop {
                let (key, same) = match (old.peek(), new.peek()) {
                    (None, None) => return changed,
                    (Some((key, _)), None) | (None, Some((key, _))) => (*key, false),
                    (Some((key, was)), Some((other, is))) => (*key.min(other), key == other && was == is),
                };
                if !same {
                    changed.push(key.as_str());
                }
                let _was = old.next_if(|(old, _)| *old == key);
                let _is = new.next_if(|(new, _)| *new == key);
            }
        };
        self.changed_keys.get_or_init(compare)
    }
}

/// The value at a path of fields in an object. `None` also for a path through a list.
fn value_at<'v>(object: &'v dyn Stored, path: &[Segment]) -> Option<&'v Value> {
    let (Segment::Field(first), rest) = path.split_first()? else {
        return None;
    };
    rest.iter()
        .try_fold(object.field(first)?, |value, segment| match segment {
            Segment::Field(field) => value.get(field),
            Segment::Items | Segment::ItemsBy(_) => None,
        })
}
