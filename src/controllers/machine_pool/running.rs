//! The start of the controller of MachinePools, with caches and a Lease of its own.

use std::sync::{Arc, Weak};
use std::time::Duration;

use capstan_core::api::cluster_x_k8s_io::label;
use capstan_core::api::infrastructure_cluster_x_k8s_io::Infrastructure;
use capstan_core::pool::Mode;
use kube::Client as KubeClient;

use super::kinds::{self, WatchKinds, WatchedKind};
use super::{MachinePoolMetrics, MachinePools};
use crate::runtime::{Caches, Election, Running, Watch};
use crate::workload::{Connections, Settings};

/// The default name of the Lease.
pub const LEASE: &str = "capstan-machine-pool";

/// Starts to watch what the controller reads.
pub fn caches(client: &KubeClient) -> Arc<Caches> {
    Caches::start(client, &kinds::watches())
}

/// The limits of connections to managed clusters.
pub fn settings() -> Settings {
    Settings {
        longest_delay: Duration::from_secs(10),
        ..Settings::default()
    }
}

/// Adds the watches of kinds that become known to these caches.
pub fn watch_with(caches: &Arc<Caches>) -> WatchKinds {
    // The controller must not keep its own caches.
    let caches: Weak<Caches> = Arc::downgrade(caches);
    Arc::new(move |kinds: &[WatchedKind]| {
        let watches: Vec<Watch> = kinds.iter().map(watch).collect();
        if let Some(caches) = caches.upgrade() {
            caches.watch_also(&watches);
        }
    })
}

fn watch(watched: &WatchedKind) -> Watch {
    let watch = Watch::of::<Infrastructure>(&watched.kind);
    if watched.of_pools {
        return watch.labelled(label::POOL_NAME);
    }
    watch
}

/// Starts the controller in the background. It works while this process is the leader.
pub fn start(
    client: &KubeClient,
    caches: &Arc<Caches>,
    managed: Connections,
    mode: Mode,
    election: Election,
    metrics: MachinePoolMetrics,
) -> Running {
    let runtime = metrics.runtime.clone();
    let controller = MachinePools::new(managed, mode, watch_with(caches), metrics);
    Running::new(client, election, caches.views(), runtime).with(controller, caches.subscribe(), caches)
}
