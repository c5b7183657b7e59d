//! Copies the status of the authoritative Machine to the objects of its mirror.
//!
//! The controllers of the mirror are paused, and still report the condition Paused. So conditions
//! are merged by type, and the fields that belong to the migration stay.
//!
//! Must never: remove a condition, or change a time without a change of the status.

use serde_json::{Map, Value};

use super::difference::Difference;
use super::pair::{FullObject, Part, Write};
use super::spec::Kind;

/// Fields that the status of a mirror loses when the source does not have them any more. The counts
/// of a MachineSet are absent instead of 0.
const REMOVABLE: [&str; 9] = [
    "addresses",
    "availableReplicas",
    "errorMessage",
    "errorReason",
    "fullyLabeledReplicas",
    "lastUpdated",
    "nodeRef",
    "phase",
    "readyReplicas",
];

/// The write that makes the status of a stored object agree with a converted one.
pub(super) fn next(part: Part, stored: &FullObject, converted: &Value, kind: Kind) -> Option<Write> {
    let wanted = converted.get("status")?.as_object()?;
    let none = Map::new();
    let stored_status = stored.value.get("status").and_then(Value::as_object).unwrap_or(&none);
    let mut patch = Map::new();
    for (field, wanted) in wanted {
        let before = stored_status.get(field).unwrap_or(&Value::Null);
        let merged = match field.as_str() {
            // The conditions of the Machine API belong to the controllers of both APIs.
            "conditions" if part == Part::MachineApi => continue,
            "conditions" => merge_conditions(wanted, before),
            _ => wanted.clone(),
        };
        if !Difference::between(&merged, before, "").missing.is_empty() {
            patch.insert(field.clone(), merged);
        }
    }
    if part != Part::Infrastructure {
        let lost = |field: &&&str| !wanted.contains_key(**field) && stored_status.contains_key(**field);
        let lost = REMOVABLE.iter().filter(lost);
        patch.extend(lost.map(|field| ((*field).to_owned(), Value::Null)));
    }
    let because = format!("it differs from the authoritative {}", kind.title());
    (!patch.is_empty()).then(|| Write::status(part, stored, patch.into(), because))
}

/// The stored conditions in their order, with the wanted ones in place or at the end.
fn merge_conditions(wanted: &Value, stored: &Value) -> Value {
    let kind = |condition: &Value| condition.get("type").cloned();
    let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let mut merged = items(stored);
    for condition in items(wanted) {
        match merged.iter_mut().find(|known| kind(known) == kind(&condition)) {
            Some(known) => *known = condition,
            None => merged.push(condition),
        }
    }
    merged.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::authority::pair::Verb;

    fn patch(part: Part, stored: &Value, wanted: &Value) -> Option<Value> {
        let stored = FullObject::from(json!({"metadata": {"uid": "u", "resourceVersion": "1"}, "status": stored}));
        match next(part, &stored, &json!({"status": wanted}), Kind::Machine)?.verb {
            Verb::PatchStatus(patch) => patch.get("status").cloned(),
            _ => None,
        }
    }

    #[test]
    fn conditions_of_other_types_stay() {
        let paused = json!({"type": "Paused", "status": "True"});
        let ready = |status: &str| json!({"type": "Ready", "status": status});
        let stored = json!({"conditions": [ready("False"), paused]});
        let changed = patch(Part::ClusterApi, &stored, &json!({"conditions": [ready("True")]}));
        assert_eq!(changed, Some(json!({"conditions": [ready("True"), paused]})));
        let same = patch(Part::ClusterApi, &stored, &json!({"conditions": [ready("False")]}));
        assert_eq!(same, None);
    }

    #[test]
    fn a_field_that_the_source_lost_is_removed_and_a_field_of_the_migration_stays() {
        let stored = json!({"phase": "Running", "nodeRef": {"name": "n"}, "synchronizedGeneration": 3});
        let changed = patch(Part::MachineApi, &stored, &json!({"phase": "Running"}));
        assert_eq!(changed, Some(json!({"nodeRef": null})));
        let stored = json!({"replicas": 3, "readyReplicas": 3, "availableReplicas": 3});
        let changed = patch(Part::ClusterApi, &stored, &json!({"replicas": 3}));
        assert_eq!(changed, Some(json!({"readyReplicas": null, "availableReplicas": null})));
    }
}
