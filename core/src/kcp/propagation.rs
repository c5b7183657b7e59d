//! The fields of a control plane that existing machines get without a rollout: labels,
//! annotations, timeouts of the deletion, taints, and readiness gates.
//!
//! The machine records what it got. A field that the control plane does not have any more is
//! removed only if it is recorded, so the fields of users and of other controllers stay. A machine
//! that is being deleted gets only the timeouts and the taints.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::kube_proxy::precondition;
use super::machine_fields::{machine_spec, shared_metadata};
use super::state::{MachineState, State};
use crate::api::controlplane_cluster_x_k8s_io::annotation::PRE_TERMINATE_HOOK;

/// The annotation of a machine with what it got from its control plane.
pub const RECORD: &str = "capstan.dev/propagated";
/// The timeout that Cluster API sets on a machine without one.
const NODE_DELETION: (&str, i32) = ("nodeDeletionTimeoutSeconds", 10);

/// What a machine got: names of fields, and keys of items.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Record {
    labels: BTreeSet<String>,
    annotations: BTreeSet<String>,
    deletion: BTreeSet<String>,
    taints: BTreeSet<String>,
    readiness_gates: BTreeSet<String>,
}

/// A list of a machine, whose items have keys.
struct Items {
    field: &'static str,
    keys: &'static [&'static str],
}

const TAINTS: Items = Items {
    field: "taints",
    keys: &["key", "effect"],
};
const READINESS_GATES: Items = Items {
    field: "readinessGates",
    keys: &["conditionType"],
};

impl Items {
    fn key(&self, item: &Value) -> String {
        let parts = self.keys.iter().filter_map(|key| item.get(key)?.as_str());
        parts.collect::<Vec<&str>>().join(":")
    }

    fn keys(&self, wanted: &[Value]) -> BTreeSet<String> {
        wanted.iter().map(|item| self.key(item)).collect()
    }

    /// The stored items without those that are not wanted any more, and then the missing ones. The
    /// order of stored items stays.
    fn merged(&self, stored: &[Value], wanted: &[Value], recorded: &BTreeSet<String>) -> Vec<Value> {
        let find = |key: &str| wanted.iter().find(|item| self.key(item) == key);
        let kept = stored.iter().filter_map(|item| {
            let key = self.key(item);
            find(&key).or(Some(item).filter(|_| !recorded.contains(&key)))
        });
        let known = self.keys(stored);
        let missing = wanted.iter().filter(|item| !known.contains(&self.key(item)));
        kept.chain(missing).cloned().collect()
    }
}

/// The record of a machine with the fields of its control plane, as the value of the annotation.
pub(super) fn record(state: &State) -> String {
    record_of(&Desired::of(state))
}

fn record_of(desired: &Desired) -> String {
    let names = |fields: Option<&Value>| -> BTreeSet<String> {
        let fields = fields.and_then(Value::as_object);
        fields.into_iter().flat_map(Map::keys).cloned().collect()
    };
    let items = |items: &Items| items.keys(list(&desired.spec, items.field));
    let record = Record {
        labels: names(Some(&desired.labels)),
        annotations: names(Some(&desired.annotations)),
        deletion: names(desired.spec.get("deletion")),
        taints: items(&TAINTS),
        readiness_gates: items(&READINESS_GATES),
    };
    // A struct of names always serialises.
    serde_json::to_string(&record).unwrap_or_default()
}

fn list<'v>(spec: &'v Value, field: &str) -> &'v [Value] {
    spec.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// What the control plane gives each of its machines.
#[derive(Debug)]
pub struct Desired {
    labels: Value,
    annotations: Value,
    spec: Value,
}

impl Desired {
    /// What the control plane of a state gives.
    pub fn of(state: &State) -> Self {
        let metadata = shared_metadata(state);
        // Wire types always serialise. The name and the failure domain are not read.
        Self {
            labels: json!(metadata.labels),
            annotations: json!(state.control_plane.spec.machine_template.metadata.annotations),
            spec: serde_json::to_value(machine_spec(state, "", None)).unwrap_or_default(),
        }
    }
}

