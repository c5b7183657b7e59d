//! The objects of a review. The old one is read beside one that is there already, the new one or one that is known: what is the
//! same is compared, and not built a second time.
//!
//! It must never matter to a rule how the old object was read.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::tree::{Beside, Compare, Text, Without};
use crate::model::Stored;

/// The objects of a request, without what no rule of their kind reads. As something that is stored, the old one.
#[derive(Debug, Default)]
pub struct Objects<'k> {
    /// The object as it would be.
    pub object: Option<Value>,
    pub(super) old: Option<Old<'k>>,
}

/// An object as it is.
#[derive(Debug)]
pub(super) enum Old<'k> {
    /// A tree of its own, or one that was known.
    Tree(Cow<'k, Value>),
    /// The fields that are not those of the new object; it has no others.
    Changed(Map<String, Value>),
}

impl Objects<'_> {
    /// The object as it is.
    pub fn old(&self) -> Option<&dyn Stored> {
        self.old.is_some().then_some(self)
    }
}

impl Stored for Objects<'_> {
    fn field(&self, name: &str) -> Option<&Value> {
        match self.old.as_ref()? {
            Old::Tree(tree) => tree.get(name),
            Old::Changed(own) => own.get(name).or_else(|| self.object.as_ref()?.get(name)),
        }
    }

    fn whole(&self) -> Cow<'_, Value> {
        match &self.old {
            None => Cow::Owned(Value::Null),
            Some(Old::Tree(tree)) => Cow::Borrowed(tree),
            Some(Old::Changed(own)) => {
                let mut whole = self
                    .object
                    .as_ref()
                    .and_then(Value::as_object)
                    .cloned()
                    .unwrap_or_default();
                whole.extend(own.clone());
                Cow::Owned(Value::Object(whole))
            }
        }
    }
}

/// Reads an old object: beside a known one, or beside the new one.
#[derive(Clone, Copy)]
pub(super) struct ReadOld<'k, 'n> {
    pub(super) known: Option<&'k Value>,
    pub(super) new: Option<&'n Value>,
    pub(super) unread: Without<'static>,
}

impl<'de, 'k> DeserializeSeed<'de> for ReadOld<'k, '_> {
    /// None for null.
    type Value = Option<Old<'k>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let Self { known, new, unread } = self;
        let tree = |value: Cow<'k, Value>| (!value.is_null()).then_some(Old::Tree(value));
        match (known, new) {
            (Some(known), _) => match (Compare { known, unread }).deserialize(deserializer)? {
                Beside::Same => Ok(tree(Cow::Borrowed(known))),
                Beside::Other(value) => Ok(tree(Cow::Owned(value))),
            },
            (None, Some(Value::Object(new))) => deserializer.deserialize_any(Fields { new, unread }),
            (None, _) => Ok(tree(Cow::Owned(unread.deserialize(deserializer)?))),
        }
    }
}

struct Fields<'n> {
    new: &'n Map<String, Value>,
    unread: Without<'static>,
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Option<Old<'static>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let (mut own, mut shared) = (Map::new(), Vec::with_capacity(self.new.len()));
        while let Some(Text(name)) = entries.next_key::<Text<'de>>()? {
            if self.unread.skipped == Some(name.as_ref()) {
                entries.next_value::<serde::de::IgnoredAny>()?;
                continue;
            }
            let unread = self.unread.of_field(&name);
            let Some((name, known)) = self.new.get_key_value(name.as_ref()) else {
                own.insert(name.into_owned(), unread.next_value(&mut entries)?);
                continue;
            };
            match entries.next_value_seed(Compare { known, unread })? {
                // The last of several counts.
                Beside::Same => {
                    own.remove(name);
                    shared.push((name, known));
                }
                Beside::Other(value) => drop(own.insert(name.clone(), value)),
            }
        }
        let is_there = |name: &String| own.contains_key(name) || shared.iter().any(|(there, _)| *there == name);
        if self.new.keys().all(is_there) {
            return Ok(Some(Old::Changed(own)));
        }
        for (name, known) in shared {
            own.entry(name.clone()).or_insert_with(|| known.clone());
        }
        Ok(Some(Old::Tree(Cow::Owned(Value::Object(own)))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(old: &str, new: Option<Value>) -> Result<Objects<'static>, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_str(old);
        let seed = ReadOld {
            known: None,
            new: new.as_ref(),
            unread: Without::unread(true),
        };
        let old = seed.deserialize(&mut reader)?;
        Ok(Objects { object: new, old })
    }

    #[test]
    fn however_it_is_read_the_old_object_is_what_its_text_says() {
        let new = json!({"kind": "K", "metadata": {"labels": {"a": "b"}}, "spec": {"x": [1]}, "status": {}});
        for (old, shares) in [
            (
                r#"{"kind":"K","metadata":{"managedFields":[1],"labels":{"a":"c"}},"spec":{"x":[1]},"status":{}}"#,
                true,
            ),
            (
                r#"{"kind":"K","metadata":{"labels":{"a":"b"},"managedFields":[1]},"spec":{"x":[2]},"status":{}}"#,
                true,
            ),
            (
                r#"{"kind":"K","metadata":{},"spec":{"x":[1]},"status":{},"more":1}"#,
                true,
            ),
            (
                r#"{"kind":"K","metadata":{},"spec":{"x":[2]},"status":{},"spec":{"x":[1]}}"#,
                true,
            ),
            (r#"{"kind":"K","metadata":{},"spec":{"x":[1]}}"#, false),
            (r#"{"spec":{"x":[1]},"spec":{"x":[3]}}"#, false),
            (r#"{"spec":{"x":[3]},"spec":{"x":[1]}}"#, false),
            (r#"{}"#, false),
        ] {
            let mut plain: Value = serde_json::from_str(old).unwrap();
            if let Some(metadata) = plain.pointer_mut("/metadata") {
                metadata.as_object_mut().unwrap().remove("managedFields");
            }
            let objects = read(old, Some(new.clone())).unwrap();
            assert_eq!(matches!(objects.old, Some(Old::Changed(_))), shares, "{old}");
            assert_eq!(*objects.whole(), plain, "{old}");
            for field in ["kind", "metadata", "spec", "status", "more", "other"] {
                assert_eq!(objects.old().unwrap().field(field), plain.get(field), "{old}");
            }
            assert_eq!(*read(old, None).unwrap().whole(), plain, "of a deletion");
        }
    }

    #[test]
    fn what_the_update_leaves_alone_is_there_once() {
        let new = json!({"metadata": {"labels": {}}, "spec": {"x": [1]}});
        let objects = read(r#"{"metadata":{},"spec":{"x":[1]}}"#, Some(new)).unwrap();
        let spec = objects.object.as_ref().unwrap().get("spec").unwrap();
        assert!(std::ptr::eq(spec, objects.field("spec").unwrap()));
        assert_ne!(
            objects.field("metadata"),
            objects.object.as_ref().unwrap().get("metadata")
        );
    }

    #[test]
    fn what_is_no_object_is_not_read_and_null_is_nothing() {
        for new in [None, Some(json!({"metadata": {}}))] {
            for text in ["[1]", "7", r#"{"metadata":[]}"#] {
                assert!(read(text, new.clone()).is_err(), "{text}");
            }
            assert!(read("null", new).unwrap().old().is_none());
        }
    }
}
