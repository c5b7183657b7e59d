//! Simulations of a controller that a test declares: kinds, objects, users, and invariants.
//!
//! The engine, its faults, and the invariants of every controller are the same as for Capstan's own
//! controllers. A declaration must not depend on anything but its arguments, so that a seed stays
//! the same run.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock, OnceLock};

use anyhow::{Context as _, Result};
use capstan::runtime::{Metrics, Reconcile, Shared};
use capstan_core::api::kind::KindInfo;
use capstan_core::api::objects::CachedObject;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::sync::watch;

use crate::api::{Admit, Kind, Object, Options, Part};
use crate::random::Random;

use super::engine::exhaustive::{self, Exhausted};
use super::engine::faults::FaultRates;
use super::engine::kinds::{CachedKind, KindId, ObjectKey, ObjectMap};
use super::engine::options::{Outcome, RunOptions, Violation};
use super::engine::port::Call;
use super::engine::replica::Controller;
use super::engine::run::{Summary, run_seeds};
use super::engine::schedule::{BEHIND, Disruption, HOUR, Incident, MINUTE, SECOND, Schedule};
use super::engine::world::{Actor, Environment, Observation, World};
use super::invariants::shared;

/// The client of the actions that the test declares.
const USER: Actor = Actor::Named("user");

/// All simulations count into the same metrics, which no test reads.
static METRICS: LazyLock<Metrics> = LazyLock::new(|| Metrics::register(&mut Registry::default()));

/// What a run has beside the API server, for example a managed cluster.
pub type Companion = Arc<dyn Any + Send + Sync>;

/// The objects that are stored at one moment.
#[derive(Clone, Debug)]
pub struct Stored(Arc<ObjectMap>, Companion, i64);

impl Stored {
    /// What is stored now.
    fn of(world: &World<Declared>) -> Self {
        let companion = Arc::clone(&world.environment.1);
        Self(world.objects(), companion, world.now() / SECOND)
    }

    /// The simulated time of this moment, in seconds.
    pub fn second(&self) -> i64 {
        self.2
    }

    /// The companion of the run as it is now, and not as it was at this moment.
    pub fn companion<T: Any>(&self) -> Option<&T> {
        self.1.downcast_ref()
    }

    /// An object of a declared kind. The namespace is ignored for a cluster-scoped kind.
    pub fn get(&self, kind: &'static KindInfo, namespace: &str, name: &str) -> Option<&Object> {
        let version = self.0.get(&KindId::of(kind).key(namespace, name))?;
        Some(&version.stored)
    }

    /// All objects of a declared kind, by namespace and name.
    pub fn all(&self, kind: &'static KindInfo) -> impl Iterator<Item = &Object> {
        let all = self.0.of_kind(KindId::of(kind));
        all.map(|(_, version)| &*version.stored)
    }
}

/// A change of an object of a declared kind.
#[derive(Debug)]
pub struct Change<'a> {
    /// The kind of the object.
    pub kind: &'static KindInfo,
    /// Whether a controller made the change.
    pub by_controller: bool,
    /// The object before the change; `None` if it was created.
    pub before: Option<&'a Object>,
    /// The object after the change; `None` if it is gone.
    pub after: Option<&'a Object>,
    /// What was stored during the reconcile that made the change: when it began, when it read live,
    /// and now, before the change.
    pub moments: &'a [Stored],
    companion: &'a Companion,
}

impl Change<'_> {
    /// The companion of the run.
    pub fn companion<T: Any>(&self) -> Option<&T> {
        self.companion.downcast_ref()
    }
}

/// What a user of the test may do.
pub struct Users<'a> {
    world: &'a mut World<Declared>,
    random: Random,
}