/// What a machine records. A record that cannot be read removes nothing.
fn recorded(machine: &MachineState) -> Record {
    let text = machine.machine.metadata.annotations.get(RECORD);
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// The merge patch of a machine; `None` if it has everything.
pub fn machine_patch(desired: &Desired, machine: &MachineState) -> Option<Value> {
    // The status is not read.
    let stored = json!({"metadata": machine.machine.metadata, "spec": machine.machine.spec});
    let recorded = recorded(machine);
    let spec = stored.get("spec").unwrap_or(&Value::Null);
    let mut fields = Map::new();
    deletion(spec, &desired.spec, &recorded, &mut fields);
    let mut items = vec![(&TAINTS, &recorded.taints)];
    if !machine.is_deleting() {
        items.push((&READINESS_GATES, &recorded.readiness_gates));
    }
    for (items, recorded) in items {
        let stored = list(spec, items.field);
        let merged = items.merged(stored, list(&desired.spec, items.field), recorded);
        if merged != stored {
            let value = if merged.is_empty() { Value::Null } else { json!(merged) };
            fields.insert(items.field.to_owned(), value);
        }
    }
    let mut metadata = Map::new();
    if !machine.is_deleting() {
        let mut annotations = desired.annotations.clone();
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(RECORD.to_owned(), json!(record_of(desired)));
            annotations.insert(PRE_TERMINATE_HOOK.to_owned(), json!(""));
        }
        metadata = changed_metadata(&stored, &desired.labels, &annotations, &recorded);
    }
    patch(&stored, metadata, fields)
}

/// The merge patch of the labels and annotations of the KubeadmConfig or of the infrastructure
/// machine of a machine; `None` if it has them. The record of the machine is changed after it.
pub fn metadata_patch(desired: &Desired, machine: &MachineState, object: &Value) -> Option<Value> {
    if machine.is_deleting() || object.pointer("/metadata/deletionTimestamp").is_some() {
        return None;
    }
    let metadata = changed_metadata(object, &desired.labels, &desired.annotations, &recorded(machine));
    patch(object, metadata, Map::new())
}

/// The timeouts that differ. Cluster API itself sets one of them on a machine without it.
fn deletion(stored: &Value, desired: &Value, recorded: &Record, fields: &mut Map<String, Value>) {
    let of = |spec: &Value| {
        spec.get("deletion")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    };
    let (stored, mut wanted) = (of(stored), of(desired));
    let (name, default) = NODE_DELETION;
    if stored.contains_key(name) && recorded.deletion.contains(name) {
        wanted.entry(name).or_insert(json!(default));
    }
    let changes = changes(&stored, &wanted, &recorded.deletion);
    if !changes.is_empty() {
        fields.insert(String::from("deletion"), Value::Object(changes));
    }
}

fn changed_metadata(stored: &Value, labels: &Value, annotations: &Value, recorded: &Record) -> Map<String, Value> {
    let nothing = Map::new();
    let object = |value: Option<&Value>| {
        value
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_else(|| nothing.clone())
    };
    let mut changed = Map::new();
    for (field, wanted, recorded) in [
        ("labels", labels, &recorded.labels),
        ("annotations", annotations, &recorded.annotations),
    ] {
        let stored = object(stored.pointer(&format!("/metadata/{field}")));
        let changes = changes(&stored, &object(Some(wanted)), recorded);
        if !changes.is_empty() {
            changed.insert(field.to_owned(), Value::Object(changes));
        }
    }
    changed
}

/// The wanted fields that differ, and the recorded ones that are not wanted any more.
fn changes(
    stored: &Map<String, Value>,
    wanted: &Map<String, Value>,
    recorded: &BTreeSet<String>,
) -> Map<String, Value> {
    let set = wanted.iter().filter(|(name, value)| stored.get(*name) != Some(*value));
    let set = set.map(|(name, value)| (name.clone(), value.clone()));
    let removed = recorded
        .iter()
        .filter(|name| stored.contains_key(*name) && !wanted.contains_key(*name));
    set.chain(removed.map(|name| (name.clone(), Value::Null))).collect()
}

