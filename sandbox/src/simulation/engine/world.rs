//! A world, and what an environment adds to it.
//!
//! Every step of a world is one event of one queue, and every choice comes from one seed. A world
//! must not depend on anything else: the same schedule and options give the same run on every
//! machine and in every build.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use capstan::runtime::View;
use capstan_core::model::User;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::api::Admit;
use crate::api::garbage::Graph;
use crate::api::{
    Api, Change, DeleteOptions, Failure, Kind, Options, Part, PatchKind, Reply, Request, Target, Verb, WriteOptions,
};

use super::draws::Chooser;
pub(super) use super::events::Due;
pub(crate) use super::events::{Actor, Observation, REPLICAS, Sent};
use super::kinds::{CachedKind, KindId, ObjectKey, ObjectMap, Version};
use super::options::{Marks, Outcome, RunOptions, Violation};
use super::port::{Answer, Call};
use super::replica::{Controller, Replica};
use super::schedule::{BEHIND, CallKind, HOUR, Incident, Schedule, StoredState};
use super::tape::Tape;
use super::trace_format;

/// The second at which simulated time begins, since 1970.
const BEGIN: i64 = 1_767_225_600;
/// A run that takes more steps does not end.
const MAX_STEPS: u64 = 60_000;
/// The longest usual lag of a cache once no fault occurs any more, in milliseconds.
const CALM_LAG: i64 = 400;
/// More writes of controllers in a row that change nothing are a hot loop. Lost answers, killed
/// processes, and caches that go back in time explain a few.
const IDLE_WRITES: u32 = 30;

