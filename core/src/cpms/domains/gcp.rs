//! Google Cloud: the zone.

use serde_json::{Value, json};

use super::EntryFault;
use crate::cpms::fields::{remove, set, text};
use crate::model::ViolationKind;

pub(super) fn normal(entry: &Value) -> Value {
    extract(entry).unwrap_or_else(|| json!({}))
}

pub(super) fn extract(spec: &Value) -> Option<Value> {
    text(spec, &["zone"]).map(|zone| json!({ "zone": zone }))
}

pub(super) fn inject(spec: &mut Value, full: &Value) {
    if let Some(zone) = full.get("zone") {
        set(spec, &["zone"], zone.clone());
    }
}

pub(super) fn strip(spec: &mut Value) {
    remove(spec, &["zone"]);
}

pub(super) fn label(entry: &Value) -> String {
    text(entry, &["zone"]).unwrap_or("any").to_owned()
}

pub(super) fn check(entry: &Value) -> Vec<EntryFault> {
    match text(entry, &["zone"]) {
        Some(_) => Vec::new(),
        None => vec![EntryFault::new(
            "zone",
            ViolationKind::Required,
            "must be the zone of the instance, such as us-central1-a",
        )],
    }
}
