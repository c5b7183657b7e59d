//! What the controller of ControlPlaneMachineSets and the generator ask of the world around it: reads, writes, news, the time.
//!
//! [`Served`] asks an API server, through a client. The simulation answers the same questions step by step, so that what
//! it attacks is the controller that ships, and not a copy of it.

use std::future::Future;

use capstan_core::api::config_openshift_io::cluster_operator::{self, ClusterOperator};
use capstan_core::api::core_v1::node::{CONTROL_PLANE_LABEL, MASTER_LABEL, Node};
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, NAME};
use capstan_core::api::machine_openshift_io::machine::Machine;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::Instant;

use super::kind::Kind;
use super::object::WatchedObject;

/// The name under which Capstan's writes stand in `managedFields`.
pub const FIELD_MANAGER: &str = "capstan";
/// The name under which what is generated stands there.
pub const GENERATOR: &str = "capstan-generator";

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// The set.
    Set(String),
    /// A machine.
    Machine(String),
    /// Our ClusterOperator.
    ClusterOperator,
}

/// How a write left an object: what is remembered of it until the caches show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Its uid.
    pub uid: String,
    /// Its version.
    pub version: String,
    /// Whether its status has an entry for each machine, which a definition that does not know the field drops.
    pub lists_machines: bool,
}

impl From<DynamicObject> for Written {
    fn from(object: DynamicObject) -> Self {
        Self {
            lists_machines: object.data.pointer("/status/machines").is_some(),
            uid: object.metadata.uid.unwrap_or_default(),
            version: object.metadata.resource_version.unwrap_or_default(),
        }
    }
}

/// The world around the controller.
pub trait Cluster: Send + Sync {
    /// The time, as objects have it.
    fn now(&self) -> Timestamp;

    /// The time that never goes back.
    fn instant(&self) -> Instant;

    /// The set as it is.
    fn set(&self) -> impl Future<Output = kube::Result<Option<WatchedObject<ControlPlaneMachineSet>>>> + Send;

    /// All machines of the namespace as they are.
    fn machines(&self) -> impl Future<Output = kube::Result<Vec<WatchedObject<Machine>>>> + Send;

    /// All nodes with a label of a control plane node, as they are.
    fn control_plane_nodes(&self) -> impl Future<Output = kube::Result<Vec<WatchedObject<Node>>>> + Send;

    /// A node as it is.
    fn node(&self, name: &str) -> impl Future<Output = kube::Result<Option<WatchedObject<Node>>>> + Send;

    /// What the etcd operator reports now.
    fn etcd(&self) -> impl Future<Output = kube::Result<Option<WatchedObject<ClusterOperator>>>> + Send;

    /// A machine as it is, whoever made it.
    fn machine(&self, name: &str) -> impl Future<Output = kube::Result<WatchedObject<Machine>>> + Send;

    /// Makes an object.
    fn create(&self, what: &Object, object: Value) -> impl Future<Output = kube::Result<Written>> + Send;

    /// Merges a patch into an object, or into its status.
    fn patch(&self, what: &Object, status: bool, patch: Value) -> impl Future<Output = kube::Result<Written>> + Send;

    /// Applies a generated set on the server's side, as [`GENERATOR`] and without force.
    fn apply(&self, set: Value) -> impl Future<Output = kube::Result<Written>> + Send;

    /// Asks for the deletion of a machine; `None` once it is gone.
    fn delete(
        &self,
        machine: &str,
        params: &DeleteParams,
    ) -> impl Future<Output = kube::Result<Option<Written>>> + Send;

    /// Says something. Nobody waits for it.
    fn tell(&self, namespace: &str, events: Vec<Event>);
}

/// A cluster behind a client.
#[derive(Clone)]
pub(super) struct Served {
    client: Client,
    seen_machines: Api<WatchedObject<Machine>>,
    seen_sets: Api<WatchedObject<ControlPlaneMachineSet>>,
    seen_nodes: Api<WatchedObject<Node>>,
    seen_operators: Api<WatchedObject<ClusterOperator>>,
    machines: Api<DynamicObject>,
    sets: Api<DynamicObject>,
    operators: Api<DynamicObject>,
}

