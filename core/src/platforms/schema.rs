//! The Go types of provider specs, and the one form into which a provider spec is brought by them.
//!
//! The webhook of the Machine API decodes a provider spec into the Go type of its platform and
//! encodes it again. So unknown fields disappear at any depth, keys match in any case, and a zero
//! is the same as an absent value, except where the type is a pointer. [`normalize`] does the same
//! without a cluster. It sets no defaults and judges nothing.
//!
//! Source: the Go module `github.com/openshift/api` at `v0.0.0-20260420151639-34e60874783e`. No
//! type of OpenStack is listed, because the webhook stores its provider specs as they are sent.

mod aws;
mod azure;
mod gcp;
mod nutanix;
mod power_vs;
mod vsphere;

use serde_json::{Map, Value};

use crate::model::normalize_quantity;

/// A field of a Go struct: its JSON name and its type.
pub type Field = (&'static str, Type);

/// The Go type of a field.
#[derive(Clone, Copy, Debug)]
pub enum Type {
    /// A string. A number or a boolean is decoded into its text.
    Text,
    /// A boolean. False is the same as absent.
    Flag,
    /// A pointer to a boolean.
    OptionalFlag,
    /// A whole number. Zero is the same as absent.
    Number,
    /// A pointer to a whole number.
    OptionalNumber,
    /// A quantity such as `16Gi`.
    Quantity,
    /// A number or a text.
    NumberOrText,
    /// A map of texts.
    Map,
    /// Any JSON.
    Json,
    /// A struct. Without fields it is the same as absent.
    Object(&'static [Field]),
    /// A pointer to a struct that means something without fields too.
    OptionalObject(&'static [Field]),
    /// A list.
    List(&'static Type),
}

/// Whether fields that a type does not have are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFields {
    /// They are dropped, as a decoder drops them.
    Drop,
    /// They are kept, also where the platform has no type.
    Keep,
}

/// The fields of the provider spec of a kind; `None` for a kind without a type.
pub fn of_kind(kind: &str) -> Option<&'static [Field]> {
    Some(match kind {
        "AWSMachineProviderConfig" => aws::PROVIDER_SPEC,
        "AzureMachineProviderSpec" => azure::PROVIDER_SPEC,
        "GCPMachineProviderSpec" => gcp::PROVIDER_SPEC,
        "VSphereMachineProviderSpec" => vsphere::PROVIDER_SPEC,
        "NutanixMachineProviderConfig" => nutanix::PROVIDER_SPEC,
        "PowerVSMachineProviderConfig" => power_vs::PROVIDER_SPEC,
        _ => return None,
    })
}

/// Brings a provider spec into the form in which equal values of its Go type are equal JSON.
/// Idempotent.
pub fn normalize(fields: &[Field], unknown: UnknownFields, provider_spec: Value) -> Value {
    match provider_spec {
        Value::Object(map) => Value::Object(object(fields, unknown, map)),
        other => other,
    }
}

fn object(fields: &[Field], unknown: UnknownFields, map: Map<String, Value>) -> Map<String, Value> {
    let mut normalized = Map::new();
    for (key, value) in map {
        let exact = fields.iter().find(|(name, _)| *name == key);
        let field = exact.or_else(|| fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(&key)));
        match field {
            Some((name, type_)) => {
                if let Some(value) = field_value(*type_, unknown, value) {
                    merge(&mut normalized, name, value);
                }
            }
            None if unknown == UnknownFields::Keep => drop(normalized.insert(key, value)),
            None => {}
        }
    }
    normalized
}

/// Sets a field. Of two keys that differ in case only, a decoder takes the later one, and merges
/// objects.
fn merge(into: &mut Map<String, Value>, name: &str, value: Value) {
    match (into.get_mut(name), value) {
        (Some(Value::Object(earlier)), Value::Object(later)) => earlier.extend(later),
        (_, value) => drop(into.insert(name.to_owned(), value)),
    }
}

/// The value of a field; `None` if it is the same as an absent one.
fn field_value(type_: Type, unknown: UnknownFields, found: Value) -> Option<Value> {
    match value(type_, unknown, found) {
        Value::Null => None,
        Value::String(text) if text.is_empty() => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Object(map) if map.is_empty() && !matches!(type_, Type::OptionalObject(_)) => None,
        Value::Bool(false) if matches!(type_, Type::Flag) => None,
        Value::String(text) if matches!(type_, Type::Quantity) && text == "0" => None,
        Value::Number(number) if matches!(type_, Type::Number) && number.as_f64() == Some(0.0) => None,
        other => Some(other),
    }
}

/// A value in its normal form. A value that the type cannot hold stays as it is.
fn value(type_: Type, unknown: UnknownFields, found: Value) -> Value {
    match (type_, found) {
        (Type::Text | Type::NumberOrText, Value::Number(number)) => Value::String(number.to_string()),
        (Type::Text, Value::Bool(flag)) => Value::String(flag.to_string()),
        (Type::Quantity, Value::String(text)) => normalize_quantity(&text).map_or(Value::String(text), Value::String),
        (Type::Quantity, Value::Number(number)) => {
            let text = number.to_string();
            Value::String(normalize_quantity(&text).unwrap_or(text))
        }
        (Type::Object(fields) | Type::OptionalObject(fields), Value::Object(map)) => {
            Value::Object(object(fields, unknown, map))
        }
        (Type::Map, Value::Object(map)) => {
            let pairs = map
                .into_iter()
                .map(|(key, found)| (key, value(Type::Text, unknown, found)));
            Value::Object(pairs.collect())
        }
        // Items of a list keep their positions. A null is decoded into the empty text.
        (Type::List(Type::Text), Value::Array(items)) => {
            let text = |found: Value| match found {
                Value::Null => Value::String(String::new()),
                found => value(Type::Text, unknown, found),
            };
            Value::Array(items.into_iter().map(text).collect())
        }
        (Type::List(item), Value::Array(items)) => {
            Value::Array(items.into_iter().map(|found| value(*item, unknown, found)).collect())
        }
        (_, found) => found,
    }
}

#[cfg(test)]
mod tests;
