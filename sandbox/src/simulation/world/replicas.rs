//! The replicas of the controller: the one that ships, driven one poll at a time, with its own caches and clock.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use capstan::controllers::{Configuration, Controller, Metrics, REFUSED, ReconcileResult};
use capstan_core::admission::Options as AdmissionOptions;
use capstan_core::cpms::observed::Settings;
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::simulation::cache::Cache;
use crate::simulation::objects::{Sort, Typed};
use crate::simulation::port::Port;
use crate::simulation::schedule::{LEASE, MINUTE, SECOND};
use crate::simulation::truth::Moment;

use super::generating::Generating;
use super::{Actor, Due, World};

/// One set of counters for all: nobody reads them here.
static METRICS: LazyLock<Metrics> = LazyLock::new(|| Metrics::register(&mut Registry::default()));
/// Any instant; only differences matter.
pub(super) static BASE: LazyLock<Instant> = LazyLock::new(Instant::now);

type Running = Pin<Box<dyn Future<Output = (Box<Controller<Port>>, ReconcileResult)>>>;

/// A replica.
pub(super) struct Replica {
    /// Its name, which it keeps when it starts again.
    name: &'static str,
    pub(super) up: bool,
    pub(super) epoch: u64,
    pub(super) leads: bool,
    leading: watch::Sender<bool>,
    pub(super) port: Port,
    pub(super) cache: Cache,
    idle: Option<Box<Controller<Port>>>,
    running: Option<Running>,
    pub(super) generating: Generating,
    /// Something changed while it was busy.
    again: bool,
    /// Only the last wake counts.
    ticket: u64,
    tries: u32,
    /// How far its clock is off.
    clock: i64,
    pub(super) hangs_until: i64,
    stop: CancellationToken,
    /// What was true when it looked.
    pub(super) moments: Vec<Moment>,
    /// Machines that it made or deleted in this turn and knows of.
    pub(super) done: Vec<String>,
}

impl Replica {
    fn new(name: &'static str) -> Self {
        let (leading, _) = watch::channel(false);
        let mut replica = Self {
            name,
            up: true,
            epoch: 0,
            leads: false,
            leading,
            port: Port::new(*BASE),
            cache: Cache::default(),
            idle: None,
            running: None,
            generating: Generating::default(),
            again: false,
            ticket: 0,
            tries: 0,
            clock: 0,
            hangs_until: 0,
            stop: CancellationToken::new(),
            moments: Vec::new(),
            done: Vec::new(),
        };
        replica.start();
        replica
    }

    /// A process that has just begun.
    fn start(&mut self) {
        self.port = Port::new(*BASE);
        self.forget();
        self.generating.start(&self.port);
        self.running = None;
        self.again = false;
        self.tries = 0;
        self.moments.clear();
        self.done.clear();
    }

    /// A controller that remembers nothing.
    fn forget(&mut self) {
        let configuration = Configuration {
            options: AdmissionOptions::default(),
            settings: Settings::default(),
            identity: self.name.to_owned(),
        };
        let leading = self.leading.subscribe();
        let controller = Controller::new(self.port.clone(), configuration, leading, METRICS.clone());
        self.idle = Some(Box::new(controller));
    }

    pub(super) fn moments(&self) -> Vec<Moment> {
        self.moments.clone()
    }

    pub(super) fn generated_by(&self) -> Vec<Moment> {
        self.generating.moments.clone()
    }
}

impl World {
    pub(super) fn begin_replicas(&mut self) {
        for at in 0..2 {
            let mut replica = Replica::new(Actor::Replica(at).name());
            for sort in Sort::ALL {
                replica.cache.replace(sort, self.all_of(sort));
            }
            self.replicas.push(replica);
            if at == 0 {
                self.lead([true, false]);
            }
        }
        self.lead([true, false]);
    }

    fn all_of(&self, sort: Sort) -> Vec<(String, Typed)> {
        let named = |name: &String, typed: Typed| (name.clone(), typed);
        match sort {
            Sort::Machine => self
                .machines
                .iter()
                .map(|(name, one)| named(name, Typed::Machine(Arc::clone(one))))
                .collect(),
            Sort::Node => self
                .nodes
                .iter()
                .map(|(name, one)| named(name, Typed::Node(Arc::clone(one))))
                .collect(),
            Sort::Operator => self
                .operators
                .iter()
                .map(|(name, one)| named(name, Typed::Operator(Arc::clone(one))))
                .collect(),
            Sort::Set => self
                .set
                .iter()
                .map(|one| ("cluster".to_owned(), Typed::Set(Arc::clone(one))))
                .collect(),
        }
    }

