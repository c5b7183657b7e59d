//! Changes of the template that are applied to existing machines without a replacement (decision 8,
//! defect B16): labels, annotations, and the labels, annotations and taints of the node, which the
//! machine controller copies to the node.
//!
//! The controller records on a machine which fields it copied from the template, and removes them
//! when the template no longer has them. It keeps other fields, like server-side apply. It does not
//! change the lifecycle hooks of existing machines, because other components own them; only a new
//! machine gets the hooks of the template.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::api::machine_openshift_io::label;
use crate::api::machine_openshift_io::machine::{Machine, MachineSpec, NodeMeta, Taint};
use crate::cpms::created_from::CREATED_FROM;
use crate::cpms::indexes::{FROM_TEMPLATE, INDEX, RELEASED, REPLACES};
use crate::cpms::spec::Spec;

/// The changes of a machine, and the reasons.
#[derive(Debug, Default)]
pub(super) struct InPlace {
    /// Labels; null removes one.
    pub(super) labels: Map<String, Value>,
    /// Annotations; null removes one.
    pub(super) annotations: Map<String, Value>,
    /// Fields of the spec.
    pub(super) spec: Map<String, Value>,
    /// One clause for each difference.
    pub(super) because: Vec<String>,
}

/// The fields that were copied from the template to a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Record {
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    labels: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    annotations: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    node_labels: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    node_annotations: BTreeSet<String>,
    /// Each taint as `key:effect`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    taints: BTreeSet<String>,
}

