//! The API server as controllers call it: each method becomes one call of the port.

use std::sync::Arc;

use capstan::runtime::{Cluster, WatchedObject, Written};
use capstan_core::api::core_v1::node::{CONTROL_PLANE_LABEL, MASTER_LABEL};
use capstan_core::api::kind::KindInfo;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::objects::CachedObject;
use capstan_core::model::ObjectRef;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ObjectMeta};
use serde_json::Value;
use tokio::time::Instant;

use crate::simulation::engine::kinds::{KindId, ObjectKey, Typed};
use crate::simulation::engine::port::{Answer, Call, Port};

use super::kinds::IDS;

/// The labels of control plane nodes; a node has at least one of them.
const CONTROL_PLANE: &[&str] = &[CONTROL_PLANE_LABEL, MASTER_LABEL];

fn unexpected() -> kube::Error {
    kube::Error::Service("the simulation answered another call".into())
}

/// A stored object in the type that the caller asked for. A controller reads an existing object of a
/// derived name in a type of its own, which is decoded from the wire type.
fn watched<T: CachedObject>(typed: &Typed) -> kube::Result<WatchedObject<T>> {
    let object: Arc<T> = match typed.shared() {
        Some(object) => object,
        None => {
            let machine = typed.get::<Machine>().ok_or_else(unexpected)?;
            let json = serde_json::to_value(machine).map_err(kube::Error::SerdeError)?;
            Arc::new(serde_json::from_value(json).map_err(kube::Error::SerdeError)?)
        }
    };
    let meta = object.metadata();
    Ok(WatchedObject {
        meta: ObjectMeta {
            name: meta.and_then(|meta| meta.name.clone()),
            namespace: meta.and_then(|meta| meta.namespace.clone()),
            ..ObjectMeta::default()
        },
        content: Ok(object),
    })
}

/// The kind of the environment that has this group and plural.
fn kind_of(kind: &KindInfo) -> kube::Result<KindId> {
    let known = IDS
        .into_iter()
        .find(|id| id.group() == kind.group && id.plural() == kind.plural);
    known.ok_or_else(unexpected)
}

fn key(kind: &KindInfo, namespace: &str, name: &str) -> kube::Result<ObjectKey> {
    let object = kind.object(namespace, name);
    Ok(ObjectKey::new(kind_of(kind)?, &object.namespace, name))
}

fn key_of(kind: &KindInfo, object: &ObjectRef) -> kube::Result<ObjectKey> {
    key(kind, &object.namespace, &object.name)
}

fn written(answer: Answer, status: bool) -> kube::Result<Written> {
    let Answer::Written(object) = answer else {
        return Err(unexpected());
    };
    let text = |field: &str| {
        let value = object.get("metadata").and_then(|meta| meta.get(field)?.as_str());
        value.unwrap_or_default().to_owned()
    };
    let stored = object.get("status").filter(|_| status);
    Ok(Written {
        uid: text("uid"),
        version: text("resourceVersion"),
        status: stored.cloned().unwrap_or_default(),
    })
}

impl Cluster for Port {
    fn now(&self) -> Timestamp {
        Port::now(self)
    }

    fn instant(&self) -> Instant {
        Port::instant(self)
    }

    async fn get<T: CachedObject>(
        &self,
        kind: &KindInfo,
        namespace: &str,
        name: &str,
    ) -> kube::Result<Option<WatchedObject<T>>> {
        match self.call(Call::Get(key(kind, namespace, name)?)).await? {
            Answer::Object(typed) => typed.map(|typed| watched(&typed)).transpose(),
            _ => Err(unexpected()),
        }
    }

    async fn list<T: CachedObject>(
        &self,
        kind: &KindInfo,
        _namespace: &str,
        selectors: &[&str],
    ) -> kube::Result<Vec<WatchedObject<T>>> {
        let labels = if selectors.is_empty() { &[] } else { CONTROL_PLANE };
        match self.call(Call::List(kind_of(kind)?, labels)).await? {
            Answer::List(all) => all.iter().map(watched).collect(),
            _ => Err(unexpected()),
        }
    }

    async fn create(&self, kind: &KindInfo, object: &ObjectRef, body: Value) -> kube::Result<Written> {
        written(self.call(Call::Create(key_of(kind, object)?, body)).await?, false)
    }

    async fn patch(&self, kind: &KindInfo, object: &ObjectRef, status: bool, patch: Value) -> kube::Result<Written> {
        let key = key_of(kind, object)?;
        written(self.call(Call::Patch { key, status, patch }).await?, status)
    }

    async fn apply(&self, kind: &KindInfo, object: &ObjectRef, manager: &str, body: Value) -> kube::Result<Written> {
        let call = Call::Apply {
            key: key_of(kind, object)?,
            manager: manager.to_owned(),
            force: false,
            object: body,
        };
        written(self.call(call).await?, false)
    }

    async fn delete(
        &self,
        kind: &KindInfo,
        object: &ObjectRef,
        params: &DeleteParams,
    ) -> kube::Result<Option<Written>> {
        let (uid, resource_version) = params
            .preconditions
            .as_ref()
            .map(|wanted| (wanted.uid.clone(), wanted.resource_version.clone()))
            .unwrap_or_default();
        let call = Call::Delete {
            key: key_of(kind, object)?,
            uid,
            resource_version,
        };
        match self.call(call).await? {
            Answer::Gone => Ok(None),
            answer => written(answer, false).map(Some),
        }
    }

    fn publish(&self, _namespace: &str, events: Vec<Event>) {
        Port::publish(self, events);
    }
}
