//! The lifecycle hook of the etcd operator on a mirror in the Machine API.
//!
//! The etcd operator adds its hook to the control plane Machines of the Machine API, and removes it
//! from a Machine that is being deleted when the etcd member is gone. Admission allows both on a
//! mirror too. While Cluster API is authoritative, its controllers delete the instance, and they
//! wait for the hooks of their own Machine only. So the hook is added to that Machine and removed
//! from it as well. Otherwise a deletion would not wait for etcd, or would never end.
//!
//! A hook that is missing on a mirror that is not being deleted is copied to it again: the etcd
//! operator removes none there.
//!
//! Must never: remove a hook that the mirror did not have, or one of another owner.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::pair::{FullObject, Pair, Part, Write};
use super::record::Record;
use super::spec::Api;
use super::sync;

/// The owner of the hook.
const OWNER: &str = "clusteroperator/etcd";
/// The lists of hooks, and the prefixes of their annotations.
const LISTS: [(&str, &str); 2] = [
    ("preDrain", "pre-drain.delete.hook.machine.cluster.x-k8s.io/"),
    ("preTerminate", "pre-terminate.delete.hook.machine.cluster.x-k8s.io/"),
];

/// The write that makes the hooks of the etcd operator on a Machine of Cluster API, which is
/// authoritative or was before a migration, those of its mirror.
pub(super) fn next(pair: &Pair, source: Api) -> Option<Write> {
    let (mirror, machine) = (pair.machine_api.as_ref()?, pair.cluster_api.as_ref()?);
    let (wanted, known) = (of_mirror(mirror), of_machine(machine));
    // A mirror that was made with another spec tells nothing about the hooks of this one.
    if pair.is_parent() || source != Api::ClusterApi || wanted == known || !sync::has_spec_of(pair, source) {
        return None;
    }
    let (changed, value, because): (Vec<&String>, Value, &str) = match (mirror.member.deleting, machine.member.deleting)
    {
        (false, false) => (
            wanted.difference(&known).collect(),
            OWNER.into(),
            "the etcd operator added its hook to the mirror",
        ),
        // An API server that drops hooks does not end the wait for etcd.
        (true, true) if Record::of(mirror).tried.is_none() => (
            known.difference(&wanted).collect(),
            Value::Null,
            "the etcd operator removed its hook from the mirror",
        ),
        _ => return None,
    };
    if changed.is_empty() {
        return None;
    }
    let annotations: Map<String, Value> = changed.into_iter().map(|key| (key.clone(), value.clone())).collect();
    let patch = Map::from_iter([(String::from("metadata"), json!({"annotations": annotations}))]);
    Some(Write::patch(Part::ClusterApi, machine, patch, because))
}

/// The hooks of the etcd operator on a Machine of the Machine API, as the keys of annotations.
fn of_mirror(mirror: &FullObject) -> BTreeSet<String> {
    let hooks = LISTS.into_iter().flat_map(|(list, prefix)| {
        let hooks = mirror.value.pointer(&format!("/spec/lifecycleHooks/{list}"));
        let hooks = hooks.and_then(Value::as_array).into_iter().flatten();
        hooks.map(move |hook| (prefix, hook))
    });
    let text = |hook: &Value, field: &str| hook.get(field).and_then(Value::as_str).map(str::to_owned);
    hooks
        .filter(|(_, hook)| text(hook, "owner").as_deref() == Some(OWNER))
        .filter_map(|(prefix, hook)| Some(format!("{prefix}{}", text(hook, "name")?)))
        .collect()
}

/// The hooks of the etcd operator on a Machine of Cluster API, as the keys of annotations.
fn of_machine(machine: &FullObject) -> BTreeSet<String> {
    let is_hook = |key: &str| LISTS.iter().any(|(_, prefix)| key.starts_with(prefix));
    let annotations = machine.member.annotations.iter();
    annotations
        .filter(|(key, owner)| *owner == OWNER && is_hook(key))
        .map(|(key, _)| key.clone())
        .collect()
}
