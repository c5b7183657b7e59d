//! Azure: the zone, which may be empty for no zone, and a subnet that replaces the subnet of the
//! template.

use serde_json::{Map, Value, json};

use super::EntryFault;
use crate::cpms::fields::{get, remove, set, text};
use crate::model::ViolationKind;

pub(super) fn normal(entry: &Value) -> Value {
    let mut full = Map::new();
    for field in ["zone", "subnet"] {
        if let Some(value) = text(entry, &[field]) {
            full.insert(field.to_owned(), json!(value));
        }
    }
    Value::Object(full)
}

/// Every Azure provider spec has a failure domain: without a zone, it is the empty zone.
pub(super) fn extract(spec: &Value) -> Value {
    let mut entry = json!({ "zone": text(spec, &["zone"]).unwrap_or_default() });
    if let Some(subnet) = text(spec, &["subnet"]) {
        set(&mut entry, &["subnet"], json!(subnet));
    }
    entry
}

pub(super) fn complete(full: &Value, template: &Value) -> Value {
    let mut full = full.clone();
    for field in ["zone", "subnet"] {
        if let (None, Some(value)) = (full.get(field), text(template, &[field])) {
            set(&mut full, &[field], json!(value));
        }
    }
    full
}

pub(super) fn inject(spec: &mut Value, full: &Value) {
    for field in ["zone", "subnet"] {
        if let Some(value) = full.get(field) {
            set(spec, &[field], value.clone());
        }
    }
}

pub(super) fn strip(spec: &mut Value) {
    remove(spec, &["zone"]);
    remove(spec, &["subnet"]);
}

pub(super) fn label(entry: &Value) -> String {
    let zone = text(entry, &["zone"]).unwrap_or("no zone");
    match text(entry, &["subnet"]) {
        Some(subnet) => format!("{zone}/{subnet}"),
        None => zone.to_owned(),
    }
}

pub(super) fn check(entry: &Value) -> Vec<EntryFault> {
    let mut faults = Vec::new();
    if !get(entry, &["zone"]).is_some_and(Value::is_string) {
        faults.push(EntryFault::new(
            "zone",
            ViolationKind::Required,
            "must be the availability zone, or empty for none",
        ));
    }
    if let Some(subnet) = get(entry, &["subnet"]).and_then(Value::as_str)
        && !is_subnet_name(subnet)
    {
        faults.push(EntryFault::new(
            "subnet",
            ViolationKind::Invalid,
            "must have at most 80 characters: letters, digits, '.', '_' and '-', starting with a letter or digit and ending \
             with a letter, digit or '_'",
        ));
    }
    faults
}

fn is_subnet_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.len() <= 80
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && name.chars().all(inner)
}
