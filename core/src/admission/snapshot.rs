//! The objects that rules look up: the cluster around the object that is judged.
//!
//! A snapshot is made from the caches of the server, or from the files of an offline check. An
//! object that was not read is *unknown*, which is not the same as absent. A rule that needs it
//! reports this, and must never guess.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::mirrored_kinds;
use crate::api::config_openshift_io::cluster_operator::ClusterOperator;
use crate::api::config_openshift_io::feature_gate::FeatureGate;
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::core_v1::node::Node;
use crate::api::infrastructure_cluster_x_k8s_io::{self as infrastructure_kinds, CLUSTERS};
use crate::api::kind::KindInfo;
use crate::api::kinds::{self, KindEntry};
use crate::api::machine_openshift_io::control_plane::ControlPlane;
use crate::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use crate::api::machine_openshift_io::machine::Machine;
use crate::authority::spec::{Kind, PairMember};
use crate::authority::state::{Mirrors, index_key};
use crate::cpms::rules::ParsedOnce;

/// The origin of a snapshot. It decides how rules treat an unknown object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The caches of a server. An unknown object will be known soon, so an edit that cannot be
    /// judged without it is refused until then.
    Cluster,
    /// The files of a user. An unknown object is reported as a warning.
    #[default]
    Files,
}

/// The cluster around the object that is judged. `None` is unknown.
///
/// Objects are shared with the caches, so a new snapshot of ten thousand objects copies only
/// pointers.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The origin.
    pub source: Source,
    /// The Machines of the Machine API, in its namespace.
    pub machines: Option<Vec<Arc<Machine>>>,
    /// The Nodes, by name.
    pub nodes: Option<BTreeMap<String, Arc<Node>>>,
    /// The Infrastructure `cluster`.
    pub infrastructure: Option<Arc<Infrastructure>>,
    /// The FeatureGate `cluster`.
    pub feature_gate: Option<Arc<FeatureGate>>,
    /// The ClusterOperators, by name.
    pub cluster_operators: Option<BTreeMap<String, Arc<ClusterOperator>>>,
    /// The ControlPlaneMachineSets of the namespace.
    pub control_plane_machine_sets: Option<Vec<Arc<ControlPlaneMachineSet>>>,
    /// The ControlPlanes of the namespace. They are unknown unless the feature `control-plane` is
    /// installed.
    pub control_planes: Option<Vec<Arc<ControlPlane>>>,
    /// The versions of kinds of infrastructure, for reviews of KubeadmControlPlanes on a cluster.
    pub infrastructure_versions: Option<InfrastructureVersions>,
    /// The object that the judged Scale is about, read from the API server.
    pub scaled: Option<Arc<Value>>,
    /// The objects that exist in the Machine API and in Cluster API.
    pub mirrors: Mirrors,
    /// The parse result of the stored ControlPlaneMachineSet. Leave it empty; the first review
    /// fills it.
    pub parsed: ParsedOnce,
}

/// Finds the version of a kind of infrastructure by its group and kind; `None` if it is unknown.
type FindVersion = dyn Fn(&str, &str) -> Option<String> + Send + Sync;

/// The versions of kinds of infrastructure.
#[derive(Clone)]
pub struct InfrastructureVersions(Arc<FindVersion>);

impl InfrastructureVersions {
    /// The versions that a function finds by group and kind.
    pub fn new(find: impl Fn(&str, &str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }

    /// The version of a kind; `None` if it is unknown.
    pub fn of(&self, group: &str, kind: &str) -> Option<String> {
        (self.0)(group, kind)
    }
}

impl std::fmt::Debug for InfrastructureVersions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InfrastructureVersions")
    }
}

