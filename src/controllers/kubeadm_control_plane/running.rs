//! The start of the controller of KubeadmControlPlanes, with caches and a Lease of its own.

use std::sync::Arc;
use std::time::Duration;

use capstan_core::api::kinds::KUBEADM_CONTROL_PLANES;
use kube::Client as KubeClient;

use super::{KubeadmControlPlanes, objects};
use crate::runtime::{Caches, Election, Metrics, Running, Shard, Sharded};
use crate::workload::{Connections, Settings};

/// The default name of the Lease.
pub const LEASE: &str = "capstan-kubeadm-control-plane";

/// Starts to watch what the controller reads.
pub fn caches(client: &KubeClient) -> Arc<Caches> {
    Caches::start(client, &objects::watches())
}

/// The same for one shard, which watches only its own control planes.
pub fn caches_of_shard(client: &KubeClient, shard: &Shard) -> Arc<Caches> {
    Caches::start(client, &shard.watches(&KUBEADM_CONTROL_PLANES, objects::watches()))
}

/// The limits of connections to managed clusters. A new cluster is found soon after its API server
/// starts.
pub fn settings() -> Settings {
    Settings {
        longest_delay: Duration::from_secs(10),
        ..Settings::default()
    }
}

/// Starts the controller in the background. It works while this process is the leader.
pub fn start(
    client: &KubeClient,
    caches: &Arc<Caches>,
    managed: Connections,
    election: Election,
    metrics: Metrics,
) -> Running {
    let controller = KubeadmControlPlanes::new(managed, election.identity.clone());
    Running::new(client, election, caches.views(), metrics).with(controller, caches.subscribe(), caches)
}

/// The same for one shard, with the caches of that shard. It works while this process holds the
/// Lease of the shard.
pub fn start_shard(
    client: &KubeClient,
    caches: &Arc<Caches>,
    managed: Connections,
    election: Election,
    shard: &Shard,
    metrics: Metrics,
) -> Running {
    let controller = KubeadmControlPlanes::new(managed, shard.name().to_owned());
    let controller = Sharded::new(controller, shard.clone());
    Running::of_shard(client, election, shard, caches.views(), metrics).with(controller, caches.subscribe(), caches)
}