impl Users<'_> {
    /// A stream of random numbers of this action, which the seed of the run determines.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Whether a replica runs and leads now.
    pub fn is_led(&self) -> bool {
        self.world.is_led()
    }

    /// What is stored now.
    pub fn stored(&self) -> Stored {
        Stored::of(self.world)
    }

    /// The companion of the run.
    pub fn companion<T: Any>(&self) -> Option<&T> {
        self.world.environment.1.downcast_ref()
    }

    /// Creates an object.
    pub fn create(&mut self, kind: &'static KindInfo, namespace: &str, object: Value) {
        let _answer = self.world.create(USER, &KindId::of(kind).key(namespace, ""), object);
    }

    /// Merges a patch into an object.
    pub fn patch(&mut self, kind: &'static KindInfo, namespace: &str, name: &str, patch: Value) {
        let key = KindId::of(kind).key(namespace, name);
        let _answer = self.world.patch(USER, &key, Part::Main, patch);
    }

    /// Merges a patch into an object through its status subresource.
    pub fn patch_status(&mut self, kind: &'static KindInfo, namespace: &str, name: &str, patch: Value) {
        let key = KindId::of(kind).key(namespace, name);
        let _answer = self.world.patch(USER, &key, Part::Status, patch);
    }

    /// Deletes an object.
    pub fn delete(&mut self, kind: &'static KindInfo, namespace: &str, name: &str) {
        let _answer = self.world.delete(USER, &KindId::of(kind).key(namespace, name));
    }
}

