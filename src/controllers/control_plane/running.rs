//! The start of the controller of ControlPlanes, with caches and a Lease of its own.

use std::sync::Arc;

use capstan_core::admission::Options;
use capstan_core::api::kinds::Reader;
use kube::Client as KubeClient;

use super::ControlPlanes;
use crate::controllers::caches::watches_of;
use crate::runtime::{Caches, Election, Metrics, Running};

/// The default name of the Lease.
pub const LEASE: &str = "capstan-control-plane";

/// Starts to watch what the controller reads in this namespace.
pub fn caches(client: &KubeClient, namespace: &str) -> Arc<Caches> {
    Caches::start(client, &watches_of(Reader::ControlPlaneControllers, namespace))
}

/// Starts the controller in the background. It works while this process is the leader.
pub fn start(
    client: &KubeClient,
    caches: &Arc<Caches>,
    options: Options,
    election: Election,
    metrics: Metrics,
) -> Running {
    let controller = ControlPlanes::new(options, election.identity.clone());
    Running::new(client, election, metrics).with(controller, caches.subscribe(), caches)
}
