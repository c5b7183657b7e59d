//! The start of the controller of ControlPlanes, with caches and a Lease of its own.

use std::sync::Arc;

use capstan_core::admission::Options;
use capstan_core::api::kinds::Reader;
use kube::Client as KubeClient;

use super::ControlPlanes;
use super::members::{ClientPorts, EtcdMembers, EtcdPort};
use crate::controllers::caches::watches_of;
use crate::controllers::metrics::Metrics;
use crate::runtime::{Caches, Election, Running};

/// The default name of the Lease.
pub const LEASE: &str = "capstan-control-plane";

/// What the controller is started with.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// The options that admission has too.
    pub options: Options,
    /// The component that manages the members of etcd.
    pub etcd_members: EtcdMembers,
}

/// Starts to watch what the controller reads in this namespace.
pub fn caches(client: &KubeClient, namespace: &str) -> Arc<Caches> {
    Caches::start(client, &watches_of(Reader::ControlPlaneControllers, namespace))
}

/// Starts the controller in the background. It works while this process is the leader.
pub fn start(
    client: &KubeClient,
    caches: &Arc<Caches>,
    configuration: Configuration,
    election: Election,
    metrics: Metrics,
) -> Running {
    let etcd = match &configuration.etcd_members {
        EtcdMembers::Operator => None,
        EtcdMembers::Capstan { certificates } => {
            let ports: Box<dyn EtcdPort> = Box::new(ClientPorts::new(client, certificates));
            Some(ports)
        }
    };
    let controller = ControlPlanes::new(configuration.options, election.identity.clone())
        .with_etcd(etcd)
        .with_metrics(metrics.clone());
    Running::new(client, election, caches.views(), metrics.runtime).with(controller, caches.subscribe(), caches)
}
