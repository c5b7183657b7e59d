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
            Ok(Served::Yes) => {
                watch(&client, &kind, &store, &mut pauses).await;
            }
            Ok(Served::OtherVersion(version)) => {
                tracing::warn!(
                    kind = kind.title(),
                    served = version,
                    needed = kind.resource.version,
                    "served in another version only; its objects are not known"
                );
                store.other_version();
                until_changed(&client, &kind, &Served::OtherVersion(version)).await;
            }
            Ok(Served::No) => {
                tracing::info!(
                    kind = kind.title(),
                    "not served by this cluster; waiting for its definition"
                );
                store.absent();
                until_changed(&client, &kind, &Served::No).await;
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

/// Whether the cluster serves a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Served {
    /// In the version that Capstan reads.
    Yes,
    /// In other versions only, of which this is one.
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

/// Whether the cluster serves the kind now, and in which version.
async fn served(client: &Client, kind: &Kind) -> kube::Result<Served> {
    if kind.definition().is_none() {
        return Ok(Served::Yes);
    }
    let wanted = &kind.resource.api_version;
    let mut versions = vec![(wanted.clone(), plurals(client, wanted).await?)];
    if Served::of(&versions, wanted, &kind.resource.plural) == Served::Yes {
        return Ok(Served::Yes);
    }
    let groups = client.list_api_groups().await?.groups;
    let group = groups.into_iter().find(|group| group.name == kind.resource.group);
    for version in group.into_iter().flat_map(|group| group.versions) {
        let plurals = plurals(client, &version.group_version).await?;
        versions.push((version.group_version, plurals));
    }
    Ok(Served::of(&versions, wanted, &kind.resource.plural))
}

/// The plurals of the kinds that a version of a group serves.
async fn plurals(client: &Client, api_version: &str) -> kube::Result<Vec<String>> {
    match client.list_api_group_resources(api_version).await {
        Ok(list) => Ok(list.resources.into_iter().map(|resource| resource.name).collect()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Whether the cluster serves the kind otherwise than before.
async fn has_changed(client: &Client, kind: &Kind, before: &Served) -> bool {
    let changed = served(client, kind).await.is_ok_and(|now| now != *before);
    if changed {
        tracing::info!(kind = kind.title(), "the versions that the cluster serves have changed");
    }
    changed
}

/// Returns when the cluster serves the kind otherwise than before.
async fn until_changed(client: &Client, kind: &Kind, before: &Served) {
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
                    if has_changed(client, kind, before).await {
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
                if has_changed(client, kind, before).await {
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

#[cfg(test)]
mod tests {
    use capstan_core::api::machine_openshift_io::machine::Machine;
    use tokio::sync::watch;

    use super::*;

    #[test]
    fn f11_a_kind_that_is_served_in_another_version_only_is_unknown() {
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
        let store: Store<Machine> = Store::new(watch::Sender::new(0));
        store.other_version();
        assert!(store.contents().is_none(), "its objects are not known to be absent");
        assert_eq!(store.synced(), Ok(()), "the server does not wait for it");
        store.absent();
        assert!(store.contents().is_some());
    }
}
