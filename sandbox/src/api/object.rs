//! A stored object: its fields, each shared with every version of the object that has the same
//! value.
//!
//! Most writes change one or two top-level fields. An unchanged field is the same value in memory
//! before and after the write, so it is not copied, compared or decoded again.

use std::borrow::Cow;
use std::sync::Arc;

use capstan_core::model::Stored;
use serde::de::value::MapDeserializer;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

/// An object as its top-level fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    /// Ordered by name.
    fields: Vec<(Arc<str>, Arc<Value>)>,
}

/// A value with fields: a stored object, or any JSON value.
pub trait Fields {
    /// A field.
    fn field(&self, name: &str) -> Option<&Value>;
    /// A mutable field, which is null if it did not exist; `None` if the value is not a JSON
    /// object.
    fn field_mut(&mut self, name: &str) -> Option<&mut Value>;
}

impl Fields for Value {
    fn field(&self, name: &str) -> Option<&Value> {
        self.get(name)
    }

    fn field_mut(&mut self, name: &str) -> Option<&mut Value> {
        Some(self.as_object_mut()?.entry(name).or_insert(Value::Null))
    }
}

impl Fields for Object {
    fn field(&self, name: &str) -> Option<&Value> {
        self.get(name)
    }

    fn field_mut(&mut self, name: &str) -> Option<&mut Value> {
        Some(self.entry(name))
    }
}

impl Stored for Object {
    fn field(&self, name: &str) -> Option<&Value> {
        self.get(name)
    }

    fn whole(&self) -> Cow<'_, Value> {
        Cow::Owned(self.to_value())
    }
}

/// Sets a field of a JSON object. A value of another type stays as it is.
pub(super) fn put(object: &mut Value, field: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(field.to_owned(), value);
    }
}

impl<T: Fields + Clone> Fields for Arc<T> {
    fn field(&self, name: &str) -> Option<&Value> {
        (**self).field(name)
    }

    fn field_mut(&mut self, name: &str) -> Option<&mut Value> {
        Self::make_mut(self).field_mut(name)
    }
}

impl From<Map<String, Value>> for Object {
    fn from(map: Map<String, Value>) -> Self {
        // A JSON map is ordered.
        let fields = map.into_iter().map(|(name, value)| (name.into(), Arc::new(value)));
        Self {
            fields: fields.collect(),
        }
    }
}

impl Object {
    /// An object from a value; none if the value is not a JSON object.
    pub fn of(value: Value) -> Option<Self> {
        match value {
            Value::Object(map) => Some(map.into()),
            _ => None,
        }
    }

    /// The position of a field, or the position at which it would be inserted. The search is linear
    /// because objects have few fields.
    fn find(&self, name: &str) -> Result<usize, usize> {
        let found = self.fields.iter().position(|(known, _)| **known == *name);
        found.ok_or_else(|| self.fields.partition_point(|(known, _)| **known < *name))
    }

    /// A field as a shared value.
    pub fn shared(&self, name: &str) -> Option<&Arc<Value>> {
        let at = self.find(name).ok()?;
        self.fields.get(at).map(|(_, value)| value)
    }

