//! Kubernetes objects out of JSON text, as trees without the parts that no rule reads; and whether a text is a tree that
//! is there already.

use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

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

/// Whether a text is this tree, as `Tree` would read it. An object is compared in the order of its names, in which an API
/// server writes them; for the same fields in another order the answer is no.
pub(super) fn is_tree<const STATUS: bool>(text: &str, tree: &Value) -> bool {
    let same = Same {
        known: tree,
        skipped: (!STATUS).then_some("status"),
        below: Some(("metadata", "managedFields")),
    };
    let mut reader = serde_json::Deserializer::from_str(text);
    same.deserialize(&mut reader).is_ok() && reader.end().is_ok()
}

/// Compares what is read with a known value; it is an error where they differ.
#[derive(Clone, Copy)]
struct Same<'s> {
    known: &'s Value,
    skipped: Option<&'s str>,
    below: Option<(&'s str, &'s str)>,
}

impl Same<'_> {
    fn only<E: de::Error>(self, same: bool) -> Result<(), E> {
        if same {
            Ok(())
        } else {
            Err(E::custom("it is another value"))
        }
    }
}

impl<'de> DeserializeSeed<'de> for Same<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Same<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.only(self.known.is_null())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.only(self.known.as_bool() == Some(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.only(self.known.as_number() == Some(&value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.only(self.known.as_number() == Some(&value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        let value = Number::from_f64(value);
        self.only(value.is_some() && self.known.as_number() == value.as_ref())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<(), E> {
        self.only(self.known.as_str() == Some(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Value::Array(known) = self.known else {
            return self.only(false);
        };
        for known in known {
            let item = items.next_element_seed(Same {
                known,
                skipped: None,
                below: None,
            })?;
            self.only::<A::Error>(item.is_some())?;
        }
        let more = items.next_element::<IgnoredAny>()?;
        self.only(more.is_none())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Value::Object(known) = self.known else {
            return self.only(false);
        };
        let mut known = known.iter();
        let mut next = known.next();
        while let Some(name) = entries.next_key_seed(Name {
            expected: next.map(|(name, _)| name),
            skipped: self.skipped,
        })? {
            let value = match (name, next) {
                (Named::Skipped, _) => {
                    entries.next_value::<IgnoredAny>()?;
                    continue;
                }
                (Named::Expected, Some((name, value))) => (name, value),
                _ => return self.only(false),
            };
            let skipped = self
                .below
                .filter(|(below, _)| below == value.0)
                .map(|(_, skipped)| skipped);
            entries.next_value_seed(Same {
                known: value.1,
                skipped,
                below: None,
            })?;
            next = known.next();
        }
        self.only(next.is_none())
    }
}

/// The name of a field: the one that comes next, one that is left out, or another.
enum Named {
    Expected,
    Skipped,
    Other,
}

struct Name<'s> {
    expected: Option<&'s String>,
    skipped: Option<&'s str>,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Named;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Named, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Named;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Named, E> {
        Ok(if self.skipped == Some(name) {
            Named::Skipped
        } else if self.expected.is_some_and(|expected| expected == name) {
            Named::Expected
        } else {
            Named::Other
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_a_tree_where_a_reader_makes_that_tree_of_it() {
        let values = [
            json!(null),
            json!(true),
            json!(0),
            json!(-1),
            json!(1.0),
            json!(1),
            json!("a\n\"é"),
            json!([]),
            json!([1, [2]]),
            json!([1]),
            json!({}),
            json!({"a": {"status": 1}}),
            json!({"a": 1, "b": null}),
            json!({"a": 1}),
            json!({"metadata": {"name": "n"}, "spec": {"metadata": {"managedFields": 1}}}),
        ];
        for left in &values {
            for right in &values {
                let (left, right) = (json!({"x": left}), json!({"x": right}));
                assert_eq!(
                    is_tree::<false>(&left.to_string(), &right),
                    left == right,
                    "{left} {right}"
                );
            }
        }
        let known = json!({"metadata": {"name": "n"}, "spec": {"status": 1}});
        let text =
            r#"{"metadata": {"managedFields": [{"a": {}}], "name": "n"}, "spec": {"status": 1}, "status": {"a": 1}}"#;
        assert!(is_tree::<false>(text, &known));
        assert!(!is_tree::<true>(text, &known), "its status counts then");
        for other in [
            r#"{"metadata": {"name": "n"}, "spec": {"status": 1}} 7"#,
            r#"{"spec": {"status": 1}, "metadata": {"name": "n"}}"#,
            r#"{"metadata": {"name": "n"}, "spec": {"status": 1}, "spec": {"status": 1}}"#,
            r#"{"metadata": {"name": "n"}}"#,
            "{",
            "",
        ] {
            assert!(!is_tree::<false>(other, &known), "{other}");
        }
    }
}
