//! An object as it is stored: its fields, each shared with every version that has the same.
//!
//! A write touches one field or two, a status and the version. What it leaves alone is the same value in memory before and
//! after, so that it is neither copied nor compared, nor read anew by who has read it.

use std::borrow::Cow;
use std::sync::Arc;

use capstan_core::model::Stored;
use serde::de::value::MapDeserializer;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

/// An object, by its fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    /// By name, in order.
    fields: Vec<(Arc<str>, Arc<Value>)>,
}

/// What has fields: an object as it is stored, or any other value.
pub trait Fields {
    /// A field.
    fn field(&self, name: &str) -> Option<&Value>;
    /// A field that is to be changed, null if there was none; `None` where there can be no fields.
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
        // A map of JSON is in order.
        let fields = map.into_iter().map(|(name, value)| (name.into(), Arc::new(value)));
        Self {
            fields: fields.collect(),
        }
    }
}

impl Object {
    /// An object out of a value; nothing out of what is none.
    pub fn of(value: Value) -> Option<Self> {
        match value {
            Value::Object(map) => Some(map.into()),
            _ => None,
        }
    }

    /// Where a field is, or would be. Objects have few fields, and names mostly differ in length already.
    fn find(&self, name: &str) -> Result<usize, usize> {
        let there = self.fields.iter().position(|(there, _)| **there == *name);
        there.ok_or_else(|| self.fields.partition_point(|(there, _)| **there < *name))
    }

    /// A field, as it is shared.
    pub fn shared(&self, name: &str) -> Option<&Arc<Value>> {
        let at = self.find(name).ok()?;
        self.fields.get(at).map(|(_, value)| value)
    }

    /// A field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.shared(name).map(|value| &**value)
    }

    /// What a JSON pointer leads to; it begins with a field.
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        let path = pointer.strip_prefix('/')?;
        let (name, rest) = path.find('/').map_or((path, ""), |at| path.split_at(at));
        let value = self.get(name)?;
        if rest.is_empty() {
            Some(value)
        } else {
            value.pointer(rest)
        }
    }

    /// The fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Arc<Value>)> {
        self.fields.iter().map(|(name, value)| (&**name, value))
    }

    /// A field that is there, to be changed; other versions keep theirs.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        let at = self.find(name).ok()?;
        self.fields.get_mut(at).map(|(_, value)| Arc::make_mut(value))
    }

    /// A field to be changed; null if there was none.
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

    /// Shares with another version every field that says the same.
    pub fn share(&mut self, other: &Self) {
        for (name, value) in &mut self.fields {
            if let Some(there) = other.shared(name)
                && !Arc::ptr_eq(there, value)
                && there == value
            {
                *value = Arc::clone(there);
            }
        }
    }

    /// The same for one field.
    pub fn share_field(&mut self, other: &Self, name: &str) {
        let Some(there) = other.shared(name) else { return };
        if self
            .shared(name)
            .is_some_and(|value| !Arc::ptr_eq(value, there) && value == there)
        {
            self.insert(name, Arc::clone(there));
        }
    }

    /// Whether a field is the same in two versions that [share](Self::share) what they can.
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

    /// Whether all fields are the same in two versions that [share](Self::share) what they can.
    pub fn is_same(&self, other: &Self) -> bool {
        let mut pairs = self.fields.iter().zip(&other.fields);
        self.fields.len() == other.fields.len()
            && pairs.all(|(one, other)| Arc::ptr_eq(&one.1, &other.1) && is_same_name(&one.0, &other.0))
    }

    /// The fields of this version that are not the same in the other, of two that [share](Self::share) what they can.
    pub fn changed<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<Value>)> {
        let fields = self.fields.iter().enumerate();
        let changed = fields.filter(|(at, (name, value))| match other.fields.get(*at) {
            Some(there) if is_same_name(&there.0, name) => !Arc::ptr_eq(&there.1, value),
            _ => !self.has_same(other, name),
        });
        changed.map(|(_, (name, value))| (name, value))
    }

    /// The names of the fields that are not the same in two versions that [share](Self::share) what they can.
    pub fn differing(&self, other: &Self) -> Vec<Arc<str>> {
        if self.is_same(other) {
            return Vec::new();
        }
        let mut names: Vec<Arc<str>> = self.changed(other).map(|(name, _)| Arc::clone(name)).collect();
        let gone = other.fields.iter().map(|(name, _)| name);
        names.extend(gone.filter(|name| self.find(name).is_err()).cloned());
        names
    }

    /// As one value: a copy.
    pub fn to_value(&self) -> Value {
        let fields = self
            .fields
            .iter()
            .map(|(name, value)| ((**name).to_owned(), (**value).clone()));
        fields.collect::<Map<_, _>>().into()
    }

    /// Reads it as a program does.
    ///
    /// # Errors
    /// When it is no such object.
    pub fn read<'de, T: Deserialize<'de>>(&'de self) -> Result<T, serde_json::Error> {
        T::deserialize(MapDeserializer::new(
            self.fields.iter().map(|(name, value)| (&**name, &**value)),
        ))
    }
}

/// Versions share names too.
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

    /// Null where there is no such field, as in a value.
    fn index(&self, name: &str) -> &Value {
        self.get(name).unwrap_or(&Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_version_shares_what_it_does_not_change() {
        let old =
            Object::of(json!({"kind": "A", "metadata": {"name": "a"}, "spec": {"x": [1, 2]}, "status": {}})).unwrap();
        let mut new = old.clone();
        *new.entry("status") = json!({"ready": true});
        assert_eq!(new.differing(&old), ["status".into()]);
        assert_eq!(old.pointer("/status"), Some(&json!({})), "the old one keeps its own");
        *new.entry("spec") = json!({"x": [1, 2]});
        assert!(!new.has_same(&old, "spec"), "nobody has compared yet");
        new.share(&old);
        assert!(new.has_same(&old, "spec"));
        assert_eq!(new.pointer("/spec/x/1"), Some(&json!(2)));
        assert!(new.remove("kind").is_some());
        new.insert("data", json!({}));
        assert_eq!(new.differing(&old), ["data".into(), "status".into(), "kind".into()]);
        let changed: Vec<&str> = new.changed(&old).map(|(name, _)| &**name).collect();
        assert_eq!(changed, ["data", "status"], "what is gone is no field of the new one");
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
