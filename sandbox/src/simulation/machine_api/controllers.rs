//! The controllers that each replica runs. They are the production controllers.

use std::sync::{Arc, LazyLock};

use capstan::controllers::{Configuration, ControlPlaneMachineSets, Generator, Metrics};
use capstan::runtime::{self, Shared};
use capstan_core::admission::Options;
use capstan_core::cpms::observed::Settings;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::simulation::engine::replica::Controller;

/// The position of the ControlPlaneMachineSet controller among the controllers of a replica.
pub(crate) const SETS: usize = 0;
/// The position of the generator.
pub(crate) const GENERATOR: usize = 1;

/// All simulations count into the same metrics, which no test reads.
static METRICS: LazyLock<(Metrics, runtime::Metrics)> = LazyLock::new(|| {
    let mut registry = Registry::default();
    (
        Metrics::register(&mut registry),
        runtime::Metrics::register(&mut registry),
    )
});

/// Starts the controllers of a process.
pub(super) fn start(replica: usize, leading: &watch::Receiver<bool>, generates: bool) -> Vec<Box<dyn Controller>> {
    let options = Options::default();
    let identity = format!("capstan-{replica}");
    let generator = generates.then(|| {
        let generator = Generator::new(&options.namespace);
        shared(generator, "capstan".to_owned(), leading.clone())
    });
    let configuration = Configuration {
        options,
        settings: Settings::default(),
        identity: identity.clone(),
    };
    let sets = ControlPlaneMachineSets::new(configuration, METRICS.0.clone());
    let sets = shared(sets, identity, leading.clone());
    [sets].into_iter().chain(generator).collect()
}

fn shared<R>(controller: R, identity: String, leading: watch::Receiver<bool>) -> Box<dyn Controller>
where
    Arc<Shared<R>>: Controller,
    R: 'static,
{
    Box::new(Arc::new(Shared {
        controller,
        identity,
        leading,
        metrics: METRICS.1.clone(),
    }))
}
