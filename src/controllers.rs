//! The controllers: they watch the cluster, hand what they see to [`capstan_core`], and write what it answers.
//!
//! They decide nothing that core could decide. What they own is the order of reads and writes: what is read from a
//! cache and what is read live, which precondition a write carries, and what is remembered of it until the caches show
//! it. Safety never rests on being the only process that runs (decision 15).

mod assess;
mod caches;
mod cluster;
mod control_plane_machine_set;
mod events;
mod follow;
mod generator;
mod kind;
mod leader;
mod live;
mod metrics;
mod mirrors;
mod object;
mod step_error;
mod store;
mod write;
mod write_tracker;

use std::sync::Arc;

use kube::Client;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use assess::{Assessment, Reading, assess};
pub use caches::{Caches, View};
pub use cluster::{Cluster, FIELD_MANAGER, GENERATOR, Object, Written};
pub use control_plane_machine_set::{Configuration, Controller, ReconcileResult};
pub use generator::{GENERATED, Generator, REFUSED};
pub use leader::Election;
pub use live::observed;
pub use metrics::Metrics;
pub use object::{Cacheable, WatchedObject};

/// The controllers at work, in the background.
#[derive(Debug)]
pub struct Controllers {
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    election: JoinHandle<()>,
    lease: CancellationToken,
}

impl Controllers {
    /// Starts them. They work while this process leads.
    pub fn start(
        client: &Client,
        caches: &Arc<Caches>,
        configuration: Configuration,
        election: Election,
        metrics: Metrics,
    ) -> Self {
        let (stop, lease) = (CancellationToken::new(), CancellationToken::new());
        let (leading, election) = leader::stand(client.clone(), election, lease.clone());
        let namespace = configuration.options.namespace.clone();
        let cluster = cluster::Served::new(client, &namespace);
        let generator = Generator::new(cluster.clone(), configuration.identity.clone());
        let generator = generator.run(caches.views(), leading.clone(), stop.clone());
        let sets = Controller::new(cluster, configuration, leading, metrics);
        let tasks = vec![
            tokio::spawn(sets.run(caches.views(), stop.clone())),
            tokio::spawn(generator),
        ];
        Self {
            tasks,
            stop,
            election,
            lease,
        }
    }

    /// Begins no new write, finishes what was begun, and then gives the Lease back, so that another goes on at once.
    pub async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            // A worker that panicked has already said so.
            let _ended = task.await;
        }
        self.lease.cancel();
        let _ended = self.election.await;
    }
}
