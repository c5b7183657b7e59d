//! The controllers: one folder or file a controller, and the registry that starts them.
//!
//! A controller hands what it observes to [`capstan_core`], and returns the writes that core
//! planned. It decides nothing that core could decide, and it performs no write itself:
//! [`runtime`](crate::runtime) does.

mod assess;
mod caches;
pub mod control_plane;
mod control_plane_machine_set;
mod generator;
pub mod kubeadm_control_plane;
mod live;
pub mod machine_pool;
mod metrics;
pub mod mirroring;
mod observed;
mod pending_creates;
mod planned;
mod recent_creations;
mod stored_parts;

use std::sync::Arc;

use kube::Client as KubeClient;

use crate::runtime::{Election, Running};

pub use assess::{Assessment, Reading, assess};
pub use caches::{Caches, snapshot, watches};
pub use control_plane_machine_set::{Configuration, ControlPlaneMachineSets};
pub use generator::{FIELD_MANAGER as GENERATOR, GENERATED, Generator, REFUSED};
pub use live::LiveReader;
pub use metrics::Metrics;
pub use observed::{control_plane_machine_set, control_plane_machine_sets, observed};

/// Starts the controllers of ControlPlaneMachineSets in the background. They work while this
/// process is the leader.
pub fn start(
    client: &KubeClient,
    caches: &Arc<Caches>,
    configuration: Configuration,
    election: Election,
    metrics: Metrics,
) -> Running {
    let generator = Generator::new(&configuration.options.namespace);
    let running = Running::new(client, election, caches.views(), metrics.runtime.clone());
    let sets = ControlPlaneMachineSets::new(configuration, metrics);
    running
        .with(generator, caches.subscribe(), caches)
        .with(sets, caches.subscribe(), caches)
}
