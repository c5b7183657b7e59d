//! One world: an API server, replicas of the controller that ships, a provider, nodes, etcd members, users. Every step is
//! an event of one queue, and every choice is drawn from one seed.

mod etcd;
mod generating;
mod people;
mod provider;
mod replicas;
mod requests;
mod tape;
mod webhook;
mod words;

pub(super) use webhook::OUT_OF_REACH;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use capstan_core::api::config_openshift_io::cluster_operator::ClusterOperator;
use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::model::User;
use jiff::Timestamp;
use serde_json::Value;

use crate::api::garbage::Graph;
use crate::api::{Api, Change, ChangeKind, DeleteOptions, Failure, Options, Part, Reply, Request, Verb, WriteOptions};
use crate::random::Random;

use super::mutants::Mutant;
use super::objects::{self, Sort, Typed};
use super::port::{Answer, Question};
use super::schedule::{BEHIND, HOUR, MERGE, Schedule};
use super::truth::{Moment, Truth, Violation};
use provider::Provider;
use replicas::Replica;
use tape::Tape;

/// Begins at this second.
const BEGIN: i64 = 1_767_225_600;
/// Nothing takes more steps than this, unless it never comes to rest.
const MOST: u64 = 60_000;

/// Who does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// A replica of the controller.
    Replica(usize),
    /// The generator of sets, in a replica.
    Generator(usize),
    /// The machine controller, and the kubelets.
    Provider,
    /// The etcd operator.
    Etcd,
    /// A user.
    User,
    /// The garbage collector.
    Garbage,
    /// Whoever makes the first objects.
    Installer,
}

impl Actor {
    fn name(self) -> &'static str {
        match self {
            Self::Replica(0) => "capstan-0",
            Self::Replica(_) => "capstan-1",
            Self::Generator(0) => "generator-0",
            Self::Generator(_) => "generator-1",
            Self::Provider => "provider",
            Self::Etcd => "etcd-operator",
            Self::User => "user",
            Self::Garbage => "garbage-collector",
            Self::Installer => "installer",
        }
    }
}

/// What is due.
#[derive(Debug)]
enum Due {
    Act(usize),
    Deliver(usize, Sort),
    Wake(usize, u64),
    WakeGenerator(usize, u64),
    Arrive {
        replica: usize,
        epoch: u64,
        id: u64,
        question: Question,
        lost: bool,
        crash: bool,
    },
    /// A request arrives long after its sender gave up: with what was true when it was sent.
    Straggle(usize, Question, Vec<Moment>),
    Reply {
        replica: usize,
        epoch: u64,
        id: u64,
        answer: kube::Result<Answer>,
    },
    Restart(usize),
    Lead([bool; 2]),
    Provider(String, String),
    Etcd,
    NodeBack(String),
    StrangerGone(String),
    EtcdWell(etcd::Ailment),
    WebhookBack,
    Garbage,
}

/// How a request fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The replica is killed before it is done.
    CrashBefore,
    /// The replica is killed after it is done.
    CrashAfter,
    /// Done, and the answer is lost.
    ReplyLost,
    /// Refused, since the object changed.
    Conflict,
    /// The caches stand still from here on for a while.
    StaleCache,
    /// Done, and the replica stands still until long after another leads.
    StandStill,
}

impl Fate {
    /// All that are tried on every write.
    pub const ALL: [Self; 6] = [
        Self::CrashBefore,
        Self::CrashAfter,
        Self::ReplyLost,
        Self::Conflict,
        Self::StaleCache,
        Self::StandStill,
    ];
}

