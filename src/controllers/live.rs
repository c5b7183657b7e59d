//! Reads the objects that the verdict on an edit depends on from the API server: the other object
//! of a pair, and the object that a Scale is about.
//!
//! It decides nothing. A read that fails is reported as unknown, never as an absent object. So is
//! an object that an earlier review of this process is about to allow. A read of a kind that the
//! API server serves in another version only is read in that version. A read of a kind that the API
//! server does not serve at all has no result: the caches know whether the kind is served.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use capstan_core::admission::{LiveObjects, LiveReads, ScaledRead};
use capstan_core::api::kind::KindInfo;
use capstan_core::authority::live::{LiveObject, LiveRead, LiveResult};
use capstan_core::authority::spec::PairMember;
use futures::future::{OptionFuture, join_all};
use kube::api::DynamicObject;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};

use super::recent_creations::RecentCreations;
use crate::runtime::{api, in_other_version};

/// The longest wait for the API server. It is shorter than the deadline of a review, so the user
/// gets a refusal that names the object.
const LONGEST: Duration = Duration::from_secs(2);

/// The most reads at the same time. Callers of the webhook are not authenticated, so they must not
/// direct more load than this at the API server.
const MOST: usize = 16;

/// Reads objects with a client, a limited number at the same time.
#[derive(Clone)]
pub struct LiveReader {
    client: kube::Client,
    permits: Arc<Semaphore>,
    recent: Arc<Mutex<RecentCreations>>,
}

impl LiveReader {
    /// A reader with this client.
    pub fn new(client: &kube::Client) -> Self {
        Self {
            client: client.clone(),
            permits: Arc::new(Semaphore::new(MOST)),
            recent: Arc::default(),
        }
    }

    /// Reads objects. Each result is there after two seconds at the latest. An object of a kind
    /// that is not served has no result.
    pub async fn read(self, reads: LiveReads) -> LiveObjects {
        let pairs = join_all(reads.pairs.into_iter().map(|read| self.read_one(read)));
        let scaled = OptionFuture::from(reads.scaled.as_ref().map(|read| self.read_scaled(read)));
        let (pairs, scaled) = tokio::join!(pairs, scaled);
        LiveObjects {
            pairs: pairs.into_iter().flatten().collect(),
            scaled: scaled.flatten().map(Arc::new),
        }
    }

    /// The object that a Scale is about; `None` if it is unknown.
    async fn read_scaled(&self, read: &ScaledRead) -> Option<Value> {
        let found = self.get(&read.kind, &read.namespace, &read.name).await.ok()?;
        serde_json::to_value(found?).ok()
    }

    async fn read_one(&self, read: LiveRead) -> Option<LiveObject> {
        // The creation is registered before the read, so of two creations at the same time at least
        // the later one finds the other one here or in the cluster.
        let order = self.recent(|recent| recent.register(&read, Instant::now()));
        let found = self.get(read.kind_info(), &read.namespace, &read.name).await;
        let mut result = result(found)?;
        if result == LiveResult::Absent && self.recent(|recent| recent.may_exist(&read, order, Instant::now())) {
            result = LiveResult::Unknown;
        }
        Some(LiveObject { read, result })
    }

    /// The object, after two seconds at the latest.
    async fn get(&self, kind: &KindInfo, namespace: &str, name: &str) -> Result<Option<DynamicObject>, Unread> {
        let reading = async {
            let _permit = self.permits.acquire().await;
            self.get_in_any_version(kind, namespace, name).await
        };
        found(kind, name, timeout(LONGEST, reading).await)
    }

    /// The object, in the version that Capstan reads or else in another version that is served. A
    /// cluster with an older Cluster API still shows whether the object exists.
    async fn get_in_any_version(
        &self,
        kind: &KindInfo,
        namespace: &str,
        name: &str,
    ) -> kube::Result<Option<DynamicObject>> {
        let get = async |kind: &KindInfo| {
            let objects: kube::Api<DynamicObject> = api(&self.client, kind, Some(namespace));
            objects.get_opt(name).await
        };
        match get(kind).await {
            Err(error) if is_not_served(&error) => match in_other_version(&self.client, kind).await? {
                Some(other) => get(&other).await,
                None => Err(error),
            },
            result => result,
        }
    }

    fn recent<T>(&self, with: impl FnOnce(&mut RecentCreations) -> T) -> T {
        // Each change is one map operation, so a panic leaves the register whole.
        with(&mut self.recent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether the API server does not serve the path of a kind. An absent object is no error.
fn is_not_served(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Why a read has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unread {
    /// The API server does not serve the kind.
    NotServed,
    /// The read failed, or took too long.
    Failed,
}

/// The answer to a read. A failure is logged.
fn found(
    kind: &KindInfo,
    name: &str,
    answer: Result<kube::Result<Option<DynamicObject>>, Elapsed>,
) -> Result<Option<DynamicObject>, Unread> {
    match answer {
        Ok(Ok(object)) => Ok(object),
        Ok(Err(error)) if is_not_served(&error) => Err(Unread::NotServed),
        Ok(Err(error)) => {
            tracing::warn!(kind = %kind.plural, name, %error, "a live read failed");
            Err(Unread::Failed)
        }
        Err(_elapsed) => {
            tracing::warn!(kind = %kind.plural, name, "a live read took too long");
            Err(Unread::Failed)
        }
    }
}

/// The result of a read of an object of a pair; `None` if the API server does not serve the kind.
fn result(found: Result<Option<DynamicObject>, Unread>) -> Option<LiveResult> {
    Some(match found {
        Ok(Some(object)) => serde_json::to_value(&object).map_or(LiveResult::Unknown, |object| {
            LiveResult::Found(Arc::new(PairMember::keep(&object)))
        }),
        Ok(None) => LiveResult::Absent,
        Err(Unread::NotServed) => return None,
        Err(Unread::Failed) => LiveResult::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use capstan_core::api::kinds::CLUSTER_API_MACHINES;
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_kind_that_is_not_served_has_no_result_and_a_failed_read_is_unknown() {
        let answered = |answer| result(found(&CLUSTER_API_MACHINES, "a", answer));
        let failed = |reason: &str, code: u16| {
            let status = Status::failure("message", reason).with_code(code);
            answered(Ok(Err(kube::Error::Api(Box::new(status)))))
        };
        assert_eq!(failed("Failed to parse error data", 404), None);
        assert_eq!(failed("Forbidden", 403), Some(LiveResult::Unknown));
        assert_eq!(answered(Ok(Ok(None))), Some(LiveResult::Absent));
    }
}
