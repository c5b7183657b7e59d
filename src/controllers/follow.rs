//! Following one kind, for ever: discovery, list and watch, and what to do when the cluster does not serve it.
//!
//! A kind that is not served stops nobody: its store says so, and its CustomResourceDefinition is watched until it is.

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};

use super::kind::Kind;
use super::object::Cacheable;
use super::store::Store;

/// Between looks when the CustomResourceDefinitions themselves may not be watched.
const LOOK: Duration = Duration::from_secs(30);

/// Keeps `store` as the cluster is. Never returns; drop it to stop.
pub(super) async fn follow<T: Cacheable>(client: Client, kind: Kind, store: Arc<Store<T>>) {
    let mut pauses = Pauses::new();
    loop {
        match served(&client, &kind).await {
            Ok(true) => {
                watch(&client, &kind, &store, &mut pauses).await;
            }
            Ok(false) => {
                tracing::info!(
                    kind = kind.title(),
                    "not served by this cluster; waiting for its definition"
                );
                store.absent();
                until_served(&client, &kind).await;
                tracing::info!(kind = kind.title(), "served now");
            }
            Err(error) => {
                tracing::warn!(kind = kind.title(), %error, "asking whether the cluster serves this kind");
                store.failed(error.to_string());
                pauses.pause().await;
            }
        }
    }
}

/// Lists and watches until the kind is no longer served.
async fn watch<T: Cacheable>(client: &Client, kind: &Kind, store: &Store<T>, pauses: &mut Pauses) {
    let mut events = Box::pin(watcher(kind.api::<T>(client.clone()), kind.selection()));
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                pauses.reset();
                match event {
                    Event::Init => listed.clear(),
                    Event::InitApply(object) => listed.push(object),
                    Event::InitDone => store.replace(std::mem::take(&mut listed)),
                    Event::Apply(object) => store.apply(object),
                    Event::Delete(object) => store.remove(object.name()),
                }
            }
            Err(error) => {
                if is_not_found(&error) {
                    return;
                }
                // A watch that ended is begun again where it ended; that is no news until it goes on.
                tracing::debug!(kind = kind.title(), %error, "watching");
                if let Err(last) = store.synced()
                    && last.as_deref() != Some(&error.to_string())
                {
                    tracing::warn!(kind = kind.title(), %error, "reading for the first time");
                }
                store.failed(error.to_string());
                pauses.pause().await;
            }
        }
    }
}

/// The answer to a list or a watch of a kind that is not served.
fn is_not_found(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)) = error else {
        return false;
    };
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the cluster serves the kind now.
async fn served(client: &Client, kind: &Kind) -> kube::Result<bool> {
    if kind.definition().is_none() {
        return Ok(true);
    }
    match client.list_api_group_resources(&kind.resource.api_version).await {
        Ok(list) => Ok(list
            .resources
            .iter()
            .any(|resource| resource.name == kind.resource.plural)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns when the kind is served.
async fn until_served(client: &Client, kind: &Kind) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = kind.definition().unwrap_or_default();
    let selection = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = Box::pin(watcher(definitions, selection));
    let mut pauses = Pauses::new();
    loop {
        match events.next().await {
            Some(Ok(Event::Apply(definition) | Event::InitApply(definition))) => {
                pauses.reset();
                // It is served a moment after it is established.
                while is_established(&definition) {
                    if served(client, kind).await.unwrap_or(false) {
                        return;
                    }
                    if !pauses.pause().await {
                        break;
                    }
                }
            }
            Some(Ok(_)) => {}
            // Not allowed to watch definitions, or the API server is away: look now and then.
            Some(Err(_)) | None => {
                tokio::time::sleep(LOOK).await;
                if served(client, kind).await.unwrap_or(false) {
                    return;
                }
            }
        }
    }
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Established" && condition.status == "True")
}

/// Pauses that grow up to a limit, and differ between processes so that replicas do not ask in step.
pub(super) struct Pauses(backon::ExponentialBackoff);

impl Pauses {
    const LONGEST: Duration = Duration::from_secs(30);

    pub(super) fn new() -> Self {
        let growing = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(100))
            .with_max_delay(Self::LONGEST)
            .with_max_times(10)
            .with_jitter();
        Self(growing.build())
    }

    pub(super) fn reset(&mut self) {
        *self = Self::new();
    }

    /// The next pause; `None` after the last growing one.
    pub(super) fn next(&mut self) -> Option<Duration> {
        self.0.next()
    }

    /// Waits; `false` when the pauses no longer grow.
    async fn pause(&mut self) -> bool {
        let next = self.next();
        tokio::time::sleep(next.unwrap_or(Self::LONGEST)).await;
        next.is_some()
    }
}