fn patch(stored: &Value, mut metadata: Map<String, Value>, fields: Map<String, Value>) -> Option<Value> {
    if metadata.is_empty() && fields.is_empty() {
        return None;
    }
    if let Value::Object(precondition) = precondition(stored) {
        metadata.extend(precondition);
    }
    let uid = stored.pointer("/metadata/uid").cloned().unwrap_or_default();
    metadata.insert(String::from("uid"), uid);
    let mut patch = json!({ "metadata": metadata });
    if let (Some(whole), false) = (patch.as_object_mut(), fields.is_empty()) {
        whole.insert(String::from("spec"), Value::Object(fields));
    }
    Some(patch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kcp::samples::World;

    /// Applies the patch of the first machine, after which there must be no other one.
    fn propagate(world: &mut World) -> Option<Value> {
        let state = world.state();
        let patch = machine_patch(&Desired::of(&state), &state.machines[0])?;
        assert_eq!(patch["metadata"]["uid"], "m-0-uid");
        json_patch::merge(&mut world.machines[0], &patch);
        let state = world.state();
        assert_eq!(machine_patch(&Desired::of(&state), &state.machines[0]), None);
        Some(patch)
    }

    fn template(world: &mut World, template: &Value) {
        let reference = world.spec()["machineTemplate"]["spec"]["infrastructureRef"].clone();
        world.spec()["machineTemplate"] = template.clone();
        world.spec()["machineTemplate"]["spec"]["infrastructureRef"] = reference;
    }

    #[test]
    fn a_machine_gets_the_fields_of_its_control_plane_and_loses_them_again() {
        let mut world = World::new("a");
        propagate(&mut world);
        template(
            &mut world,
            &json!({
                "metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}},
                "spec": {
                    "deletion": {"nodeDrainTimeoutSeconds": 30, "nodeDeletionTimeoutSeconds": 60},
                    "taints": [{"key": "k", "effect": "NoSchedule", "propagation": "Always"}],
                    "readinessGates": [{"conditionType": "Mine"}],
                },
            }),
        );
        propagate(&mut world).unwrap();
        let machine = &mut world.machines[0];
        assert_eq!(
            (
                &machine["metadata"]["labels"]["a"],
                &machine["metadata"]["annotations"]["b"]
            ),
            (&json!("1"), &json!("2"))
        );
        assert_eq!(machine["spec"]["deletion"]["nodeDrainTimeoutSeconds"], 30);
        assert_eq!(machine["spec"]["readinessGates"].as_array().unwrap().len(), 7);
        // Users add fields of their own.
        machine["metadata"]["labels"]["theirs"] = json!("x");
        machine["spec"]["taints"]
            .as_array_mut()
            .unwrap()
            .push(json!({"key": "u", "effect": "NoSchedule"}));
        assert_eq!(propagate(&mut world), None);
        template(&mut world, &json!({"spec": {}}));
        propagate(&mut world).unwrap();
        let machine = &world.machines[0];
        assert_eq!(machine["metadata"]["labels"].get("a"), None);
        assert_eq!(machine["metadata"]["labels"]["theirs"], "x");
        assert_eq!(machine["metadata"]["annotations"].get("b"), None);
        assert_eq!(machine["spec"]["taints"], json!([{"key": "u", "effect": "NoSchedule"}]));
        assert_eq!(machine["spec"]["deletion"], json!({"nodeDeletionTimeoutSeconds": 10}));
        assert_eq!(machine["spec"]["readinessGates"].as_array().unwrap().len(), 6);
    }

    #[test]
    fn a_default_of_cluster_api_and_a_field_of_a_user_are_not_changed() {
        let mut world = World::new("a");
        world.machines[0]["spec"]["deletion"] = json!({"nodeDeletionTimeoutSeconds": 10, "nodeDrainTimeoutSeconds": 5});
        propagate(&mut world);
        let expected = json!({"nodeDeletionTimeoutSeconds": 10, "nodeDrainTimeoutSeconds": 5});
        assert_eq!(world.machines[0]["spec"]["deletion"], expected);
    }

    #[test]
    fn a_machine_of_another_controller_gets_the_hook_and_a_record_and_nothing_else() {
        let mut world = World::new("a");
        let annotations = world.machines[0]["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove(PRE_TERMINATE_HOOK);
        let patch = propagate(&mut world).unwrap();
        let changed: Vec<&String> = patch["metadata"]["annotations"].as_object().unwrap().keys().collect();
        assert_eq!(changed, [RECORD, PRE_TERMINATE_HOOK]);
    }

    #[test]
    fn a_machine_that_is_being_deleted_gets_only_timeouts_and_taints() {
        let mut world = World::new("a");
        template(
            &mut world,
            &json!({"metadata": {"labels": {"a": "1"}}, "spec": {"deletion": {"nodeDrainTimeoutSeconds": 30}}}),
        );
        world.delete(0);
        let annotations = world.machines[0]["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove(PRE_TERMINATE_HOOK);
        let patch = propagate(&mut world).unwrap();
        assert_eq!(patch["spec"], json!({"deletion": {"nodeDrainTimeoutSeconds": 30}}));
        assert_eq!(patch["metadata"].as_object().unwrap().len(), 2, "{patch}");
    }

    #[test]
    fn the_objects_of_a_machine_get_labels_and_annotations() {
        let mut world = World::new("a");
        template(&mut world, &json!({"metadata": {"labels": {"a": "1"}}, "spec": {}}));
        propagate(&mut world).unwrap();
        let mut object = json!({"metadata": {"uid": "u", "resourceVersion": "3", "labels": {"of": "the template"}}});
        let state = world.state();
        let patch = metadata_patch(&Desired::of(&state), &state.machines[0], &object).unwrap();
        assert_eq!(patch["metadata"]["labels"]["a"], "1");
        json_patch::merge(&mut object, &patch);
        assert_eq!(metadata_patch(&Desired::of(&state), &state.machines[0], &object), None);
        template(&mut world, &json!({"spec": {}}));
        let state = world.state();
        let patch = metadata_patch(&Desired::of(&state), &state.machines[0], &object).unwrap();
        json_patch::merge(&mut object, &patch);
        assert_eq!(object["metadata"]["labels"].get("a"), None);
        assert_eq!(object["metadata"]["labels"]["of"], "the template");
    }
}
