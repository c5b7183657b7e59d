//! The start of the controllers of the feature `mirroring-controllers`, with caches and a Lease of
//! their own.

use std::sync::Arc;

use capstan_core::authority::platforms::MirroredPlatforms;
use kube::Client as KubeClient;

use super::kind::{Checks, Machines, Sets};
use super::operator::Operator;
use super::pairs::Pairs;
use super::{Mirrored, MirroringMetrics, objects};
use crate::runtime::{Caches, Election, Running};

/// The default name of the Lease.
pub const LEASE: &str = "capstan-mirroring";

/// What the controllers mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroringConfiguration {
    /// The namespace of the Machine API.
    pub machine_api_namespace: String,
    /// The namespace of Cluster API.
    pub cluster_api_namespace: String,
    /// The platforms for which they mirror.
    pub platforms: MirroredPlatforms,
}

/// Starts to watch what the controllers read.
pub fn caches(client: &KubeClient, configuration: &MirroringConfiguration) -> Arc<Caches> {
    let MirroringConfiguration {
        machine_api_namespace,
        cluster_api_namespace,
        ..
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
        platforms,
    } = configuration;
    let pairs = || Pairs::new(machine_api_namespace, cluster_api_namespace).of_platforms(platforms.clone());
    let running = Running::new(client, election, caches.views(), metrics.runtime.clone());
    let machines = Mirrored::<Machines>::new(pairs(), metrics.clone());
    let sets = Mirrored::<Sets>::new(pairs(), metrics.clone());
    let checks = Mirrored::<Checks>::new(pairs(), metrics);
    let operator = Operator::new(pairs());
    running
        .with(machines, caches.subscribe(), caches)
        .with(sets, caches.subscribe(), caches)
        .with(checks, caches.subscribe(), caches)
        .with(operator, caches.subscribe(), caches)
}
