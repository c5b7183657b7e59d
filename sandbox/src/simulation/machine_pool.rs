//! The controller of MachinePools in a simulated cluster, with instance groups that lag, lie, and
//! vanish.
//!
//! The actors play the reference provider, the core manager of Cluster API, its Machine controller,
//! a health check, and users. Each acts late, on a part of the objects. The group reports an
//! instance as outdated that is not, and forgets what it can do. The instances are in the status of
//! the group object, in a field that no controller reads. With `own`, the core manager leaves the
//! pool to Capstan. The faults stop before the end.

mod actors;
pub mod bugs;
mod cluster_api;
pub mod command;
mod invariants;
mod objects;
mod provider;
mod repairs;
pub mod special;

use std::sync::Arc;

use anyhow::{Result, anyhow};
use capstan::controllers::machine_pool::{MachinePoolMetrics, MachinePools};
use capstan::runtime::{Metrics, Reconcile};
use capstan::workload::{AccessError, ClusterReader, ManagedCluster, ManagedClusters};
use capstan_core::api::cluster_x_k8s_io::control_plane::{Cluster, Machine};
use capstan_core::api::cluster_x_k8s_io::machine_pool::MachinePool;
use capstan_core::api::infrastructure_cluster_x_k8s_io::Infrastructure;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds::{CLUSTER_API_CLUSTERS, CLUSTER_API_MACHINES, MACHINE_POOLS};
use capstan_core::model::ApiServer;
use capstan_core::pool::Mode;
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::declared::Simulation;
use super::engine::exhaustive::Exhausted;
use super::engine::run::Summary;
use objects::{GROUPS, INSTANCES};

/// Between two turns of the actors, in seconds.
const TURN: u32 = 10;
/// No fault occurs from this minute on.
const CALM: i64 = 30;
/// When everything rests, in seconds.
const REST: u32 = 60 * 60;
/// The end of the last turn.
const LAST: u32 = 65 * 60;

/// The seeds whose schedules meet each single fault.
const EXHAUSTED: std::ops::Range<u64> = 0..2;

/// The modes, each with the name of its simulation.
pub const MODES: [(Mode, &str); 2] = [(Mode::Extend, "machine-pool-extend"), (Mode::Own, "machine-pool-own")];

/// The controller as a process starts it.
pub fn controller(mode: Mode) -> MachinePools<NoClusters> {
    let mut registry = Registry::default();
    let metrics = MachinePoolMetrics::register(&mut registry, Metrics::register(&mut Registry::default()));
    MachinePools::new(NoClusters, mode, Arc::new(|_| {}), metrics)
}

/// A pool with a controller.
///
/// # Errors
/// A definition cannot be read.
pub fn simulation<R: Reconcile>(mode: Mode, make: impl Fn() -> R + Send + Sync + 'static) -> Result<Simulation> {
    let name = MODES.iter().find(|(known, _)| *known == mode);
    let name = name.map_or("machine-pool", |(_, name)| *name);
    let mut simulation = declared(name, &objects::definitions(), objects::pool(mode), make)?
        .faults_until(CALM)
        .always("M1", invariants::a_deletion_has_a_reason)
        .always("M2", invariants::only_machines_are_deleted)
        .always("M3", invariants::a_node_is_drained_before_its_instance_goes)
        .always("M6", invariants::an_instance_gets_one_machine)
        .always("M7", invariants::marks_of_others_stay)
        .always("M8", invariants::a_paused_pool_is_left_alone)
        .at_end("M4", invariants::each_instance_has_a_machine)
        .at_end("M5", move |now| invariants::the_pool_is_as_wanted(now, mode))
        .at_end("M9", invariants::nothing_is_written_at_rest)
        .at(REST + 1, actors::note_versions);
    for second in (TURN..=LAST).step_by(10) {
        simulation = simulation.at(second, move |users| {
            actors::act_once(users, mode, second);
            repairs::act_once(users, second);
        });
    }
    Ok(simulation)
}

/// A pool, its Cluster, and its group, without actors and invariants.
fn declared<R: Reconcile>(
    name: &'static str,
    definitions: &str,
    pool: Value,
    make: impl Fn() -> R + Send + Sync + 'static,
) -> Result<Simulation> {
    Ok(Simulation::new(name)
        .definitions(definitions)?
        .kind::<MachinePool>(&MACHINE_POOLS)
        .kind::<Machine>(&CLUSTER_API_MACHINES)
        .kind::<Cluster>(&CLUSTER_API_CLUSTERS)
        .kind::<Infrastructure>(&GROUPS)
        .kind::<Infrastructure>(&INSTANCES)
        .objects(&CLUSTER_API_CLUSTERS, [objects::cluster()])
        .objects(&GROUPS, [objects::group()])
        .objects(&MACHINE_POOLS, [pool])
        .controller(make)
        .without_managed_fields())
}

/// Runs `count` seeds from `from` on in a mode, on so many threads.
///
/// # Errors
/// A definition cannot be read.
pub fn simulate(mode: Mode, from: u64, count: u64, threads: u64) -> Result<Summary> {
    let seeds = from..from.saturating_add(count);
    simulation(mode, move || controller(mode))?.run_on(seeds, threads)
}

/// Runs the schedules of a few seeds in a mode without failing requests, and then with each single
/// fault at each write.
///
/// # Errors
/// A definition cannot be read.
pub fn exhaust(mode: Mode) -> Result<Vec<Exhausted>> {
    std::thread::scope(|scope| {
        let run = |seed| scope.spawn(move || simulation(mode, move || controller(mode))?.exhaust(seed));
        let runs: Vec<_> = EXHAUSTED.map(run).collect();
        let results = runs
            .into_iter()
            .map(|run| run.join().map_err(|_| anyhow!("a run panicked"))?);
        results.collect()
    })
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

    async fn serving_expiry(&self, cluster: &ManagedCluster, _server: &ApiServer) -> Result<Timestamp, AccessError> {
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
