//! The types and limits of single fields, and how a value is written in the other API.
//!
//! A shape describes both APIs at once. Its limits are those of the stricter API, so that a value
//! which passes is accepted by the schemas of both.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use super::Api;

/// A value that cannot be converted: what must be true of it, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Where in the value, as the end of a path: `[1].name`. Empty: the value as a whole.
    pub(super) within: String,
    /// What must be true, as a clause.
    pub(super) reason: Cow<'static, str>,
    /// What to do, as a clause.
    pub(super) way_out: Cow<'static, str>,
}

impl Fault {
    /// The fault with the value, if the reason is a demand and the value is a short scalar.
    pub(super) fn of(mut self, value: &Value) -> Self {
        const LONGEST: usize = 60;
        let text = value.to_string();
        let is_short = !value.is_array() && !value.is_object() && text.len() <= LONGEST;
        if is_short && self.within.is_empty() && self.reason.starts_with("must be") {
            self.reason = Cow::Owned(format!("{}; it is {text}", self.reason));
        }
        self
    }
}

/// A fault with fixed texts.
pub(super) const fn fault(reason: &'static str, way_out: &'static str) -> Fault {
    Fault {
        within: String::new(),
        reason: Cow::Borrowed(reason),
        way_out: Cow::Borrowed(way_out),
    }
}

/// The converted value; `None` if the value means the same as an absent field.
pub(super) type Converted = Result<Option<Value>, Fault>;

