//! The running controller of ControlPlanes, with caches and a Lease of its own.

use std::sync::Arc;

use capstan_core::admission::Options;
use capstan_core::api::kinds::Reader;
use kube::Client as KubeClient;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::ControlPlanes;
use crate::controllers::caches::watches_of;
use crate::runtime::{Caches, Client, Election, Metrics, Shared, Worker, stand};

/// The default name of the Lease.
pub const LEASE: &str = "capstan-control-plane";

/// The running controller.
#[derive(Debug)]
pub struct ControlPlaneControllers {
    stop: CancellationToken,
    worker: JoinHandle<()>,
    election: JoinHandle<()>,
    lease: CancellationToken,
}

impl ControlPlaneControllers {
    /// Starts to watch what the controller reads in this namespace.
    pub fn caches(client: &KubeClient, namespace: &str) -> Arc<Caches> {
        Caches::start(client, &watches_of(Reader::ControlPlaneControllers, namespace))
    }

    /// Starts the controller in the background. It works while this process is the leader.
    pub fn start(
        client: &KubeClient,
        caches: Arc<Caches>,
        options: Options,
        election: Election,
        metrics: Metrics,
    ) -> Self {
        let (stop, lease) = (CancellationToken::new(), CancellationToken::new());
        let identity = election.identity.clone();
        let (leading, election) = stand(client.clone(), election, lease.clone());
        let shared = Shared {
            controller: ControlPlanes::new(options, identity.clone()),
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
