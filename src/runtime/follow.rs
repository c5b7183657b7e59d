//! Follows one kind for ever: discovery, list and watch, and what to do when the cluster does not
//! serve the kind.
//!
//! A kind that is not served holds up no other kind: its store records it, and its
//! CustomResourceDefinition is watched until the kind is served.

use std::time::Duration;

use capstan_core::api::objects::CachedObject;
use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};

use super::backoff::Backoff;
use super::client;
use super::object::WatchedObject;
use super::selection::Selection;
use super::store::Store;

/// Between checks while Capstan may not watch CustomResourceDefinitions.
const CHECK: Duration = Duration::from_secs(30);

/// Keeps a stream of `store` as the cluster is. Never returns; drop the future to stop.
pub(super) async fn follow<T: CachedObject>(client: Client, selection: &Selection, stream: usize, store: &Store<T>) {
    let title = selection.title(stream);
    let mut backoff = Backoff::default();
    loop {
        match served(&client, selection).await {
            Ok(true) => {
                watch(&client, selection, stream, store, &mut backoff).await;
            }
            Ok(false) => {
                tracing::info!(
                    kind = title,
                    "the cluster does not serve this kind; waiting for its CustomResourceDefinition"
                );
                store.absent(stream);
                until_served(&client, selection).await;
                tracing::info!(kind = title, "the cluster serves this kind now");
            }
            Err(error) => {
                tracing::warn!(kind = title, %error, "discovery of this kind failed");
                store.failed(stream, error.to_string());
                backoff.wait().await;
            }
        }
    }
}

/// Lists and watches until the kind is no longer served.
async fn watch<T: CachedObject>(
    client: &Client,
    selection: &Selection,
    stream: usize,
    store: &Store<T>,
    backoff: &mut Backoff,
) {
    let title = selection.title(stream);
    let name = selection.names.get(stream).map(AsRef::as_ref);
    let api: Api<WatchedObject<T>> = client::api(client, &selection.kind, selection.namespace.as_deref());
    let mut events = Box::pin(watcher(api, selection.config(stream)));
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                backoff.reset();
                match event {
                    Event::Init => listed.clear(),
                    Event::InitApply(object) => listed.push(object),
                    Event::InitDone => store.replace(stream, name, std::mem::take(&mut listed)),
                    Event::Apply(object) => store.apply(object),
                    Event::Delete(object) => store.remove(&object.key()),
                }
            }
            Err(error) => {
                if is_not_found(&error) {
                    return;
                }
                // The watcher resumes a watch that ended.
                tracing::debug!(kind = title, %error, "the watch ended");
                if let Some(Err(last)) = store.synced().get(stream)
                    && last.as_deref() != Some(&error.to_string())
                {
                    tracing::warn!(kind = title, %error, "the first read failed");
                }
                store.failed(stream, error.to_string());
                backoff.wait().await;
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
async fn served(client: &Client, selection: &Selection) -> kube::Result<bool> {
    let kind = &selection.kind;
    if kind.definition().is_none() {
        return Ok(true);
    }
    match client.list_api_group_resources(&kind.api_version()).await {
        Ok(list) => Ok(list.resources.iter().any(|resource| resource.name == kind.plural)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns when the kind is served.
async fn until_served(client: &Client, selection: &Selection) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = selection.kind.definition().unwrap_or_default();
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = Box::pin(watcher(definitions, config));
    let mut backoff = Backoff::default();
    loop {
        match events.next().await {
            Some(Ok(Event::Apply(definition) | Event::InitApply(definition))) => {
                backoff.reset();
                // The kind is served a moment after its definition is established.
                while is_established(&definition) {
                    if served(client, selection).await.unwrap_or(false) {
                        return;
                    }
                    if !backoff.wait().await {
                        break;
                    }
                }
            }
            Some(Ok(_)) => {}
            // Watching definitions is forbidden, or the API server is unreachable.
            Some(Err(_)) | None => {
                tokio::time::sleep(CHECK).await;
                if served(client, selection).await.unwrap_or(false) {
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