/// What a run is to do beside its schedule.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    /// A bug to carry.
    pub mutant: Option<Mutant>,
    /// What befalls the which-th write.
    pub single: Option<(u64, Fate)>,
    /// Faults that do not happen, by number.
    pub spared: BTreeSet<u64>,
    /// Acts that do not happen, by position.
    pub skipped: BTreeSet<usize>,
    /// Whether to write down what happens.
    pub trace: bool,
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What was violated first.
    pub violation: Option<Violation>,
    /// Steps that were taken.
    pub steps: u64,
    /// Simulated milliseconds.
    pub time: i64,
    /// Writes of the controllers.
    pub writes: u64,
    /// Faults that happened.
    pub faults: u64,
    /// Rollouts that ended.
    pub rollouts: u64,
    /// What happened, line by line.
    pub trace: Vec<String>,
}

/// The world.
pub struct World {
    pub(super) now: i64,
    queue: BTreeMap<(i64, u64), Due>,
    sequence: u64,
    pub(super) api: Api,
    sorts: [usize; 4],
    // Shared with the moments that a turn is judged by.
    pub(super) machines: Arc<BTreeMap<String, Arc<Machine>>>,
    pub(super) nodes: Arc<BTreeMap<String, Arc<Node>>>,
    pub(super) operators: BTreeMap<String, Arc<ClusterOperator>>,
    pub(super) set: Option<Arc<ControlPlaneMachineSet>>,
    replicas: Vec<Replica>,
    provider: Provider,
    etcd: etcd::Etcd,
    graph: Graph,
    garbage_late: i64,
    garbage_due: bool,
    set_was_deleted: bool,
    webhook_down: Arc<AtomicBool>,
    /// How many faults say that the webhook is out of reach.
    outages: u32,
    /// Until when Capstan may not write a kind.
    denied: [i64; 4],
    /// Whether the definition of the set keeps what is said of each machine.
    pub(super) keeps_machines: bool,
    /// A bug gave up a write for ever.
    gave_up: bool,
    /// How often a person made or changed a machine.
    handmade: u32,
    pub(super) truth: Truth,
    schedule: Schedule,
    orders: Orders,
    random: Random,
    faults: Random,
    outcome: Outcome,
    edition: u32,
    calm: bool,
    rolling: bool,
    /// While it is installed.
    tape: Option<Tape>,
}

impl World {
    /// A world before its first step.
    ///
    /// # Errors
    /// When what is built in cannot be used.
    pub fn new(schedule: Schedule, orders: Orders) -> Result<Self> {
        let kinds = objects::kinds()?;
        let options = Options {
            // Who owns what matters to the generator alone.
            managed_fields: schedule.generates,
            history: 4000,
        };
        let webhook_down = Arc::new(AtomicBool::new(false));
        let api = Api::new(kinds, options).with_admission(webhook::admission(
            Arc::clone(&webhook_down),
            orders.mutant != Some(Mutant::WebhookFinal),
        )?);
        let sorts = Sort::ALL.map(|sort| {
            let (group, plural, _) = sort.place();
            api.kind_of(group, plural).unwrap_or(usize::MAX)
        });
        let mut random = Random::new(schedule.seed);
        let faults = random.branch();
        let mut world = Self {
            now: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            api,
            sorts,
            machines: Arc::default(),
            nodes: Arc::default(),
            operators: BTreeMap::new(),
            set: None,
            replicas: Vec::new(),
            provider: Provider::default(),
            etcd: etcd::Etcd::default(),
            graph: Graph::default(),
            garbage_late: 0,
            garbage_due: false,
            set_was_deleted: false,
            webhook_down,
            outages: 0,
            denied: [0; 4],
            keeps_machines: true,
            gave_up: false,
            handmade: 0,
            truth: Truth::new(schedule.replicas),
            schedule,
            orders,
            random,
            faults,
            outcome: Outcome::default(),
            edition: 0,
            calm: false,
            rolling: false,
            tape: None,
        };
        world.tape = Some(Tape::begin(&world.schedule, &mut world.api));
        world.install();
        if let Some(tape) = world.tape.take() {
            tape.end(&world.api);
        }
        if !world.schedule.keeps_machines {
            world.define(false);
        }
        world.begin_replicas();
        Ok(world)
    }

