//! The objects from which a MachinePool is planned: one snapshot.
//!
//! Nothing here decides. The infrastructure of a pool has any kind, so its objects are kept as they
//! are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::cluster_x_k8s_io::control_plane::{Cluster, Machine};
use crate::api::cluster_x_k8s_io::machine_pool::{self, MachinePool};
use crate::api::cluster_x_k8s_io::{self as cluster_api, ContractReference, cluster, label, label_value, machine};
use crate::api::core_v1::node::{self, Node};
use crate::api::infrastructure_cluster_x_k8s_io::Infrastructure;

/// One snapshot.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The pool.
    pub pool: MachinePool,
    /// The Cluster of the pool.
    pub cluster: Option<Arc<Cluster>>,
    /// The infrastructure object of the pool.
    pub infrastructure: Option<Arc<Infrastructure>>,
    /// The object that generates the bootstrap data of the pool.
    pub bootstrap: Option<Arc<Infrastructure>>,
    /// The infrastructure machines of the pool, one for each instance.
    pub instances: Vec<Arc<Infrastructure>>,
    /// Whether `instances` contains every infrastructure machine of the pool. Files without any
    /// may be incomplete.
    pub knows_instances: bool,
    /// The Machines of the pool.
    pub machines: Vec<Arc<Machine>>,
    /// The names of Machines that exist and lack the labels of the pool.
    pub unlabelled_machines: BTreeSet<String>,
    /// The Nodes of the cluster.
    pub nodes: Vec<Arc<Node>>,
    /// Whether `nodes` contains every Node of the cluster. The Machines report their Nodes
    /// otherwise.
    pub knows_nodes: bool,
}

/// Why there is no snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// There is no pool.
    #[error("there must be a MachinePool in the input")]
    Missing,
    /// There are several pools.
    #[error("the input must contain one MachinePool; it contains {0}. Pass the objects of one pool")]
    Several(String),
    /// An object has a field of a wrong type, or a version that is not read.
    #[error("{kind} {name:?} must be readable: {reason}")]
    Unreadable {
        /// The kind of the object.
        kind: String,
        /// The name of the object.
        name: String,
        /// The reason.
        reason: String,
    },
}

/// Whether an object is a MachinePool.
pub fn is_pool(object: &Value) -> bool {
    group(object) == cluster_api::GROUP && text(object, "/kind") == machine_pool::KIND
}

impl Observed {
    /// The snapshot of the objects of one pool, from files. Objects of other namespaces and other
    /// pools are left out.
    ///
    /// # Errors
    /// The objects do not contain exactly one pool, or an object cannot be read.
    pub fn of_objects(objects: &[Value]) -> Result<Self, SnapshotError> {
        let pools: Vec<&Value> = objects.iter().filter(|object| is_pool(object)).collect();
        let pool = match pools.as_slice() {
            [] => return Err(SnapshotError::Missing),
            [pool] => *pool,
            several => {
                let names: Vec<&str> = several.iter().map(|pool| text(pool, "/metadata/name")).collect();
                return Err(SnapshotError::Several(names.join(", ")));
            }
        };
        let mut observed = Self {
            pool: decode(pool, cluster_api::API_VERSION)?,
            ..Self::default()
        };
        let namespace = text(pool, "/metadata/namespace");
        let is_own = |object: &&Value| {
            let own = text(object, "/metadata/namespace");
            own.is_empty() || namespace.is_empty() || own == namespace
        };
        for object in objects.iter().filter(is_own) {
            observed.keep(object)?;
        }
        let lost = observed.lost_instances();
        for object in objects.iter().filter(is_own) {
            let [kind, name] = ["/kind", "/metadata/name"].map(|pointer| text(object, pointer).to_owned());
            if lost.contains(&[group(object).to_owned(), kind, name]) {
                // An infrastructure machine that lost its labels.
                let instance = Infrastructure::deserialize(object).map(Arc::new);
                observed.instances.extend(instance);
            }
        }
        observed.knows_instances = !observed.instances.is_empty();
        observed.knows_nodes = !observed.nodes.is_empty();
        Ok(observed)
    }

