//! The controllers that each replica runs, and what they see of its caches. They are the production controllers.

use std::sync::{Arc, LazyLock};

use capstan::controllers::{Configuration, Controller as SetController, Generator, Metrics, View};
use capstan_core::admission::{Options, Snapshot, Source};
use capstan_core::cpms::state::Settings;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::simulation::engine::cache::Cache;
use crate::simulation::engine::port::Port;
use crate::simulation::engine::replica::{Controller, Reconciling};

use super::kinds::{MACHINE, NODE, OPERATOR, SET};

/// The position of the ControlPlaneMachineSet controller among the controllers of a replica.
pub(crate) const SETS: usize = 0;
/// The position of the generator.
pub(crate) const GENERATOR: usize = 1;

/// All simulations count into the same metrics, which no test reads.
static METRICS: LazyLock<Metrics> = LazyLock::new(|| Metrics::register(&mut Registry::default()));

impl Controller<View> for SetController<Port> {
    fn reconcile(mut self: Box<Self>, view: Arc<View>, stop: CancellationToken) -> Reconciling<View> {
        Box::pin(async move {
            let result = self.turn(&view, &stop).await;
            let controller: Box<dyn Controller<View>> = self;
            (controller, result)
        })
    }
}

impl Controller<View> for Generator<Port> {
    fn reconcile(mut self: Box<Self>, view: Arc<View>, _stop: CancellationToken) -> Reconciling<View> {
        Box::pin(async move {
            let result = self.turn(&view).await;
            let controller: Box<dyn Controller<View>> = self;
            (controller, result)
        })
    }
}

/// Starts a controller of a process.
pub(super) fn start(
    task: usize,
    replica: usize,
    port: Port,
    leading: watch::Receiver<bool>,
) -> Box<dyn Controller<View>> {
    if task == GENERATOR {
        return Box::new(Generator::new(port, "capstan".to_owned()));
    }
    let configuration = Configuration {
        options: Options::default(),
        settings: Settings::default(),
        identity: format!("capstan-{replica}"),
    };
    Box::new(SetController::new(port, configuration, leading, METRICS.clone()))
}

/// What the controllers see of the caches of a replica.
pub(super) fn view(cache: &Cache) -> View {
    let objects = cache.objects();
    let named = |(name, object): (&str, Arc<_>)| (name.to_owned(), object);
    let snapshot = Snapshot {
        source: Source::Cluster,
        machines: Some(objects.all(MACHINE).map(|(_, machine)| machine).collect()),
        nodes: Some(objects.all(NODE).map(named).collect()),
        cluster_operators: Some(
            objects
                .all(OPERATOR)
                .map(|(name, operator)| (name.to_owned(), operator))
                .collect(),
        ),
        control_plane_machine_sets: Some(objects.all(SET).map(|(_, set)| set).collect()),
        ..Snapshot::default()
    };
    View {
        snapshot: Arc::new(snapshot),
        machine_sets: Some(Vec::new()),
        serves_cluster_operators: true,
        known: true,
        ..View::default()
    }
}