    pub(super) fn lead(&mut self, who: [bool; 2]) {
        let always = self.orders.mutant.is_some_and(super::Mutant::always_leads);
        for (at, leads) in who.into_iter().enumerate() {
            let leads = leads || always;
            let Some(replica) = self.replicas.get_mut(at) else {
                continue;
            };
            if replica.leads != leads {
                replica.leads = leads;
                replica.leading.send_replace(leads);
                self.wake_at(at, self.now);
                self.wake_generator_at(at, self.now);
            }
        }
    }

    /// One leads, whatever was before. Returns whether that is new.
    pub(super) fn settle_leader(&mut self) -> bool {
        let leads: Vec<bool> = self.replicas.iter().map(|replica| replica.leads).collect();
        let always = self.orders.mutant.is_some_and(super::Mutant::always_leads);
        let new = leads != [true, always];
        if new {
            self.lead([true, false]);
        }
        new
    }

    fn wake_at(&mut self, at: usize, time: i64) {
        let Some(replica) = self.replicas.get_mut(at) else {
            return;
        };
        replica.ticket += 1;
        let ticket = replica.ticket;
        self.at_ms(time, Due::Wake(at, ticket));
    }

    pub(super) fn deliver(&mut self, at: usize, sort: Sort) {
        let now = self.now;
        let Some(replica) = self.replicas.get_mut(at) else {
            return;
        };
        let (any, next) = replica.cache.deliver(sort, now);
        if let Some(next) = next {
            self.at_ms(next, Due::Deliver(at, sort));
        }
        if any {
            self.turn(at);
            self.generate(at);
        }
    }

    pub(super) fn wake(&mut self, at: usize, ticket: u64) {
        if self.replicas.get(at).is_some_and(|replica| replica.ticket == ticket) {
            self.turn(at);
        }
    }

    fn turn(&mut self, at: usize) {
        let now = self.now;
        let moment = self.moment();
        let Some(replica) = self.replicas.get_mut(at) else {
            return;
        };
        if !replica.up || !replica.leads {
            return;
        }
        if replica.running.is_some() {
            replica.again = true;
            return;
        }
        if replica.hangs_until > now {
            let until = replica.hangs_until;
            self.wake_at(at, until);
            return;
        }
        let Some(mut controller) = replica.idle.take() else {
            return;
        };
        let mut view = replica.cache.view();
        if let Some(mutant) = self.orders.mutant {
            view = mutant.view(&view);
        }
        replica.moments = vec![moment];
        replica.done.clear();
        let stop = replica.stop.clone();
        replica.running = Some(Box::pin(async move {
            let turn = controller.turn(&view, &stop).await;
            (controller, turn)
        }));
        self.poll(at);
    }

    pub(super) fn local_time(&self, at: usize) -> Timestamp {
        let off = self.replicas.get(at).map_or(0, |replica| replica.clock);
        super::time_at(self.now + off)
    }

    pub(super) fn poll(&mut self, at: usize) {
        let (time, now) = (self.local_time(at), self.now);
        let Some(replica) = self.replicas.get_mut(at) else {
            return;
        };
        let instant = *BASE + Duration::from_millis(now.unsigned_abs());
        replica.port.set_time(time, instant);
        let Some(running) = replica.running.as_mut() else {
            return;
        };
        let polled = running.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let asked = replica.port.asked();
        match polled {
            Poll::Pending => {
                for (id, question) in asked {
                    self.dispatch(at, id, question);
                }
            }
            Poll::Ready((controller, turn)) => {
                replica.running = None;
                replica.idle = Some(controller);
                self.turned(at, turn, time);
            }
        }
    }

    /// A turn has ended: what it did was told, and the next is planned.
    fn turned(&mut self, at: usize, mut turn: ReconcileResult, time: Timestamp) {
        let now = self.now;
        let mutant = self.orders.mutant;
        let Some(replica) = self.replicas.get_mut(at) else {
            return;
        };
        if mutant.is_some_and(super::Mutant::forgets) {
            replica.forget();
            turn.behind = None;
        }
        let mut told = replica.port.told();
        // What the generator says beside the controller tells of no machine that was made or deleted.
        told.retain(|event| event.reason.as_deref() != Some(REFUSED));
        if mutant.is_some_and(super::Mutant::is_silent) {
            told.clear();
        }
        if mutant.is_some_and(super::Mutant::misnames) {
            replica.done.clear();
        }
        let silent = replica.done.iter().find(|name| {
            let says = |text: Option<&String>| text.is_some_and(|text| text.contains(name.as_str()));
            !told.iter().any(|event| says(event.message.as_ref()))
        });
        if let Some(name) = silent {
            let text = format!("machine {name} was made or deleted, and no event says so");
            self.truth.violate("G5", text);
            return;
        }
        if replica.again {
            replica.again = false;
            replica.tries = 0;
            self.wake_at(at, now);
            return;
        }
        let mut next: Option<i64> = turn.at.map(|until| {
            let left = until.as_millisecond() - time.as_millisecond();
            now + left.max(1)
        });
        if turn.failed {
            // As the shell does, without its jitter.
            let pause = (100_i64 << replica.tries.min(9)).min(30 * SECOND);
            replica.tries += 1;
            next = Some(next.map_or(now + pause, |next| next.min(now + pause)));
        } else {
            replica.tries = 0;
        }
        if let Some(behind) = turn.behind {
            let until = i64::try_from(behind.duration_since(*BASE).as_millis()).unwrap_or(i64::MAX);
            next = Some(next.map_or(until, |next| next.min(until)));
        }
        if let Some(next) = next {
            self.wake_at(at, next.max(now + 1));
        }
    }

