//! Reads the objects that the verdict on a creation depends on from the API server.
//!
//! It decides nothing. A read that fails is reported as unknown, never as an absent object.

use std::sync::Arc;
use std::time::Duration;

use capstan_core::authority::live::{LiveObject, LiveRead, LiveResult};
use capstan_core::authority::spec::PairMember;
use futures::future::join_all;
use kube::api::DynamicObject;
use tokio::sync::Semaphore;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use crate::runtime::api;

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
}

impl LiveReader {
    /// A reader with this client.
    pub fn new(client: &kube::Client) -> Self {
        Self {
            client: client.clone(),
            permits: Arc::new(Semaphore::new(MOST)),
        }
    }

    /// Reads objects. Each result is there after two seconds at the latest.
    pub async fn read(self, reads: Vec<LiveRead>) -> Vec<LiveObject> {
        join_all(reads.into_iter().map(|read| self.read_one(read))).await
    }

    async fn read_one(&self, read: LiveRead) -> LiveObject {
        let reading = async {
            let _permit = self.permits.acquire().await;
            let objects: kube::Api<DynamicObject> = api(&self.client, read.kind_info(), Some(&read.namespace));
            objects.get_opt(&read.name).await
        };
        let result = result(&read, timeout(LONGEST, reading).await);
        LiveObject { read, result }
    }
}

fn result(read: &LiveRead, found: Result<kube::Result<Option<DynamicObject>>, Elapsed>) -> LiveResult {
    match found {
        Ok(Ok(Some(object))) => serde_json::to_value(&object).map_or(LiveResult::Unknown, |object| {
            LiveResult::Found(Arc::new(PairMember::keep(&object)))
        }),
        Ok(Ok(None)) => LiveResult::Absent,
        Ok(Err(error)) => {
            tracing::warn!(kind = %read.kind_info().plural, name = read.name, %error, "a live read failed");
            LiveResult::Unknown
        }
        Err(_elapsed) => {
            tracing::warn!(kind = %read.kind_info().plural, name = read.name, "a live read took too long");
            LiveResult::Unknown
        }
    }
}
