//! Which value of the old object a value of the new one was, and whether it is still the same.
//!
//! Fields go by their names, items of a list that is a map by their keys; items of other lists were
//! nothing before. A field that the schema does not know cannot be followed, and what holds one
//! counts as changed, as in the API server.

use serde_json::Value;

use super::node::{ListType, Schema};

/// A value and what it was before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    pub(super) schema: &'a Schema,
    pub(super) new: &'a Value,
    pub(super) old: &'a Value,
    pub(super) stored: Stored<'a>,
}

/// What is known of an old value: one that was judged by the schema before it was stored needs no
/// second look.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stored<'a> {
    /// Nothing.
    Unknown,
    /// It was judged.
    Judged,
    /// It was judged, and the new value is the same.
    Same,
    /// It was judged, and only these fields of the new value may differ.
    But(&'a [String]),
}

impl<'a> Stored<'a> {
    /// What is then known of a field.
    fn field(self, name: &str) -> Self {
        match self {
            Self::But(touched) if touched.iter().any(|field| field == name) => Self::Judged,
            Self::But(_) => Self::Same,
            other => other,
        }
    }
}

impl<'a> Pair<'a> {
    /// The pair of a field, where both have it and the schema knows it.
    pub(super) fn field(self, name: &str) -> Option<Self> {
        Some(Self {
            new: self.new.as_object()?.get(name)?,
            old: self.old.as_object()?.get(name)?,
            schema: self.schema.field(name)?,
            stored: self.stored.field(name),
        })
    }

    /// The pair of an item of a list that is a map.
    pub(super) fn item(self, index: usize) -> Option<Self> {
        let new = self.new.as_array()?.get(index)?;
        Some(Self {
            new,
            old: same_item(self.schema, self.old, new)?,
            schema: self.schema.items.as_deref()?,
            stored: self.stored,
        })
    }

    /// Whether the value was judged before it was stored.
    pub(super) fn judged(self) -> bool {
        match self.stored {
            Stored::Unknown => false,
            Stored::Judged => self.new == self.old,
            Stored::Same => true,
            Stored::But(touched) => touched.is_empty(),
        }
    }

    /// Whether what is wrong with the value was wrong before.
    pub(super) fn ratchets(self) -> bool {
        match self.stored {
            Stored::Unknown => self.unchanged(),
            _ => self.judged(),
        }
    }

    /// Whether the value is what it was before.
    pub(super) fn unchanged(self) -> bool {
        match (self.new, self.old) {
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len() && new.keys().all(|name| self.field(name).is_some_and(Self::unchanged))
            }
            (Value::Array(new), Value::Array(old)) if new.len() == old.len() => {
                if matches!(self.schema.list, ListType::Map(_)) {
                    (0..new.len()).all(|index| self.item(index).is_some_and(Self::unchanged))
                } else {
                    new == old
                }
            }
            (new, old) => new == old,
        }
    }
}

/// The item of the old list with the same keys as `item`.
pub(super) fn same_item<'a>(schema: &Schema, old: &'a Value, item: &Value) -> Option<&'a Value> {
    let ListType::Map(keys) = &schema.list else { return None };
    fn scalar<'v>(item: &'v Value, key: &str) -> Option<&'v Value> {
        let value = item.as_object()?.get(key)?;
        (value.is_boolean() || value.is_number() || value.is_string()).then_some(value)
    }
    if keys.is_empty() || keys.iter().any(|key| scalar(item, key).is_none()) {
        return None;
    }
    let same = |before: &&Value| keys.iter().all(|key| scalar(before, key) == scalar(item, key));
    old.as_array()?.iter().find(same)
}