    pub(super) fn kill(&mut self, at: usize) {
        self.trace(|| format!("   capstan-{at} is killed"));
        let Some(replica) = self.replicas.get_mut(at) else {
            return;
        };
        if !replica.up {
            return;
        }
        replica.up = false;
        replica.epoch += 1;
        replica.running = None;
        replica.idle = None;
        replica.generating.end();
        let delay = self.between(SECOND, MINUTE);
        self.after_ms(delay, Due::Restart(at));
    }

    pub(super) fn restart(&mut self, at: usize) {
        self.trace(|| format!("   capstan-{at} is back"));
        if let Some(replica) = self.replicas.get_mut(at) {
            replica.up = true;
            replica.start();
        }
        for sort in Sort::ALL {
            // It may be served by an API server that is behind.
            let behind = if self.calm || self.faults.permille(600) {
                0
            } else {
                self.between(0, MINUTE)
            };
            self.relist(at, sort, behind);
        }
        self.wake_at(at, self.now);
        self.wake_generator_at(at, self.now);
    }

    pub(in crate::simulation) fn generates(&self) -> bool {
        self.schedule.generates
    }

    pub(super) fn hang(&mut self, at: usize, time: i64) {
        let until = self.now + time;
        if let Some(replica) = self.replicas.get_mut(at) {
            replica.hangs_until = replica.hangs_until.max(until);
        }
        self.wake_at(at, until);
    }

    /// A replica stands still, and once its lease is over the other leads. After it wakes it believes for a while that it
    /// still does.
    pub(super) fn stand_still(&mut self, at: usize, time: i64) {
        self.trace(|| format!("   capstan-{at} stands still for {}s", time / SECOND));
        self.hang(at, time);
        if time > LEASE {
            let doubt = self.between(0, MINUTE);
            self.after_ms(LEASE, Due::Lead([true, true]));
            self.after_ms(time + doubt, Due::Lead([at != 0, at != 1]));
        }
    }

    pub(super) fn jump(&mut self, at: usize, time: i64) {
        if let Some(replica) = self.replicas.get_mut(at) {
            replica.clock += time;
        }
        self.wake_at(at, self.now);
    }

    pub(super) fn freeze(&mut self, at: usize, sort: Sort, time: i64) {
        let until = self.now + time;
        if let Some(replica) = self.replicas.get_mut(at) {
            replica.cache.freeze(sort, until);
        }
        self.at_ms(until, Due::Deliver(at, sort));
    }

    /// A kind is read anew, as it was `behind` ago; what came since follows.
    pub(super) fn relist(&mut self, at: usize, sort: Sort, behind: i64) {
        let Some(kind) = self.sorts.get(sort.position()).copied() else {
            return;
        };
        let since = self.now - behind;
        let version = self.api.version_at(super::time_at(since));
        let old = self.api.objects_at(kind, version);
        let list: Vec<(String, Typed)> = old
            .into_iter()
            .filter_map(|(key, object)| Some((key.name, Typed::read(sort, &object)?)))
            .collect();
        let later: Vec<(String, Option<Typed>)> = self
            .api
            .changes_since(kind, version)
            .map(|change| {
                let gone = change.kind == crate::api::ChangeKind::Deleted;
                let typed = if gone { None } else { Typed::read(sort, &change.object) };
                (change.key.name.clone(), typed)
            })
            .collect();
        let now = self.now;
        let lag = self.between(200, 5000);
        let Some(replica) = self.replicas.get_mut(at) else {
            return;
        };
        if !replica.up {
            return;
        }
        replica.cache.replace(sort, list);
        let mut due = now;
        for (name, typed) in later {
            due = replica.cache.push(sort, now + lag, &name, typed);
        }
        self.at_ms(due, Due::Deliver(at, sort));
        self.turn(at);
        self.generate(at);
    }

    /// A process looks although nothing changed: one that has just begun, or the one that goes on. Returns how many writes
    /// came of it.
    pub(in crate::simulation) fn look_once_more(&mut self, anew: bool) -> u64 {
        let before = self.outcome.writes;
        if let Some(replica) = self.replicas.first_mut().filter(|_| anew) {
            replica.start();
        }
        self.wake_at(0, self.now + 1);
        self.wake_generator_at(0, self.now + 1);
        self.rest();
        self.outcome.writes - before
    }
}
