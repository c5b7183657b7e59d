//! The objects from which a KubeadmControlPlane is planned: one snapshot, from caches or files.
//!
//! Nothing here decides. An object that is not in the snapshot is unknown; the state says what that
//! means.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::defaults;
use super::outdated::Wanted;
use super::read_config::ReadConfig;
use super::spec::read;
use crate::api::bootstrap_cluster_x_k8s_io::GROUP as BOOTSTRAP_GROUP;
use crate::api::bootstrap_cluster_x_k8s_io::kubeadm_config::{self, KubeadmConfig};
use crate::api::cluster_x_k8s_io::control_plane::{Cluster, Machine};
use crate::api::cluster_x_k8s_io::{self as cluster_api, cluster, label, machine};
use crate::api::controlplane_cluster_x_k8s_io as control_plane_api;
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::{self, KubeadmControlPlane};
use crate::api::core_v1::node::{self, Node};
use crate::api::infrastructure_cluster_x_k8s_io::Infrastructure;
use crate::api::meta::ObjectMeta;

/// The group and version of [`EtcdMembers`].
pub const ETCD_MEMBERS_VERSION: &str = "capstan.dev/v1";
/// The kind of [`EtcdMembers`].
pub const ETCD_MEMBERS: &str = "EtcdMembers";

/// The kind of a group of worker machines that the infrastructure manages.
const MACHINE_POOL: &str = "MachinePool";

/// The members of an etcd cluster as one of them reports them. A file can contain such an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdMembers {
    /// The name of the member that leads; empty if it is unknown.
    pub leader: String,
    /// The members.
    pub members: Vec<ReportedMember>,
}

/// One member of an etcd cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ReportedMember {
    /// The name, which is the name of the Node; empty for a member that has not started.
    pub name: String,
    /// Whether the member does not vote yet.
    #[serde(alias = "isLearner")]
    pub learner: bool,
    /// The alarms of the member, such as `NOSPACE` and `CORRUPT`.
    pub alarms: Vec<String>,
    /// False for a member that is known to be unhealthy. Without the field, the condition
    /// `EtcdMemberHealthy` of the Machine decides.
    pub healthy: Option<bool>,
}

/// One snapshot.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The control plane, with defaults.
    pub control_plane: KubeadmControlPlane,
    /// The Cluster of the control plane.
    pub cluster: Option<Arc<Cluster>>,
    /// The Machines of the namespace, also of workers and of other clusters.
    pub machines: Vec<Arc<Machine>>,
    /// The KubeadmConfigs of the namespace, by name.
    pub configs: BTreeMap<String, Arc<ReadConfig>>,
    /// The infrastructure machines of the namespace, by kind and name. Only their metadata and the
    /// field `spec.providerID` are read.
    pub infrastructure: BTreeMap<(String, String), Arc<Infrastructure>>,
    /// The Nodes of the managed cluster, by name.
    pub nodes: BTreeMap<String, Arc<Node>>,
    /// The names of the MachinePools of the Cluster. They are workers.
    pub machine_pools: Vec<String>,
    /// A MachinePool of the Cluster whose machines have joined, or have the data to join.
    pub joined_pool: Option<String>,
    /// The etcd members; `None` if no member could be reached.
    pub etcd: Option<EtcdMembers>,
    /// How long the observer has seen a Machine being deleted, by the uid of the Machine. A clock
    /// decides for a Machine that is missing here.
    pub leaving: BTreeMap<String, SignedDuration>,
    /// What the machines are compared with, if it is known.
    wanted: Option<Arc<Wanted>>,
}

/// A control plane with its defaults, and what its machines are compared with, computed once.
#[derive(Debug)]
pub struct ReadControlPlane {
    control_plane: KubeadmControlPlane,
    wanted: Arc<Wanted>,
}

/// What is read of a MachinePool.
#[derive(Debug)]
pub struct ReadPool {
    name: String,
    /// The Clusters that it names: in its field and in its label.
    clusters: [String; 2],
    /// Whether its machines have joined, or have data of the kubeadm bootstrap provider.
    has_joined: bool,
}

/// An object, read into the type of its kind. Clones share it.
#[derive(Clone, Debug)]
pub enum ReadObject {
    /// A control plane.
    ControlPlane(Arc<ReadControlPlane>),
    /// A Cluster.
    Cluster(Arc<Cluster>),
    /// A Machine.
    Machine(Arc<Machine>),
    /// A KubeadmConfig, by its name.
    Config(String, Arc<ReadConfig>),
    /// A Node, by its name.
    Node(String, Arc<Node>),
    /// A MachinePool.
    MachinePool(Arc<ReadPool>),
    /// The etcd members.
    EtcdMembers(Arc<EtcdMembers>),
    /// An object that a Machine may refer to, by its kind and name.
    Infrastructure((String, String), Arc<Infrastructure>),
    /// An object of another kind.
    Other,
}

