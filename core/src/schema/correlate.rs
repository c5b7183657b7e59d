//! The value of the old object that corresponds to a value of the new object, and whether both are
//! equal.
//!
//! Fields correspond by name. Items of a list of type `map` correspond by their keys. Items of
//! other lists have no old value. A field that the schema does not describe has no old value
//! either, and an object that contains one counts as changed, as in the API server.

use serde_json::Value;

use super::node::{ListType, Schema};

/// A value and its old value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    pub(super) schema: &'a Schema,
    pub(super) new: &'a Value,
    pub(super) old: &'a Value,
    pub(super) stored: Stored<'a>,
}

/// What is known about an old value. A value that the schema accepted before it was stored is not
/// validated again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stored<'a> {
    /// The old value was not validated.
    Unknown,
    /// The old value was validated.
    Judged,
    /// The old value was validated, and the new value is equal.
    Same,
    /// The old value was validated, and the new value may differ only in these fields.
    Except(&'a [String]),
}

impl<'a> Stored<'a> {
    /// What is known about the old value of a field.
    fn field(self, name: &str) -> Self {
        match self {
            Self::Except(touched) if touched.iter().any(|field| field == name) => Self::Judged,
            Self::Except(_) => Self::Same,
            other => other,
        }
    }
}

impl<'a> Pair<'a> {
    /// The pair of a field that both values have and the schema describes.
    pub(super) fn field(self, name: &str) -> Option<Self> {
        Some(Self {
            new: self.new.as_object()?.get(name)?,
            old: self.old.as_object()?.get(name)?,
            schema: self.schema.field(name)?,
            stored: self.stored.field(name),
        })
    }

    /// The pair of an item of a list of type `map`.
    pub(super) fn item(self, index: usize) -> Option<Self> {
        let new = self.new.as_array()?.get(index)?;
        Some(Self {
            new,
            old: same_item(self.schema, self.old, new)?,
            schema: self.schema.items.as_deref()?,
            stored: self.stored,
        })
    }

    /// Whether the old value was validated and the new value is equal.
    pub(super) fn judged(self) -> bool {
        match self.stored {
            Stored::Unknown => false,
            Stored::Judged => self.new == self.old,
            Stored::Same => true,
            Stored::Except(touched) => touched.is_empty(),
        }
    }

    /// Whether an invalid value is accepted because it is unchanged.
    pub(super) fn ratchets(self) -> bool {
        match self.stored {
            Stored::Unknown => self.unchanged(),
            _ => self.judged(),
        }
    }

    /// Whether the value is unchanged.
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

/// The item of the old list that has the keys of `item`.
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
