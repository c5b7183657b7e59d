//! The status as it is stored: a merge patch with what differs, or nothing.
//!
//! A list of conditions is replaced as a whole, so the patch has the resource version of the object
//! from which it was computed. Conditions of other controllers are kept.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::status::{Condition, Status};
use crate::model::{changed_conditions, merge_reported, status_patch};

/// The patch of the status of a control plane; `None` if nothing differs. `observed_generation` is
/// given only if the generation was reconciled without an error.
pub fn control_plane_patch(
    stored: &Value,
    status: &Status,
    initialized: bool,
    observed_generation: Option<i64>,
    now: Timestamp,
) -> Option<Value> {
    let mut after = Map::new();
    let conditions = changed_conditions(stored, &status.conditions, now);
    after.extend(conditions.map(|conditions| (String::from("conditions"), conditions)));
    after.insert(String::from("selector"), json!(status.selector));
    after.insert(String::from("replicas"), json!(status.replicas));
    after.insert(String::from("readyReplicas"), json!(status.ready_replicas));
    after.insert(String::from("availableReplicas"), json!(status.available_replicas));
    after.insert(String::from("upToDateReplicas"), json!(status.up_to_date_replicas));
    let versions = status.versions.iter();
    let versions: Vec<Value> = versions
        .map(|(version, replicas)| json!({"version": version, "replicas": replicas}))
        .collect();
    // The schema allows no empty list.
    let versions = if versions.is_empty() {
        Value::Null
    } else {
        json!(versions)
    };
    after.insert(String::from("versions"), versions);
    if let Some((version, _)) = status.versions.first() {
        after.insert(String::from("version"), json!(version));
    }
    if let Some(record) = &status.last_remediation {
        let mut last = json!({"machine": record.machine, "retryCount": record.retry_count});
        if let (Some(fields), Some(time)) = (last.as_object_mut(), record.timestamp) {
            fields.insert(String::from("time"), json!(time));
        }
        after.insert(String::from("lastRemediation"), last);
    }
    // Once true, it never becomes false: a second authority would be generated.
    if initialized {
        after.insert(String::from("initialization"), json!({"controlPlaneInitialized": true}));
    }
    if let Some(generation) = observed_generation {
        after.insert(String::from("observedGeneration"), json!(generation));
    }
    status_patch(stored, after)
}

/// The patch of the conditions of a machine; `None` if nothing differs. The conditions of the
/// `withdrawn` types are removed.
pub fn machine_patch(stored: &Value, conditions: &[Condition], withdrawn: &[&str], now: Timestamp) -> Option<Value> {
    let mut after = Map::new();
    let is_withdrawn = |one: &Value| {
        let type_ = one.get("type").and_then(Value::as_str);
        type_.is_some_and(|type_| withdrawn.contains(&type_))
    };
    let before = stored.pointer("/status/conditions").and_then(Value::as_array);
    if !before.into_iter().flatten().any(is_withdrawn) && changed_conditions(stored, conditions, now).is_none() {
        return None;
    }
    let mut all = merge_reported(stored, conditions, now);
    if let Some(all) = all.as_array_mut() {
        all.retain(|one| !is_withdrawn(one));
    }
    after.insert(String::from("conditions"), all);
    status_patch(stored, after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kcp::plan::plan;
    use crate::kcp::samples::{World, now};
    use crate::kcp::status::status;

    fn computed(world: &World) -> Status {
        let state = world.state();
        status(&state, &plan(&state, now()), now())
    }

    /// Applies the patch, as the API server does.
    fn apply(object: &mut Value, patch: &Value) {
        json_patch::merge(object, patch);
    }

    #[test]
    fn a_stored_status_is_not_written_again() {
        let world = World::new("abc");
        let mut object = world.control_plane.clone();
        let patch = control_plane_patch(&object, &computed(&world), true, Some(1), now()).unwrap();
        assert_eq!(patch["metadata"], json!({"uid": "cp-uid", "resourceVersion": "9"}));
        assert_eq!(
            patch["status"]["versions"],
            json!([{"version": "v1.30.0", "replicas": 3}])
        );
        apply(&mut object, &patch);
        let later: Timestamp = "2026-06-02T12:00:00Z".parse().unwrap();
        assert_eq!(
            control_plane_patch(&object, &computed(&world), true, Some(1), later),
            None
        );
        // A new generation alone changes one field.
        object["metadata"]["generation"] = json!(2);
        let patch = control_plane_patch(&object, &computed(&world), true, Some(2), later).unwrap();
        assert_eq!(patch["status"], json!({"observedGeneration": 2}));
    }

    #[test]
    fn an_initialized_control_plane_stays_initialized() {
        let world = World::new("abc");
        let patch = control_plane_patch(&world.control_plane, &computed(&world), false, None, now()).unwrap();
        assert_eq!(patch["status"].get("initialization"), None);
        assert_eq!(patch["status"].get("observedGeneration"), None);
    }

    #[test]
    fn a_control_plane_without_machines_removes_the_list_of_versions() {
        let world = World::new("");
        let mut object = world.control_plane.clone();
        object["status"]["versions"] = json!([{"version": "v1.30.0", "replicas": 1}]);
        let patch = control_plane_patch(&object, &computed(&world), false, None, now()).unwrap();
        assert_eq!(patch["status"]["versions"], Value::Null);
        apply(&mut object, &patch);
        assert_eq!(
            control_plane_patch(&object, &computed(&world), false, None, now()),
            None
        );
    }

    #[test]
    fn a_transition_time_moves_only_with_the_status_and_other_conditions_are_kept() {
        let machine = json!({"metadata": {"uid": "u", "resourceVersion": "7", "generation": 4}, "status": {
        "phase": "Running", "conditions": [
            {"type": "Theirs", "status": "Unknown"},
            {"type": "A", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "old"},
            {"type": "B", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "old"},
            {"type": "C", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "old"},
        ]}});
        let new = [
            Condition::new("C", "False", "S", "why"),
            Condition::new("B", "True", "R", "more"),
            Condition::new("A", "True", "R", ""),
        ];
        let patch = machine_patch(&machine, &new, &[], now()).unwrap();
        let time = "2026-06-01T12:00:00Z";
        assert_eq!(
            patch["status"]["conditions"],
            json!([
                {"type": "A", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "old"},
                {"type": "B", "status": "True", "reason": "R", "message": "more", "lastTransitionTime": "old",
                    "observedGeneration": 4},
                {"type": "C", "status": "False", "reason": "S", "message": "why", "lastTransitionTime": time,
                    "observedGeneration": 4},
                {"type": "Theirs", "status": "Unknown"},
            ])
        );
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        let mut stored = machine;
        apply(&mut stored, &patch);
        assert_eq!(machine_patch(&stored, &new, &[], now()), None);
        let patch = machine_patch(&stored, &new, &["Theirs"], now()).unwrap();
        assert_eq!(patch["status"]["conditions"].as_array().unwrap().len(), 3);
    }
}