/// An object of the snapshot that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// There is no control plane of this name.
    #[error("there must be a KubeadmControlPlane{0} in the input")]
    Missing(String),
    /// There are several control planes, and no name selects one.
    #[error("the input must contain one KubeadmControlPlane; it contains {0}. Pass the objects of one cluster")]
    Several(String),
    /// Two objects with one UID, or with one namespace, name, and kind, differ.
    #[error(
        "every object must be given once: {kind} {name:?} is given twice with different contents. Remove the older one"
    )]
    Repeated {
        /// The kind of the second object.
        kind: String,
        /// The name of the second object.
        name: String,
        /// The positions of the two objects in the input.
        places: [usize; 2],
    },
    /// Two objects with different names have one UID.
    #[error("every object must have its own UID: {kind} {first:?} and {second:?} have the same. Correct metadata.uid")]
    SameUid {
        /// The kind of both.
        kind: String,
        /// The name of the first object.
        first: String,
        /// The name of the second object.
        second: String,
        /// The positions of the two objects in the input.
        places: [usize; 2],
    },
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

/// Whether an object is a KubeadmControlPlane.
pub fn is_control_plane(object: &Value) -> bool {
    group(object) == control_plane_api::GROUP && text(object, "/kind") == kubeadm_control_plane::KIND
}

impl Observed {
    /// The snapshot of the objects of one cluster, from files. Objects of unknown kinds are kept if
    /// a Machine can refer to them. Objects of other namespaces are left out. Equal objects count
    /// once.
    ///
    /// # Errors
    /// The objects do not contain exactly one control plane, two objects contradict each other, or
    /// an object cannot be read.
    pub fn of_objects(objects: &[Value]) -> Result<Self, SnapshotError> {
        let control_planes: Vec<&Value> = objects.iter().filter(|object| is_control_plane(object)).collect();
        let object = match control_planes.as_slice() {
            [] => return Err(SnapshotError::Missing(String::new())),
            [object] => *object,
            several => {
                let names: Vec<&str> = several.iter().map(|object| text(object, "/metadata/name")).collect();
                return Err(SnapshotError::Several(names.join(", ")));
            }
        };
        let mut observed = Self {
            control_plane: control_plane(object)?,
            ..Self::default()
        };
        observed.name_cluster(objects);
        let cluster = cluster_name(&observed.control_plane);
        let namespace = text(object, "/metadata/namespace");
        let is_own = |object: &Value| {
            let own = text(object, "/metadata/namespace");
            own.is_empty() || namespace.is_empty() || own == namespace
        };
        let mut earlier: Vec<(usize, &Value)> = Vec::new();
        for (place, object) in objects.iter().enumerate().filter(|(_, object)| is_own(object)) {
            let first = earlier.iter().find(|(_, first)| is_same(first, object));
            match first {
                // A Cluster of another control plane need not be readable.
                None if is_cluster(object) && text(object, "/metadata/name") != cluster => {}
                None if is_control_plane(object) => {}
                None => observed.keep(ReadObject::of(object)?, &cluster),
                Some((_, first)) if *first == object => {}
                Some((at, first)) if has_another_name(first, object) => {
                    return Err(SnapshotError::SameUid {
                        kind: text(object, "/kind").to_owned(),
                        first: text(first, "/metadata/name").to_owned(),
                        second: text(object, "/metadata/name").to_owned(),
                        places: [*at, place],
                    });
                }
                Some((first, _)) => {
                    return Err(SnapshotError::Repeated {
                        kind: text(object, "/kind").to_owned(),
                        name: text(object, "/metadata/name").to_owned(),
                        places: [*first, place],
                    });
                }
            }
            earlier.push((place, object));
        }
        Ok(observed)
    }

    /// The snapshot of a control plane and of other objects of its Cluster, from caches: each is
    /// there once, and was read.
    pub fn of_read(read: &ReadControlPlane, objects: impl IntoIterator<Item = ReadObject>) -> Self {
        let mut observed = Self {
            control_plane: read.control_plane.clone(),
            wanted: Some(Arc::clone(&read.wanted)),
            ..Self::default()
        };
        let cluster = cluster_name(&observed.control_plane);
        for object in objects {
            observed.keep(object, &cluster);
        }
        observed
    }