    fn keep(&mut self, object: &Value) -> Result<(), SnapshotError> {
        match (group(object), text(object, "/kind")) {
            (cluster_api::GROUP, cluster::KIND) => {
                if text(object, "/metadata/name") == self.pool.spec.cluster_name {
                    self.cluster = Some(Arc::new(decode(object, cluster_api::API_VERSION)?));
                }
            }
            (cluster_api::GROUP, machine::KIND) => {
                let machine: Machine = decode(object, cluster_api::API_VERSION)?;
                // A Machine that lost a label still has its owner.
                let uid = self.pool.metadata.uid();
                let is_owned = machine.metadata.controller().is_some_and(|owner| owner.uid == uid);
                if self.is_of_pool(&machine.metadata.labels) || (!uid.is_empty() && is_owned) {
                    self.machines.push(Arc::new(machine));
                } else {
                    self.unlabelled_machines.insert(machine.metadata.name().to_owned());
                }
            }
            ("", node::KIND) => self.nodes.push(Arc::new(decode(object, "v1")?)),
            (cluster_api::GROUP, _) => {}
            (group, kind) => {
                let Ok(infrastructure) = Infrastructure::deserialize(object) else {
                    return Ok(());
                };
                let template = &self.pool.spec.template.spec;
                let is = |reference: &ContractReference| {
                    (group, kind, infrastructure.metadata.name())
                        == (&reference.api_group, &reference.kind, &reference.name)
                };
                if is(&template.bootstrap.config_ref) {
                    self.bootstrap = Some(Arc::new(infrastructure));
                } else if is(&template.infrastructure_ref) {
                    self.infrastructure = Some(Arc::new(infrastructure));
                } else if self.is_of_pool(&infrastructure.metadata.labels) {
                    self.instances.push(Arc::new(infrastructure));
                }
            }
        }
        Ok(())
    }

    /// Group, kind, and name of the infrastructure machines that Machines of the pool refer to, and
    /// that are not among the instances.
    pub fn lost_instances(&self) -> BTreeSet<[String; 3]> {
        let known: BTreeSet<&str> = self.instances.iter().map(|one| one.metadata.name()).collect();
        let references = self.machines.iter().map(|machine| &machine.spec.infrastructure_ref);
        let lost = references.filter(|reference| !known.contains(reference.name.as_str()));
        let key =
            |reference: &ContractReference| [&reference.api_group, &reference.kind, &reference.name].map(String::clone);
        lost.map(key).collect()
    }

    /// The names of the instances that no Machine of the pool refers to.
    pub fn instances_without_machine(&self) -> BTreeSet<&str> {
        let references = self.machines.iter().map(|machine| &machine.spec.infrastructure_ref);
        let referred: BTreeSet<&str> = references.map(|reference| reference.name.as_str()).collect();
        let names = self.instances.iter().map(|one| one.metadata.name());
        names.filter(|name| !referred.contains(name)).collect()
    }

    /// Whether an object has the labels of the machines of this pool.
    pub fn is_of_pool(&self, labels: &BTreeMap<String, String>) -> bool {
        let has = |key: &str, value: &str| labels.get(key).map(String::as_str) == Some(value);
        has(label::CLUSTER, &self.pool.spec.cluster_name)
            && has(label::POOL_NAME, &label_value(self.pool.metadata.name()))
    }
}

fn decode<T: DeserializeOwned>(object: &Value, version: &str) -> Result<T, SnapshotError> {
    let unreadable = |reason: String| SnapshotError::Unreadable {
        kind: text(object, "/kind").to_owned(),
        name: text(object, "/metadata/name").to_owned(),
        reason,
    };
    if text(object, "/apiVersion") != version {
        return Err(unreadable(format!("apiVersion must be {version}")));
    }
    serde_path_to_error::deserialize(object).map_err(|error| unreadable(error.to_string()))
}

fn group(object: &Value) -> &str {
    let api_version = text(object, "/apiVersion");
    api_version.split_once('/').map_or("", |(group, _)| group)
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
