//! A field that has different names or types in the two versions, as data.

use serde_json::{Map, Value};

use super::duration::{from_seconds, to_seconds};
use super::tree::{get, set, take};

/// How a value differs.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    /// The value is the same.
    Same,
    /// A duration as text in `v1beta1`, and a number of seconds in `v1beta2`.
    Seconds,
    /// Arguments as a map in `v1beta1`, and as a list in `v1beta2`.
    Arguments,
    /// A reference with `apiVersion` in `v1beta1`, and with `apiGroup` in `v1beta2`.
    Reference,
}

/// A field: its path in `v1beta1`, its path in `v1beta2`, and how its value differs.
pub(super) type Row = (&'static str, &'static str, How);

/// Converts the fields to `v1beta2`, in the order of the rows.
pub(super) fn up(object: &mut Value, rows: &[Row]) {
    for (v1beta1, v1beta2, how) in rows {
        convert(object, v1beta1, v1beta2, |value| how.up(value));
    }
}

/// Converts the fields to `v1beta1`, in the reverse order.
pub(super) fn down(object: &mut Value, rows: &[Row]) {
    for (v1beta1, v1beta2, how) in rows.iter().rev() {
        convert(object, v1beta2, v1beta1, |value| how.down(value));
    }
}

/// Moves a field. A value that cannot be converted is moved as it is: the rules refuse it. A field
/// whose new place is in use stays.
fn convert(object: &mut Value, from: &str, to: &str, value: impl Fn(&Value) -> Option<Value>) {
    let (from, to): (Vec<&str>, Vec<&str>) = (from.split('.').collect(), to.split('.').collect());
    let is_used = from != to && get(object, &to).is_some();
    let Some(old) = get(object, &from).filter(|_| !is_used) else {
        return;
    };
    let new = value(old).unwrap_or_else(|| old.clone());
    let before = object.clone();
    take(object, &from);
    if !set(object, &to, new) {
        *object = before;
    }
}

/// The group of an `apiVersion`; empty for the core group, and for a text that is no `apiVersion`.
fn group(api_version: &str) -> &str {
    let parts = api_version.split_once('/');
    parts.map_or("", |(group, version)| if version.contains('/') { "" } else { group })
}

impl How {
    fn up(self, value: &Value) -> Option<Value> {
        match self {
            Self::Same => None,
            Self::Seconds => to_seconds(value.as_str()?).map(Value::from),
            Self::Arguments => {
                let argument = |(name, value): (&String, &Value)| {
                    let pair = [("name", Value::from(name.as_str())), ("value", value.clone())];
                    pair.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
                };
                Some(value.as_object()?.iter().map(argument).map(Value::Object).collect())
            }
            Self::Reference => {
                let mut reference = Map::new();
                for (field, value) in value.as_object()? {
                    match field.as_str() {
                        "apiVersion" => {
                            let group = group(value.as_str()?);
                            reference.insert(String::from("apiGroup"), Value::from(group));
                        }
                        "kind" | "name" => {
                            reference.insert(field.clone(), value.clone());
                        }
                        _ => {}
                    }
                }
                Some(Value::Object(reference))
            }
        }
    }

    fn down(self, value: &Value) -> Option<Value> {
        match self {
            Self::Same => None,
            Self::Seconds => Some(Value::from(from_seconds(value.as_i64()?))),
            Self::Arguments => {
                let argument = |argument: &Value| {
                    let name = argument.get("name")?.as_str()?.to_owned();
                    let value = argument.get("value").filter(|value| !value.is_null());
                    Some((name, value.cloned().unwrap_or_else(|| Value::from(""))))
                };
                let arguments: Option<Map<String, Value>> = value.as_array()?.iter().map(argument).collect();
                arguments.map(Value::Object)
            }
            Self::Reference => {
                let mut reference = value.as_object()?.clone();
                if let Some(group) = reference.remove("apiGroup") {
                    reference.insert(String::from("apiVersion"), group);
                }
                Some(Value::Object(reference))
            }
        }
    }
}
