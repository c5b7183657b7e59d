//! The controllers that each replica runs, and what they see of its caches. They are the production controllers.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use capstan::controllers::{Configuration, ControlPlaneMachineSets, Generator, Metrics};
use capstan::runtime::{self, Reconcile, Reconciler, Shared};
use capstan_core::admission::{Options, Snapshot, Source};
use capstan_core::api::kinds;
use capstan_core::api::machine_openshift_io::machine_set::MachineSet;
use capstan_core::api::meta::ObjectMeta;
use capstan_core::api::objects::KindObjects;
use capstan_core::cpms::observed::Settings;
use capstan_core::model::NamespacedName;
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
static METRICS: LazyLock<(Metrics, runtime::Metrics)> = LazyLock::new(|| {
    let mut registry = Registry::default();
    (
        Metrics::register(&mut registry),
        runtime::Metrics::register(&mut registry),
    )
});

/// What the controllers see of the caches of a replica.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// The objects that are cached.
    pub(crate) snapshot: Arc<Snapshot>,
}

impl View {
    /// The same, as the controllers read it.
    fn of_runtime(&self) -> runtime::View {
        let snapshot = &self.snapshot;
        let mut view = runtime::View {
            synced: true,
            ..runtime::View::default()
        };
        let machines = snapshot.machines.iter().flatten();
        let machines = machines.map(|one| (key(&one.metadata), Arc::clone(one)));
        view.objects.insert(&kinds::MACHINES, machines.collect());
        let nodes = snapshot.nodes.iter().flat_map(BTreeMap::values);
        let nodes = nodes.map(|one| (key(&one.metadata), Arc::clone(one)));
        view.objects.insert(&kinds::NODES, nodes.collect());
        let operators = snapshot.cluster_operators.iter().flat_map(BTreeMap::values);
        let operators = operators.map(|one| (key(&one.metadata), Arc::clone(one)));
        view.objects.insert(&kinds::CLUSTER_OPERATORS, operators.collect());
        let sets = snapshot.control_plane_machine_sets.iter().flatten();
        let sets = sets.map(|one| (key(&one.metadata), Arc::clone(one)));
        view.objects.insert(&kinds::CONTROL_PLANE_MACHINE_SETS, sets.collect());
        let machine_sets = KindObjects::<MachineSet>::default();
        view.objects.insert(&kinds::MACHINE_SETS, machine_sets);
        view
    }
}

fn key(meta: &ObjectMeta) -> NamespacedName {
    NamespacedName::new(meta.namespace.as_deref().unwrap_or_default(), meta.name())
}

impl<R: Reconcile> Controller<View> for Reconciler<R, Port> {
    fn reconcile(mut self: Box<Self>, view: Arc<View>, stop: CancellationToken) -> Reconciling<View> {
        Box::pin(async move {
            let view = view.of_runtime();
            let result = Reconciler::reconcile(&mut *self, &view, &stop).await;
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
    let options = Options::default();
    if task == GENERATOR {
        let generator = Generator::new(&options.namespace);
        let object = generator.object();
        let shared = shared(generator, "capstan".to_owned(), leading);
        return Box::new(Reconciler::new(shared, port, object));
    }
    let identity = format!("capstan-{replica}");
    let configuration = Configuration {
        options,
        settings: Settings::default(),
        identity: identity.clone(),
    };
    let sets = ControlPlaneMachineSets::new(configuration, METRICS.0.clone());
    let object = sets.object();
    Box::new(Reconciler::new(shared(sets, identity, leading), port, object))
}

fn shared<R>(controller: R, identity: String, leading: watch::Receiver<bool>) -> Arc<Shared<R>> {
    Arc::new(Shared {
        controller,
        identity,
        leading,
        metrics: METRICS.1.clone(),
    })
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
    }
}