type Start = dyn Fn(&Companion, usize, watch::Receiver<bool>) -> Box<dyn Controller> + Send + Sync;
type Action = dyn Fn(&mut Users<'_>) + Send + Sync;
type Always = dyn Fn(&Change<'_>) -> Result<(), String> + Send + Sync;
type RunEnd = dyn Fn(&Stored) -> Result<(), String> + Send + Sync;

/// A simulation of a controller, as a test declares it.
pub struct Simulation {
    name: &'static str,
    definitions: Vec<Value>,
    /// All kinds that the API server serves, parsed once.
    served: OnceLock<Arc<Vec<Kind>>>,
    kinds: Vec<CachedKind>,
    objects: Vec<(KindId, Value)>,
    names: Vec<&'static str>,
    controllers: Vec<Box<Start>>,
    actions: Vec<(i64, Box<Action>)>,
    always: Vec<(&'static str, Box<Always>)>,
    at_end: Vec<(&'static str, Box<RunEnd>)>,
    has_faults: bool,
    /// Whether the API server keeps `managedFields` of all writes.
    has_managed_fields: bool,
    /// No fault occurs from this time on, in milliseconds.
    calm: i64,
    /// No controller polls after this time, in milliseconds.
    polls_until: i64,
    /// How many writes a new process may make although nothing changed.
    writes_after_restart: u64,
    companion: Box<dyn Fn() -> Companion + Send + Sync>,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("name", &self.name)
            .field("kinds", &self.kinds)
            .field("controllers", &self.names)
            .finish_non_exhaustive()
    }
}

impl Simulation {
    /// A simulation without kinds, controllers, and faults.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            definitions: Vec::new(),
            served: OnceLock::new(),
            kinds: Vec::new(),
            objects: Vec::new(),
            names: Vec::new(),
            controllers: Vec::new(),
            actions: Vec::new(),
            always: Vec::new(),
            at_end: Vec::new(),
            has_faults: false,
            has_managed_fields: true,
            calm: HOUR,
            polls_until: i64::MAX,
            writes_after_restart: 0,
            companion: Box::new(|| Arc::new(())),
        }
    }

    /// Serves the kinds of these CustomResourceDefinitions, which are YAML documents.
    ///
    /// # Errors
    /// When a document is not a CustomResourceDefinition.
    pub fn definitions(mut self, yaml: &str) -> Result<Self> {
        for document in yaml.split("\n---\n") {
            let definition = serde_saphyr::from_str(document).context("parsing a CustomResourceDefinition")?;
            self.definitions.push(definition);
        }
        Ok(self)
    }

    /// Caches a kind in every replica as `T`. The API server must serve it.
    #[must_use]
    pub fn kind<T: CachedObject>(mut self, kind: &'static KindInfo) -> Self {
        self.kinds.push(CachedKind::of::<T>(KindId::of(kind)).owning());
        self
    }

    /// Creates objects of a kind before a run begins. Their namespaces are created first.
    #[must_use]
    pub fn objects(mut self, kind: &'static KindInfo, objects: impl IntoIterator<Item = Value>) -> Self {
        let objects = objects.into_iter().map(|object| (KindId::of(kind), object));
        self.objects.extend(objects);
        self
    }

    /// Runs a controller in every replica. It is made anew whenever a process starts.
    #[must_use]
    pub fn controller<R: Reconcile>(self, make: impl Fn() -> R + Send + Sync + 'static) -> Self {
        self.controller_with(move |_, _| make())
    }

    /// The same for a controller that uses the companion of the run. The number is that of the
    /// replica.
    #[must_use]
    pub fn controller_with<R: Reconcile>(
        mut self,
        make: impl Fn(&Companion, usize) -> R + Send + Sync + 'static,
    ) -> Self {
        self.names.push(R::NAME);
        self.controllers.push(Box::new(move |companion, replica, leading| {
            Box::new(Arc::new(Shared {
                controller: make(companion, replica),
                identity: format!("capstan-{replica}"),
                leading,
                metrics: METRICS.clone(),
            }))
        }));
        self
    }

    /// Lets a user do something at a second of every run.
    #[must_use]
    pub fn at(mut self, second: u32, action: impl Fn(&mut Users<'_>) + Send + Sync + 'static) -> Self {
        self.actions.push((i64::from(second) * SECOND, Box::new(action)));
        self
    }

    /// Lets requests fail, and disturbs the replicas: crashes, stale caches, two leaders, wrong
    /// clocks. Each seed draws its own mixture.
    #[must_use]
    pub fn faults(mut self) -> Self {
        self.has_faults = true;
        self
    }

    /// As [`Self::faults`], until a minute. The default is an hour.
    #[must_use]
    pub fn faults_until(mut self, minute: i64) -> Self {
        self.calm = minute * MINUTE;
        self.faults()
    }

    /// Keeps no `managedFields`, which cost more than the rest of a write. Only for controllers
    /// that apply nothing: the owners of fields decide which applies conflict.
    #[must_use]
    pub fn without_managed_fields(mut self) -> Self {
        self.has_managed_fields = false;
        self
    }

    /// Ends the run of a controller that polls something which no watch shows: it is not called
    /// again after this second only because it asked for that.
    #[must_use]
    pub fn polls_until(mut self, second: u32) -> Self {
        self.polls_until = i64::from(second) * SECOND;
        self
    }

    /// Allows so many writes of a new process although nothing changed: only the answer to a write
    /// tells what the API server does not store.
    #[must_use]
    pub fn writes_after_restart(mut self, writes: u64) -> Self {
        self.writes_after_restart = writes;
        self
    }

    /// Makes what each run has beside the API server.
    #[must_use]
    pub fn companion(mut self, make: impl Fn() -> Companion + Send + Sync + 'static) -> Self {
        self.companion = Box::new(make);
        self
    }

    /// Checks an invariant on every change of a declared kind.
    #[must_use]
    pub fn always(
        mut self,
        invariant: &'static str,
        check: impl Fn(&Change<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.always.push((invariant, Box::new(check)));
        self
    }

    /// Checks an invariant at the end, after faults have stopped and no event is due.
    #[must_use]
    pub fn at_end(
        mut self,
        invariant: &'static str,
        check: impl Fn(&Stored) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.at_end.push((invariant, Box::new(check)));
        self
    }

    /// Runs these seeds on two threads. The invariants of every controller are checked too.
    ///
    /// # Errors
    /// When the API server does not serve a declared kind, or cannot store a declared object.
    pub fn run(self, seeds: Range<u64>) -> Result<Summary> {
        self.run_on(seeds, 2)
    }

    /// Runs these seeds on so many threads.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_on(self, seeds: Range<u64>, threads: u64) -> Result<Summary> {
        let declared = Arc::new(self);
        run_seeds::<Declared>(&seeds, threads, |seed| Ok(schedule(seed, &declared)))
    }

    /// Runs one seed with a trace.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn trace(self, seed: u64) -> Result<Outcome> {
        let options = RunOptions {
            trace: true,
            ..RunOptions::default()
        };
        Ok(World::<Declared>::new(schedule(seed, &Arc::new(self)), options)?.run())
    }

    /// Runs the schedule of one seed, once for each write and each fault of it.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn exhaust(self, seed: u64) -> Result<Exhausted> {
        exhaustive::exhaust::<Declared>(seed, schedule(seed, &Arc::new(self)))
    }

    /// The first of these seeds that violates an invariant, with the violation. It looks for no
    /// smaller run.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn first_violation(self, seeds: Range<u64>) -> Result<Option<(u64, Violation)>> {
        let declared = Arc::new(self);
        for seed in seeds {
            let world = World::<Declared>::new(schedule(seed, &declared), RunOptions::default())?;
            if let Some(violation) = world.run().violation {
                return Ok(Some((seed, violation)));
            }
        }
        Ok(None)
    }
}

