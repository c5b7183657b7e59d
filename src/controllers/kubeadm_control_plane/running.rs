//! The running controller of KubeadmControlPlanes, with caches and a Lease of its own.

use std::sync::Arc;
use std::time::Duration;

use kube::Client as KubeClient;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{KubeadmControlPlanes, objects};
use crate::runtime::{Caches, Client, Election, Metrics, Shared, Worker, stand};
use crate::workload::{Connections, Settings};

/// The default name of the Lease.
pub const LEASE: &str = "capstan-kubeadm-control-plane";

/// The running controller.
#[derive(Debug)]
pub struct KubeadmControlPlaneControllers {
    stop: CancellationToken,
    worker: JoinHandle<()>,
    election: JoinHandle<()>,
    lease: CancellationToken,
}

impl KubeadmControlPlaneControllers {
    /// Starts to watch what the controller reads.
    pub fn caches(client: &KubeClient) -> Arc<Caches> {
        Caches::start(client, &objects::watches())
    }

    /// The limits of connections to managed clusters. A new cluster is found soon after its API
    /// server starts.
    pub fn settings() -> Settings {
        Settings {
            longest_delay: Duration::from_secs(10),
            ..Settings::default()
        }
    }

    /// Starts the controller in the background. It works while this process is the leader.
    pub fn start(
        client: &KubeClient,
        caches: Arc<Caches>,
        managed: Connections,
        election: Election,
        metrics: Metrics,
    ) -> Self {
        let (stop, lease) = (CancellationToken::new(), CancellationToken::new());
        let identity = election.identity.clone();
        let (leading, election) = stand(client.clone(), election, lease.clone());
        let shared = Shared {
            controller: KubeadmControlPlanes::new(managed, identity.clone()),
            identity,
            leading,
            metrics,
        };
        let worker = Worker::new(shared, Client::new(client));
        let (changes, stopped) = (caches.subscribe(), stop.clone());
        let worker = tokio::spawn(async move {
            worker.run(changes, stopped).await;
            drop(caches);
        });
        Self {
            stop,
            worker,
            election,
            lease,
        }
    }

    /// Begins no new write, finishes the writes that have begun, and then releases the Lease, so
    /// that another replica continues at once.
    pub async fn stop(self) {
        self.stop.cancel();
        // A worker that panicked has logged it already.
        let _ended = self.worker.await;
        self.lease.cancel();
        let _ended = self.election.await;
    }
}
