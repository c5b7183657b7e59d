//! Kubernetes objects out of JSON text, as trees without the parts that no rule reads; and whether a text is a tree that
//! is there already.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A text, borrowed where nothing in it is escaped.
#[derive(serde::Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// Reads an object, and leaves out a field of its own, and one of a field.
#[derive(Clone, Copy)]
pub(super) struct Without<'s> {
    pub(super) skipped: Option<&'s str>,
    pub(super) below: Option<(&'s str, &'s str)>,
}

impl Without<'static> {
    const NOTHING: Self = Self {
        skipped: None,
        below: None,
    };

    /// What no rule reads, which is most of the bytes of an object: `metadata.managedFields` and, where the rules of a kind
    /// do not read it, `status`.
    pub(super) fn unread(reads_status: bool) -> Self {
        Self {
            skipped: (!reads_status).then_some("status"),
            below: Some(("metadata", "managedFields")),
        }
    }
}

impl<'s> Without<'s> {
    /// The same of a field.
    pub(super) fn of_field(self, name: &str) -> Self {
        let below = self.below.filter(|(below, _)| *below == name);
        Self {
            skipped: below.map(|(_, skipped)| skipped),
            below: None,
        }
    }

    fn is_of_object(self) -> bool {
        self.skipped.is_some() || self.below.is_some()
    }

    /// Reads the value of a field: an object, where something is left out of it.
    pub(super) fn next_value<'de, A: MapAccess<'de>>(self, entries: &mut A) -> Result<Value, A::Error> {
        if self.is_of_object() {
            entries.next_value_seed(self)
        } else {
            entries.next_value()
        }
    }
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
            let value = self.of_field(&name).next_value(&mut entries)?;
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

/// What a text is beside a value that is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Beside {
    /// That value.
    Same,
    /// Another one.
    Other(Value),
}

/// Reads a value beside a known one, as long as they are the same without building anything. Objects are compared in the
/// order of their names, in which an API server writes them; the same fields in another order are built.
#[derive(Clone, Copy)]
pub(super) struct Compare<'s> {
    pub(super) known: &'s Value,
    /// What is left out; it is not in the known value.
    pub(super) unread: Without<'s>,
}

impl<'s> Compare<'s> {
    fn whole(known: &'s Value) -> Self {
        Self {
            known,
            unread: Without::NOTHING,
        }
    }

    fn only<E>(self, same: bool, value: impl Into<Value>) -> Result<Beside, E> {
        Ok(if same {
            Beside::Same
        } else {
            Beside::Other(value.into())
        })
    }

    /// What has a field to be left out is an object.
    fn not_an_object<E: de::Error>(self) -> Result<Self, E> {
        if self.unread.is_of_object() {
            return Err(E::custom("expected an object"));
        }
        Ok(self)
    }
}

