//! The start of the controllers of the feature `mirroring-controllers`, with caches and a Lease of
//! their own.

use std::sync::Arc;

use kube::Client as KubeClient;

use super::kind::{Checks, Machines, Sets};
use super::operator::Operator;
use super::{Mirrored, MirroringMetrics, objects};
use crate::runtime::{Caches, Election, Running};

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
) -> Running {
    let MirroringConfiguration {
        machine_api_namespace,
        cluster_api_namespace,
    } = configuration;
    let running = Running::new(client, election, metrics.runtime.clone());
    let machines = Mirrored::<Machines>::new(machine_api_namespace, cluster_api_namespace, metrics.clone());
    let sets = Mirrored::<Sets>::new(machine_api_namespace, cluster_api_namespace, metrics.clone());
    let checks = Mirrored::<Checks>::new(machine_api_namespace, cluster_api_namespace, metrics);
    let operator = Operator::new(machine_api_namespace, cluster_api_namespace);
    running
        .with(machines, caches.subscribe(), caches)
        .with(sets, caches.subscribe(), caches)
        .with(checks, caches.subscribe(), caches)
        .with(operator, caches.subscribe(), caches)
}
