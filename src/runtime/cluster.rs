//! What controllers ask of an API server: reads, writes, events and the time.
//!
//! [`Client`](super::Client) asks a real API server. The simulation answers the same calls step by
//! step, so that it runs the production controllers and not a copy of them.

use std::future::Future;

use capstan_core::api::kind::KindInfo;
use capstan_core::api::objects::CachedObject;
use capstan_core::model::ObjectRef;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::DeleteParams;
use serde_json::Value;
use tokio::time::Instant;

use super::object::WatchedObject;

/// The field manager of Capstan's writes in `managedFields`.
pub const FIELD_MANAGER: &str = "capstan";

/// How a write left an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// The uid of the object.
    pub uid: String,
    /// The resource version that the write produced.
    pub version: String,
    /// The status as it is stored: a CRD that does not know a field drops it. Null without a
    /// status.
    pub status: Value,
    /// The metadata as it is stored. Null if it is not known.
    pub metadata: Value,
    /// The spec as it is stored. Null if it is not known.
    pub spec: Value,
}

/// The cluster around a controller. Every read is live, and no cache answers it.
pub trait Cluster: Clone + Send + Sync + 'static {
    /// The time of the wall clock, as objects carry it.
    fn now(&self) -> Timestamp;

    /// The time of a clock that never goes back.
    fn instant(&self) -> Instant;

    /// An object; `None` if no object has this name.
    fn get<T: CachedObject>(
        &self,
        kind: &KindInfo,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = kube::Result<Option<WatchedObject<T>>>> + Send;

    /// The objects in a namespace that fit at least one of the label selectors, or all objects
    /// without a selector. The namespace of a cluster-scoped kind is empty.
    fn list<T: CachedObject>(
        &self,
        kind: &KindInfo,
        namespace: &str,
        selectors: &[&str],
    ) -> impl Future<Output = kube::Result<Vec<WatchedObject<T>>>> + Send;

    /// A served version of a kind that is known only at run time, the preferred one of its group if
    /// that has the kind; `None` if it is not served.
    fn discover(&self, _group: &str, _kind: &str) -> impl Future<Output = kube::Result<Option<KindInfo>>> + Send {
        async { Ok(None) }
    }

    /// Creates an object.
    fn create(
        &self,
        kind: &KindInfo,
        object: &ObjectRef,
        body: Value,
    ) -> impl Future<Output = kube::Result<Written>> + Send;

    /// Tries the creation of an object without storing it. Returns the object that would be stored;
    /// `None` if the cluster cannot tell.
    fn dry_run(
        &self,
        _kind: &KindInfo,
        _object: &ObjectRef,
        _body: Value,
    ) -> impl Future<Output = kube::Result<Option<Value>>> + Send {
        async { Ok(None) }
    }

    /// Sends a JSON merge patch for an object, or for its status subresource.
    fn patch(
        &self,
        kind: &KindInfo,
        object: &ObjectRef,
        status: bool,
        patch: Value,
    ) -> impl Future<Output = kube::Result<Written>> + Send;

    /// Applies an object on the server's side, without force.
    fn apply(
        &self,
        kind: &KindInfo,
        object: &ObjectRef,
        manager: &str,
        body: Value,
    ) -> impl Future<Output = kube::Result<Written>> + Send;

    /// Asks for the deletion of an object; `None` once it is gone.
    fn delete(
        &self,
        kind: &KindInfo,
        object: &ObjectRef,
        params: &DeleteParams,
    ) -> impl Future<Output = kube::Result<Option<Written>>> + Send;

    /// Publishes events. The call does not wait, and a failure is only logged.
    fn publish(&self, namespace: &str, events: Vec<Event>);
}
