//! The fields of a control plane that existing machines get without a rollout: labels,
//! annotations, timeouts of the deletion, taints, and readiness gates.
//!
//! The machine records what it got. A field that the control plane does not have any more is
//! removed only if it is recorded, so the fields of users and of other controllers stay. A machine
//! that is being deleted gets only the timeouts and the taints.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::machine_fields::{machine_spec, shared_metadata};
use super::membership;
use super::state::{MachineState, State};
use crate::api::cluster_x_k8s_io::control_plane::MachineSpec;
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
    /// The items of a machine.
    fn of<'s>(&self, spec: &'s MachineSpec) -> &'s [Value] {
        if self.field == READINESS_GATES.field {
            return &spec.readiness_gates;
        }
        let items = spec.unknown_fields.get(self.field).and_then(Value::as_array);
        items.map_or(&[], Vec::as_slice)
    }

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
    Desired::of(state).record
}

fn record_of(labels: &Entries, annotations: &Entries, spec: &MachineSpec) -> String {
    let names = |entries: &Entries| entries.keys().cloned().collect();
    let record = Record {
        labels: names(labels),
        annotations: names(annotations),
        deletion: deletion_of(spec).into_iter().flat_map(Map::keys).cloned().collect(),
        taints: TAINTS.keys(TAINTS.of(spec)),
        readiness_gates: READINESS_GATES.keys(READINESS_GATES.of(spec)),
    };
    // A struct of names always serialises.
    serde_json::to_string(&record).unwrap_or_default()
}

fn deletion_of(spec: &MachineSpec) -> Option<&Map<String, Value>> {
    spec.unknown_fields.get("deletion").and_then(Value::as_object)
}

/// Labels or annotations.
type Entries = BTreeMap<String, String>;

/// What the control plane gives each of its machines.
#[derive(Debug)]
pub struct Desired {
    labels: Entries,
    annotations: Entries,
    /// In addition, the record and the hook.
    machine_annotations: Entries,
    spec: MachineSpec,
    /// The record of a machine that has all of it.
    record: String,
}

impl Desired {
    /// What the control plane of a state gives.
    pub fn of(state: &State) -> Self {
        let labels = shared_metadata(state).labels;
        let annotations = state.control_plane.spec.machine_template.metadata.annotations.clone();
        // The name and the failure domain are not read.
        let spec = machine_spec(state, "", None);
        let record = record_of(&labels, &annotations, &spec);
        let mut machine_annotations = annotations.clone();
        machine_annotations.insert(RECORD.to_owned(), record.clone());
        machine_annotations.insert(PRE_TERMINATE_HOOK.to_owned(), String::new());
        Self {
            labels,
            annotations,
            machine_annotations,
            spec,
            record,
        }
    }

    /// What a machine records in addition to what it must have. A record that cannot be read
    /// removes nothing.
    fn recorded(&self, machine: &MachineState) -> Record {
        let text = machine.machine.metadata.annotations.get(RECORD);
        text.filter(|text| **text != self.record)
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }
}

/// The merge patch of a machine; `None` if it has everything.
pub fn machine_patch(desired: &Desired, machine: &MachineState) -> Option<Value> {
    let recorded = desired.recorded(machine);
    let (metadata, spec) = (&machine.machine.metadata, &machine.machine.spec);
    let mut fields = deletion(spec, &desired.spec, &recorded);
    let mut items = vec![(&TAINTS, &recorded.taints)];
    if !machine.is_deleting() {
        items.push((&READINESS_GATES, &recorded.readiness_gates));
    }
    for (items, recorded) in items {
        let stored = items.of(spec);
        let merged = items.merged(stored, items.of(&desired.spec), recorded);
        if merged != stored {
            let value = if merged.is_empty() { Value::Null } else { json!(merged) };
            fields.insert(items.field.to_owned(), value);
        }
    }
    let changed = if machine.is_deleting() {
        Map::new()
    } else {
        changed_metadata(
            |name| metadata.labels.get(name).map(String::as_str),
            |name| metadata.annotations.get(name).map(String::as_str),
            (&desired.labels, &desired.machine_annotations),
            &recorded,
        )
    };
    patch(|| membership::precondition(machine).metadata(), changed, fields)
}