/// An object for the snapshot that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {name:?} cannot be read: {reason}")]
pub struct Unreadable {
    /// The kind of the object.
    pub kind: String,
    /// The name of the object.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// Adds an object of one kind to a snapshot.
type Add = fn(&mut Snapshot, &KindEntry, &Value) -> Result<(), Unreadable>;

/// How objects of a kind in the kind table are kept in a snapshot. Objects of other kinds are not
/// kept.
const KEPT: &[(&KindInfo, Add)] = &[
    (&kinds::MACHINES, |snapshot, _, object| {
        push(&mut snapshot.machines, object)
    }),
    (&kinds::CONTROL_PLANE_MACHINE_SETS, |snapshot, _, object| {
        push(&mut snapshot.control_plane_machine_sets, object)
    }),
    (&kinds::CONTROL_PLANES, |snapshot, _, object| {
        push(&mut snapshot.control_planes, object)
    }),
    (&kinds::NODES, |snapshot, _, object| insert(&mut snapshot.nodes, object)),
    (&kinds::CLUSTER_OPERATORS, |snapshot, _, object| {
        insert(&mut snapshot.cluster_operators, object)
    }),
    (&kinds::INFRASTRUCTURES, |snapshot, entry, object| {
        set(&mut snapshot.infrastructure, entry, object)
    }),
    (&kinds::FEATURE_GATES, |snapshot, entry, object| {
        set(&mut snapshot.feature_gate, entry, object)
    }),
];

impl Snapshot {
    /// The snapshot of objects from files. A kind without any object is unknown. Objects of kinds
    /// that no rule looks up are ignored.
    ///
    /// # Errors
    /// An object cannot be decoded as its kind.
    pub fn of_files(objects: &[Value]) -> Result<Self, Unreadable> {
        let mut snapshot = Self::default();
        for object in objects {
            let (group, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
            let group = group.split_once('/').map_or("", |(group, _)| group);
            let items = object.get("items").and_then(Value::as_array);
            if let Some(of) = kind.strip_suffix("List").filter(|_| items.is_some_and(Vec::is_empty)) {
                snapshot.keep_none(group, of);
                continue;
            }
            let Some(entry) = kinds::find(group, kind) else {
                continue;
            };
            snapshot.keep_mirrored(&entry.kind, object);
            let add = KEPT.iter().find(|(kept, _)| KindInfo::eq(kept, &entry.kind));
            if let Some((_, add)) = add {
                add(&mut snapshot, &entry, object)?;
            }
        }
        Ok(snapshot)
    }

    /// Removes the Machines of other namespaces: the caches of a server contain only those of the
    /// namespace of the Machine API. A Machine without a namespace stays. If all Machines are those
    /// of other namespaces, it is not known which ones exist.
    pub fn keep_machines_of(&mut self, namespace: &str) {
        let Some(machines) = &mut self.machines else { return };
        let had_some = !machines.is_empty();
        machines.retain(|machine| machine.metadata.namespace.as_deref().is_none_or(|of| of == namespace));
        if had_some && machines.is_empty() {
            self.machines = None;
        }
    }

    /// Keeps that a kind has no objects.
    fn keep_none(&mut self, group: &str, kind: &str) {
        let Some(entry) = kinds::find(group, kind) else { return };
        if let Some(subject) = mirrored_kinds::subject(group, kind)
            && !matches!(subject.kind, Kind::InfrastructureMachine | Kind::InfrastructureTemplate)
        {
            self.mirrors
                .of_mut(subject.api)
                .slot(subject.kind)
                .get_or_insert_default();
        }
        let is = |known: &KindInfo| *entry.kind == *known;
        if is(&kinds::MACHINES) {
            self.machines.get_or_insert_default();
        } else if is(&kinds::CONTROL_PLANE_MACHINE_SETS) {
            self.control_plane_machine_sets.get_or_insert_default();
        } else if is(&kinds::CONTROL_PLANES) {
            self.control_planes.get_or_insert_default();
        } else if is(&kinds::NODES) {
            self.nodes.get_or_insert_default();
        } else if is(&kinds::CLUSTER_OPERATORS) {
            self.cluster_operators.get_or_insert_default();
        }
    }

    /// Adds the objects of another snapshot. Of two objects of one kind and name, the added one
    /// is looked up by name.
    pub fn add(&mut self, other: &Self) {
        extend(&mut self.machines, other.machines.as_ref());
        extend(
            &mut self.control_plane_machine_sets,
            other.control_plane_machine_sets.as_ref(),
        );
        extend(&mut self.control_planes, other.control_planes.as_ref());
        extend(&mut self.nodes, other.nodes.as_ref());
        extend(&mut self.cluster_operators, other.cluster_operators.as_ref());
        replace(&mut self.infrastructure, other.infrastructure.as_ref());
        replace(&mut self.feature_gate, other.feature_gate.as_ref());
        self.mirrors.add(&other.mirrors);
        self.parsed = ParsedOnce::default();
    }

    /// Keeps an object of a mirrored kind, or the infrastructure of a whole cluster.
    fn keep_mirrored(&mut self, kind: &KindInfo, object: &Value) {
        let subject = mirrored_kinds::subject(&kind.group, &kind.kind);
        let is_cluster =
            kind.group == infrastructure_kinds::GROUP && CLUSTERS.iter().any(|cluster| cluster.kind == kind.kind);
        let index = match subject.map(|subject| (subject.api, subject.kind)) {
            Some((_, Kind::InfrastructureMachine | Kind::InfrastructureTemplate)) => {
                self.mirrors.infrastructure.entry(kind.kind.to_string()).or_default()
            }
            Some((api, kind)) => self.mirrors.of_mut(api).slot(kind).get_or_insert_default(),
            None if is_cluster => self.mirrors.infrastructure.entry(kind.kind.to_string()).or_default(),
            None => return,
        };
        let key = index_key(text(object, "/metadata/namespace"), text(object, "/metadata/name"));
        Arc::make_mut(index).insert(key, Arc::new(PairMember::keep(object)));
    }
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Adds the objects of a kind, if it is known.
fn extend<C: Clone + Default + Extend<I> + IntoIterator<Item = I>, I>(kept: &mut Option<C>, added: Option<&C>) {
    if let Some(added) = added {
        kept.get_or_insert_default().extend(added.clone());
    }
}

/// Replaces the only object of a kind, if another one is known.
fn replace<T>(kept: &mut Option<Arc<T>>, added: Option<&Arc<T>>) {
    if let Some(added) = added {
        *kept = Some(Arc::clone(added));
    }
}

fn push<T: DeserializeOwned>(kept: &mut Option<Vec<Arc<T>>>, object: &Value) -> Result<(), Unreadable> {
    kept.get_or_insert_default().push(read(object)?);
    Ok(())
}

fn insert<T: DeserializeOwned>(kept: &mut Option<BTreeMap<String, Arc<T>>>, object: &Value) -> Result<(), Unreadable> {
    let name = text(object, "/metadata/name").to_owned();
    kept.get_or_insert_default().insert(name, read(object)?);
    Ok(())
}

/// Keeps the only object of a kind that is read.
fn set<T: DeserializeOwned>(kept: &mut Option<Arc<T>>, entry: &KindEntry, object: &Value) -> Result<(), Unreadable> {
    if entry.names.contains(&text(object, "/metadata/name")) {
        *kept = Some(read(object)?);
    }
    Ok(())
}

fn read<T: DeserializeOwned>(object: &Value) -> Result<Arc<T>, Unreadable> {
    // A file may contain `labels: null`. An API server reads that as no labels, and never writes
    // it.
    let read = T::deserialize(object).or_else(|error| T::deserialize(&without_nulls(object)).map_err(|_| error));
    read.map(Arc::new).map_err(|error| Unreadable {
        kind: text(object, "/kind").to_owned(),
        name: text(object, "/metadata/name").to_owned(),
        reason: error.to_string(),
    })
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_kept_by_group_and_kind() {
        let object = |api_version: &str, kind: &str, name: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": null}});
        let snapshot = Snapshot::of_files(&[
            object("machine.openshift.io/v1beta1", "Machine", "a"),
            object("cluster.x-k8s.io/v1beta2", "Machine", "b"),
            object("v1", "Node", "n"),
            object("config.openshift.io/v1", "Infrastructure", "other"),
            object("config.openshift.io/v1", "FeatureGate", "cluster"),
            object("infrastructure.cluster.x-k8s.io/v1beta2", "AWSCluster", "c"),
            object("example.org/v1", "Node", "m"),
        ])
        .unwrap();
        let names = |machines: &[Arc<Machine>]| -> Vec<String> {
            machines
                .iter()
                .map(|machine| machine.metadata.name().to_owned())
                .collect()
        };
        assert_eq!(names(snapshot.machines.as_deref().unwrap()), ["a"]);
        let nodes = snapshot.nodes.unwrap();
        assert_eq!(nodes.keys().collect::<Vec<_>>(), ["n"]);
        assert!(snapshot.infrastructure.is_none() && snapshot.feature_gate.is_some());
        assert!(snapshot.cluster_operators.is_none() && snapshot.control_plane_machine_sets.is_none());
        let in_cluster_api = snapshot.mirrors.cluster_api.machines.unwrap();
        assert_eq!(in_cluster_api.keys().collect::<Vec<_>>(), ["b"]);
        assert!(snapshot.mirrors.infrastructure.contains_key("AWSCluster"));
    }
}