    /// What the machines are compared with. It is computed once for a spec that was read.
    pub(super) fn wanted(&self) -> Arc<Wanted> {
        let spec = &self.control_plane.spec;
        let known = self.wanted.as_ref().filter(|known| known.spec() == spec);
        known.map_or_else(|| Arc::new(Wanted::of(spec)), Arc::clone)
    }

    /// A control plane that was not stored yet has no owner. The Cluster that refers to it becomes
    /// its owner later.
    fn name_cluster(&mut self, objects: &[Value]) {
        if !cluster_name(&self.control_plane).is_empty() {
            return;
        }
        let metadata = &mut self.control_plane.metadata;
        let refers = |object: &&Value| {
            let kind = text(object, "/spec/controlPlaneRef/kind");
            let name = text(object, "/spec/controlPlaneRef/name");
            is_cluster(object) && kind == kubeadm_control_plane::KIND && name == metadata.name()
        };
        if let Some(object) = objects.iter().find(refers) {
            let name = text(object, "/metadata/name").to_owned();
            metadata.labels.insert(label::CLUSTER.to_owned(), name);
        }
    }

    /// Adds an object, unless it belongs to another Cluster.
    fn keep(&mut self, object: ReadObject, cluster: &str) {
        match object {
            ReadObject::Cluster(object) if object.metadata.name() == cluster => self.cluster = Some(object),
            ReadObject::Machine(machine) => self.machines.push(machine),
            ReadObject::Config(name, config) => drop(self.configs.insert(name, config)),
            ReadObject::Node(name, node) => drop(self.nodes.insert(name, node)),
            ReadObject::MachinePool(pool) if pool.clusters.iter().any(|one| one == cluster) => {
                self.machine_pools.push(pool.name.clone());
                let joined = self.joined_pool.take();
                self.joined_pool = joined.or_else(|| pool.has_joined.then(|| pool.name.clone()));
            }
            // An etcd cluster has at least one member.
            ReadObject::EtcdMembers(members) => {
                self.etcd = (!members.members.is_empty()).then(|| members.as_ref().clone());
            }
            ReadObject::Infrastructure(key, object) => drop(self.infrastructure.insert(key, object)),
            ReadObject::ControlPlane(_) | ReadObject::Cluster(_) | ReadObject::MachinePool(..) | ReadObject::Other => {}
        }
    }
}

impl ReadPool {
    fn of(object: &Value) -> Self {
        let of = |pointer: &str| text(object, pointer).to_owned();
        let bootstrap = |field: &str| text(object, &format!("/spec/template/spec/bootstrap/{field}"));
        let has_data = bootstrap("configRef/kind") == kubeadm_config::KIND && !bootstrap("dataSecretName").is_empty();
        let nodes = object.pointer("/status/nodeRefs").and_then(Value::as_array);
        Self {
            name: of("/metadata/name"),
            clusters: [
                of("/spec/clusterName"),
                of("/metadata/labels/cluster.x-k8s.io~1cluster-name"),
            ],
            has_joined: has_data || nodes.is_some_and(|nodes| !nodes.is_empty()),
        }
    }
}

impl ReadObject {
    /// Reads an object.
    ///
    /// # Errors
    /// The object has a field of a wrong type, or a version that is not read.
    pub fn of(object: &Value) -> Result<Self, SnapshotError> {
        let name = text(object, "/metadata/name").to_owned();
        Ok(match (group(object), text(object, "/kind")) {
            (control_plane_api::GROUP, kubeadm_control_plane::KIND) => {
                let control_plane = control_plane(object)?;
                let wanted = Arc::new(Wanted::of(&control_plane.spec));
                Self::ControlPlane(Arc::new(ReadControlPlane { control_plane, wanted }))
            }
            (control_plane_api::GROUP, _) => Self::Other,
            (cluster_api::GROUP, cluster::KIND) => Self::Cluster(decode(object, cluster_api::API_VERSION)?),
            (cluster_api::GROUP, machine::KIND) => Self::Machine(decode(object, cluster_api::API_VERSION)?),
            (BOOTSTRAP_GROUP, kubeadm_config::KIND) => {
                let config: Arc<KubeadmConfig> = decode(object, "bootstrap.cluster.x-k8s.io/v1beta2")?;
                Self::Config(name, Arc::new(Arc::unwrap_or_clone(config).into()))
            }
            ("", node::KIND) => Self::Node(name, decode(object, "v1")?),
            (cluster_api::GROUP, MACHINE_POOL) => Self::MachinePool(Arc::new(ReadPool::of(object))),
            (_, ETCD_MEMBERS) => {
                let members: Arc<EtcdMembers> = decode(object, ETCD_MEMBERS_VERSION)?;
                let known = ["apiVersion", "kind", "metadata", "leader", "members"];
                let mut fields = object.as_object().into_iter().flat_map(serde_json::Map::keys);
                if let Some(field) = fields.find(|field| !known.contains(&field.as_str())) {
                    return Err(unreadable(object, &format!("unknown field `{field}`")));
                }
                let mut names = members.members.iter().map(|member| &member.name);
                if !members.leader.is_empty() && !names.any(|name| *name == members.leader) {
                    let reason = format!("leader {:?} must be the name of a member", members.leader);
                    return Err(unreadable(object, &reason));
                }
                Self::EtcdMembers(members)
            }
            // A Machine may refer to an object of any group.
            (_, kind) => match Infrastructure::deserialize(object) {
                Ok(infrastructure) => Self::Infrastructure((kind.to_owned(), name), Arc::new(infrastructure)),
                Err(_) => Self::Other,
            },
        })
    }
}