impl Served {
    pub(super) fn new(client: &Client, namespace: &str) -> Self {
        Self {
            client: client.clone(),
            seen_machines: Kind::machines(namespace).api(client.clone()),
            seen_sets: Kind::control_plane_machine_sets(namespace).api(client.clone()),
            seen_nodes: Kind::nodes().api(client.clone()),
            seen_operators: Kind::cluster_operator(cluster_operator::ETCD).api(client.clone()),
            machines: Kind::machines(namespace).dynamic(client.clone()),
            sets: Kind::control_plane_machine_sets(namespace).dynamic(client.clone()),
            operators: Kind::cluster_operator(cluster_operator::NAME).dynamic(client.clone()),
        }
    }

    fn api<'a>(&'a self, what: &'a Object) -> (&'a Api<DynamicObject>, &'a str) {
        match what {
            Object::Set(name) => (&self.sets, name),
            Object::Machine(name) => (&self.machines, name),
            Object::ClusterOperator => (&self.operators, cluster_operator::NAME),
        }
    }
}

impl Cluster for Served {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }

    async fn set(&self) -> kube::Result<Option<WatchedObject<ControlPlaneMachineSet>>> {
        self.seen_sets.get_opt(NAME).await
    }

    async fn machines(&self) -> kube::Result<Vec<WatchedObject<Machine>>> {
        Ok(self.seen_machines.list(&ListParams::default()).await?.items)
    }

    async fn control_plane_nodes(&self) -> kube::Result<Vec<WatchedObject<Node>>> {
        // A selector cannot say "or". A node with both labels is answered twice, which changes nothing.
        let with = |label: &str| ListParams::default().labels(label);
        let (new, old) = (with(CONTROL_PLANE_LABEL), with(MASTER_LABEL));
        let (mut nodes, others) = tokio::try_join!(self.seen_nodes.list(&new), self.seen_nodes.list(&old))?;
        nodes.items.extend(others.items);
        Ok(nodes.items)
    }

    async fn node(&self, name: &str) -> kube::Result<Option<WatchedObject<Node>>> {
        self.seen_nodes.get_opt(name).await
    }

    async fn etcd(&self) -> kube::Result<Option<WatchedObject<ClusterOperator>>> {
        self.seen_operators.get_opt(cluster_operator::ETCD).await
    }

    async fn machine(&self, name: &str) -> kube::Result<WatchedObject<Machine>> {
        self.seen_machines.get(name).await
    }

    async fn create(&self, what: &Object, object: Value) -> kube::Result<Written> {
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        let created = self.api(what).0.create(&params, &object).await?;
        Ok(created.into())
    }

    async fn patch(&self, what: &Object, status: bool, patch: Value) -> kube::Result<Written> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let ((api, name), patch) = (self.api(what), Patch::Merge(patch));
        let patched = if status {
            api.patch_status(name, &params, &patch).await?
        } else {
            api.patch(name, &params, &patch).await?
        };
        Ok(patched.into())
    }

    async fn apply(&self, set: Value) -> kube::Result<Written> {
        let params = PatchParams::apply(GENERATOR);
        Ok(self.sets.patch(NAME, &params, &Patch::Apply(set)).await?.into())
    }

    async fn delete(&self, machine: &str, params: &DeleteParams) -> kube::Result<Option<Written>> {
        Ok(self.machines.delete(machine, params).await?.left().map(Written::from))
    }

    fn tell(&self, namespace: &str, events: Vec<Event>) {
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        tokio::spawn(async move {
            for event in events {
                match api.create(&PostParams::default(), &event).await {
                    Ok(_) => {}
                    // Said before, by this process before it was restarted or by another.
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    Err(error) => tracing::debug!(%error, reason = event.reason, "writing an event"),
                }
            }
        });
    }
}
