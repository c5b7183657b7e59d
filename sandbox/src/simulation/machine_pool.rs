//! The controller of MachinePools in a simulated cluster, with instance groups that lag, lie, and
//! vanish.
//!
//! The actors play the reference provider, the core manager of Cluster API, its Machine controller,
//! and a health check. Each acts late, on a part of the objects, and the group reports an instance
//! as outdated that is not. The instances are in the status of the group object, in a field that no
//! controller reads. The faults stop before the end.

mod actors;
mod invariants;
mod objects;
mod repairs;

use std::sync::Arc;

use anyhow::Result;
use capstan::controllers::machine_pool::{MachinePoolMetrics, MachinePools};
use capstan::runtime::{Metrics, Reconcile};
use capstan::workload::{AccessError, ClusterReader, ManagedCluster, ManagedClusters};
use capstan_core::api::cluster_x_k8s_io::control_plane::{Cluster, Machine};
use capstan_core::api::cluster_x_k8s_io::machine_pool::MachinePool;
use capstan_core::api::infrastructure_cluster_x_k8s_io::Infrastructure;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds::{CLUSTER_API_CLUSTERS, CLUSTER_API_MACHINES, MACHINE_POOLS};
use capstan_core::pool::Mode;
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::declared::Simulation;
use objects::{GROUPS, INSTANCES};

/// Between two turns of the actors, in seconds.
const TURN: u32 = 10;
/// The end of the last turn. The faults stop after an hour.
const LAST: u32 = 90 * 60;

/// The controller as a process starts it.
pub fn controller() -> MachinePools<NoClusters> {
    let mut registry = Registry::default();
    let metrics = MachinePoolMetrics::register(&mut registry, Metrics::register(&mut Registry::default()));
    MachinePools::new(NoClusters, Mode::Extend, Arc::new(|_| {}), metrics)
}

/// A pool with a controller.
///
/// # Errors
/// A definition cannot be read.
pub fn simulation<R: Reconcile>(make: impl Fn() -> R + Send + Sync + 'static) -> Result<Simulation> {
    let mut simulation = Simulation::new("machine-pool")
        .definitions(&objects::definitions())?
        .kind::<MachinePool>(&MACHINE_POOLS)
        .kind::<Machine>(&CLUSTER_API_MACHINES)
        .kind::<Cluster>(&CLUSTER_API_CLUSTERS)
        .kind::<Infrastructure>(&GROUPS)
        .kind::<Infrastructure>(&INSTANCES)
        .objects(&CLUSTER_API_CLUSTERS, [objects::cluster()])
        .objects(&GROUPS, [objects::group()])
        .objects(&MACHINE_POOLS, [objects::pool()])
        .controller(make)
        .faults()
        .always("M1", invariants::a_deletion_has_a_reason)
        .always("M2", invariants::only_machines_are_deleted)
        .always("M3", invariants::an_instance_goes_after_its_machine)
        .at_end("M4", invariants::each_instance_has_a_machine)
        .at_end("M5", invariants::the_pool_is_as_wanted);
    for second in (TURN..=LAST).step_by(10) {
        simulation = simulation.at(second, move |users| {
            actors::act_once(users, second);
            repairs::act_once(users, second);
        });
    }
    Ok(simulation)
}

/// There is no managed cluster. The Machines report their Nodes.
#[derive(Clone, Debug)]
pub struct NoClusters;

fn none(cluster: &ManagedCluster) -> AccessError {
    AccessError::NoKubeconfig {
        cluster: cluster.to_string(),
        namespace: cluster.namespace.clone(),
        secret: cluster.kubeconfig_secret(),
    }
}

impl ClusterReader for NoClusters {
    async fn get<T: DeserializeOwned + Send>(
        &self,
        cluster: &ManagedCluster,
        _kind: &KindInfo,
        _namespace: &str,
        _name: &str,
    ) -> Result<Option<T>, AccessError> {
        Err(none(cluster))
    }

    async fn list<T: DeserializeOwned + Send>(
        &self,
        cluster: &ManagedCluster,
        _kind: &KindInfo,
        _namespace: &str,
        _selector: &str,
    ) -> Result<Vec<T>, AccessError> {
        Err(none(cluster))
    }
}

impl ManagedClusters for NoClusters {
    async fn patch(
        &self,
        cluster: &ManagedCluster,
        _kind: &KindInfo,
        _namespace: &str,
        _name: &str,
        _patch: &Value,
    ) -> Result<(), AccessError> {
        Err(none(cluster))
    }

    async fn ensure(
        &self,
        cluster: &ManagedCluster,
        _kind: &KindInfo,
        _namespace: &str,
        _object: &Value,
    ) -> Result<(), AccessError> {
        Err(none(cluster))
    }

    async fn serving_expiry(&self, cluster: &ManagedCluster, _address: &str) -> Result<Timestamp, AccessError> {
        Err(none(cluster))
    }

    async fn delete(
        &self,
        cluster: &ManagedCluster,
        _kind: &KindInfo,
        _namespace: &str,
        _name: &str,
        _uid: &str,
    ) -> Result<(), AccessError> {
        Err(none(cluster))
    }
}
