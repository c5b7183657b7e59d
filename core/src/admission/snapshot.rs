//! What rules may look up: the cluster around the object that is judged.
//!
//! Filled from the caches of the server, or from the files of an offline check. What is not there is *unknown*, which is
//! not the same as absent: a rule that needs it says so, and guesses nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::mirrored;
use crate::api::config_openshift_io::cluster_operator::{self, ClusterOperator};
use crate::api::config_openshift_io::feature_gate::{self, FeatureGate};
use crate::api::config_openshift_io::infrastructure::{self, Infrastructure};
use crate::api::core_v1::node::{self, Node};
use crate::api::infrastructure_cluster_x_k8s_io;
use crate::api::machine_openshift_io;
use crate::api::machine_openshift_io::control_plane_machine_set::{self, ControlPlaneMachineSet};
use crate::api::machine_openshift_io::machine::{self, Machine};
use crate::authority::rules::Subject;
use crate::authority::spec::PairMember;
use crate::authority::state::{Mirrors, index_key};
use crate::cpms::rules::ParsedOnce;

/// Where a snapshot comes from: it decides what an unknown means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The caches of a server: what is unknown will be known soon, and what cannot be judged is refused until then.
    Cluster,
    /// The files that somebody gave: what is unknown is said as a warning.
    #[default]
    Files,
}

/// The cluster around the object that is judged. `None` is unknown.
///
/// Objects are shared with the caches they come from, so that a new picture of ten thousand costs pointers.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Where it comes from.
    pub source: Source,
    /// All Machines of the Machine API in its namespace.
    pub machines: Option<Vec<Arc<Machine>>>,
    /// The nodes, by name.
    pub nodes: Option<BTreeMap<String, Arc<Node>>>,
    /// The Infrastructure `cluster`.
    pub infrastructure: Option<Arc<Infrastructure>>,
    /// The FeatureGate `cluster`.
    pub feature_gate: Option<Arc<FeatureGate>>,
    /// The ClusterOperators, by name.
    pub cluster_operators: Option<BTreeMap<String, Arc<ClusterOperator>>>,
    /// The ControlPlaneMachineSets of the namespace.
    pub control_plane_machine_sets: Option<Vec<Arc<ControlPlaneMachineSet>>>,
    /// What exists in the Machine API and in Cluster API.
    pub mirrors: Mirrors,
    /// The set among them, parsed once; leave it empty.
    pub parsed: ParsedOnce,
}

/// An object that was given to be looked up and cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {name:?} cannot be read: {reason}")]
pub struct Unreadable {
    /// The object's kind.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Snapshot {
    /// A snapshot of the objects that somebody gave. A kind of which there is none is unknown; a kind that no rule looks
    /// up is ignored.
    ///
    /// # Errors
    /// When an object is not of the shape of its kind.
    pub fn of_files(objects: &[Value]) -> Result<Self, Unreadable> {
        let mut snapshot = Self::default();
        for object in objects {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let (kind, name) = (text("/kind"), text("/metadata/name").to_owned());
            let group = text("/apiVersion").split('/').next().unwrap_or_default();
            if let Some(subject) = mirrored::subject(group, kind) {
                mirror(&mut snapshot.mirrors, subject, kind, &name, object);
            }
            if group == infrastructure_cluster_x_k8s_io::GROUP
                && infrastructure_cluster_x_k8s_io::CLUSTERS
                    .iter()
                    .any(|cluster| cluster.kind == kind)
            {
                let index = snapshot.mirrors.infrastructure.entry(kind.to_owned()).or_default();
                Arc::make_mut(index).insert(
                    index_key(text("/metadata/namespace"), &name),
                    Arc::new(PairMember::keep(object)),
                );
            }
            match kind {
                machine::KIND if text("/apiVersion").starts_with(machine_openshift_io::GROUP) => {
                    snapshot.machines.get_or_insert_default().push(read(object)?);
                }
                node::KIND => {
                    snapshot.nodes.get_or_insert_default().insert(name, read(object)?);
                }
                infrastructure::KIND if name == infrastructure::NAME => snapshot.infrastructure = Some(read(object)?),
                feature_gate::KIND if name == feature_gate::NAME => snapshot.feature_gate = Some(read(object)?),
                cluster_operator::KIND => {
                    snapshot
                        .cluster_operators
                        .get_or_insert_default()
                        .insert(name, read(object)?);
                }
                control_plane_machine_set::KIND => {
                    snapshot
                        .control_plane_machine_sets
                        .get_or_insert_default()
                        .push(read(object)?);
                }
                _ => {}
            }
        }
        Ok(snapshot)
    }
}

/// Adds a half. One kind that is given makes the others of it known.
fn mirror(mirrors: &mut Mirrors, subject: Subject, kind: &str, name: &str, object: &Value) {
    let index = match subject.kind {
        mirrored::Kind::InfrastructureMachine | mirrored::Kind::InfrastructureTemplate => {
            mirrors.infrastructure.entry(kind.to_owned()).or_default()
        }
        of => mirrors.of_mut(subject.api).slot(of).get_or_insert_default(),
    };
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
    let key = index_key(namespace.unwrap_or_default(), name);
    Arc::make_mut(index).insert(key, Arc::new(PairMember::keep(object)));
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

fn read<T: DeserializeOwned>(object: &Value) -> Result<Arc<T>, Unreadable> {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    // What is given by hand says `labels: null` for no labels, as an API server reads it and never writes it.
    let read = T::deserialize(object).or_else(|error| T::deserialize(&without_nulls(object)).map_err(|_| error));
    read.map(Arc::new).map_err(|error| Unreadable {
        kind: text("/kind"),
        name: text("/metadata/name"),
        reason: error.to_string(),
    })
}
