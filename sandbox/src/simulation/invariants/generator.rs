//! What the generator may write: an Inactive set if there is no set, and in a generated set only
//! fields that no user wrote.

use std::collections::BTreeSet;

use capstan::controllers::GENERATED;
use serde_json::Value;

use crate::api::{Change, ChangeKind, Object};

use crate::simulation::machine_api::objects::{CLUSTER, CLUSTER_NAME};

use super::check::{Check, Invariant};
use super::evidence::Evidence;
use super::moment::{Moment, index_of, instance_type, is_selected, template_type};

/// The path of the instance type in a set.
const TYPE: &str = "/spec/template/machines_v1beta1_machine_openshift_io/spec/providerSpec/value/instanceType";

/// The invariants of the generator.
pub(crate) const INVARIANTS: &[Invariant] = &[Invariant {
    id: "C11",
    text: "if there is no set, an Inactive one is generated; it follows the machines, keeps the fields of users, and does not change while it is Active",
}];

/// A write of the generator to the set.
pub(crate) struct GeneratorWrite<'a> {
    pub(crate) change: &'a Change,
    /// What was true during the reconcile; the last moment is now, before the write.
    pub(crate) moments: &'a [Moment],
    pub(crate) evidence: &'a Evidence,
}

impl<'a> GeneratorWrite<'a> {
    /// The checks of a write of the generator. The first one that fails counts.
    pub(crate) const CHECKS: [Check<Self>; 7] = [
        Check::new("C11", generated_active),
        Check::new("C11", set_deleted),
        Check::new("C11", active_set_written),
        Check::new("C11", foreign_set_written),
        Check::new("C11", deleting_set_written),
        Check::new("C11", user_field_written),
        Check::new("C11", other_cluster_described),
    ];

    /// The set before a write that changes it.
    fn before(&self) -> Option<&'a Object> {
        let old = self.change.old.as_deref();
        old.filter(|_| self.change.kind == ChangeKind::Modified)
    }

    /// The set before a write that changes it, if there was a set during the whole reconcile. A
    /// user may create a set while the generated one is on the way: then one set has the fields of
    /// both.
    fn known_before(&self) -> Option<&'a Object> {
        let always = self.moments.iter().all(|moment| moment.set.is_some());
        self.before().filter(|_| always)
    }
}

fn state(object: &Object) -> &str {
    let state = object.pointer("/spec/state").and_then(Value::as_str);
    state.unwrap_or_default()
}

fn generated_active(write: &GeneratorWrite<'_>) -> Option<String> {
    let state = state(&write.change.object);
    (state != "Inactive").then(|| format!("the generated set has the state {state:?}"))
}

fn set_deleted(write: &GeneratorWrite<'_>) -> Option<String> {
    let deleted = write.before().is_none() && write.change.kind != ChangeKind::Added;
    deleted.then(|| "the generator deletes a set".to_owned())
}

fn active_set_written(write: &GeneratorWrite<'_>) -> Option<String> {
    let active = state(write.before()?) == "Active";
    active.then(|| "the generator writes to an Active set".to_owned())
}

fn foreign_set_written(write: &GeneratorWrite<'_>) -> Option<String> {
    let annotations = write.known_before()?.pointer("/metadata/annotations");
    let generated = annotations.is_some_and(|annotations| annotations.get(GENERATED).is_some());
    (!generated).then(|| "the generator writes to a set that it did not generate".to_owned())
}

fn deleting_set_written(write: &GeneratorWrite<'_>) -> Option<String> {
    let deletion = write.known_before()?.pointer("/metadata/deletionTimestamp");
    deletion.map(|_| "the generator writes to a set that is being deleted".to_owned())
}

fn user_field_written(write: &GeneratorWrite<'_>) -> Option<String> {
    let (old, new) = (write.before()?, &write.change.object);
    let mut fields = write.evidence.user_fields.iter();
    let path = fields.find(|path| old.pointer(path) != new.pointer(path))?;
    Some(format!("the generator overwrites {path}, which a user has set"))
}

/// A set of another cluster's machines selects no machine of this cluster (melee, seed 3838).
fn other_cluster_described(write: &GeneratorWrite<'_>) -> Option<String> {
    let set = &write.change.object;
    let labels = set.pointer("/spec/selector/matchLabels");
    let cluster = labels.and_then(|labels| labels.get(CLUSTER)).and_then(Value::as_str);
    (cluster != Some(CLUSTER_NAME)).then(|| format!("the generated set selects the cluster {cluster:?}"))
}

/// C11, at the end: there is a control plane, and no set. A single machine is not a control plane
/// that a set could manage.
pub(crate) fn nothing_generated(now: &Moment) -> Option<String> {
    let selected: Vec<_> = now.machines.values().filter(|machine| is_selected(machine)).collect();
    let clusters: BTreeSet<_> = selected
        .iter()
        .map(|machine| machine.metadata.labels.get(CLUSTER))
        .collect();
    let missing = now.set.is_none() && selected.len() >= 2 && clusters.len() == 1;
    missing.then(|| "no set is generated".to_owned())
}

/// C11, at the end: a generated set that no user has changed does not follow the newest machine.
pub(crate) fn generated_outdated(now: &Moment, evidence: &Evidence) -> Option<String> {
    let set = now.set.as_ref()?;
    let generated = set.metadata.annotations.contains_key(GENERATED);
    if !generated || set.spec.state.as_deref() == Some("Active") || evidence.user_fields.contains(TYPE) {
        return None;
    }
    let machines = now.machines.values().filter(|machine| is_selected(machine));
    // An index may have two machines, so the number of machines does not show that another index
    // has none (seed 68988). The missing machine may have been the newest.
    let indexes: BTreeSet<_> = machines.clone().map(|machine| index_of(machine)).collect();
    let replicas = set.spec.replicas.and_then(|replicas| usize::try_from(replicas).ok());
    if Some(indexes.len()) < replicas {
        return None;
    }
    let newest = machines.max_by_key(|machine| {
        let name = machine.metadata.name().to_owned();
        (machine.metadata.creation_timestamp, name)
    });
    let (wanted, there) = (newest.and_then(|machine| instance_type(machine)), template_type(set));
    (wanted != there).then(|| format!("the newest machine has the type {wanted:?}, and the set has {there:?}"))
}