impl Record {
    /// A record that cannot be decoded counts as empty, so that no field is removed.
    fn of(machine: &Machine) -> Self {
        let text = machine.metadata.annotations.get(FROM_TEMPLATE);
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    fn text(&self) -> Option<String> {
        (*self != Self::default()).then(|| json!(self).to_string())
    }
}

/// The annotations of the template for machines, without the annotations that Capstan writes on
/// machines.
pub(super) fn annotations(spec: &Spec) -> BTreeMap<String, String> {
    let own = [INDEX, REPLACES, FROM_TEMPLATE, RELEASED, CREATED_FROM];
    let all = spec.template.annotations.iter();
    all.filter(|(key, _)| !own.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The record of a new machine; `None` if no field could ever be removed.
pub(super) fn record_of_new(spec: &Spec) -> Option<String> {
    let keys = |map: &BTreeMap<String, String>| map.keys().cloned().collect();
    let node = node_metadata(&spec.template.machine_spec);
    let record = Record {
        labels: removable_labels(&spec.template.labels),
        annotations: keys(&annotations(spec)),
        node_labels: keys(&node.labels),
        node_annotations: keys(&node.annotations),
        taints: spec.template.machine_spec.taints.iter().map(name_of).collect(),
    };
    record.text()
}

/// The fields of the template that the machine lacks, and the fields of a former template that it
/// still has.
pub(super) fn differences(spec: &Spec, machine: &Machine) -> InPlace {
    let mut found = InPlace::default();
    if has_all(spec, machine) {
        return found;
    }
    let before = Record::of(machine);
    let mut record = before.clone();
    found.labels = merged(
        "label",
        &spec.template.labels,
        &machine.metadata.labels,
        &mut record.labels,
        &mut found.because,
    );
    // The set never removes a label that its selector requires.
    let after = applied(&machine.metadata.labels, &found.labels);
    if !spec.selector.matches(&after) {
        found.labels.retain(|_, value| !value.is_null());
    }
    found.annotations = merged(
        "annotation",
        &annotations(spec),
        &machine.metadata.annotations,
        &mut record.annotations,
        &mut found.because,
    );
    if is_ours_to_write(machine) {
        node_part(spec, machine, &mut record, &mut found);
    }
    record.labels = removable_labels_of(record.labels);
    if record != before {
        let text = record.text().map_or(Value::Null, Value::String);
        found.annotations.insert(FROM_TEMPLATE.to_owned(), text);
        if found.because.is_empty() {
            found
                .because
                .push("the record of its template fields is out of date".to_owned());
        }
    }
    found
}

/// Whether a machine without a record already has all fields that are applied in place. This holds
/// for most machines in most reconciles.
fn has_all(spec: &Spec, machine: &Machine) -> bool {
    let (template, there) = (&spec.template, &machine.metadata);
    let hands_on = template
        .machine_spec
        .metadata
        .as_ref()
        .is_some_and(|node| !(node.labels.is_empty() && node.annotations.is_empty()));
    let has = |wanted: &BTreeMap<String, String>, there: &BTreeMap<String, String>| {
        wanted.iter().all(|(key, value)| there.get(key) == Some(value))
    };
    !there.annotations.contains_key(FROM_TEMPLATE)
        && template.machine_spec.taints.is_empty()
        && !hands_on
        && has(&template.labels, &there.labels)
        && template.annotations.is_empty()
}

/// The spec of a machine that is authoritative in Cluster API is a mirror. The webhook refuses
/// writes to it.
fn is_ours_to_write(machine: &Machine) -> bool {
    let status = machine.status.as_ref();
    let api = status.and_then(|status| status.authority.authoritative_api.as_deref());
    matches!(api, None | Some("" | "MachineAPI"))
}

fn node_part(spec: &Spec, machine: &Machine, record: &mut Record, found: &mut InPlace) {
    let wanted = node_metadata(&spec.template.machine_spec);
    let there = node_metadata(&machine.spec);
    let labels = merged(
        "label of the node",
        &wanted.labels,
        &there.labels,
        &mut record.node_labels,
        &mut found.because,
    );
    let annotations = merged(
        "annotation of the node",
        &wanted.annotations,
        &there.annotations,
        &mut record.node_annotations,
        &mut found.because,
    );
    let mut metadata = Map::new();
    for (field, pairs) in [("labels", labels), ("annotations", annotations)] {
        if !pairs.is_empty() {
            metadata.insert(field.to_owned(), Value::Object(pairs));
        }
    }
    if !metadata.is_empty() {
        found.spec.insert("metadata".to_owned(), Value::Object(metadata));
    }
    if let Some(taints) = taints(spec, machine, record, &mut found.because) {
        let list = if taints.is_empty() { Value::Null } else { json!(taints) };
        found.spec.insert("taints".to_owned(), list);
    }
}

fn node_metadata(spec: &MachineSpec) -> NodeMeta {
    spec.metadata.clone().unwrap_or_default()
}

/// The taints that the machine should have, if they differ. The list is written as a whole, in its
/// order.
fn taints(spec: &Spec, machine: &Machine, record: &mut Record, because: &mut Vec<String>) -> Option<Vec<Taint>> {
    let wanted = &spec.template.machine_spec.taints;
    let mut list = machine.spec.taints.clone();
    let gone: BTreeSet<String> = record
        .taints
        .iter()
        .filter(|name| wanted.iter().all(|taint| name_of(taint) != **name))
        .cloned()
        .collect();
    for name in &gone {
        record.taints.remove(name);
        if list.iter().any(|taint| name_of(taint) == *name) {
            because.push(format!("taint {name} was removed from the template"));
        }
    }
    list.retain(|taint| !gone.contains(&name_of(taint)));
    for taint in wanted {
        let name = name_of(taint);
        match list.iter_mut().find(|there| name_of(there) == name) {
            Some(there) if there.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default() => {
                continue;
            }
            Some(there) => *there = taint.clone(),
            None => list.push(taint.clone()),
        }
        because.push(format!("taint {name} differs from the template"));
        record.taints.insert(name);
    }
    (list != machine.spec.taints).then_some(list)
}

fn name_of(taint: &Taint) -> String {
    format!("{}:{}", taint.key, taint.effect)
}

/// The changes of a map: values that differ from the template, and null for copied values that the
/// template no longer has.
fn merged(
    what: &str,
    wanted: &BTreeMap<String, String>,
    there: &BTreeMap<String, String>,
    recorded: &mut BTreeSet<String>,
    because: &mut Vec<String>,
) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, value) in wanted.iter().filter(|(key, value)| there.get(*key) != Some(value)) {
        patch.insert(key.clone(), json!(value));
        recorded.insert(key.clone());
        because.push(format!("{what} {key} differs from the template"));
    }
    let gone: Vec<String> = recorded
        .iter()
        .filter(|key| !wanted.contains_key(*key))
        .cloned()
        .collect();
    for key in gone {
        recorded.remove(&key);
        if there.contains_key(&key) {
            because.push(format!("{what} {key} was removed from the template"));
            patch.insert(key, Value::Null);
        }
    }
    patch
}

fn applied(there: &BTreeMap<String, String>, patch: &Map<String, Value>) -> BTreeMap<String, String> {
    let mut labels = there.clone();
    for (key, value) in patch {
        match value.as_str() {
            Some(value) => labels.insert(key.clone(), value.to_owned()),
            None => labels.remove(key),
        };
    }
    labels
}

/// Labels that every control plane machine has are never removed.
fn removable_labels(labels: &BTreeMap<String, String>) -> BTreeSet<String> {
    removable_labels_of(labels.keys().cloned().collect())
}

fn removable_labels_of(mut labels: BTreeSet<String>) -> BTreeSet<String> {
    for always in [label::CLUSTER, label::ROLE, label::TYPE] {
        labels.remove(always);
    }
    labels
}

#[cfg(test)]
mod tests;