fn is_cluster(object: &Value) -> bool {
    group(object) == cluster_api::GROUP && text(object, "/kind") == cluster::KIND
}

/// Whether two objects of a file are versions of one object. There is one EtcdMembers.
fn is_same(left: &Value, right: &Value) -> bool {
    let are_equal = |pointer: &str| text(left, pointer) == text(right, pointer);
    if group(left) != group(right) || !are_equal("/kind") {
        return false;
    }
    let is_named = |pointer: &str| !text(left, pointer).is_empty() && are_equal(pointer);
    text(left, "/kind") == ETCD_MEMBERS || is_named("/metadata/name") || is_named("/metadata/uid")
}

/// Whether two objects with one UID have different names.
fn has_another_name(left: &Value, right: &Value) -> bool {
    let name = |object| text(object, "/metadata/name");
    text(right, "/kind") != ETCD_MEMBERS && name(left) != name(right)
}

/// The name of the Cluster of a control plane: of its owner, or else of its label.
pub(super) fn cluster_name(control_plane: &KubeadmControlPlane) -> String {
    cluster_of(&control_plane.metadata)
}

/// The name of the Cluster of a control plane with this metadata; empty if it has none.
pub fn cluster_of(metadata: &ObjectMeta) -> String {
    let is_cluster = |kind: &str, api_version: &str| {
        kind == cluster::KIND && api_version.split('/').next() == Some(cluster_api::GROUP)
    };
    let owner = metadata
        .owner_references
        .iter()
        .find(|owner| is_cluster(&owner.kind, &owner.api_version));
    owner
        .map(|owner| owner.name.clone())
        .or_else(|| metadata.labels.get(label::CLUSTER).cloned())
        .unwrap_or_default()
}

/// A control plane with its defaults.
fn control_plane(object: &Value) -> Result<KubeadmControlPlane, SnapshotError> {
    let mut defaulted = object.clone();
    complete_conditions(&mut defaulted);
    let patch = defaults::patch(&defaulted);
    json_patch::patch(&mut defaulted, &patch).map_err(|error| unreadable(object, &error.to_string()))?;
    read(&defaulted).map_err(|violation| unreadable(object, &violation.to_string()))
}

/// Gives the conditions of a file the fields that an API server requires.
fn complete_conditions(object: &mut Value) {
    let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        for (field, value) in [
            ("reason", ""),
            ("message", ""),
            ("lastTransitionTime", "1970-01-01T00:00:00Z"),
        ] {
            condition.entry(field).or_insert_with(|| json!(value));
        }
    }
}

fn decode<T: DeserializeOwned>(object: &Value, version: &str) -> Result<Arc<T>, SnapshotError> {
    if text(object, "/apiVersion") != version {
        return Err(unreadable(object, &format!("apiVersion must be {version}")));
    }
    let object_without_nulls = super::canonical::without_empty_fields(object);
    serde_path_to_error::deserialize(&object_without_nulls)
        .map(Arc::new)
        .map_err(|error| unreadable(object, &error.to_string()))
}

fn unreadable(object: &Value, reason: &str) -> SnapshotError {
    SnapshotError::Unreadable {
        kind: text(object, "/kind").to_owned(),
        name: text(object, "/metadata/name").to_owned(),
        reason: reason.to_owned(),
    }
}

fn group(object: &Value) -> &str {
    let api_version = text(object, "/apiVersion");
    api_version.split_once('/').map_or("", |(group, _)| group)
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
