//! The start of the controller of KubeadmControlPlanes, with caches and a Lease of its own.

use std::sync::Arc;
use std::time::Duration;

use kube::Client as KubeClient;

use super::{KubeadmControlPlanes, objects};
use crate::runtime::{Caches, Election, Metrics, Running};
use crate::workload::{Connections, Settings};

/// The default name of the Lease.
pub const LEASE: &str = "capstan-kubeadm-control-plane";

/// Starts to watch what the controller reads.
pub fn caches(client: &KubeClient) -> Arc<Caches> {
    Caches::start(client, &objects::watches())
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
    Running::new(client, election, metrics).with(controller, caches.subscribe(), caches)
}
