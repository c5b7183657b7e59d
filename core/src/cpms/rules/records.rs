//! The rule about the annotations in which Capstan records what it created: a user must not store a
//! value that Capstan cannot read.
//!
//! It must never refuse a value that the stored set has already, so that such a set can be edited
//! and corrected. It compares no time with a clock: a controller counts a record from when it first
//! reads it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::cpms::pending_creates::LAST_CREATED;
use crate::model::{
    Edit, FieldPath, Operation, PENDING_CREATIONS, RuleInfo, Verdict, Violation, ViolationKind, is_subdomain,
    pending_creations,
};

const RULE: &str = "cpms-records";
const PATH: &str = "metadata.annotations";

/// Refuses a changed record that cannot be read.
pub(super) fn judge(edit: &Edit<'_>, object: &Value, verdict: &mut Verdict) {
    let value = |annotations: Option<&Value>, key: &str| {
        let text = annotations.and_then(|all| all.get(key)?.as_str());
        text.map(str::to_owned)
    };
    for (key, is_readable, form) in [
        (
            PENDING_CREATIONS,
            is_list_of_creations as fn(&str) -> bool,
            "a JSON array of {index, machine, requestedBy, requestedAt}",
        ),
        (
            LAST_CREATED,
            is_map_of_names,
            "a JSON object with the name of a machine for each index",
        ),
    ] {
        let Some(text) = value(object.pointer("/metadata/annotations"), key) else {
            continue;
        };
        let stored = edit.old.and_then(|old| value(old.at(PATH), key));
        if stored.as_ref() == Some(&text) || is_readable(&text) {
            continue;
        }
        let path = FieldPath::from(PATH).key(key);
        verdict.deny(
            Violation::new(RULE, path, ViolationKind::Invalid, format!("must be {form}"))
                .got(&Value::from(text))
                .advice("do not edit the annotation: Capstan writes it"),
        );
    }
}

fn is_list_of_creations(text: &str) -> bool {
    let annotations = BTreeMap::from([(PENDING_CREATIONS.to_owned(), text.to_owned())]);
    pending_creations(&annotations)
        .is_ok_and(|creations| creations.iter().all(|creation| is_subdomain(&creation.machine)))
}

fn is_map_of_names(text: &str) -> bool {
    let names = serde_json::from_str::<BTreeMap<u32, String>>(text);
    names.is_ok_and(|names| names.values().all(|name| is_subdomain(name)))
}

/// The rule of this module.
pub(super) fn table() -> Vec<RuleInfo> {
    vec![RuleInfo::webhook(
        RULE,
        KIND,
        PATH,
        &[Operation::Create, Operation::Update],
        "the records of Capstan's creations can be read",
    )]
}
