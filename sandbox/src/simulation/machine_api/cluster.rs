//! The API server as the controllers of the Machine API call it: each method becomes one call of the port.

use std::sync::Arc;

use capstan::controllers::{Cluster, GENERATOR, Object, WatchedObject, Written};
use capstan_core::api::config_openshift_io::cluster_operator::{self, ClusterOperator};
use capstan_core::api::core_v1::node::{CONTROL_PLANE_LABEL, MASTER_LABEL, Node};
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::meta::ObjectMeta as CoreMeta;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ObjectMeta};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::simulation::engine::kinds::{KindId, ObjectKey, Typed};
use crate::simulation::engine::port::{Answer, Call, Port};

use super::kinds::{self, MACHINE, NODE};

/// The labels of control plane nodes; a node has at least one of them.
const CONTROL_PLANE: &[&str] = &[CONTROL_PLANE_LABEL, MASTER_LABEL];

fn unexpected() -> kube::Error {
    kube::Error::Service("the simulation answered another call".into())
}

fn watched<T: Send + Sync + 'static>(typed: &Typed, meta: fn(&T) -> &CoreMeta) -> kube::Result<WatchedObject<T>> {
    let object: Arc<T> = typed.shared().ok_or_else(unexpected)?;
    Ok(WatchedObject {
        meta: ObjectMeta {
            name: meta(&object).name.clone(),
            ..ObjectMeta::default()
        },
        content: Ok(object),
        raw: None,
    })
}

async fn get<T: Send + Sync + 'static>(
    port: &Port,
    key: ObjectKey,
    meta: fn(&T) -> &CoreMeta,
) -> kube::Result<Option<WatchedObject<T>>> {
    match port.call(Call::Get(key)).await? {
        Answer::Object(typed) => typed.map(|typed| watched(&typed, meta)).transpose(),
        _ => Err(unexpected()),
    }
}

async fn list<T: Send + Sync + 'static>(
    port: &Port,
    kind: KindId,
    labels: &'static [&'static str],
    meta: fn(&T) -> &CoreMeta,
) -> kube::Result<Vec<WatchedObject<T>>> {
    match port.call(Call::List(kind, labels)).await? {
        Answer::List(all) => all.iter().map(|typed| watched(typed, meta)).collect(),
        _ => Err(unexpected()),
    }
}

/// The key of an object that a controller writes.
fn key(object: &Object) -> ObjectKey {
    match object {
        Object::Set(_) => kinds::set(),
        Object::Machine(name) => kinds::machine(name),
        Object::ClusterOperator => kinds::operator(cluster_operator::NAME),
    }
}

fn written(answer: Answer) -> kube::Result<Written> {
    let Answer::Written(object) = answer else {
        return Err(unexpected());
    };
    let text = |field: &str| {
        let value = object.get("metadata").and_then(|meta| meta.get(field)?.as_str());
        value.unwrap_or_default().to_owned()
    };
    let status = object.get("status");
    Ok(Written {
        uid: text("uid"),
        version: text("resourceVersion"),
        lists_machines: status.is_some_and(|status| status.get("machines").is_some()),
    })
}

fn not_found(name: &str) -> kube::Error {
    let status = json!({"status": "Failure", "code": 404, "reason": "NotFound",
        "message": format!("machines.machine.openshift.io {name:?} not found")});
    serde_json::from_value(status).map_or_else(kube::Error::SerdeError, kube::Error::Api)
}

impl Cluster for Port {
    fn now(&self) -> Timestamp {
        Port::now(self)
    }

    fn instant(&self) -> Instant {
        Port::instant(self)
    }

    async fn set(&self) -> kube::Result<Option<WatchedObject<ControlPlaneMachineSet>>> {
        get(self, kinds::set(), |set: &ControlPlaneMachineSet| &set.metadata).await
    }

    async fn machines(&self) -> kube::Result<Vec<WatchedObject<Machine>>> {
        list(self, MACHINE, &[], |machine: &Machine| &machine.metadata).await
    }

    async fn control_plane_nodes(&self) -> kube::Result<Vec<WatchedObject<Node>>> {
        list(self, NODE, CONTROL_PLANE, |node: &Node| &node.metadata).await
    }

    async fn node(&self, name: &str) -> kube::Result<Option<WatchedObject<Node>>> {
        get(self, kinds::node(name), |node: &Node| &node.metadata).await
    }

    async fn etcd(&self) -> kube::Result<Option<WatchedObject<ClusterOperator>>> {
        let key = kinds::operator(cluster_operator::ETCD);
        get(self, key, |operator: &ClusterOperator| &operator.metadata).await
    }

    async fn machine(&self, name: &str) -> kube::Result<WatchedObject<Machine>> {
        let found = get(self, kinds::machine(name), |machine: &Machine| &machine.metadata).await?;
        found.ok_or_else(|| not_found(name))
    }

    async fn create(&self, what: &Object, object: Value) -> kube::Result<Written> {
        written(self.call(Call::Create(key(what), object)).await?)
    }

    async fn patch(&self, what: &Object, status: bool, patch: Value) -> kube::Result<Written> {
        let key = key(what);
        written(self.call(Call::Patch { key, status, patch }).await?)
    }

    async fn apply(&self, set: Value) -> kube::Result<Written> {
        let call = Call::Apply {
            key: kinds::set(),
            manager: GENERATOR,
            force: false,
            object: set,
        };
        written(self.call(call).await?)
    }

    async fn delete(&self, machine: &str, params: &DeleteParams) -> kube::Result<Option<Written>> {
        let (uid, resource_version) = params
            .preconditions
            .as_ref()
            .map(|wanted| (wanted.uid.clone(), wanted.resource_version.clone()))
            .unwrap_or_default();
        let call = Call::Delete {
            key: kinds::machine(machine),
            uid,
            resource_version,
        };
        match self.call(call).await? {
            Answer::Gone => Ok(None),
            answer => written(answer).map(Some),
        }
    }

    fn tell(&self, _namespace: &str, events: Vec<Event>) {
        self.publish(events);
    }
}