    /// Lets the world run to its end.
    pub fn run(mut self) -> Outcome {
        for (position, (at, _)) in self.schedule.acts.clone().iter().enumerate() {
            if !self.orders.skipped.contains(&position) {
                self.after_ms(*at, Due::Act(position));
            }
        }
        self.rest();
        // What faults and users left behind is put right as the messages advise, and everything comes to rest.
        for _ in 0..12 {
            if self.truth.violation.is_some() || !self.put_right() {
                break;
            }
            self.rest();
        }
        if self.truth.violation.is_none() {
            self.judge_the_end();
        }
        self.outcome.time = self.now;
        self.outcome.violation = self.truth.violation.take();
        self.outcome
    }

    /// Steps until nothing is due.
    fn rest(&mut self) {
        let horizon = self.now.max(self.schedule.calm) + 48 * HOUR;
        while self.truth.violation.is_none() {
            let Some(((at, _), due)) = self.queue.pop_first() else {
                break;
            };
            self.now = at;
            self.outcome.steps += 1;
            if !self.calm && self.now >= self.schedule.calm {
                self.calm = true;
                self.trace(|| "-- from here on nothing goes wrong any more".to_owned());
            }
            if self.outcome.steps > MOST || self.now > horizon {
                let what = format!("{due:?}");
                let what: String = what.chars().take(120).collect();
                self.truth
                    .violate("ESR", format!("it never comes to rest; due next: {what}"));
                break;
            }
            self.step(due);
        }
        if self.truth.violation.is_none() && !self.calm {
            self.calm = true;
            self.now = self.now.max(self.schedule.calm);
        }
    }

    fn step(&mut self, due: Due) {
        match due {
            Due::Act(position) => {
                if let Some((_, act)) = self.schedule.acts.get(position).cloned() {
                    self.outcome.faults += 1;
                    self.act(&act);
                }
            }
            Due::Deliver(replica, sort) => self.deliver(replica, sort),
            Due::Wake(replica, ticket) => self.wake(replica, ticket),
            Due::WakeGenerator(replica, ticket) => self.wake_generator(replica, ticket),
            Due::Arrive {
                replica,
                epoch,
                id,
                mut question,
                lost,
                crash,
            } => {
                self.arrive(replica, epoch, id, &mut question, lost, crash);
            }
            Due::Straggle(replica, mut question, moments) => self.straggle(replica, &mut question, moments),
            Due::Reply {
                replica,
                epoch,
                id,
                answer,
            } => self.reply(replica, epoch, id, answer),
            Due::Restart(replica) => self.restart(replica),
            Due::Provider(name, uid) => self.provide(&name, &uid),
            Due::Etcd => self.tend_etcd(),
            Due::NodeBack(name) => self.node_back(&name),
            Due::StrangerGone(name) => self.stranger_gone(&name),
            Due::EtcdWell(ailment) => self.etcd_well(ailment),
            Due::WebhookBack => self.webhook_back(),
            Due::Lead(who) => self.lead(who),
            Due::Garbage => self.collect(),
        }
    }

    fn after_ms(&mut self, delay: i64, due: Due) {
        self.at_ms(self.now + delay.max(0), due);
    }

    fn at_ms(&mut self, at: i64, due: Due) {
        self.sequence += 1;
        self.queue.insert((at.max(self.now), self.sequence), due);
    }

    pub(super) fn trace(&mut self, line: impl FnOnce() -> String) {
        if self.orders.trace {
            let (seconds, millis) = (self.now / 1000, self.now % 1000);
            let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            let line = format!("+{hours:02}:{minutes:02}:{rest:02}.{millis:03} {}", line());
            self.outcome.trace.push(line);
        }
    }

    /// A time between two, in milliseconds.
    fn between(&mut self, least: i64, most: i64) -> i64 {
        let drawn = self.random.between(least.unsigned_abs(), most.unsigned_abs());
        i64::try_from(drawn).unwrap_or(0)
    }

