//! The controller of KubeadmControlPlanes in a simulated management cluster, with a managed cluster
//! whose machines boot, fail, and vanish, and whose etcd has a quorum.
//!
//! The actors play users, the core and the bootstrap controllers of Cluster API, the cloud, and a
//! health check. Each acts late, on a part of the objects. The faults stop before the end. A run
//! begins without a machine. `bugs` lists seeded bugs, and `mutants` hunts them.

mod actors;
pub mod bugs;
mod invariants;
mod managed;
pub mod mutants;
mod objects;
mod restore;

use std::sync::Arc;

use anyhow::Result;
use capstan::controllers::kubeadm_control_plane::{KubeadmControlPlanes, SECRETS, SecretSummary, WholeObject};
use capstan::runtime::Reconcile;
use capstan_core::api::kinds::{
    CLUSTER_API_CLUSTERS, CLUSTER_API_MACHINES, KUBEADM_CONFIGS, KUBEADM_CONTROL_PLANES, MACHINE_POOLS,
};

use super::declared::Simulation;
use super::engine::run::Summary;
use objects::{INSTANCES, TEMPLATES};

pub use managed::SimulatedClusters;

/// Between two turns of the actors, in seconds.
const TURN: usize = 10;
/// The end of the last turn, in seconds.
const LAST: u32 = 60 * 60;
/// No fault of the engine occurs from this minute on.
const CALM: i64 = 17;

/// The controller of a process as it ships.
pub fn controller(clusters: SimulatedClusters, replica: usize) -> KubeadmControlPlanes<SimulatedClusters> {
    KubeadmControlPlanes::new(clusters, format!("capstan-{replica}"))
}

/// Runs `count` seeds from `from` on, on so many threads.
///
/// # Errors
/// A definition cannot be read.
pub fn simulate(from: u64, count: u64, threads: u64) -> Result<Summary> {
    simulation(controller)?.run_on(from..from.saturating_add(count), threads)
}

/// A control plane of three machines that do not exist yet, with a controller.
///
/// # Errors
/// A definition cannot be read.
pub fn simulation<R: Reconcile>(
    make: impl Fn(SimulatedClusters, usize) -> R + Send + Sync + 'static,
) -> Result<Simulation> {
    let mut simulation = Simulation::new("kubeadm-control-plane")
        .definitions(&objects::definitions())?
        .kind::<WholeObject>(&CLUSTER_API_MACHINES)
        .kind::<WholeObject>(&KUBEADM_CONTROL_PLANES)
        .kind::<WholeObject>(&CLUSTER_API_CLUSTERS)
        .kind::<WholeObject>(&KUBEADM_CONFIGS)
        .kind::<WholeObject>(&MACHINE_POOLS)
        .kind::<WholeObject>(&INSTANCES)
        .kind::<WholeObject>(&TEMPLATES)
        .kind::<SecretSummary>(&SECRETS)
        .objects(&CLUSTER_API_CLUSTERS, [objects::cluster()])
        .objects(&TEMPLATES, objects::templates())
        .objects(&KUBEADM_CONTROL_PLANES, [objects::control_plane()])
        .companion(|| Arc::new(SimulatedClusters::default()))
        .controller_with(move |companion, replica| {
            let clusters = companion.downcast_ref::<SimulatedClusters>().cloned();
            make(clusters.unwrap_or_default(), replica)
        })
        .without_managed_fields()
        .faults_until(CALM)
        .polls_until(LAST + 300)
        .always("K5", invariants::a_creation_is_wanted)
        .always("K6", invariants::a_deletion_has_a_reason)
        .always("K7", invariants::a_member_goes_before_the_hook)
        .always("K8", invariants::an_authority_never_changes)
        .always("K9", invariants::the_spec_belongs_to_the_user)
        .always("K11", invariants::a_pause_holds)
        .always("K12", invariants::a_machine_goes_where_none_is);
    for invariant in ["K1", "K2", "K3", "K4", "K13"] {
        simulation = simulation
            .always(invariant, move |change| {
                invariants::noted(change.companion(), invariant)
            })
            .at_end(invariant, move |stored| {
                invariants::noted(stored.companion(), invariant)
            });
    }
    simulation = simulation.at_end("K10", invariants::the_control_plane_is_as_wanted);
    for second in (10..=LAST).step_by(TURN) {
        simulation = simulation.at(second, move |users| actors::act_once(users, second));
    }
    Ok(simulation)
}
