//! A cluster for tests of reads: the test answers the reads, and every write fails.

use capstan_core::api::kind::KindInfo;
use capstan_core::api::objects::CachedObject;
use capstan_core::model::ObjectRef;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::DeleteParams;
use serde_json::Value;
use tokio::time::Instant;

use super::cluster::{Cluster, Written};
use super::object::WatchedObject;

/// How a test answers reads.
pub(crate) trait Reads: Clone + Send + Sync + 'static {
    /// As [`Cluster::get`].
    fn get<T: CachedObject>(
        &self,
        kind: &KindInfo,
        namespace: &str,
        name: &str,
    ) -> kube::Result<Option<WatchedObject<T>>>;

    /// As [`Cluster::list`].
    fn list<T: CachedObject>(&self, _kind: &KindInfo, _selectors: &[&str]) -> kube::Result<Vec<WatchedObject<T>>> {
        unexpected()
    }

    /// As [`Cluster::discover`].
    fn discover(&self, _group: &str, _kind: &str) -> kube::Result<Option<KindInfo>> {
        unexpected()
    }
}

/// A cluster that only reads.
#[derive(Clone, Default)]
pub(crate) struct ReadOnly<R>(pub(crate) R);

fn unexpected<T>() -> kube::Result<T> {
    Err(kube::Error::Service("the test does not send this request".into()))
}

impl<R: Reads> Cluster for ReadOnly<R> {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }

    async fn get<T: CachedObject>(
        &self,
        kind: &KindInfo,
        namespace: &str,
        name: &str,
    ) -> kube::Result<Option<WatchedObject<T>>> {
        self.0.get(kind, namespace, name)
    }

    async fn list<T: CachedObject>(
        &self,
        kind: &KindInfo,
        _: &str,
        selectors: &[&str],
    ) -> kube::Result<Vec<WatchedObject<T>>> {
        self.0.list(kind, selectors)
    }

    async fn discover(&self, group: &str, kind: &str) -> kube::Result<Option<KindInfo>> {
        self.0.discover(group, kind)
    }

    async fn create(&self, _: &KindInfo, _: &ObjectRef, _: Value) -> kube::Result<Written> {
        unexpected()
    }

    async fn patch(&self, _: &KindInfo, _: &ObjectRef, _: bool, _: Value) -> kube::Result<Written> {
        unexpected()
    }

    async fn apply(&self, _: &KindInfo, _: &ObjectRef, _: &str, _: Value) -> kube::Result<Written> {
        unexpected()
    }

    async fn delete(&self, _: &KindInfo, _: &ObjectRef, _: &DeleteParams) -> kube::Result<Option<Written>> {
        unexpected()
    }

    fn publish(&self, _: &str, _: Vec<Event>) {}
}