    /// The true time as objects have it.
    fn timestamp(&self) -> Timestamp {
        time_at(self.now)
    }

    /// Makes a request, and lets everybody see what came of it.
    fn request(&mut self, actor: Actor, sort: Sort, name: &str, part: Part, verb: Verb) -> Result<Reply, Failure> {
        let mut request = Request {
            target: sort.target(name, part),
            verb,
            user: User {
                name: actor.name().to_owned(),
                ..User::default()
            },
        };
        self.send(actor, &mut request)
    }

    /// Sends a request; a patch in it is used up.
    fn send(&mut self, actor: Actor, request: &mut Request) -> Result<Reply, Failure> {
        let now = self.timestamp();
        let (answer, changes) = match &mut self.tape {
            Some(tape) => tape.answer(&mut self.api, request, now),
            None => self.api.apply_taking(request, now),
        };
        self.api.forget_until(time_at(self.now - BEHIND));
        if self.orders.trace && request.verb.is_write() && actor != Actor::Installer {
            let line = words::line(actor.name(), request, &answer, &changes);
            self.trace(|| line);
        }
        if let (Actor::Replica(_) | Actor::Generator(_), true, Ok(_)) = (actor, request.verb.is_write(), &answer) {
            self.truth.count_write(!changes.is_empty());
        }
        for change in changes {
            self.changed(actor, &change);
        }
        answer
    }

    fn patch(&mut self, actor: Actor, sort: Sort, name: &str, part: Part, patch: Value) -> Result<Reply, Failure> {
        let verb = Verb::Patch(MERGE, patch, WriteOptions::default());
        self.request(actor, sort, name, part, verb)
    }

    fn remove(&mut self, actor: Actor, sort: Sort, name: &str) -> Result<Reply, Failure> {
        self.request(actor, sort, name, Part::Main, Verb::Delete(DeleteOptions::default()))
    }

    fn make(&mut self, actor: Actor, sort: Sort, object: Value) -> Result<Reply, Failure> {
        self.request(
            actor,
            sort,
            "",
            Part::Main,
            Verb::Create(object, WriteOptions::default()),
        )
    }

    /// The truth as it is.
    pub(super) fn moment(&self) -> Moment {
        Moment {
            machines: self.machines.clone(),
            nodes: self.nodes.clone(),
            set: self.set.clone(),
            etcd_well: self
                .operators
                .get("etcd")
                .is_none_or(|operator| etcd::reports_well(operator)),
        }
    }

