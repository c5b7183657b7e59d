//! The API server as controllers call it: each method of the runtime's port becomes one call.

use capstan::runtime::{Cluster, WatchedObject, Written};
use capstan_core::api::kind::KindInfo;
use capstan_core::api::meta::ObjectMeta as CoreMeta;
use capstan_core::api::objects::CachedObject;
use capstan_core::model::ObjectRef;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ObjectMeta};
use serde_json::Value;
use tokio::time::Instant;

use super::kinds::{ObjectKey, Version};
use super::port::{Answer, Call, Port};

fn unexpected() -> kube::Error {
    kube::Error::Service("the simulation answered another call".into())
}

/// An object in the type that the caller asked for. If it is cached in another type, it is decoded
/// from what is stored.
fn watched<T: CachedObject>(version: &Version) -> kube::Result<WatchedObject<T>> {
    let Some(object) = version.typed.shared::<T>() else {
        return Ok(WatchedObject::of(version.stored.to_value()));
    };
    let meta = object.metadata();
    let text = |field: fn(&CoreMeta) -> &Option<String>| meta.and_then(|meta| field(meta).clone());
    Ok(WatchedObject {
        meta: ObjectMeta {
            name: text(|meta| &meta.name),
            namespace: text(|meta| &meta.namespace),
            uid: text(|meta| &meta.uid),
            resource_version: text(|meta| &meta.resource_version),
            ..ObjectMeta::default()
        },
        content: Ok(object),
    })
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
        metadata: object.get("metadata").cloned().unwrap_or_default(),
        spec: object.get("spec").cloned().unwrap_or_default(),
    })
}

impl Port {
    fn key(&self, kind: &KindInfo, namespace: &str, name: &str) -> kube::Result<ObjectKey> {
        Ok(self.kind(kind)?.key(namespace, name))
    }

    fn key_of(&self, kind: &KindInfo, object: &ObjectRef) -> kube::Result<ObjectKey> {
        self.key(kind, &object.namespace, &object.name)
    }
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
        // The client of a real cluster sends no such request.
        if name.is_empty() {
            return Err(kube::Error::Service("a name is required".into()));
        }
        match self.call(Call::Get(self.key(kind, namespace, name)?)).await? {
            Answer::Object(found) => found.map(|found| watched(&found)).transpose(),
            _ => Err(unexpected()),
        }
    }

    async fn list<T: CachedObject>(
        &self,
        kind: &KindInfo,
        namespace: &str,
        selectors: &[&str],
    ) -> kube::Result<Vec<WatchedObject<T>>> {
        let selectors = selectors.iter().map(|selector| (*selector).to_owned()).collect();
        let call = Call::List {
            all: self.key(kind, namespace, "")?,
            selectors,
        };
        match self.call(call).await? {
            Answer::List(all) => all.iter().map(watched).collect(),
            _ => Err(unexpected()),
        }
    }

    async fn discover(&self, group: &str, kind: &str) -> kube::Result<Option<KindInfo>> {
        Ok(self.named(group, kind))
    }

    async fn create(&self, kind: &KindInfo, object: &ObjectRef, body: Value) -> kube::Result<Written> {
        written(self.call(Call::Create(self.key_of(kind, object)?, body)).await?, false)
    }

    async fn dry_run(&self, kind: &KindInfo, object: &ObjectRef, body: Value) -> kube::Result<Option<Value>> {
        match self.call(Call::DryRun(self.key_of(kind, object)?, body)).await? {
            Answer::Written(object) => Ok(Some(object.to_value())),
            _ => Err(unexpected()),
        }
    }

    async fn patch(&self, kind: &KindInfo, object: &ObjectRef, status: bool, patch: Value) -> kube::Result<Written> {
        let key = self.key_of(kind, object)?;
        written(self.call(Call::Patch { key, status, patch }).await?, status)
    }

    async fn apply(&self, kind: &KindInfo, object: &ObjectRef, manager: &str, body: Value) -> kube::Result<Written> {
        let call = Call::Apply {
            key: self.key_of(kind, object)?,
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
        let preconditions = params.preconditions.as_ref();
        let call = Call::Delete {
            key: self.key_of(kind, object)?,
            uid: preconditions.and_then(|wanted| wanted.uid.clone()),
            resource_version: preconditions.and_then(|wanted| wanted.resource_version.clone()),
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
