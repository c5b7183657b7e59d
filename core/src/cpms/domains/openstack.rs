//! OpenStack: the Nova zone, and the zone and type of the root volume if the template has a root
//! volume.

use serde_json::{Map, Value, json};

use super::EntryFault;
use crate::cpms::fields::{get, remove, set, text};
use crate::model::ViolationKind;

const VOLUME_ZONE: [&str; 2] = ["rootVolume", "availabilityZone"];
const VOLUME_TYPE: [&str; 2] = ["rootVolume", "volumeType"];
const FIELDS: [&[&str]; 3] = [&["availabilityZone"], &VOLUME_ZONE, &VOLUME_TYPE];

pub(super) fn normal(entry: &Value) -> Value {
    let mut full = Value::Object(Map::new());
    for field in FIELDS {
        if let Some(value) = text(entry, field) {
            set(&mut full, field, json!(value));
        }
    }
    full
}

/// A root volume without zone and type does not identify a failure domain.
pub(super) fn extract(spec: &Value) -> Option<Value> {
    Some(normal(spec)).filter(|entry| entry.as_object().is_some_and(|map| !map.is_empty()))
}

pub(super) fn complete(full: &Value, template: &Value) -> Value {
    let mut full = full.clone();
    for field in FIELDS {
        if let (None, Some(value)) = (get(&full, field), text(template, field)) {
            set(&mut full, field, json!(value));
        }
    }
    if get(template, &["rootVolume"]).is_none() {
        // Without a root volume, its zone and type are not used, and no machine would match them.
        remove(&mut full, &["rootVolume"]);
    }
    full
}

pub(super) fn inject(spec: &mut Value, full: &Value) {
    let has_volume = get(spec, &["rootVolume"]).is_some();
    for field in FIELDS {
        if let Some(value) = get(full, field).filter(|_| has_volume || field.len() == 1) {
            set(spec, field, value.clone());
        }
    }
}

pub(super) fn strip(spec: &mut Value) {
    for field in FIELDS {
        remove(spec, field);
    }
}

pub(super) fn label(entry: &Value) -> String {
    let parts: Vec<&str> = FIELDS.iter().filter_map(|field| text(entry, field)).collect();
    if parts.is_empty() {
        "any".to_owned()
    } else {
        parts.join("/")
    }
}

pub(super) fn check(entry: &Value) -> Vec<EntryFault> {
    let mut faults = Vec::new();
    let volume = get(entry, &["rootVolume"]);
    if text(entry, &["availabilityZone"]).is_none() && volume.is_none() {
        faults.push(EntryFault::new(
            "",
            ViolationKind::Required,
            "must have an availability zone, a root volume or both",
        ));
    }
    for (path, field, banned) in [
        ("availabilityZone", FIELDS[0], ": "),
        ("rootVolume.availabilityZone", FIELDS[1], " "),
    ] {
        let Some(zone) = get(entry, field).and_then(Value::as_str) else {
            continue;
        };
        if zone.is_empty() || zone.chars().count() > 63 || zone.contains(|c| banned.contains(c)) {
            let what = if banned.len() > 1 {
                "must have 1 to 63 characters without colons and spaces"
            } else {
                "must have 1 to 63 characters without spaces"
            };
            faults.push(EntryFault::new(path, ViolationKind::Invalid, what));
        }
    }
    if volume.is_some() {
        let type_ = text(entry, &VOLUME_TYPE);
        if type_.is_none_or(|type_| type_.chars().count() > 255) {
            faults.push(EntryFault::new(
                "rootVolume.volumeType",
                if type_.is_none() {
                    ViolationKind::Required
                } else {
                    ViolationKind::TooLong
                },
                "must be a volume type of 1 to 255 characters",
            ));
        }
        if text(entry, &["availabilityZone"]).is_some() && text(entry, &VOLUME_ZONE).is_none() {
            faults.push(EntryFault::new(
                "rootVolume.availabilityZone",
                ViolationKind::Required,
                "must be set when availabilityZone is set",
            ));
        }
    }
    faults
}
