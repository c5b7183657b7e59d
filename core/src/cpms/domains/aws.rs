//! AWS: the availability zone and the subnet. A provider spec references the subnet without a type.

use serde_json::{Map, Value, json};

use super::EntryFault;
use crate::cpms::fields::{get, remove, set, text};
use crate::model::{ViolationKind, canonical_json};

const ZONE: [&str; 2] = ["placement", "availabilityZone"];

/// The known fields of an entry.
pub(super) fn normal(entry: &Value) -> Value {
    build(
        text(entry, &ZONE),
        entry.get("subnet").and_then(|subnet| {
            // The type of a typed reference decides which field is used.
            match text(subnet, &["type"]) {
                Some("ID") => by_id(subnet),
                Some("ARN") => by_arn(subnet),
                Some("Filters") => by_filters(subnet),
                _ => untyped(subnet),
            }
        }),
    )
}

fn build(zone: Option<&str>, subnet: Option<Value>) -> Value {
    let mut full = Map::new();
    if let Some(zone) = zone {
        full.insert("placement".to_owned(), json!({ "availabilityZone": zone }));
    }
    if let Some(subnet) = subnet {
        full.insert("subnet".to_owned(), subnet);
    }
    Value::Object(full)
}

/// A reference in the form of a provider spec: the id, else the filters, else the ARN, in the order
/// of the machine controller.
fn untyped(subnet: &Value) -> Option<Value> {
    by_id(subnet).or_else(|| by_filters(subnet)).or_else(|| by_arn(subnet))
}

fn by_id(subnet: &Value) -> Option<Value> {
    text(subnet, &["id"]).map(|id| json!({"type": "ID", "id": id}))
}

fn by_arn(subnet: &Value) -> Option<Value> {
    text(subnet, &["arn"]).map(|arn| json!({"type": "ARN", "arn": arn}))
}

/// Filters are a set: the order of filters and of their values does not matter.
fn by_filters(subnet: &Value) -> Option<Value> {
    let filters = get(subnet, &["filters"])?.as_array().filter(|list| !list.is_empty())?;
    let mut filters: Vec<Value> = filters
        .iter()
        .map(|filter| {
            let mut values: Vec<&str> = get(filter, &["values"])
                .and_then(Value::as_array)
                .map(|values| values.iter().filter_map(Value::as_str).collect())
                .unwrap_or_default();
            values.sort_unstable();
            json!({"name": text(filter, &["name"]).unwrap_or_default(), "values": values})
        })
        .collect();
    filters.sort_by_cached_key(canonical_json);
    Some(json!({"type": "Filters", "filters": filters}))
}

/// The failure domain of a provider spec as an entry.
pub(super) fn extract(spec: &Value) -> Option<Value> {
    let entry = build(text(spec, &ZONE), spec.get("subnet").and_then(untyped));
    entry.as_object().is_some_and(|map| !map.is_empty()).then_some(entry)
}

/// The completed entry; `None` if the template adds no field.
pub(super) fn complete(full: &Value, template: &Value) -> Option<Value> {
    let own = extract(template)?;
    let mut added = None;
    for field in ["placement", "subnet"] {
        if let (None, Some(value)) = (full.get(field), own.get(field)) {
            set(added.get_or_insert_with(|| full.clone()), &[field], value.clone());
        }
    }
    added
}

pub(super) fn inject(spec: &mut Value, full: &Value) {
    if let Some(zone) = get(full, &ZONE) {
        set(spec, &ZONE, zone.clone());
    }
    // The reference is replaced as a whole, because parts of two references are not a reference.
    if let Some(mut subnet) = full.get("subnet").cloned() {
        remove(&mut subnet, &["type"]);
        set(spec, &["subnet"], subnet);
    }
}

pub(super) fn strip(spec: &mut Value) {
    remove(spec, &ZONE);
    remove(spec, &["subnet"]);
}

pub(super) fn label(entry: &Value) -> String {
    let full = normal(entry);
    let subnet = full.get("subnet").map(|subnet| match text(subnet, &["type"]) {
        Some("ID") => text(subnet, &["id"]).unwrap_or_default().to_owned(),
        Some("ARN") => text(subnet, &["arn"]).unwrap_or_default().to_owned(),
        _ => get(subnet, &["filters"])
            .and_then(Value::as_array)
            .map(|filters| {
                let values = filters.iter().filter_map(|filter| filter.get("values")?.as_array());
                values.flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
            })
            .unwrap_or_default(),
    });
    match (text(&full, &ZONE), subnet) {
        (Some(zone), Some(subnet)) => format!("{zone}/{subnet}"),
        (Some(zone), None) => zone.to_owned(),
        (None, Some(subnet)) => subnet,
        (None, None) => "any".to_owned(),
    }
}

pub(super) fn check(entry: &Value) -> Vec<EntryFault> {
    let mut faults = Vec::new();
    if text(entry, &ZONE).is_none() && get(entry, &["subnet"]).is_none() {
        faults.push(EntryFault::new(
            "",
            ViolationKind::Required,
            "must have an availability zone, a subnet or both",
        ));
    }
    if get(entry, &["placement"]).is_some() && text(entry, &ZONE).is_none() {
        faults.push(EntryFault::new(
            "placement.availabilityZone",
            ViolationKind::Required,
            "must be the availability zone of the instance",
        ));
    }
    let Some(subnet) = get(entry, &["subnet"]) else {
        return faults;
    };
    let members = [("ID", "id"), ("ARN", "arn"), ("Filters", "filters")];
    let Some((_, wanted)) = members.iter().find(|(type_, _)| text(subnet, &["type"]) == Some(type_)) else {
        faults.push(EntryFault::new(
            "subnet.type",
            ViolationKind::NotSupported,
            "supported values: \"ID\", \"ARN\", \"Filters\"",
        ));
        return faults;
    };
    for (type_, member) in members {
        let there = get(subnet, &[member]).is_some();
        if member == *wanted && !there {
            faults.push(EntryFault::new(
                &format!("subnet.{member}"),
                ViolationKind::Required,
                format!("must be set when type is {type_}"),
            ));
        }
        if member != *wanted && there {
            faults.push(EntryFault::new(
                &format!("subnet.{member}"),
                ViolationKind::Forbidden,
                format!("must not be set unless type is {type_}"),
            ));
        }
    }
    faults
}
