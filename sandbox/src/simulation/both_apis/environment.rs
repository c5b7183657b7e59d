//! How the engine uses the environment.

use std::sync::Arc;

use anyhow::Result;
use capstan::controllers::mirroring::simulated::{self, NamedObject, SECRETS, StoredObject};
use capstan::runtime::{Metrics, Shared, View};
use capstan_core::api::kinds as table;
use capstan_core::api::objects::KindObjects;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::api::{Admit, Kind, Object, Options, Part};
use crate::simulation::engine::kinds::{CachedKind, KindId, ObjectKey, Version};
use crate::simulation::engine::port::{Answer, Call};
use crate::simulation::engine::replica::Controller;
use crate::simulation::engine::world::{Actor, Environment, Observation, World};
use crate::simulation::invariants::shared;

use super::mutants::Mutant;
use super::objects;
use super::objects::{CLUSTER_API, MACHINE, MACHINE_API};
use super::state::{Act, BothApis, Event, Moment, Setup};

const CONTROLLERS: [&str; 3] = ["machines", "sets", "checks"];

/// All simulations count into the same metrics, which no test reads.
static METRICS: std::sync::LazyLock<(Metrics, simulated::MirroringMetrics)> = std::sync::LazyLock::new(|| {
    let mut registry = Registry::default();
    let runtime = Metrics::register(&mut registry);
    let mirroring = simulated::MirroringMetrics::register(&mut registry, runtime.clone());
    (runtime, mirroring)
});

impl Environment for BothApis {
    type Setup = Setup;
    type Act = Act;
    type Event = Event;
    type Moment = Moment;

    fn new(setup: &Setup) -> Result<Self> {
        Ok(Self::new(setup))
    }

    fn served(&self) -> Result<Arc<Vec<Kind>>> {
        objects::served()
    }

    fn kinds(&self) -> Vec<CachedKind> {
        objects::cached()
    }

    /// No controller applies, so nothing depends on the owners of fields.
    fn api_options(&self) -> Options {
        Options {
            managed_fields: false,
            ..Options::default()
        }
    }

    fn admission(&self) -> Result<Option<Arc<dyn Admit>>> {
        Ok(None)
    }

    fn installation(&self) -> Option<String> {
        None
    }

    fn install(world: &mut World<Self>) {
        world.create_namespace(MACHINE_API);
        world.create_namespace(CLUSTER_API);
        let authority = world.environment.setup.authority.as_str();
        for (key, object, status) in objects::first(authority) {
            let of_kind = ObjectKey::new(key.kind, &key.namespace, "");
            let _answer = world.create(Actor::Installer, &of_kind, object);
            if let Some(status) = status {
                let _answer = world.patch(Actor::Installer, &key, Part::Status, status);
            }
        }
    }

    fn controllers(&self) -> &[&'static str] {
        &CONTROLLERS
    }

    fn start(&self, replica: usize, leading: &watch::Receiver<bool>) -> Vec<Box<dyn Controller>> {
        fn shared<R: capstan::runtime::Reconcile>(
            controller: R,
            replica: usize,
            leading: &watch::Receiver<bool>,
        ) -> Box<dyn Controller> {
            Box::new(Arc::new(Shared {
                controller,
                identity: format!("capstan-{replica}"),
                leading: leading.clone(),
                metrics: METRICS.0.clone(),
            }))
        }
        let metrics = || METRICS.1.clone();
        vec![
            shared(
                simulated::machines(MACHINE_API, CLUSTER_API, metrics()),
                replica,
                leading,
            ),
            shared(simulated::sets(MACHINE_API, CLUSTER_API, metrics()), replica, leading),
            shared(simulated::checks(MACHINE_API, CLUSTER_API, metrics()), replica, leading),
        ]
    }

    /// The other platforms, which the environment does not have.
    fn complete(&self, view: &mut View) {
        let cached = objects::cached();
        for entry in table::all() {
            let known = cached
                .iter()
                .any(|kind| kind.id.group() == entry.kind.group && kind.id.plural() == entry.kind.plural);
            if entry.is_read_by(table::Reader::Mirroring) && !known {
                view.objects.insert(&entry.kind, KindObjects::<StoredObject>::default());
            }
        }
        view.objects.insert(&SECRETS, KindObjects::<NamedObject>::default());
    }

