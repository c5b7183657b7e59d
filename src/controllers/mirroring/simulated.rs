//! The controllers as the simulation runs them: without caches, a Lease, and a cluster of their
//! own.

use super::Mirrored;
use super::kind::{Checks, Machines, Sets};
use super::pairs::Pairs;
use crate::runtime::Reconcile;

pub use super::metrics::MirroringMetrics;
pub use super::objects::{LEASES, NamedObject, SECRETS, StoredObject};

/// The controller of Machines.
pub fn machines(machine_api: &str, cluster_api: &str, metrics: MirroringMetrics) -> impl Reconcile {
    Mirrored::<Machines>::new(Pairs::new(machine_api, cluster_api), metrics)
}

/// The controller of MachineSets.
pub fn sets(machine_api: &str, cluster_api: &str, metrics: MirroringMetrics) -> impl Reconcile {
    Mirrored::<Sets>::new(Pairs::new(machine_api, cluster_api), metrics)
}

/// The controller of MachineHealthChecks.
pub fn checks(machine_api: &str, cluster_api: &str, metrics: MirroringMetrics) -> impl Reconcile {
    Mirrored::<Checks>::new(Pairs::new(machine_api, cluster_api), metrics)
}