impl<'de> DeserializeSeed<'de> for Compare<'_> {
    type Value = Beside;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Beside, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Compare<'_> {
    type Value = Beside;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Beside, E> {
        self.only(self.known.is_null(), Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Beside, E> {
        self.not_an_object()?.only(self.known.as_bool() == Some(value), value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Beside, E> {
        self.not_an_object()?
            .only(self.known.as_number() == Some(&value.into()), value)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Beside, E> {
        self.not_an_object()?
            .only(self.known.as_number() == Some(&value.into()), value)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Beside, E> {
        let number = Number::from_f64(value);
        let same = number.is_some() && self.known.as_number() == number.as_ref();
        self.not_an_object()?.only(same, value)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Beside, E> {
        self.not_an_object()?.only(self.known.as_str() == Some(value), value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Beside, A::Error> {
        self.not_an_object()?;
        let known = self.known.as_array().map(Vec::as_slice).unwrap_or_default();
        let mut same = known.iter();
        let mut built = loop {
            let before = || known.get(..known.len() - same.len()).unwrap_or_default().to_vec();
            let Some(next) = same.as_slice().first() else {
                match items.next_element::<Value>()? {
                    Some(item) => break [before(), vec![item]].concat(),
                    None if self.known.is_array() => return Ok(Beside::Same),
                    None => return Ok(Beside::Other(Value::Array(Vec::new()))),
                }
            };
            match items.next_element_seed(Compare::whole(next))? {
                Some(Beside::Same) => drop(same.next()),
                Some(Beside::Other(item)) => break [before(), vec![item]].concat(),
                None => return Ok(Beside::Other(Value::Array(before()))),
            }
        };
        while let Some(item) = items.next_element()? {
            built.push(item);
        }
        Ok(Beside::Other(Value::Array(built)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Beside, A::Error> {
        let nothing = Map::new();
        let known = self.known.as_object().unwrap_or(&nothing);
        let mut same = known.iter();
        let mut next = same.next();
        let before = |left: usize| -> Map<String, Value> {
            let before = known.iter().take(known.len() - left);
            before.map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        let mut built: Option<Map<String, Value>> = None;
        while let Some(name) = entries.next_key_seed(Name {
            expected: next.map(|(name, _)| name.as_str()).filter(|_| built.is_none()),
            skipped: self.unread.skipped,
        })? {
            let left = same.len() + usize::from(next.is_some());
            let (name, value) = match (name, next) {
                // What is expected is what comes next.
                (Named::Skipped, _) | (Named::Expected, None) => {
                    entries.next_value::<IgnoredAny>()?;
                    continue;
                }
                (Named::Expected, Some((name, known))) => {
                    let unread = self.unread.of_field(name);
                    match entries.next_value_seed(Compare { known, unread })? {
                        Beside::Same => {
                            next = same.next();
                            continue;
                        }
                        Beside::Other(value) => (name.clone(), value),
                    }
                }
                (Named::Other(name), _) => {
                    let value = self.unread.of_field(&name).next_value(&mut entries)?;
                    (name, value)
                }
            };
            built.get_or_insert_with(|| before(left)).insert(name, value);
        }
        Ok(match (built, next) {
            (Some(built), _) => Beside::Other(Value::Object(built)),
            (None, None) if self.known.is_object() => Beside::Same,
            (None, next) => Beside::Other(Value::Object(before(same.len() + usize::from(next.is_some())))),
        })
    }
}

/// The name of a field: the one that comes next, one that is left out, or another.
enum Named {
    Expected,
    Skipped,
    Other(String),
}

struct Name<'s> {
    expected: Option<&'s str>,
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
        } else if self.expected == Some(name) {
            Named::Expected
        } else {
            Named::Other(name.to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn beside(text: &str, known: &Value, unread: Without<'_>) -> Result<Beside, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let read = Compare { known, unread }.deserialize(&mut reader)?;
        reader.end().map(|()| read)
    }

    fn alone(text: &str, unread: Without<'_>) -> Result<Value, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let read = unread.deserialize(&mut reader)?;
        reader.end().map(|()| read)
    }

    #[test]
    fn whatever_is_known_a_text_is_what_it_says() {
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
            json!([1, [3]]),
            json!([1]),
            json!({}),
            json!({"a": {"status": 1}}),
            json!({"a": 1, "b": null}),
            json!({"a": 1}),
            json!({"a": 2, "c": [1]}),
            json!({"b": null}),
            json!({"metadata": {"name": "n"}, "spec": {"metadata": {"managedFields": 1}}}),
        ];
        for left in &values {
            for right in &values {
                let read = beside(&left.to_string(), right, Without::NOTHING).unwrap();
                let expected = if left == right {
                    Beside::Same
                } else {
                    Beside::Other(left.clone())
                };
                assert_eq!(read, expected, "{left} {right}");
                let (left, right) = (json!({"x": left}), json!({"x": right}));
                let read = beside(&left.to_string(), &right, Without::unread(false)).unwrap();
                let expected = if left == right {
                    Beside::Same
                } else {
                    Beside::Other(left.clone())
                };
                assert_eq!(read, expected, "{left} {right}");
            }
        }
    }

    #[test]
    fn what_is_left_out_is_left_out_wherever_it_stands() {
        let known = json!({"metadata": {"name": "n"}, "spec": {"status": 1}});
        let text =
            r#"{"metadata": {"managedFields": [{"a": {}}], "name": "n"}, "spec": {"status": 1}, "status": {"a": 1}}"#;
        assert_eq!(beside(text, &known, Without::unread(false)).unwrap(), Beside::Same);
        let read = beside(text, &known, Without::unread(true)).unwrap();
        assert!(matches!(read, Beside::Other(_)), "its status counts then");
        for other in [
            text,
            r#"{"spec": {"status": 1}, "metadata": {"name": "n", "managedFields": 1}}"#,
            r#"{"metadata": {"name": "n"}, "spec": {"status": 1}, "spec": {"status": 2}}"#,
            r#"{"metadata": {"name": "n"}, "spec": {"status": 1}, "metadata": {"managedFields": 1}}"#,
            r#"{"metadata": {"name": "n"}}"#,
            r#"{"status": 1, "metadata": null}"#,
            "{}",
        ] {
            for unread in [Without::unread(true), Without::unread(false)] {
                let read = match beside(other, &known, unread).unwrap() {
                    Beside::Same => known.clone(),
                    Beside::Other(value) => value,
                };
                assert_eq!(read, alone(other, unread).unwrap(), "{other}");
            }
        }
    }

    #[test]
    fn what_is_no_object_is_none_whatever_is_known() {
        let known = json!({"metadata": {"name": "n"}, "spec": 1});
        for text in ["[1]", "\"x\"", "3", "true", "1.5", "-3", "{\"metadata\":[]}", "{", ""] {
            assert!(alone(text, Without::unread(true)).is_err(), "{text}");
            for known in [&known, &json!(3), &json!([1])] {
                assert!(beside(text, known, Without::unread(true)).is_err(), "{text}");
            }
        }
    }
}