    fn altered_view(&self, controller: usize, view: &View) -> Option<View> {
        self.setup.mutant?.view(controller, view)
    }

    fn restarts_on_change(&self, _controller: usize) -> bool {
        false
    }

    fn alter_call(world: &mut World<Self>, call: &mut Call) -> bool {
        match world.environment.setup.mutant {
            Some(mutant) => mutant.call(call),
            None => true,
        }
    }

    fn alter_answer(world: &mut World<Self>, replica: usize, call: &Call, answer: &mut kube::Result<Answer>) {
        alter_answer(world, replica, call, answer);
    }

    fn moment(_world: &World<Self>) -> Moment {
        Moment
    }

    fn is_decisive(&self, _controller: usize, call: &Call) -> bool {
        matches!(call, Call::Get(key) if key.kind == MACHINE)
    }

    fn judge(world: &mut World<Self>, observation: Observation<'_>, _moments: &[Moment]) {
        let by_controller = matches!(observation.actor, Actor::Controller { .. });
        let (old, new) = (observation.change.old.as_deref(), &*observation.change.object);
        if by_controller
            && !observation.is_gone()
            && let Some(text) = old.and_then(|old| shared::transition_time_moved(old, new))
        {
            world.violate("G6", text);
        }
    }

    fn store(world: &mut World<Self>, observation: Observation<'_>) {
        let stored = &mut world.environment.stored;
        let object = observation.typed.get::<StoredObject>();
        match object.filter(|_| !observation.is_gone()) {
            Some(object) => drop(stored.insert(observation.key.clone(), Arc::new(object.full()))),
            None => drop(stored.remove(observation.key)),
        }
    }

    fn react(world: &mut World<Self>, key: &ObjectKey) {
        world.judge_now(key);
        world.plan_for(key);
    }

    fn act(world: &mut World<Self>, act: &Act) {
        world.act_as_user(act);
    }

    fn handle(world: &mut World<Self>, event: Event) {
        match event {
            Event::Read(role, name) => world.read(role, name),
            Event::Act(role, name, seen) => world.carry_out(role, &name, &seen),
            Event::Request(name, api) => world.ask_for(MACHINE, &name, api),
            Event::Scale(api, grows, delay) => world.scale_read_set(api, grows, delay),
        }
    }

    fn repair(world: &mut World<Self>) -> bool {
        world.is_busy()
    }

    fn judge_end(world: &mut World<Self>) {
        let objects = world.objects();
        if let Some(text) = shared::stuck(objects.iter().map(|version| &*version.stored)) {
            return world.violate("G8", text);
        }
        world.judge_all();
    }
}

/// Alters the answer to a live read.
fn alter_answer(world: &mut World<BothApis>, replica: usize, call: &Call, answer: &mut kube::Result<Answer>) {
    let (Some(mutant), Call::Get(key), Ok(Answer::Object(found))) =
        (world.environment.setup.mutant, call, &mut *answer)
    else {
        return;
    };
    match mutant {
        Mutant::TrustsCaches => {
            let view = world.view_of(replica);
            let stored = view.as_ref().and_then(|view| {
                let objects = &view.objects;
                objects.get::<StoredObject>(key.kind.info(), &key.namespace, &key.name)
            });
            *found = stored.and_then(|object| version_of(key.kind, object.value().clone()));
        }
        _ => {
            let Some(version) = found else { return };
            let mut value = version.stored.to_value();
            if mutant.sees(key.kind, &mut value)
                && let Some(changed) = version_of(key.kind, value)
            {
                *version = changed;
            }
        }
    }
}

fn version_of(kind: KindId, value: serde_json::Value) -> Option<Version> {
    let cached = objects::cached().into_iter().find(|known| known.id == kind)?;
    let object = Arc::new(Object::of(value)?);
    cached.version(&object, None)
}