    /// Something is different: the truth is checked, and everybody hears of it in his time.
    fn changed(&mut self, actor: Actor, change: &Change) {
        let Some(sort) = Sort::ALL
            .into_iter()
            .find(|sort| self.sorts.get(sort.position()) == Some(&change.key.kind))
        else {
            return;
        };
        let gone = change.kind == ChangeKind::Deleted;
        let Some(typed) = self.read(sort, change) else {
            return;
        };
        let looked = match actor {
            Actor::Replica(replica) => self.replicas.get(replica).map(Replica::moments).unwrap_or_default(),
            Actor::Generator(replica) => self
                .replicas
                .get(replica)
                .map(Replica::generated_by)
                .unwrap_or_default(),
            _ => Vec::new(),
        };
        self.check(actor, change, &typed, &looked);
        let name = change.key.name.clone();
        match &typed {
            Typed::Machine(_) if gone => drop(Arc::make_mut(&mut self.machines).remove(&name)),
            Typed::Machine(machine) => {
                Arc::make_mut(&mut self.machines).insert(name.clone(), Arc::clone(machine));
            }
            Typed::Node(_) if gone => drop(Arc::make_mut(&mut self.nodes).remove(&name)),
            Typed::Node(node) => {
                Arc::make_mut(&mut self.nodes).insert(name.clone(), Arc::clone(node));
            }
            Typed::Operator(_) if gone => drop(self.operators.remove(&name)),
            Typed::Operator(operator) => drop(self.operators.insert(name.clone(), Arc::clone(operator))),
            Typed::Set(_) if gone => {
                self.set = None;
                self.set_was_deleted = true;
            }
            Typed::Set(set) => self.set = Some(Arc::clone(set)),
        }
        self.follow_rollout();
        for replica in 0..self.replicas.len() {
            let lag = i64::try_from(self.random.between(20, self.schedule.lag)).unwrap_or(20);
            let lag = if self.calm { lag.min(400) } else { lag };
            let due = self.now + lag;
            let typed = (!gone).then(|| typed.clone());
            let Some(replica_) = self.replicas.get_mut(replica) else {
                continue;
            };
            if !replica_.up {
                continue;
            }
            let due = replica_.cache.push(sort, due, &name, typed);
            self.at_ms(due, Due::Deliver(replica, sort));
        }
        match sort {
            Sort::Machine => {
                self.look_after(&name);
                self.look_after_etcd();
            }
            Sort::Node => {
                let owner = self
                    .machines
                    .iter()
                    .find(|(_, machine)| machine.node_name() == Some(&name));
                if let Some(owner) = owner.map(|(owner, _)| owner.clone()) {
                    self.look_after(&owner);
                }
                self.look_after_etcd();
            }
            Sort::Set | Sort::Operator => {}
        }
        let matters = gone || (sort == Sort::Set && change.object.pointer("/metadata/deletionTimestamp").is_some());
        if (matters && sort == Sort::Set || self.set_was_deleted) && !self.garbage_due {
            self.garbage_due = true;
            let late = self.garbage_late;
            let delay = self.between(100, 3000) + late;
            self.after_ms(delay, Due::Garbage);
        }
    }

    /// Exchanges the definition of the set.
    fn define(&mut self, keeps_machines: bool) {
        if let Ok(kinds) = objects::kinds_with(keeps_machines) {
            self.keeps_machines = keeps_machines;
            self.api.serve(kinds);
        }
    }

    /// An object as programs read it; what it shares with the version before was read then.
    fn read(&self, sort: Sort, change: &Change) -> Option<Typed> {
        let name = &change.key.name;
        let before = match sort {
            Sort::Machine => self.machines.get(name).cloned().map(Typed::Machine),
            Sort::Node => self.nodes.get(name).cloned().map(Typed::Node),
            Sort::Operator => self.operators.get(name).cloned().map(Typed::Operator),
            Sort::Set => self.set.clone().map(Typed::Set),
        };
        let old = change.old.as_deref().zip(before.as_ref());
        Typed::read_over(sort, &change.object, old)
    }

    fn collect(&mut self) {
        self.garbage_due = false;
        // What it sees is as old as its last round; what it does it checks against what there is.
        if let Some(mut request) = self.graph.next(&self.api) {
            let _answered = self.send(Actor::Garbage, &mut request);
            if !self.garbage_due {
                self.garbage_due = true;
                let delay = self.between(50, 2000);
                self.after_ms(delay, Due::Garbage);
            }
        }
        self.graph.refresh(&self.api);
        if self.graph.next(&self.api).is_some() && !self.garbage_due {
            self.garbage_due = true;
            let delay = self.between(50, 2000);
            self.after_ms(delay, Due::Garbage);
        }
    }

    /// Counts rollouts: from an outdated machine to none.
    fn follow_rollout(&mut self) {
        let Some(set) = &self.set else { return };
        let current = super::truth::all_current(set, &self.machines);
        if self.rolling && current {
            self.outcome.rollouts += 1;
        }
        self.rolling = !current;
    }
}

/// What the clocks show, in milliseconds after the begin.
fn time_at(now: i64) -> Timestamp {
    Timestamp::from_millisecond(BEGIN * 1000 + now).unwrap_or(Timestamp::UNIX_EPOCH)
}