/// The type and the limits of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// A string; the empty string means absent.
    Text,
    /// A string; the empty string and absent differ.
    TextOrEmpty,
    /// A string that passes a check; the text says what it must be.
    TextThat(fn(&str) -> bool, &'static str),
    /// A boolean. Absent and false differ.
    Bool,
    /// A boolean; false means absent.
    Flag,
    /// An integer between these limits.
    Int(i64, i64),
    /// An integer between these limits; 0 means absent.
    Count(i64, i64),
    /// One of these words, as the Machine API and as Cluster API write it; the empty string means
    /// absent.
    Words(&'static [(&'static str, &'static str)]),
    /// A list of strings; an empty list means absent.
    Texts,
    /// A map of strings, kept as it is; an empty map means absent.
    TextMap,
    /// A list of `{name, value}` in the Machine API, and a map in Cluster API.
    Tags,
    /// A Kubernetes quantity: a string or an integer.
    Quantity,
    /// An integer or a string.
    IntOrText,
    /// A pair of functions: to Cluster API, and to the Machine API.
    Codec {
        /// To Cluster API.
        to: fn(&Value) -> Converted,
        /// To the Machine API.
        back: fn(&Value) -> Converted,
        /// How the two differ, for the documentation.
        about: &'static str,
    },
}

const SPELLING: &str = "correct the value";

impl Shape {
    /// Converts a value of the API `from`.
    pub(super) fn convert(self, from: Api, value: &Value) -> Converted {
        match self {
            Self::Text => text(value),
            Self::TextOrEmpty => match value {
                Value::String(_) => Ok(Some(value.clone())),
                _ => text(value),
            },
            Self::TextThat(check, must) => match text(value)? {
                Some(Value::String(text)) if !check(&text) => Err(fault(must, SPELLING)),
                found => Ok(found),
            },
            Self::Bool => boolean(value).map(|value| Some(Value::Bool(value))),
            Self::Flag => boolean(value).map(|value| value.then_some(Value::Bool(true))),
            Self::Int(min, max) => integer(value, min, max).map(|value| Some(Value::from(value))),
            Self::Count(min, max) => match value.as_i64() {
                Some(0) => Ok(None),
                _ => integer(value, min, max).map(|value| Some(Value::from(value))),
            },
            Self::Words(words) => word(words, from, value),
            Self::Texts => texts(value),
            Self::TextMap => text_map(value),
            Self::Tags => match from {
                Api::MachineApi => tags_to_map(value),
                Api::ClusterApi => map_to_tags(value),
            },
            Self::Quantity => quantity(value),
            Self::IntOrText => match value {
                Value::String(text) if text.is_empty() => Ok(None),
                Value::String(_) => Ok(Some(value.clone())),
                Value::Number(number) if number.is_i64() => Ok(Some(value.clone())),
                _ => Err(fault("must be an integer or a string", SPELLING)),
            },
            Self::Codec { to, back, .. } => match from {
                Api::MachineApi => to(value),
                Api::ClusterApi => back(value),
            },
        }
    }

    /// How the value is converted, for the documentation.
    pub(super) fn about(self) -> String {
        match self {
            Self::Text | Self::TextThat(..) => String::from("string"),
            Self::TextOrEmpty => String::from("string; the empty string and absent differ"),
            Self::Bool => String::from("boolean"),
            Self::Flag => String::from("boolean; false is the same as absent"),
            Self::Int(min, max) => limits(min, max),
            Self::Count(min, max) => format!("{}; 0 is the same as absent", limits(min, max)),
            Self::Words(words) => {
                let words = words.iter().map(|(machine_api, cluster_api)| {
                    if machine_api == cluster_api {
                        format!("`{machine_api}`")
                    } else {
                        format!("`{machine_api}` is `{cluster_api}`")
                    }
                });
                words.collect::<Vec<_>>().join(", ")
            }
            Self::Texts => String::from("list of strings"),
            Self::TextMap => String::from("map of strings"),
            Self::Tags => String::from("a list of name and value is a map in Cluster API"),
            Self::Quantity => String::from("quantity"),
            Self::IntOrText => String::from("integer or string"),
            Self::Codec { about, .. } => about.to_owned(),
        }
    }
}

fn limits(min: i64, max: i64) -> String {
    match (min, max) {
        (i64::MIN, _) => String::from("integer"),
        (min, i64::MAX | 0x7fff_ffff) => format!("integer, at least {min}"),
        (min, max) => format!("integer from {min} to {max}"),
    }
}

/// The fault of a value that must be a string.
pub(super) const NO_TEXT: Fault = fault("must be a string", SPELLING);

/// A string; the empty string means absent.
pub(super) fn text(value: &Value) -> Converted {
    match value {
        Value::String(text) if text.is_empty() => Ok(None),
        Value::String(_) => Ok(Some(value.clone())),
        _ => Err(NO_TEXT),
    }
}

fn boolean(value: &Value) -> Result<bool, Fault> {
    value.as_bool().ok_or(fault("must be true or false", SPELLING))
}

/// An integer between two limits.
pub(super) fn integer(value: &Value, min: i64, max: i64) -> Result<i64, Fault> {
    match value.as_i64() {
        Some(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(Fault {
            within: String::new(),
            reason: Cow::Owned(format!("must be an {}", limits(min, max))),
            way_out: Cow::Borrowed(SPELLING),
        }),
    }
}

fn word(words: &[(&str, &str)], from: Api, value: &Value) -> Converted {
    let Some(Value::String(text)) = text(value)? else {
        return Ok(None);
    };
    let of_side = |(machine_api, cluster_api): &(&str, &str)| match from {
        Api::MachineApi => ((*machine_api).to_owned(), (*cluster_api).to_owned()),
        Api::ClusterApi => ((*cluster_api).to_owned(), (*machine_api).to_owned()),
    };
    let pairs: Vec<(String, String)> = words.iter().map(of_side).collect();
    if let Some((_, other)) = pairs.iter().find(|(word, _)| *word == text) {
        return Ok(Some(Value::from(other.as_str())));
    }
    let allowed: Vec<&str> = pairs.iter().map(|(word, _)| word.as_str()).collect();
    Err(Fault {
        within: String::new(),
        reason: Cow::Owned(format!("{} does not support the value {text:?}", from.other().title())),
        way_out: Cow::Owned(format!("use {}", allowed.join(" or "))),
    })
}

fn texts(value: &Value) -> Converted {
    match value {
        Value::Array(items) if items.is_empty() => Ok(None),
        Value::Array(items) if items.iter().all(Value::is_string) => Ok(Some(value.clone())),
        _ => Err(fault("must be a list of strings", SPELLING)),
    }
}

fn text_map(value: &Value) -> Converted {
    match value {
        Value::Object(map) if map.is_empty() => Ok(None),
        Value::Object(map) if map.values().all(Value::is_string) => Ok(Some(value.clone())),
        _ => Err(fault("must be a map of strings", SPELLING)),
    }
}

fn tags_to_map(value: &Value) -> Converted {
    let pairs = pairs(value, "name", "value")?;
    Ok((!pairs.is_empty()).then_some(Value::Object(pairs)))
}

/// The entries of a list of objects with exactly a key and a value, both strings, as a map.
pub(super) fn pairs(value: &Value, key: &str, content: &str) -> Result<Map<String, Value>, Fault> {
    let must = |within: String| Fault {
        within,
        reason: Cow::Owned(format!(
            "must be a list of objects with the strings {key} and {content}"
        )),
        way_out: Cow::Borrowed("correct the entry, or remove its other fields"),
    };
    let mut map = Map::new();
    let items = value.as_array().ok_or_else(|| must(String::new()))?;
    for (index, item) in items.iter().enumerate() {
        let at = |field: &str| must(format!("[{index}].{field}"));
        let fields = item.as_object().ok_or_else(|| must(format!("[{index}]")))?;
        let name = fields.get(key).and_then(Value::as_str).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| at(key))?;
        let text = match fields.get(content) {
            Some(Value::String(text)) => Value::from(text.as_str()),
            _ => return Err(at(content)),
        };
        let known = |field: &String| field == key || field == content;
        if let Some((field, _)) = fields.iter().find(|(field, value)| !known(field) && !value.is_null()) {
            return Err(at(field));
        }
        if map.insert(name.to_owned(), text).is_some() {
            return Err(Fault {
                within: format!("[{index}].{key}"),
                reason: Cow::Owned(format!(
                    "Cluster API stores the entries as a map, which cannot hold {name:?} twice"
                )),
                way_out: Cow::Borrowed("remove the duplicate"),
            });
        }
    }
    Ok(map)
}

fn map_to_tags(value: &Value) -> Converted {
    let Some(Value::Object(map)) = text_map(value)? else {
        return Ok(None);
    };
    if map.contains_key("") {
        return Err(fault("must not contain an entry without a name", "remove the entry"));
    }
    let items = map.into_iter().map(|(name, value)| {
        let entry = [
            (String::from("name"), Value::from(name)),
            (String::from("value"), value),
        ];
        Value::Object(entry.into_iter().collect())
    });
    Ok(Some(Value::Array(items.collect())))
}

fn quantity(value: &Value) -> Converted {
    const MUST: Fault = fault("must be a quantity such as 16Gi", SPELLING);
    match value {
        Value::String(text) if text.is_empty() => Ok(None),
        Value::String(text) if is_quantity(text) => Ok(Some(value.clone())),
        Value::Number(number) if number.is_i64() => Ok(Some(Value::from(integer_text(number)))),
        _ => Err(MUST),
    }
}

fn integer_text(number: &Number) -> String {
    number.to_string()
}

/// Whether a text is a Kubernetes quantity.
pub(super) fn is_quantity(text: &str) -> bool {
    const SUFFIXES: &[&str] = &[
        "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "n", "u", "m", "k", "M", "G", "T", "P", "E", "",
    ];
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let number = unsigned.strip_suffix(digits).unwrap_or_default();
    let is_number = number.matches('.').count() <= 1 && number.bytes().any(|byte| byte.is_ascii_digit());
    let exponent = digits
        .strip_prefix(['e', 'E'])
        .map(|rest| rest.strip_prefix(['+', '-']).unwrap_or(rest));
    let is_exponent = exponent.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()));
    is_number && (SUFFIXES.contains(&digits) || is_exponent)
}

