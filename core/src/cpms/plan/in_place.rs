//! What of the template reaches a machine that exists, without replacing it (decision 8, defect
//! B16): labels, annotations, and what the machine hands to its node, which the machine's
//! controller passes on to a running node too.
//!
//! What was put on a machine is recorded on it, so that it goes again when it leaves the template.
//! What was there before, or was put there by others, is never taken away: who puts a thing there
//! takes it off, as with server-side apply. Lifecycle hooks are nobody's here: they belong to
//! whoever waits for them, and a new machine alone gets the template's.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::api::machine_openshift_io::label;
use crate::api::machine_openshift_io::machine::{Machine, MachineSpec, NodeMeta, Taint};
use crate::cpms::created_from::CREATED_FROM;
use crate::cpms::indexes::{FROM_TEMPLATE, INDEX, RELEASED, REPLACES};
use crate::cpms::spec::Spec;

/// What is to be merged into a machine, and why.
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

/// What the template put on a machine.
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
    /// As `key:effect`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    taints: BTreeSet<String>,
}

impl Record {
    /// A record that cannot be read says nothing: then nothing is taken off.
    fn of(machine: &Machine) -> Self {
        let text = machine.metadata.annotations.get(FROM_TEMPLATE);
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    fn text(&self) -> Option<String> {
        (*self != Self::default()).then(|| json!(self).to_string())
    }
}

/// The annotations of the template that machines get: what Capstan itself writes on machines is not
/// the template's.
pub(super) fn annotations(spec: &Spec) -> BTreeMap<String, String> {
    let own = [INDEX, REPLACES, FROM_TEMPLATE, RELEASED, CREATED_FROM];
    let all = spec.template.annotations.iter();
    all.filter(|(key, _)| !own.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The record of a machine that is made from the template; `None` when there is nothing that could
/// ever be taken off.
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

/// What the machine lacks of the template, and what it still has of an earlier one.
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
    // A machine never leaves the set by the hand of the set.
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
                .push("what it had of the template is gone from both".to_owned());
        }
    }
    found
}

/// Whether a machine on which nothing was recorded has everything that can reach it in place: so it
/// is with most, in every look.
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

/// The spec of a machine that the other API leads is a copy, and refused from everybody else.
fn is_ours_to_write(machine: &Machine) -> bool {
    let status = machine.status.as_ref();
    let leads = status.and_then(|status| status.authority.authoritative_api.as_deref());
    matches!(leads, None | Some("" | "MachineAPI"))
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

/// The list of taints that the machine should have, if it is another: the list is written as a
/// whole, in its order.
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
            because.push(format!("taint {name} left the template"));
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
        because.push(format!("taint {name} is not the template's"));
        record.taints.insert(name);
    }
    (list != machine.spec.taints).then_some(list)
}

fn name_of(taint: &Taint) -> String {
    format!("{}:{}", taint.key, taint.effect)
}

/// What is to be merged into a map: what differs from the template, and null for what was put there
/// and left it.
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
        because.push(format!("{what} {key} is not the template's"));
    }
    let gone: Vec<String> = recorded
        .iter()
        .filter(|key| !wanted.contains_key(*key))
        .cloned()
        .collect();
    for key in gone {
        recorded.remove(&key);
        if there.contains_key(&key) {
            because.push(format!("{what} {key} left the template"));
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

/// Labels that every control plane machine has are not the template's to take off.
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