/// An action of a user: its position, and the seed of its random numbers.
#[derive(Clone, Debug)]
pub(crate) struct UserAction(usize, u64);

/// The environment of a declared simulation.
pub(crate) struct Declared(Arc<Simulation>, Companion);

fn schedule(seed: u64, declared: &Arc<Simulation>) -> Schedule<Arc<Simulation>, UserAction> {
    let mut random = Random::new(seed);
    let actions = declared.actions.iter().enumerate();
    // The actions have a stream of their own, so that they change no fault of a seed.
    let mut of_actions = Random::new(seed ^ 0x0bad_5eed_1a7e_0003);
    let actions = actions.map(|(position, (at, _))| (*at, Incident::Act(UserAction(position, of_actions.next()))));
    let mut schedule = Schedule::quiet(random.next(), declared.name, Arc::clone(declared), declared.calm);
    schedule.incidents = actions.collect();
    if declared.has_faults {
        draw_faults(&mut random, &mut schedule, &declared.kinds);
    }
    schedule.incidents.sort_by_key(|(at, _)| *at);
    schedule
}

/// Draws how often requests fail, and what disturbs the replicas during the first two thirds of
/// the time with faults.
fn draw_faults(random: &mut Random, schedule: &mut Schedule<Arc<Simulation>, UserAction>, kinds: &[CachedKind]) {
    schedule.rates = FaultRates::drawn(random, 80);
    schedule.lag = random.between(200, 5000);
    let calm = schedule.calm;
    let mut time = |least: i64, most: i64| {
        let drawn = random.between(least.unsigned_abs(), most.unsigned_abs());
        i64::try_from(drawn).unwrap_or(least)
    };
    for _ in 0..time(0, 8) {
        let at = time(0, calm * 2 / 3);
        let replica = usize::from(time(0, 1) == 1);
        let position = usize::try_from(time(0, 1 << 20)).unwrap_or(0);
        let kind = kinds
            .get(position.checked_rem(kinds.len()).unwrap_or(0))
            .map(|kind| kind.id);
        let disruption = match (time(0, 6), kind) {
            (0, Some(kind)) => Disruption::Freeze(replica, kind, time(5 * SECOND, calm / 3)),
            (1, Some(kind)) => Disruption::Relist(replica, kind, time(SECOND, BEHIND)),
            (2, _) => Disruption::Hang(replica, time(SECOND, MINUTE)),
            (3, _) => Disruption::Jump(replica, time(0, HOUR)),
            (4, _) => Disruption::GarbageLate(time(SECOND, MINUTE)),
            (5, _) => {
                let end = at + time(MINUTE, 5 * MINUTE);
                schedule.at_ms(end, Disruption::Lead(replica == 0, replica == 1));
                Disruption::Lead(true, true)
            }
            _ => Disruption::Kill(replica),
        };
        schedule.at_ms(at, disruption);
    }
}

impl Environment for Declared {
    type Setup = Arc<Simulation>;
    type Act = UserAction;
    type Event = ();
    type Moment = Stored;

    fn new(setup: &Arc<Simulation>) -> Result<Self> {
        Ok(Self(Arc::clone(setup), (setup.companion)()))
    }

