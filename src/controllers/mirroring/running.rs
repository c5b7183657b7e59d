//! The running controllers of the feature `mirroring-controllers`, with caches and a Lease of their
//! own.

use std::sync::Arc;

use kube::Client as KubeClient;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{MirroredMachines, MirroringMetrics, objects};
use crate::runtime::{Caches, Client, Election, Shared, Worker, stand};

/// The default name of the Lease.
pub const LEASE: &str = "capstan-mirroring";

/// The namespaces of both APIs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroringConfiguration {
    /// The namespace of the Machine API.
    pub machine_api_namespace: String,
    /// The namespace of Cluster API.
    pub cluster_api_namespace: String,
}

/// The running controllers.
#[derive(Debug)]
pub struct Mirroring {
    stop: CancellationToken,
    worker: JoinHandle<()>,
    election: JoinHandle<()>,
    lease: CancellationToken,
}

impl Mirroring {
    /// Starts to watch what the controllers read.
    pub fn caches(client: &KubeClient, configuration: &MirroringConfiguration) -> Arc<Caches> {
        let MirroringConfiguration {
            machine_api_namespace,
            cluster_api_namespace,
        } = configuration;
        Caches::start(client, &objects::watches(machine_api_namespace, cluster_api_namespace))
    }

    /// Starts the controllers in the background. They work while this process is the leader.
    pub fn start(
        client: &KubeClient,
        caches: Arc<Caches>,
        configuration: &MirroringConfiguration,
        election: Election,
        metrics: MirroringMetrics,
    ) -> Self {
        let (stop, lease) = (CancellationToken::new(), CancellationToken::new());
        let identity = election.identity.clone();
        let (leading, election) = stand(client.clone(), election, lease.clone());
        let MirroringConfiguration {
            machine_api_namespace,
            cluster_api_namespace,
        } = configuration;
        let runtime = metrics.runtime.clone();
        let controller = MirroredMachines::new(machine_api_namespace, cluster_api_namespace, metrics);
        let shared = Shared {
            controller,
            identity,
            leading,
            metrics: runtime,
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
