//! Leader election by Lease: who works. It saves work and keeps logs readable; no safety rests on it (decisions 15, 18).

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use kube_lease_manager::{LeaseManagerBuilder, Result};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::follow::Pauses;

/// How leadership is found.
#[derive(Clone, Debug)]
pub struct Election {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who stands: unique among all that run.
    pub identity: String,
    /// How long a leader that does not answer keeps the others from working.
    pub duration: Duration,
}

/// Stands for election until `stop`, and then gives the Lease back. The receiver says whether this process leads.
pub(super) fn stand(
    client: Client,
    election: Election,
    stop: CancellationToken,
) -> (watch::Receiver<bool>, tokio::task::JoinHandle<()>) {
    let (sender, receiver) = watch::channel(false);
    let task = tokio::spawn(async move {
        let mut pauses = Pauses::new();
        while !stop.is_cancelled() {
            match term(&client, &election, &sender, &stop).await {
                Ok(()) => pauses.reset(),
                Err(error) => tracing::warn!(%error, lease = election.name, "leader election; trying again"),
            }
            sender.send_replace(false);
            let pause = pauses.next().unwrap_or(Duration::from_secs(30));
            stop.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
    });
    (receiver, task)
}

/// One try, until it fails or the end.
async fn term(
    client: &Client,
    election: &Election,
    leading: &watch::Sender<bool>,
    stop: &CancellationToken,
) -> Result<()> {
    // A third of the time for renewals that fail; whole seconds are all that a Lease knows.
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
        let leads = *state.borrow_and_update();
        if *leading.borrow() != leads {
            tracing::info!(leads, identity = election.identity, "leadership");
            leading.send_replace(leads);
        }
        tokio::select! {
            changed = state.changed() => if changed.is_err() { break },
            // The manager would look again when the last leader's time is over; one that gave the Lease back is followed
            // at once. Without permission to watch, that is how long it takes.
            Some(event) = lease.next() => match holder(&event) {
                Some(Some(holder)) => held_by_another = holder != election.identity,
                Some(None) if held_by_another && !leads => break,
                _ => {}
            },
            () = stop.cancelled() => break,
        }
    }
    // Nobody listens any more: the manager gives the Lease back and ends.
    leading.send_replace(false);
    drop(state);
    match tokio::time::timeout(Duration::from_secs(5), task).await {
        Ok(Ok(outcome)) => outcome.map(|_| ()),
        Ok(Err(_)) | Err(_) => Ok(()),
    }
}

/// Who holds the Lease; `None` for an event that does not say.
fn holder(event: &watcher::Result<Event<Lease>>) -> Option<Option<&str>> {
    let (Ok(Event::Apply(lease)) | Ok(Event::InitApply(lease))) = event else {
        return None;
    };
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
    Some(holder.filter(|holder| !holder.is_empty()))
}
