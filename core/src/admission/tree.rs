//! Kubernetes objects out of JSON text, as trees without the parts that no rule reads: thoroughly, with a reason where it
//! cannot be done. `reader` does it faster where the text is plain.

use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// An object without `metadata.managedFields` and, unless `STATUS`, without `status`: most of its bytes.
pub(super) struct Tree<const STATUS: bool>(pub(super) Value);

impl<'de, const STATUS: bool> Deserialize<'de> for Tree<STATUS> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Without {
            skipped: (!STATUS).then_some("status"),
            below: Some(("metadata", "managedFields")),
        };
        object.deserialize(deserializer).map(Self)
    }
}

/// Reads an object, and leaves out a field of its own, and one of a field.
#[derive(Clone, Copy)]
struct Without<'s> {
    skipped: Option<&'s str>,
    below: Option<(&'s str, &'s str)>,
}

impl<'de> DeserializeSeed<'de> for Without<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Without<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            if Some(name.as_str()) == self.skipped {
                entries.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = match self.below {
                Some((below, skipped)) if below == name => entries.next_value_seed(Without {
                    skipped: Some(skipped),
                    below: None,
                })?,
                _ => entries.next_value()?,
            };
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}