    fn served(&self) -> Result<Arc<Vec<Kind>>> {
        if let Some(served) = self.0.served.get() {
            return Ok(Arc::clone(served));
        }
        let mut kinds = Kind::built_ins()?;
        for definition in &self.0.definitions {
            kinds.push(Kind::of_definition(definition)?);
        }
        for cached in &self.0.kinds {
            let info = cached.id.info();
            let served = kinds
                .iter()
                .any(|kind| kind.group == info.group && kind.plural == info.plural);
            anyhow::ensure!(
                served,
                "the simulated API server must serve {}; add its definition",
                info.title()
            );
        }
        Ok(Arc::clone(self.0.served.get_or_init(|| Arc::new(kinds))))
    }

    fn kinds(&self) -> Vec<CachedKind> {
        self.0.kinds.clone()
    }

    fn api_options(&self) -> Options {
        Options {
            managed_fields: self.0.has_managed_fields,
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
        let declared = Arc::clone(&world.environment.0);
        let namespace = |object: &Value| {
            let namespace = object.pointer("/metadata/namespace")?.as_str()?;
            Some(namespace.to_owned())
        };
        let namespaces: BTreeSet<String> = declared
            .objects
            .iter()
            .filter_map(|(_, object)| namespace(object))
            .collect();
        for name in namespaces {
            world.create_namespace(&name);
        }
        for (kind, object) in &declared.objects {
            let key = kind.key(&namespace(object).unwrap_or_default(), "");
            let _answer = world.create(Actor::Installer, &key, object.clone());
        }
    }

    fn controllers(&self) -> &[&'static str] {
        &self.0.names
    }

    fn start(&self, replica: usize, leading: &watch::Receiver<bool>) -> Vec<Box<dyn Controller>> {
        let controllers = self.0.controllers.iter();
        controllers
            .map(|start| start(&self.1, replica, leading.clone()))
            .collect()
    }

    fn restarts_on_change(&self, _controller: usize) -> bool {
        true
    }

    fn polls_until(&self) -> i64 {
        self.0.polls_until
    }

    fn writes_after_restart(&self) -> u64 {
        self.0.writes_after_restart
    }

    fn moment(world: &World<Self>) -> Stored {
        Stored::of(world)
    }

    /// Any live read may be what the controller bases its writes on.
    fn is_decisive(&self, _controller: usize, call: &Call) -> bool {
        !call.is_write()
    }

    fn judge(world: &mut World<Self>, observation: Observation<'_>, moments: &[Stored]) {
        let by_controller = matches!(observation.actor, Actor::Controller { .. });
        let (old, new) = (observation.change.old.as_deref(), &*observation.change.object);
        if by_controller && !observation.is_gone() {
            let moved = old.and_then(|old| shared::transition_time_moved(old, new));
            if let Some(text) = shared::generation_observed_early(new).or(moved) {
                return world.violate("G6", text);
            }
        }
        let change = Change {
            kind: observation.key.kind.info(),
            by_controller,
            before: old,
            after: (!observation.is_gone()).then_some(new),
            moments,
            companion: &Arc::clone(&world.environment.1),
        };
        let declared = Arc::clone(&world.environment.0);
        for (invariant, check) in &declared.always {
            if let Err(text) = check(&change) {
                return world.violate(invariant, text);
            }
        }
    }

    fn store(_world: &mut World<Self>, _observation: Observation<'_>) {}

    fn react(_world: &mut World<Self>, _key: &ObjectKey) {}

    fn act(world: &mut World<Self>, act: &UserAction) {
        let declared = Arc::clone(&world.environment.0);
        if let Some((_, action)) = declared.actions.get(act.0) {
            let random = Random::new(act.1);
            action(&mut Users { world, random });
        }
    }

    fn handle(_world: &mut World<Self>, _event: ()) {}

    fn repair(world: &mut World<Self>) -> bool {
        world.is_busy()
    }

    fn judge_end(world: &mut World<Self>) {
        let declared = Arc::clone(&world.environment.0);
        let now = Stored::of(world);
        let stored = now.0.iter().map(|version| &*version.stored);
        if let Some(text) = shared::stuck(stored) {
            return world.violate("G8", text);
        }
        for (invariant, check) in &declared.at_end {
            if let Err(text) = check(&now) {
                return world.violate(invariant, text);
            }
        }
    }
}
