//! The controllers that share a Lease, and their tasks.
//!
//! It decides when workers start and stop. It never decides what a controller does.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Client as KubeClient;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::caches::{Subscription, View};
use super::client::Client;
use super::leader::{Election, stand};
use super::metrics::Metrics;
use super::reconcile::Reconcile;
use super::reconciler::Shared;
use super::shard::Shard;
use super::worker::Worker;

/// The newest view of the caches, and every later one.
type Views = watch::Receiver<Arc<View>>;

/// Controllers that run in the background. They work while this process holds their Lease.
pub struct Running {
    client: Client,
    /// The name of this process, in events and in the Lease.
    identity: String,
    leading: watch::Receiver<bool>,
    metrics: Metrics,
    stop: CancellationToken,
    workers: Vec<JoinHandle<()>>,
    election: JoinHandle<()>,
    lease: CancellationToken,
}

impl Running {
    /// Takes part in the election once these caches were read. No controller runs yet. A process
    /// that cannot read its objects must not keep the Lease from one that can.
    pub fn new(client: &KubeClient, election: Election, views: Views, metrics: Metrics) -> Self {
        Self::with_labels(client, election, BTreeMap::new(), views, metrics)
    }

    /// The same for a shard, which has a Lease of its own. Of the election, the namespace and the
    /// duration count.
    pub fn of_shard(client: &KubeClient, election: Election, shard: &Shard, views: Views, metrics: Metrics) -> Self {
        Self::with_labels(client, shard.election(election), shard.lease_labels(), views, metrics)
    }

    fn with_labels(
        client: &KubeClient,
        election: Election,
        labels: BTreeMap<String, String>,
        mut views: Views,
        metrics: Metrics,
    ) -> Self {
        let (stop, lease) = (CancellationToken::new(), CancellationToken::new());
        let identity = election.identity.clone();
        let ready = async move {
            // Without caches, the process ends.
            let _closed = views.wait_for(|view| view.synced).await.map(|_| ());
        };
        let (leading, election) = stand(client.clone(), election, labels, ready, lease.clone());
        Self {
            client: Client::new(client),
            identity,
            leading,
            metrics,
            stop,
            workers: Vec::new(),
            election,
            lease,
        }
    }

    /// Starts a controller with the changes of these caches. The worker keeps the caches until it
    /// ends.
    #[must_use]
    pub fn with<R: Reconcile, K: Send + Sync + 'static>(
        mut self,
        controller: R,
        changes: Subscription,
        caches: &Arc<K>,
    ) -> Self {
        let shared = Shared {
            controller,
            identity: self.identity.clone(),
            leading: self.leading.clone(),
            metrics: self.metrics.clone(),
        };
        let worker = Worker::new(shared, self.client.clone());
        let (stopped, caches) = (self.stop.clone(), Arc::clone(caches));
        self.workers.push(tokio::spawn(async move {
            worker.run(changes, stopped).await;
            drop(caches);
        }));
        self
    }

    /// Begins no new write, finishes the writes that have begun, and then releases the Lease, so
    /// that another replica continues at once.
    pub async fn stop(self) {
        self.stop.cancel();
        for worker in self.workers {
            // A worker that panicked has logged it already.
            let _ended = worker.await;
        }
        self.lease.cancel();
        let _ended = self.election.await;
    }
}
