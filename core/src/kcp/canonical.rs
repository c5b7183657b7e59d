//! The canonical form of an object: fields without a meaning are absent, and whole numbers have no
//! fraction.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::model::normalize_quantity;

/// The field whose presence has a meaning, even if it is an empty object: a machine that joins the
/// control plane.
const MEANINGFUL_IF_EMPTY: &str = "controlPlane";

/// An object without fields that are null or an empty object, which mean an absent field. A whole
/// number such as `3.0` becomes `3`, as an API server sends it.
pub(super) fn without_empty_fields(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let is_meaningful = |name: &str, value: &Value| match value {
                Value::Null => false,
                Value::Object(fields) => !fields.is_empty() || name == MEANINGFUL_IF_EMPTY,
                _ => true,
            };
            let fields: Map<String, Value> = fields
                .iter()
                .map(|(name, value)| (name.clone(), without_empty_fields(value)))
                .filter(|(name, value)| is_meaningful(name, value))
                .collect();
            Value::Object(fields)
        }
        Value::Array(items) => items.iter().map(without_empty_fields).collect(),
        Value::Number(number) if number.is_f64() => number.as_f64().map_or_else(|| value.clone(), whole),
        other => other.clone(),
    }
}

/// The fields whose objects are types of Kubernetes. In them, an empty text means an absent one.
const TYPES_OF_KUBERNETES: [&str; 3] = ["extraEnvs", "extraVolumes", "taints"];
/// The fields with a time. An API server keeps the text; two texts can mean the same second.
const TIMES: [&str; 2] = ["expires", "timeAdded"];
/// The field with a quantity, which is 0 if it is absent.
const DIVISOR: &str = "divisor";

/// An object in which equal values have equal texts: quantities, times, and empty texts. It is only
/// compared. Cluster API compares decoded objects.
pub(super) fn comparable(value: &Value) -> Value {
    with_equal_texts(value, false)
}

fn with_equal_texts(value: &Value, is_of_kubernetes: bool) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter_map(|(name, value)| {
                let inside = is_of_kubernetes || TYPES_OF_KUBERNETES.contains(&name.as_str());
                let value = match value {
                    Value::String(text) if text.is_empty() && is_of_kubernetes => return None,
                    Value::String(text) if TIMES.contains(&name.as_str()) => Value::from(second(text)),
                    Value::String(_) | Value::Number(_) if is_of_kubernetes && name == DIVISOR => amount(value)?,
                    other => with_equal_texts(other, inside),
                };
                Some((name.clone(), value))
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => items
            .iter()
            .map(|item| with_equal_texts(item, is_of_kubernetes))
            .collect(),
        other => other.clone(),
    }
}

/// A time in UTC without a fraction of a second; a text that is no time as it is.
fn second(text: &str) -> String {
    let time = text.parse::<Timestamp>();
    let whole = time.and_then(|time| Timestamp::from_second(time.as_second()));
    whole.map_or_else(|_| text.to_owned(), |time| time.to_string())
}

/// A quantity in one form; `None` for 0, which means the same as an absent one.
fn amount(value: &Value) -> Option<Value> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let amount = normalize_quantity(&text).unwrap_or(text);
    (amount != "0").then(|| Value::from(amount))
}

/// A number, without its fraction if that is zero.
fn whole(number: f64) -> Value {
    /// Up to this size, every whole number has its own floating point number.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let is_whole = number.fract() == 0.0 && number.abs() <= EXACT;
    // A whole number of this size prints without a fraction and without an exponent.
    let text = format!("{number:.0}");
    let integer = text.parse::<i64>().ok().filter(|_| is_whole);
    integer.map_or_else(|| Value::from(number), Value::from)
}
