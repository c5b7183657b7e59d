//! The running controllers of the feature `mirroring-controllers`, with caches and a Lease of their
//! own.

use std::sync::Arc;

use kube::Client as KubeClient;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Mirrored, MirroringMetrics, objects};
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
    workers: [JoinHandle<()>; 2],
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
        caches: &Arc<Caches>,
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
        let machines = Shared {
            controller: Mirrored::<false>::new(machine_api_namespace, cluster_api_namespace, metrics.clone()),
            identity: identity.clone(),
            leading: leading.clone(),
            metrics: runtime.clone(),
        };
        let sets = Shared {
            controller: Mirrored::<true>::new(machine_api_namespace, cluster_api_namespace, metrics),
            identity,
            leading,
            metrics: runtime,
        };
        let workers = [work(machines, client, caches, &stop), work(sets, client, caches, &stop)];
        Self {
            stop,
            workers,
            election,
            lease,
        }
    }

    /// Begins no new write, finishes the writes that have begun, and then releases the Lease, so
    /// that another replica continues at once.
    pub async fn stop(self) {
        self.stop.cancel();
        // A worker that panicked has logged it already.
        for worker in self.workers {
            let _ended = worker.await;
        }
        self.lease.cancel();
        let _ended = self.election.await;
    }
}

/// Runs a controller in the background.
fn work<const SETS: bool>(
    shared: Shared<Mirrored<SETS>>,
    client: &KubeClient,
    caches: &Arc<Caches>,
    stop: &CancellationToken,
) -> JoinHandle<()> {
    let worker = Worker::new(shared, Client::new(client));
    let (changes, stopped, caches) = (caches.subscribe(), stop.clone(), Arc::clone(caches));
    tokio::spawn(async move {
        worker.run(changes, stopped).await;
        drop(caches);
    })
}