    /// A field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.shared(name).map(|value| &**value)
    }

    /// The value at a JSON pointer. The pointer must name a field; the root is not available.
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        let path = pointer.strip_prefix('/')?;
        let (name, rest) = path.find('/').map_or((path, ""), |at| path.split_at(at));
        let value = self.get(name)?;
        // `Value::pointer` copies each part of the path, to unescape it.
        if rest.contains('~') {
            return value.pointer(rest);
        }
        rest.split('/').skip(1).try_fold(value, |value, part| match value {
            Value::Object(fields) => fields.get(part),
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// The fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Arc<Value>)> {
        self.fields.iter().map(|(name, value)| (&**name, value))
    }

    /// A mutable field, if it exists. Other versions keep their value.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        let at = self.find(name).ok()?;
        self.fields.get_mut(at).map(|(_, value)| Arc::make_mut(value))
    }

    /// A mutable field, which is null if it did not exist.
    #[expect(clippy::indexing_slicing, reason = "the position was found or made one line before")]
    fn entry(&mut self, name: &str) -> &mut Value {
        let at = match self.find(name) {
            Ok(at) => at,
            Err(at) => {
                self.fields.insert(at, (name.into(), Arc::default()));
                at
            }
        };
        Arc::make_mut(&mut self.fields[at].1)
    }

    /// Sets a field.
    pub fn insert(&mut self, name: &str, value: impl Into<Arc<Value>>) {
        let value = value.into();
        match self.find(name) {
            Ok(at) => {
                if let Some(field) = self.fields.get_mut(at) {
                    field.1 = value;
                }
            }
            Err(at) => self.fields.insert(at, (name.into(), value)),
        }
    }

    /// Removes a field.
    pub fn remove(&mut self, name: &str) -> Option<Arc<Value>> {
        self.find(name).ok().map(|at| self.fields.remove(at).1)
    }

    /// Shares every field that is equal in another version.
    pub fn share(&mut self, other: &Self) {
        for (name, value) in &mut self.fields {
            if let Some(theirs) = other.shared(name)
                && !Arc::ptr_eq(theirs, value)
                && theirs == value
            {
                *value = Arc::clone(theirs);
            }
        }
    }

    /// Shares one field if it is equal in another version.
    pub fn share_field(&mut self, other: &Self, name: &str) {
        let Some(theirs) = other.shared(name) else { return };
        if self
            .shared(name)
            .is_some_and(|value| !Arc::ptr_eq(value, theirs) && value == theirs)
        {
            self.insert(name, Arc::clone(theirs));
        }
    }

    /// Whether a field is the same in two versions that [share](Self::share) their equal fields.
    pub fn has_same(&self, other: &Self, name: &str) -> bool {
        if let Ok(at) = self.find(name)
            && let (Some(one), Some(other)) = (self.fields.get(at), other.fields.get(at))
            && Arc::ptr_eq(&one.1, &other.1)
            && is_same_name(&one.0, &other.0)
        {
            return true;
        }
        match (self.shared(name), other.shared(name)) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        }
    }

    /// Whether all fields are the same in two versions that [share](Self::share) their equal
    /// fields.
    pub fn is_same(&self, other: &Self) -> bool {
        let mut pairs = self.fields.iter().zip(&other.fields);
        self.fields.len() == other.fields.len()
            && pairs.all(|(one, other)| Arc::ptr_eq(&one.1, &other.1) && is_same_name(&one.0, &other.0))
    }

    /// The fields of this version that differ from another one, of two that [share](Self::share)
    /// their equal fields.
    pub fn changed<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<Value>)> {
        let fields = self.fields.iter().enumerate();
        let changed = fields.filter(|(at, (name, value))| match other.fields.get(*at) {
            Some(theirs) if is_same_name(&theirs.0, name) => !Arc::ptr_eq(&theirs.1, value),
            _ => !self.has_same(other, name),
        });
        changed.map(|(_, (name, value))| (name, value))
    }

    /// The names of the fields that differ between two versions that [share](Self::share) their
    /// equal fields.
    pub fn differing(&self, other: &Self) -> Vec<Arc<str>> {
        if self.is_same(other) {
            return Vec::new();
        }
        let mut names: Vec<Arc<str>> = self.changed(other).map(|(name, _)| Arc::clone(name)).collect();
        let gone = other.fields.iter().map(|(name, _)| name);
        names.extend(gone.filter(|name| self.find(name).is_err()).cloned());
        names
    }

    /// A copy as one JSON value.
    pub fn to_value(&self) -> Value {
        let fields = self
            .fields
            .iter()
            .map(|(name, value)| ((**name).to_owned(), (**value).clone()));
        fields.collect::<Map<_, _>>().into()
    }

    /// Decodes the object into a type.
    ///
    /// # Errors
    /// The object does not have the shape of the type.
    pub fn read<'de, T: Deserialize<'de>>(&'de self) -> Result<T, serde_json::Error> {
        T::deserialize(MapDeserializer::new(
            self.fields.iter().map(|(name, value)| (&**name, &**value)),
        ))
    }
}

/// Compares names. Versions of an object share their names too.
fn is_same_name(one: &Arc<str>, other: &Arc<str>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.fields().map(|(name, value)| (name, &**value)))
    }
}

impl std::ops::Index<&str> for Object {
    type Output = Value;

    /// The field, or null if it does not exist, as for a JSON value.
    fn index(&self, name: &str) -> &Value {
        self.get(name).unwrap_or(&Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_version_shares_its_unchanged_fields() {
        let old =
            Object::of(json!({"kind": "A", "metadata": {"name": "a"}, "spec": {"x": [1, 2]}, "status": {}})).unwrap();
        let mut new = old.clone();
        *new.entry("status") = json!({"ready": true});
        assert_eq!(new.differing(&old), ["status".into()]);
        assert_eq!(
            old.pointer("/status"),
            Some(&json!({})),
            "the old version must keep its value"
        );
        *new.entry("spec") = json!({"x": [1, 2]});
        assert!(!new.has_same(&old, "spec"), "the versions have not been compared");
        new.share(&old);
        assert!(new.has_same(&old, "spec"));
        assert_eq!(new.pointer("/spec/x/1"), Some(&json!(2)));
        assert!(new.remove("kind").is_some());
        new.insert("data", json!({}));
        assert_eq!(new.differing(&old), ["data".into(), "status".into(), "kind".into()]);
        let changed: Vec<&str> = new.changed(&old).map(|(name, _)| &**name).collect();
        assert_eq!(
            changed,
            ["data", "status"],
            "a removed field is not a field of the new version"
        );
        assert_eq!(
            new.to_value(),
            json!({"data": {}, "metadata": {"name": "a"}, "spec": {"x": [1, 2]}, "status": {"ready": true}})
        );
        assert_eq!(new["data"], json!({}));
        assert_eq!(new["none"], json!(null));
        assert_eq!(serde_json::to_value(&new).unwrap(), new.to_value());
        let read: std::collections::BTreeMap<String, Value> = new.read().unwrap();
        assert_eq!(read["status"]["ready"], json!(true));
    }
}
