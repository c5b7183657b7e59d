//! Notices that the objects of a cluster went back in time: etcd was restored from a backup.
//!
//! A watch that continues after a restore waits without an error until the resource versions pass
//! those that it has seen. Until then its objects are those from before the restore. The API server
//! answers a list without a resource version from etcd, so its resource version grows unless etcd
//! was restored. One small list in a while shows this.
//!
//! It decides nothing about objects: it only makes the caches read all of them again. A restore of
//! a backup that is younger than the time between two reads may stay unnoticed.

use std::cmp::Ordering;
use std::time::Duration;

use capstan_core::api::kind::KindInfo;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use tokio::sync::watch;

use super::client;
use super::selection::Selection;
use super::write_tracker::order;

/// Between two reads, and the longest time of one.
const PERIOD: Duration = Duration::from_secs(10);

/// Counts the restores that were noticed.
pub(super) type Restores = watch::Receiver<u64>;

/// Reads the resource version of a cluster in a while, and counts how often it went back. Never
/// returns; drop the future to stop.
pub(super) async fn follow_history(client: Client, selection: Selection, restores: watch::Sender<u64>) {
    let mut newest = String::new();
    loop {
        if let Some(version) = version(&client, &selection).await {
            if order(&version, &newest) == Some(Ordering::Less) {
                tracing::warn!(
                    before = newest,
                    now = version,
                    "the resource version of the cluster went back: etcd was restored; all objects are read again"
                );
                restores.send_modify(|count| *count += 1);
            }
            newest = version;
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// The resource version of the cluster, from etcd; `None` if it cannot be read now. The watches
/// report why.
async fn version(client: &Client, selection: &Selection) -> Option<String> {
    let api: Api<DynamicObject> = client::api(client, &selection.kind, selection.namespace.as_deref());
    let mut parameters = ListParams::default().limit(1);
    if let Some(name) = selection.names.first() {
        parameters = parameters.fields(&format!("metadata.name={name}"));
    }
    let list = tokio::time::timeout(PERIOD, api.list_metadata(&parameters)).await;
    list.ok()?.ok()?.metadata.resource_version
}

/// The selection to read: of a built-in kind, which every cluster serves, if there is one.
pub(super) fn selection<'s>(mut all: impl Iterator<Item = &'s Selection> + Clone) -> Option<&'s Selection> {
    let is_built_in = |selection: &&Selection| KindInfo::definition(&selection.kind).is_none();
    all.clone().find(is_built_in).or_else(|| all.next())
}