/// Whether a text is a UUID with hyphens.
pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.char_indices().all(|(at, letter)| match at {
            8 | 13 | 18 | 23 => letter == '-',
            _ => letter.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_shape_refuses_other_types_and_values_beyond_its_limits() {
        for (shape, good, bad) in [
            (Shape::Text, json!("a"), json!(1)),
            (Shape::Bool, json!(false), json!("true")),
            (Shape::Int(1, 7), json!(7), json!(8)),
            (Shape::Texts, json!(["a"]), json!(["a", 1])),
            (Shape::TextMap, json!({"a": ""}), json!({"a": null})),
            (
                Shape::Tags,
                json!([{"name": "a", "value": "b"}]),
                json!([{"name": "a", "value": "b", "c": 1}]),
            ),
            (Shape::Quantity, json!("1.5Gi"), json!("Gi")),
            (Shape::IntOrText, json!(5), json!(0.5)),
        ] {
            assert!(
                matches!(shape.convert(Api::MachineApi, &good), Ok(Some(_))),
                "{shape:?}"
            );
            assert!(shape.convert(Api::MachineApi, &bad).is_err(), "{shape:?}");
        }
    }

    #[test]
    fn the_reason_of_a_wrong_value_has_the_value() {
        let reason = |value: Value| {
            let fault = Shape::Int(0, i64::MAX).convert(Api::MachineApi, &value).unwrap_err();
            fault.of(&value).reason
        };
        assert_eq!(reason(json!("32")), "must be an integer, at least 0; it is \"32\"");
        assert_eq!(reason(json!(["32"])), "must be an integer, at least 0");
        assert_eq!(reason(json!("x".repeat(100))), "must be an integer, at least 0");
    }

    #[test]
    fn a_duplicate_tag_is_refused() {
        let twice = json!([{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]);
        assert!(Shape::Tags.convert(Api::MachineApi, &twice).is_err());
    }

    #[test]
    fn a_quantity_is_recognised() {
        for good in ["1", "16Gi", "0.5", ".5", "1e3", "-1", "100m"] {
            assert!(is_quantity(good), "{good}");
        }
        for bad in ["", ".", "Gi", "1 Gi", "1.2.3", "1gi", "1e", "+"] {
            assert!(!is_quantity(bad), "{bad}");
        }
    }
}