/// What surrounds the controllers: kinds, actors, and invariants. The hooks take the whole world,
/// so that an actor may write objects, and the other actors react to that in the same step.
pub(crate) trait Environment: Sized + 'static {
    /// What a schedule sets the environment up with.
    type Setup: Clone + fmt::Debug + Send + Sync;
    /// What users and actors do at times that the schedule decides.
    type Act: Clone + fmt::Debug + Send + Sync;
    /// What an actor does later.
    type Event: fmt::Debug;
    /// Everything that invariants know about one moment. Clones are cheap.
    type Moment: Clone + fmt::Debug;

    /// Texts that traces replace by shorter ones.
    const ABBREVIATIONS: &'static [(&'static str, &'static str)] = &[];

    /// An environment before its installation.
    fn new(setup: &Self::Setup) -> Result<Self>;

    /// The kinds that the API server serves.
    fn served(&self) -> Result<Arc<Vec<Kind>>>;

    /// The kinds that replicas cache, in the order in which a replica lists them.
    fn kinds(&self) -> Vec<CachedKind>;

    /// How the API server is configured.
    fn api_options(&self) -> Options;

    /// The admission of the API server.
    fn admission(&self) -> Result<Option<Arc<dyn Admit>>>;

    /// A name for the installation, the same for all schedules whose installations are the same.
    /// The answers of the API server are then recorded once.
    fn installation(&self) -> Option<String>;

    /// Creates the first objects.
    fn install(world: &mut World<Self>);

    /// Does what follows the installation and is not part of its recording.
    fn installed(_world: &mut World<Self>) {}

    /// The names of the controllers that each replica runs.
    fn controllers(&self) -> &[&'static str];

    /// The controllers of a process that has just started, in the same order.
    fn start(&self, replica: usize, leading: &watch::Receiver<bool>) -> Vec<Box<dyn Controller>>;

    /// Adds empty kinds to a view: controllers watch them, and the environment does not have them.
    fn complete(&self, _view: &mut View) {}

    /// What a controller with the seeded bug sees instead of its caches.
    fn altered_view(&self, _controller: usize, _view: &View) -> Option<View> {
        None
    }

    /// Whether a change of the caches during a reconcile lets the controller begin again at once
    /// and forget its failures. A controller without this begins again after its pause.
    fn restarts_on_change(&self, controller: usize) -> bool;

    /// A controller is not called again after this time, in milliseconds, only because it asked for
    /// that. Without an end, the run of a controller that polls would never end.
    fn polls_until(&self) -> i64 {
        i64::MAX
    }

    /// Whether a replica leads, given what the election says.
    fn leads(&self, elected: bool) -> bool {
        elected
    }

    /// Whether the API server answers controllers.
    fn answers(&self) -> bool {
        true
    }

    /// Whether the cluster is lost, so that the run ends and nothing is judged any more.
    fn is_lost(&self) -> bool {
        false
    }

    /// Lets the seeded bug alter a call before it is sent. Returns false if the call is not sent at
    /// all; the controller then takes it for executed.
    fn alter_call(_world: &mut World<Self>, _call: &mut Call) -> bool {
        true
    }

    /// Lets the seeded bug alter an answer.
    fn alter_answer(_world: &mut World<Self>, _replica: usize, _call: &Call, _answer: &mut kube::Result<Answer>) {}

    /// A fault refuses a call, so that it never takes effect.
    fn refused(_world: &mut World<Self>, _call: &Call) {}

    /// Whether the seeded bug makes a controller forget everything between two reconciles.
    fn forgets(&self, _controller: usize) -> bool {
        false
    }

    /// What is true now.
    fn moment(world: &World<Self>) -> Self::Moment;

    /// Whether a controller bases its decisions on this live read from now on.
    fn is_decisive(&self, controller: usize, call: &Call) -> bool;

    /// Judges a call that is about to be sent.
    fn judge_call(_world: &mut World<Self>, _replica: usize, _call: &Call) {}

    /// Judges a change. `moments` is what was true during the reconcile that caused it, and ends
    /// with now. The environment does not show the change yet.
    fn judge(world: &mut World<Self>, observation: Observation<'_>, moments: &[Self::Moment]);

    /// Takes a change in.
    fn store(world: &mut World<Self>, observation: Observation<'_>);

    /// Lets the actors react to a change.
    fn react(world: &mut World<Self>, key: &ObjectKey);

    /// Judges a reconcile that has ended: what it created or deleted, and the Kubernetes events
    /// that it published.
    fn judge_reconcile(_world: &mut World<Self>, _controller: usize, _written: &[ObjectKey], _events: &[Event]) {}

    /// Executes an act of the schedule.
    fn act(world: &mut World<Self>, act: &Self::Act);

    /// Executes an event of an actor.
    fn handle(world: &mut World<Self>, event: Self::Event);

    /// Repairs what faults left behind, as the messages of the controllers advise. Returns whether
    /// anything was done.
    fn repair(world: &mut World<Self>) -> bool;

    /// States that may trigger incidents in a search for new schedules.
    fn states() -> Vec<StoredState> {
        Vec::new()
    }

    /// Removes from a changed schedule what the environment does not allow for.
    fn restrict(_schedule: &mut Schedule<Self::Setup, Self::Act>) {}

    /// What the invariants met in this run.
    fn marks(&self) -> Marks {
        Marks::default()
    }

    /// Judges a world in which no event is due.
    fn judge_end(world: &mut World<Self>);

    /// How many writes a controller may make when its process restarts, although nothing has
    /// changed.
    fn writes_after_restart(&self) -> u64 {
        0
    }
}

/// The garbage collector.
#[derive(Debug, Default)]
struct Collector {
    graph: Graph,
    /// It starts this much later, in milliseconds.
    late: i64,
    /// Its next round is in the queue.
    is_due: bool,
    /// An owner was deleted, so any change may have left objects without one.
    owner_deleted: bool,
}

/// What the world knows of a trigger.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// How often its call was sent, or its state began.
    pub(super) count: u64,
    /// Whether its state holds.
    pub(super) holds: bool,
}

/// A world.
pub(crate) struct World<E: Environment> {
    pub(crate) environment: E,
    pub(super) now: i64,
    pub(super) queue: BTreeMap<(i64, u64), Due<E::Moment, E::Event>>,
    sequence: u64,
    pub(super) api: Api,
    pub(super) kinds: Vec<CachedKind>,
    /// What is stored, read.
    pub(super) objects: Arc<ObjectMap>,
    pub(super) replicas: Vec<Replica<E::Moment>>,
    collector: Collector,
    /// Until when the controllers may not write a kind.
    pub(super) denied: BTreeMap<KindId, i64>,
    pub(super) schedule: Schedule<E::Setup, E::Act>,
    /// The numbers of calls.
    pub(super) calls: BTreeMap<(CallKind, KindId), u64>,
    /// What is known of each trigger.
    pub(super) progress: Vec<Progress>,
    /// Incidents of the last minutes, and until when they count as active.
    pub(super) active: Vec<(i64, String)>,
    pub(super) options: RunOptions,
    pub(super) chooser: Chooser,
    pub(crate) outcome: Outcome,
    /// No fault occurs any more.
    pub(super) calm: bool,
    /// Writes of controllers in a row that changed nothing.
    idle_writes: u32,
    /// Records or replays the installation.
    tape: Option<Tape>,
}

impl<E: Environment> World<E> {
    /// A world before its first step.
    ///
    /// # Errors
    /// When the environment cannot be set up.
    pub(crate) fn new(schedule: Schedule<E::Setup, E::Act>, options: RunOptions) -> Result<Self> {
        let environment = E::new(&schedule.setup)?;
        let mut api = Api::new(environment.served()?, environment.api_options());
        if let Some(admission) = environment.admission()? {
            api = api.with_admission(admission);
        }
        let progress = vec![Progress::default(); schedule.triggers.len()];
        let chooser = Chooser::new(schedule.seed, schedule.draws);
        let tape = environment
            .installation()
            .map(|installation| Tape::begin(installation, &mut api));
        let mut world = Self {
            now: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            api,
            kinds: environment.kinds(),
            objects: Arc::default(),
            replicas: Vec::new(),
            collector: Collector::default(),
            denied: BTreeMap::new(),
            schedule,
            calls: BTreeMap::new(),
            progress,
            active: Vec::new(),
            options,
            chooser,
            outcome: Outcome::default(),
            calm: false,
            idle_writes: 0,
            tape,
            environment,
        };
        E::install(&mut world);
        if let Some(tape) = world.tape.take() {
            tape.end(&world.api);
        }
        E::installed(&mut world);
        world.start_replicas();
        Ok(world)
    }

    /// Runs the world to its end.
    pub(crate) fn run(mut self) -> Outcome {
        let times: Vec<i64> = self.schedule.incidents.iter().map(|(at, _)| *at).collect();
        for (position, at) in times.into_iter().enumerate() {
            if !self.options.skipped.contains(&position) {
                self.after(at, Due::Incident(position));
            }
        }
        self.settle();
        // A repair may only show the next problem, so there are several rounds.
        for _ in 0..12 {
            if self.is_violated() || self.environment.is_lost() || !self.repair() {
                break;
            }
            self.settle();
        }
        if !self.environment.is_lost() {
            self.judge_the_end();
        }
        self.outcome.time = self.now;
        self.outcome.marks = self.environment.marks();
        self.outcome
    }

    /// Steps until the queue is empty.
    pub(super) fn settle(&mut self) {
        let horizon = self.now.max(self.schedule.calm) + 48 * HOUR;
        while !self.is_violated() && !self.environment.is_lost() {
            let Some(((at, _), due)) = self.queue.pop_first() else {
                break;
            };
            self.now = at;
            self.outcome.steps += 1;
            if !self.calm && self.now >= self.schedule.calm {
                self.calm = true;
                self.trace(|| "-- no fault occurs from here on".to_owned());
            }
            if self.outcome.steps > MAX_STEPS || self.now > horizon {
                let due: String = format!("{due:?}").chars().take(120).collect();
                self.violate("ESR", format!("the run does not end; next event: {due}"));
                break;
            }
            self.step(due);
        }
        if !self.is_violated() && !self.calm {
            self.calm = true;
            self.now = self.now.max(self.schedule.calm);
        }
    }

    /// Lets an incident happen.
    pub(super) fn happen(&mut self, incident: &Incident<E::Act>) {
        self.outcome.faults += 1;
        self.trace(|| format!("-- {incident:?}"));
        self.note_incident(incident);
        match incident {
            Incident::Disruption(disruption) => self.disrupt(disruption),
            Incident::Act(act) => E::act(self, act),
        }
    }

    fn step(&mut self, due: Due<E::Moment, E::Event>) {
        match due {
            Due::Incident(position) => {
                if let Some((_, incident)) = self.schedule.incidents.get(position).cloned() {
                    self.happen(&incident);
                }
            }
            Due::Triggered(position) => self.happen_triggered(position),
            Due::Deliver(replica, kind) => self.deliver(replica, kind),
            Due::Wake { replica, task, ticket } => self.wake(replica, task, ticket),
            Due::Arrive { sent, lost, crash } => self.arrive(*sent, lost, crash),
            Due::ArriveLate { sent, moments } => self.arrive_late(*sent, moments),
            Due::Answer {
                replica,
                task,
                epoch,
                id,
                answer,
            } => self.receive(replica, task, epoch, id, answer),
            Due::Restart(replica) => self.restart(replica),
            Due::Lead(leads) => self.lead(leads),
            Due::Collect => self.collect(),
            Due::Environment(event) => E::handle(self, event),
        }
    }

    pub(super) fn after(&mut self, delay: i64, due: Due<E::Moment, E::Event>) {
        self.at(self.now + delay.max(0), due);
    }

    pub(super) fn at(&mut self, at: i64, due: Due<E::Moment, E::Event>) {
        self.sequence += 1;
        self.queue.insert((at.max(self.now), self.sequence), due);
    }

    /// Repairs what faults left behind. Returns whether there was anything to repair.
    fn repair(&mut self) -> bool {
        self.calm = true;
        self.collector.late = 0;
        let elected = self.settle_leader();
        E::repair(self) || elected
    }

    /// Judges a world in which no event is due, and lets it reconcile twice more, once in a process
    /// that has just started. Nothing has changed, so nothing may be written.
    fn judge_the_end(&mut self) {
        if self.is_violated() {
            return;
        }
        E::judge_end(self);
        if self.is_violated() {
            return;
        }
        let writes = self.reconcile_once_more(true);
        let writes = writes.saturating_sub(self.environment.writes_after_restart());
        let writes = writes + self.reconcile_once_more(false);
        if writes > 0 {
            self.violate("G4", format!("{writes} write(s) although nothing changed"));
        }
    }
}

/// What actors and invariants use.
impl<E: Environment> World<E> {
    /// The simulated time, in milliseconds.
    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// The simulated time, as objects contain it.
    pub(crate) fn timestamp(&self) -> Timestamp {
        time_at(self.now)
    }

    /// Whether no fault occurs any more.
    pub(crate) fn is_calm(&self) -> bool {
        self.calm
    }

    /// Whether one given write of the run meets a fault.
    pub(crate) fn has_single_fault(&self) -> bool {
        self.options.single.is_some()
    }

    /// Whether an event is due.
    pub(crate) fn is_busy(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Lets time pass.
    pub(crate) fn advance(&mut self, time: i64) {
        self.now += time;
    }

    /// Queues an event of an actor after a delay in milliseconds.
    pub(crate) fn schedule(&mut self, delay: i64, event: E::Event) {
        self.after(delay, Due::Environment(event));
    }

    /// A random time between two, in milliseconds. The key names the actor, the object, and the
    /// purpose.
    pub(crate) fn between(&mut self, key: &[&str], least: i64, most: i64) -> i64 {
        let drawn = self.chooser.between(key, least.unsigned_abs(), most.unsigned_abs());
        i64::try_from(drawn).unwrap_or(0)
    }

    /// Adds a line to the trace, if a trace was requested.
    pub(crate) fn trace(&mut self, line: impl FnOnce() -> String) {
        if self.options.trace {
            let (seconds, millis) = (self.now / 1000, self.now % 1000);
            let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            let line = format!("+{hours:02}:{minutes:02}:{seconds:02}.{millis:03} {}", line());
            self.outcome.trace.push(line);
        }
    }

    /// Records a violation; the first one counts.
    pub(crate) fn violate(&mut self, invariant: &'static str, text: String) {
        self.outcome.violation.get_or_insert(Violation { invariant, text });
    }

    /// Whether an invariant is violated.
    pub(crate) fn is_violated(&self) -> bool {
        self.outcome.violation.is_some()
    }

    /// The objects that are stored.
    pub(crate) fn objects(&self) -> Arc<ObjectMap> {
        Arc::clone(&self.objects)
    }

    /// Creates a namespace, as the installer does.
    pub(crate) fn create_namespace(&mut self, name: &str) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let mut request = Request {
            target: Target {
                group: String::new(),
                plural: "namespaces".to_owned(),
                namespace: String::new(),
                name: String::new(),
                part: Part::Main,
            },
            verb: Verb::Create(namespace, WriteOptions::default()),
            user: User::default(),
        };
        let _made = self.send(Actor::Installer, &mut request);
    }

    /// Exchanges the kinds that the API server serves, as an upgrade of CRDs does.
    pub(crate) fn serve(&mut self, kinds: Arc<Vec<Kind>>) {
        self.api.serve(kinds);
    }

    /// Delays the garbage collector, in milliseconds.
    pub(super) fn delay_collector(&mut self, late: i64) {
        self.collector.late = late;
    }

    /// Creates an object of the kind and namespace of a key.
    pub(crate) fn create(&mut self, actor: Actor, kind: &ObjectKey, object: Value) -> Result<Reply, Failure> {
        self.request(actor, kind, Part::Main, Verb::Create(object, WriteOptions::default()))
    }

    /// Merges a patch into an object, or into a part of it.
    pub(crate) fn patch(&mut self, actor: Actor, key: &ObjectKey, part: Part, patch: Value) -> Result<Reply, Failure> {
        let verb = Verb::Patch(PatchKind::Merge, patch, WriteOptions::default());
        self.request(actor, key, part, verb)
    }

    /// Deletes an object.
    pub(crate) fn delete(&mut self, actor: Actor, key: &ObjectKey) -> Result<Reply, Failure> {
        self.request(actor, key, Part::Main, Verb::Delete(DeleteOptions::default()))
    }

    /// Makes a request, and lets the actors react to its changes.
    pub(crate) fn request(&mut self, actor: Actor, key: &ObjectKey, part: Part, verb: Verb) -> Result<Reply, Failure> {
        let mut target = key.target(part);
        if matches!(verb, Verb::Create(..)) {
            target.name.clear();
        }
        let name = self.name_of(actor);
        let user = User {
            name,
            ..User::default()
        };
        self.send(actor, &mut Request { target, verb, user })
    }

    fn name_of(&self, actor: Actor) -> String {
        match actor {
            Actor::Controller {
                replica, controller, ..
            } => {
                let name = self
                    .environment
                    .controllers()
                    .get(controller)
                    .copied()
                    .unwrap_or_default();
                format!("{name}-{replica}")
            }
            Actor::GarbageCollector => "garbage-collector".to_owned(),
            Actor::Installer => "installer".to_owned(),
            Actor::Named(name) => name.to_owned(),
        }
    }

    /// Sends a request. Its object or patch is taken out of it.
    pub(crate) fn send(&mut self, actor: Actor, request: &mut Request) -> Result<Reply, Failure> {
        let now = self.timestamp();
        let (answer, changes) = match &mut self.tape {
            Some(tape) => tape.answer(&mut self.api, request, now),
            None => self.api.apply_taking(request, now),
        };
        self.api.forget_until(time_at(self.now - BEHIND));
        let stores = request.verb.is_write() && !request.verb.is_dry_run();
        if self.options.trace && stores && actor != Actor::Installer {
            let line = trace_format::line(&self.name_of(actor), request, &answer, &changes, E::ABBREVIATIONS);
            self.trace(|| line);
        }
        if matches!(actor, Actor::Controller { .. }) && stores && answer.is_ok() {
            self.count_write(!changes.is_empty());
        }
        for change in changes {
            self.changed(actor, &change);
        }
        answer
    }

    /// Counts a write of a controller. A controller that repeats writes without effect is in a
    /// loop.
    fn count_write(&mut self, changes: bool) {
        self.idle_writes = if changes { 0 } else { self.idle_writes + 1 };
        if self.idle_writes > IDLE_WRITES {
            let text = format!("{} writes in a row change nothing", self.idle_writes);
            self.violate("G4", text);
        }
    }
}

/// How a change spreads.
impl<E: Environment> World<E> {
    /// The key of a changed object, if its kind is cached.
    fn key_of(&self, change: &Change) -> Option<(CachedKind, ObjectKey)> {
        let kind = self.api.kinds().get(change.key.kind)?;
        let cached = self
            .kinds
            .iter()
            .find(|cached| cached.id.plural() == kind.plural && cached.id.group() == kind.group)?;
        let key = ObjectKey::new(cached.id, &change.key.namespace, &change.key.name);
        Some((*cached, key))
    }

    /// Judges a change, stores it, and lets caches and actors learn of it.
    fn changed(&mut self, actor: Actor, change: &Change) {
        let Some((kind, key)) = self.key_of(change) else {
            return;
        };
        let Some(version) = kind.version(&change.object, self.objects.get(&key)) else {
            return;
        };
        let observation = Observation {
            actor,
            key: &key,
            change,
            typed: &version.typed,
        };
        if !self.is_violated() {
            let mut moments = match actor {
                Actor::Controller { replica, task, .. } => self.moments_of(replica, task).cloned().unwrap_or_default(),
                _ => Vec::new(),
            };
            moments.push(E::moment(self));
            E::judge(self, observation, &moments);
        }
        let gone = observation.is_gone();
        Arc::make_mut(&mut self.objects).put(key.clone(), (!gone).then(|| version.clone()));
        E::store(self, observation);
        self.spread(&key, (!gone).then_some(&version));
        self.note_states(&key);
        E::react(self, &key);
        self.call_collector(kind, gone, change);
    }

    /// Whether an actor is a controller that does not see all changes of a kind yet.
    pub(crate) fn is_behind(&self, actor: Actor, kind: KindId) -> bool {
        let Actor::Controller { replica, .. } = actor else {
            return false;
        };
        let replica = self.replicas.get(replica);
        replica.is_some_and(|replica| replica.cache.is_behind(kind))
    }

    /// Queues a change for the caches of all replicas.
    fn spread(&mut self, key: &ObjectKey, version: Option<&Version>) {
        for at in 0..self.replicas.len() {
            let lag_key = [replica_name(at), key.kind.plural(), &key.name, "lag"];
            let lag = i64::try_from(self.chooser.between(&lag_key, 20, self.schedule.lag)).unwrap_or(20);
            let lag = if self.calm { lag.min(CALM_LAG) } else { lag };
            let due = self.now + lag;
            let Some(replica) = self.replicas.get_mut(at).filter(|replica| replica.up) else {
                continue;
            };
            let due = replica.cache.push(due, key.clone(), version.cloned());
            self.at(due, Due::Deliver(at, key.kind));
        }
    }

    /// Starts the garbage collector once an owner is deleted.
    fn call_collector(&mut self, kind: CachedKind, gone: bool, change: &Change) {
        let deleting = || change.object.pointer("/metadata/deletionTimestamp").is_some();
        self.collector.owner_deleted |= kind.owns && gone;
        if (self.collector.owner_deleted || kind.owns && deleting()) && !self.collector.is_due {
            self.collector.is_due = true;
            let late = self.collector.late;
            let delay = self.between(&["garbage collector", "start"], 100, 3000) + late;
            self.after(delay, Due::Collect);
        }
    }

    /// One round of the garbage collector. It decides on the graph of its last round, and checks
    /// what it does against what is stored.
    fn collect(&mut self) {
        self.collector.is_due = false;
        if let Some(mut request) = self.collector.graph.next(&self.api) {
            let _answered = self.send(Actor::GarbageCollector, &mut request);
            self.collect_again();
        }
        self.collector.graph.refresh(&self.api);
        if self.collector.graph.next(&self.api).is_some() {
            self.collect_again();
        }
    }

    fn collect_again(&mut self) {
        if !self.collector.is_due {
            self.collector.is_due = true;
            let delay = self.between(&["garbage collector", "next"], 50, 2000);
            self.after(delay, Due::Collect);
        }
    }

    /// What was true during the reconcile that a controller makes.
    pub(super) fn moments_of(&mut self, replica: usize, task: usize) -> Option<&mut Vec<E::Moment>> {
        let replica = self.replicas.get_mut(replica)?;
        Some(&mut replica.tasks.get_mut(task)?.moments)
    }

    /// The position of a kind in the API server.
    ///
    /// # Errors
    /// When the API server does not serve the kind.
    pub(super) fn position(&self, kind: KindId) -> Result<usize> {
        let position = self.api.kind_of(kind.group(), kind.plural());
        position.with_context(|| format!("the simulated API server does not serve {kind:?}"))
    }
}

/// The name of a replica.
pub(super) fn replica_name(at: usize) -> &'static str {
    if at == 0 { "capstan-0" } else { "capstan-1" }
}

/// The time that a clock shows at a simulated millisecond.
pub(super) fn time_at(now: i64) -> Timestamp {
    Timestamp::from_millisecond(BEGIN * 1000 + now).unwrap_or(Timestamp::UNIX_EPOCH)
}