/// The merge patch of the labels and annotations of the KubeadmConfig or of the infrastructure
/// machine of a machine; `None` if it has them. The record of the machine is changed after it.
pub fn metadata_patch(desired: &Desired, machine: &MachineState, object: &Value) -> Option<Value> {
    let metadata = object.get("metadata")?;
    if machine.is_deleting() || metadata.get("deletionTimestamp").is_some() {
        return None;
    }
    let changed = changed_metadata(
        |name| metadata.get("labels")?.get(name)?.as_str(),
        |name| metadata.get("annotations")?.get(name)?.as_str(),
        (&desired.labels, &desired.annotations),
        &desired.recorded(machine),
    );
    let precondition = || {
        let field = |name: &str| (name.to_owned(), metadata.get(name).cloned().unwrap_or_default());
        Map::from_iter(["uid", "resourceVersion"].map(field))
    };
    patch(precondition, changed, Map::new())
}

/// The timeouts that differ. Cluster API itself sets one of them on a machine without it.
fn deletion(stored: &MachineSpec, desired: &MachineSpec, recorded: &Record) -> Map<String, Value> {
    let stored = |name: &str| deletion_of(stored)?.get(name);
    let wanted = deletion_of(desired).into_iter().flatten();
    let mut wanted: BTreeMap<String, Value> = wanted.map(|(name, value)| (name.clone(), value.clone())).collect();
    let (name, default) = NODE_DELETION;
    if stored(name).is_some() && recorded.deletion.contains(name) {
        wanted.entry(name.to_owned()).or_insert(json!(default));
    }
    let changes = changes(stored, &wanted, &recorded.deletion);
    if changes.is_empty() {
        return Map::new();
    }
    Map::from_iter([(String::from("deletion"), Value::Object(changes))])
}

/// The labels and the annotations that differ from the wanted ones.
fn changed_metadata<'s>(
    stored_label: impl Fn(&str) -> Option<&'s str>,
    stored_annotation: impl Fn(&str) -> Option<&'s str>,
    (labels, annotations): (&Entries, &Entries),
    recorded: &Record,
) -> Map<String, Value> {
    let labels = changes(stored_label, labels, &recorded.labels);
    let annotations = changes(stored_annotation, annotations, &recorded.annotations);
    [("labels", labels), ("annotations", annotations)]
        .into_iter()
        .filter(|(_, changes)| !changes.is_empty())
        .map(|(field, changes)| (field.to_owned(), Value::Object(changes)))
        .collect()
}

/// The wanted fields that differ, and the recorded ones that are not wanted any more.
fn changes<'s, S, W>(
    stored: impl Fn(&str) -> Option<&'s S>,
    wanted: &BTreeMap<String, W>,
    recorded: &BTreeSet<String>,
) -> Map<String, Value>
where
    S: PartialEq + ?Sized + 's,
    W: Borrow<S> + Serialize,
{
    let set = wanted
        .iter()
        .filter(|(name, value)| stored(name) != Some((*value).borrow()));
    let set = set.map(|(name, value)| (name.clone(), json!(value)));
    let removed = recorded
        .iter()
        .filter(|name| stored(name).is_some() && !wanted.contains_key(*name));
    set.chain(removed.map(|name| (name.clone(), Value::Null))).collect()
}

/// The patch of an object with its precondition; `None` without a change.
fn patch(
    precondition: impl FnOnce() -> Map<String, Value>,
    changed: Map<String, Value>,
    fields: Map<String, Value>,
) -> Option<Value> {
    if changed.is_empty() && fields.is_empty() {
        return None;
    }
    let mut metadata = precondition();
    metadata.extend(changed);
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
