//! Leader election by Lease: which replica works. It saves work and keeps logs readable. No safety
//! rests on it (decisions 15, 18).

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use kube_lease_manager::{LeaseManagerBuilder, Result};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::backoff::Backoff;

/// How the leader is elected.
#[derive(Clone, Debug)]
pub struct Election {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// The name of this process, unique among all replicas.
    pub identity: String,
    /// How long the other replicas wait for a leader that no longer renews the Lease.
    pub duration: Duration,
}

/// Takes part in the election until `stop`, and then releases the Lease. The receiver says whether
/// this process is the leader.
pub fn stand(
    client: Client,
    election: Election,
    stop: CancellationToken,
) -> (watch::Receiver<bool>, tokio::task::JoinHandle<()>) {
    let (sender, receiver) = watch::channel(false);
    let task = tokio::spawn(async move {
        let mut backoff = Backoff::default();
        while !stop.is_cancelled() {
            match term(&client, &election, &sender, &stop).await {
                Ok(()) => backoff.reset(),
                Err(error) => tracing::warn!(%error, lease = election.name, "leader election failed; retrying"),
            }
            sender.send_replace(false);
            stop.run_until_cancelled(tokio::time::sleep(backoff.next_delay())).await;
        }
    });
    (receiver, task)
}

/// One attempt, until it fails or the process stops.
async fn term(
    client: &Client,
    election: &Election,
    leading: &watch::Sender<bool>,
    stop: &CancellationToken,
) -> Result<()> {
    // A third of the duration is left for renewals that fail. A Lease counts whole seconds.
    let duration = election.duration.as_secs().max(2);
    let manager = LeaseManagerBuilder::new(client.clone(), &election.name)
        .with_namespace(&election.namespace)
        .with_identity(&election.identity)
        .with_duration(duration)
        .with_grace((duration / 3).max(1))
        .build()
        .await?;
    let (mut state, task) = manager.watch().await;
    let leases: Api<Lease> = Api::namespaced(client.clone(), &election.namespace);
    let selection = watcher::Config::default().fields(&format!("metadata.name={}", election.name));
    let mut lease = Box::pin(watcher(leases, selection).default_backoff());
    let mut held_by_another = false;
    loop {
        let is_leader = *state.borrow_and_update();
        if *leading.borrow() != is_leader {
            tracing::info!(is_leader, identity = election.identity, "leadership");
            leading.send_replace(is_leader);
        }
        tokio::select! {
            changed = state.changed() => if changed.is_err() { break },
            // The manager checks again when the Lease of the last leader expires. The watch notices
            // a released Lease at once; without the permission to watch, the expiry is the limit.
            Some(event) = lease.next() => match holder(&event) {
                Some(Some(holder)) => held_by_another = holder != election.identity,
                Some(None) if held_by_another && !is_leader => break,
                _ => {}
            },
            () = stop.cancelled() => break,
        }
    }
    // Without a receiver the manager releases the Lease and ends.
    leading.send_replace(false);
    drop(state);
    match tokio::time::timeout(Duration::from_secs(5), task).await {
        Ok(Ok(outcome)) => outcome.map(|_| ()),
        Ok(Err(_)) | Err(_) => Ok(()),
    }
}

/// The holder of the Lease; `None` for an event without that information.
fn holder(event: &watcher::Result<Event<Lease>>) -> Option<Option<&str>> {
    let (Ok(Event::Apply(lease)) | Ok(Event::InitApply(lease))) = event else {
        return None;
    };
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
    Some(holder.filter(|holder| !holder.is_empty()))
}
