//! Follows one kind for ever: discovery, list and watch, and what to do when the cluster does not
//! serve the kind, or serves it in another version only.
//!
//! A kind that is not served holds up no other kind: its store records it, and its
//! CustomResourceDefinition is watched until the kind is served. The objects of a kind that is
//! served in another version only are unknown. They must never count as absent.

use std::time::Duration;

use capstan_core::api::kind::KindInfo;
use capstan_core::api::objects::CachedObject;
use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::time::timeout;

use super::backoff::Backoff;
use super::client;
use super::history::Restores;
use super::object::WatchedObject;
use super::selection::Selection;
use super::store::Store;

/// The longest time of discovery, and of one page of a list. A request without an answer would
/// otherwise hold up the kind without end, and without a log line.
const ANSWER: Duration = Duration::from_secs(30);

/// Between checks while Capstan may not watch CustomResourceDefinitions.
const CHECK: Duration = Duration::from_secs(30);

/// Keeps a stream of `store` as the cluster is. Never returns; drop the future to stop.
pub(super) async fn follow<T: CachedObject>(
    client: Client,
    selection: &Selection,
    stream: usize,
    store: &Store<T>,
    mut restores: Restores,
) {
    let title = selection.title(stream);
    let mut backoff = Backoff::default();
    loop {
        match served(&client, &selection.kind).await {
            Ok(Served::Yes) => {
                // What the watch reads is newer than any restore that was noticed.
                restores.mark_unchanged();
                let watching = watch(&client, selection, stream, store, &mut backoff);
                tokio::select! {
                    () = watching => {}
                    Ok(()) = restores.changed() => store.outdated(stream),
                }
            }
            Ok(Served::OtherVersion(version)) => {
                tracing::warn!(
                    kind = title,
                    served = version,
                    needed = %selection.kind.version,
                    "the cluster serves this kind in another version only; its objects are unknown"
                );
                store.other_version(stream);
                let served = Served::OtherVersion(version);
                until_changed_or_restored(&client, selection, &served, &mut restores).await;
            }
            Ok(Served::No) => {
                tracing::info!(
                    kind = title,
                    "the cluster does not serve this kind; waiting for its CustomResourceDefinition"
                );
                store.absent(stream);
                until_changed_or_restored(&client, selection, &Served::No, &mut restores).await;
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
    let (mut listed, mut is_listing) = (Vec::new(), true);
    loop {
        // A watch is silent while nothing changes. A list is not.
        let event = if is_listing {
            let Ok(event) = timeout(ANSWER, events.next()).await else {
                let error = late();
                tracing::warn!(kind = title, %error, "the list is read again");
                store.failed(stream, error.to_string());
                backoff.wait().await;
                return;
            };
            event
        } else {
            events.next().await
        };
        let Some(event) = event else { return };
        match event {
            Ok(event) => {
                // The watcher also announces a list that then fails.
                is_listing = matches!(event, Event::Init | Event::InitApply(_));
                if !is_listing {
                    backoff.reset();
                }
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

/// Whether the cluster serves a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Served {
    /// In the version that Capstan reads.
    Yes,
    /// In other versions only. This is one of them.
    OtherVersion(String),
    /// In no version.
    No,
}

impl Served {
    /// From the plurals that each version of the group serves.
    fn of(versions: &[(String, Vec<String>)], api_version: &str, plural: &str) -> Self {
        let serving = versions
            .iter()
            .filter(|(_, plurals)| plurals.iter().any(|name| name == plural));
        let mut other = None;
        for (version, _) in serving {
            if version == api_version {
                return Self::Yes;
            }
            other.get_or_insert(version);
        }
        other.map_or(Self::No, |version| Self::OtherVersion(version.clone()))
    }
}

/// The error of a request that was not answered.
fn late() -> kube::Error {
    kube::Error::Service(format!("the API server did not answer within {ANSWER:?}").into())
}

/// Whether the cluster serves the kind now, and in which version.
async fn served(client: &Client, kind: &KindInfo) -> kube::Result<Served> {
    timeout(ANSWER, discover(client, kind))
        .await
        .unwrap_or_else(|_| Err(late()))
}

async fn discover(client: &Client, kind: &KindInfo) -> kube::Result<Served> {
    if kind.definition().is_none() {
        return Ok(Served::Yes);
    }
    let wanted = kind.api_version();
    let mut versions = vec![(wanted.clone(), plurals(client, &wanted).await?)];
    if Served::of(&versions, &wanted, &kind.plural) == Served::Yes {
        return Ok(Served::Yes);
    }
    let groups = client.list_api_groups().await?.groups;
    let group = groups.into_iter().find(|group| group.name == kind.group);
    for version in group.into_iter().flat_map(|group| group.versions) {
        let plurals = plurals(client, &version.group_version).await?;
        versions.push((version.group_version, plurals));
    }
    Ok(Served::of(&versions, &wanted, &kind.plural))
}

/// The kind in another version that the cluster serves, if the cluster does not serve the version
/// that Capstan reads. `None` if it serves that version, or none.
pub(crate) async fn in_other_version(client: &Client, kind: &KindInfo) -> kube::Result<Option<KindInfo>> {
    Ok(match served(client, kind).await? {
        Served::OtherVersion(api_version) => {
            let version = api_version.rsplit('/').next().unwrap_or_default().to_owned();
            Some(KindInfo {
                version: version.into(),
                ..kind.clone()
            })
        }
        Served::Yes | Served::No => None,
    })
}

/// The plurals of the kinds that a version of a group serves.
async fn plurals(client: &Client, api_version: &str) -> kube::Result<Vec<String>> {
    match client.list_api_group_resources(api_version).await {
        Ok(list) => Ok(list.resources.into_iter().map(|resource| resource.name).collect()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Whether the cluster no longer serves the kind as `before`.
async fn has_changed(client: &Client, selection: &Selection, before: &Served) -> bool {
    let changed = served(client, &selection.kind).await.is_ok_and(|now| now != *before);
    if changed {
        tracing::info!(kind = %selection.kind.plural, "the versions that the cluster serves have changed");
    }
    changed
}

/// Returns when the cluster no longer serves the kind as `before`, or was restored.
async fn until_changed_or_restored(client: &Client, selection: &Selection, before: &Served, restores: &mut Restores) {
    restores.mark_unchanged();
    tokio::select! {
        () = until_changed(client, selection, before) => {}
        Ok(()) = restores.changed() => {}
    }
}

/// Returns when the cluster no longer serves the kind as `before`.
async fn until_changed(client: &Client, selection: &Selection, before: &Served) {
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
                    if has_changed(client, selection, before).await {
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
                if has_changed(client, selection, before).await {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio::time::Instant;

    use super::*;
    use crate::runtime::store::Notify;

    const THINGS: KindInfo = KindInfo::namespaced("example.org", "v1", "Thing", "things");

    #[derive(Clone, Debug, PartialEq, serde::Deserialize)]
    struct Thing {}

    impl CachedObject for Thing {
        fn metadata(&self) -> Option<&capstan_core::api::meta::ObjectMeta> {
            None
        }
    }

    fn failure(code: u16) -> Value {
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "no"})
    }

    /// An API server that refuses lists until they are `allowed`. It answers the first watch with
    /// an error.
    #[derive(Default)]
    struct ApiServer {
        allowed: AtomicBool,
        /// Whether requests are not answered: discovery, and lists.
        hangs: [AtomicBool; 2],
        lists: Mutex<Vec<Instant>>,
        watches: AtomicU64,
    }

    impl ApiServer {
        async fn answer(&self, uri: &http::Uri) -> (u16, Value) {
            let query = uri.query().unwrap_or_default();
            let [discovery, list] = &self.hangs;
            if !uri.path().ends_with("/things") {
                if discovery.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
                let things = json!({"name": "things", "namespaced": true, "kind": "Thing", "verbs": []});
                let list = json!({"kind": "APIResourceList", "groupVersion": "example.org/v1", "resources": [things]});
                return (200, list);
            }
            if query.contains("watch=true") {
                if self.watches.fetch_add(1, Ordering::Relaxed) > 0 {
                    std::future::pending::<()>().await;
                }
                return (200, json!({"type": "ERROR", "object": failure(410)}));
            }
            self.lists.lock().unwrap().push(Instant::now());
            if list.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            if !self.allowed.load(Ordering::Relaxed) {
                return (403, failure(403));
            }
            let list = json!({"kind": "ThingList", "apiVersion": "example.org/v1", "items": [],
                "metadata": {"resourceVersion": "1"}});
            (200, list)
        }

        fn client(self: &Arc<Self>) -> Client {
            let server = Arc::clone(self);
            let service = tower::service_fn(move |request: http::Request<Body>| {
                let server = Arc::clone(&server);
                async move {
                    let (code, body) = server.answer(request.uri()).await;
                    let body = Body::from(serde_json::to_vec(&body).unwrap());
                    let response = http::Response::builder().status(code).body(body).unwrap();
                    Ok::<_, std::convert::Infallible>(response)
                }
            });
            Client::new(service, "default")
        }

        fn lists(&self) -> Vec<Instant> {
            self.lists.lock().unwrap().clone()
        }

        /// Follows the things of this server.
        fn follow(self: &Arc<Self>) -> (Arc<Store<Thing>>, tokio::task::JoinHandle<()>) {
            let store = Arc::new(Store::<Thing>::new(THINGS, 1, Notify::default()));
            let (client, followed) = (self.client(), Arc::clone(&store));
            let selection = Selection {
                kind: THINGS,
                namespace: None,
                names: Vec::new(),
                labels: None,
            };
            let following = tokio::spawn(async move {
                let (_restored, restores) = tokio::sync::watch::channel(0);
                follow(client, &selection, 0, &followed, restores).await;
            });
            (store, following)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn v284_a_request_without_an_answer_is_repeated() {
        for hanging in 0..2 {
            let server = Arc::new(ApiServer::default());
            server.allowed.store(true, Ordering::Relaxed);
            server.hangs[hanging].store(true, Ordering::Relaxed);
            let (store, following) = server.follow();
            tokio::time::sleep(Duration::from_mins(5)).await;
            let [Err(Some(reason))] = &store.synced()[..] else {
                panic!("{:?}", store.synced());
            };
            assert!(reason.contains("did not answer within 30s"), "{reason}");
            server.hangs[hanging].store(false, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_mins(2)).await;
            assert_eq!(store.synced(), [Ok(())]);
            following.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn w111_a_list_without_permission_is_repeated_with_growing_delays() {
        let server = Arc::new(ApiServer::default());
        let (store, following) = server.follow();

        tokio::time::sleep(Duration::from_mins(10)).await;
        let refused = server.lists().len();
        assert!((10..=40).contains(&refused), "{refused} lists in ten minutes");

        server.allowed.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(store.synced(), [Ok(())]);
        // The watch that then ended is repeated at once.
        let [first, second] = server.lists()[refused..] else {
            panic!("two lists follow: {:?}", server.lists());
        };
        assert!(second - first < Duration::from_secs(1));
        following.abort();
    }

    #[test]
    fn f11_a_kind_that_is_served_in_another_version_only_is_not_absent() {
        let wanted = "cluster.x-k8s.io/v1beta2";
        let versions = |list: &[(&str, &[&str])]| -> Vec<(String, Vec<String>)> {
            let plurals = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            list.iter()
                .map(|(version, names)| ((*version).to_owned(), plurals(names)))
                .collect()
        };
        let older = ("cluster.x-k8s.io/v1beta1", &["machines"][..]);
        for (list, expected) in [
            (&[(wanted, &["machines"][..])][..], Served::Yes),
            (&[older, (wanted, &["machines"][..])][..], Served::Yes),
            (
                &[(wanted, &[][..]), older][..],
                Served::OtherVersion(older.0.to_owned()),
            ),
            (&[(wanted, &["machinesets"][..])][..], Served::No),
            (&[][..], Served::No),
        ] {
            assert_eq!(Served::of(&versions(list), wanted, "machines"), expected);
        }
    }
}
