//! The controllers: one folder or file a controller, and the registry that starts them.
//!
//! A controller hands what it observes to [`capstan_core`], and returns the writes that core
//! planned. It decides nothing that core could decide, and it performs no write itself:
//! [`runtime`](crate::runtime) does.

mod assess;
mod caches;
mod control_plane;
mod control_plane_machine_set;
mod generator;
mod kubeadm_control_plane;
mod live;
mod metrics;
mod mirroring;
mod observed;
mod pending_creates;
mod recent_creations;

use std::sync::Arc;

use kube::Client as KubeClient;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::runtime::{Client, Election, Reconcile, Shared, Worker, stand};

pub use assess::{Assessment, Reading, assess};
pub use caches::{Caches, snapshot, watches};
pub use control_plane::{ControlPlaneControllers, LEASE as CONTROL_PLANE_LEASE};
pub use control_plane_machine_set::{Configuration, ControlPlaneMachineSets};
pub use generator::{FIELD_MANAGER as GENERATOR, GENERATED, Generator, REFUSED};
pub use kubeadm_control_plane::{KubeadmControlPlaneControllers, LEASE as KUBEADM_CONTROL_PLANE_LEASE};
pub use live::LiveReader;
pub use metrics::Metrics;
pub use mirroring::{LEASE as MIRRORING_LEASE, Mirroring, MirroringConfiguration, MirroringMetrics};
pub use observed::{control_plane_machine_set, control_plane_machine_sets, observed};

/// The running controllers.
#[derive(Debug)]
pub struct Controllers {
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    election: JoinHandle<()>,
    lease: CancellationToken,
}

impl Controllers {
    /// Starts the controllers in the background. They work while this process is the leader.
    pub fn start(
        client: &KubeClient,
        caches: &Arc<Caches>,
        configuration: Configuration,
        election: Election,
        metrics: Metrics,
    ) -> Self {
        let (stop, lease) = (CancellationToken::new(), CancellationToken::new());
        let (leading, election) = stand(client.clone(), election, lease.clone());
        let (cluster, identity) = (Client::new(client), configuration.identity.clone());
        let generator = Generator::new(&configuration.options.namespace);
        let runtime = metrics.runtime.clone();
        let sets = ControlPlaneMachineSets::new(configuration, metrics);
        let mut tasks = Vec::new();
        let mut start = Start {
            cluster,
            identity,
            leading,
            runtime,
            caches,
            stop: &stop,
            tasks: &mut tasks,
        };
        start.controller(generator);
        start.controller(sets);
        Self {
            tasks,
            stop,
            election,
            lease,
        }
    }

    /// Begins no new write, finishes the writes that have begun, and then releases the Lease, so
    /// that another replica continues at once.
    pub async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            // A worker that panicked has logged it already.
            let _ended = task.await;
        }
        self.lease.cancel();
        let _ended = self.election.await;
    }
}

/// What every controller is started with.
struct Start<'a> {
    cluster: Client,
    identity: String,
    leading: tokio::sync::watch::Receiver<bool>,
    runtime: crate::runtime::Metrics,
    caches: &'a Arc<Caches>,
    stop: &'a CancellationToken,
    tasks: &'a mut Vec<JoinHandle<()>>,
}

impl Start<'_> {
    fn controller<R: Reconcile>(&mut self, controller: R) {
        let shared = Shared {
            controller,
            identity: self.identity.clone(),
            leading: self.leading.clone(),
            metrics: self.runtime.clone(),
        };
        let worker = Worker::new(shared, self.cluster.clone());
        let running = worker.run(self.caches.subscribe(), self.stop.clone());
        self.tasks.push(tokio::spawn(running));
    }
}
