//! How controllers run: wake-ups, reconciles, and the back-off between them.
//!
//! The simulator runs the production controllers. It polls their reconciles by hand, so that a
//! reconcile stops at every call to the API server, and any other event may come before the answer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use capstan::runtime::{ReconcileResult, View};
use capstan_core::model::ObjectRef;
use jiff::Timestamp;

use super::kinds::KindId;
use super::replica::{BASE, Controller, Replica, Task};
use super::schedule::SECOND;
use super::world::{Due, Environment, REPLICAS, World, time_at};

/// The longest pause after failed reconciles, in milliseconds.
const MAX_BACK_OFF: i64 = 30 * SECOND;

impl<E: Environment> World<E> {
    /// Starts all replicas with complete caches. The first one leads.
    pub(super) fn start_replicas(&mut self) {
        let ids: Arc<[KindId]> = self.kinds.iter().map(|kind| kind.id).collect();
        for at in 0..REPLICAS {
            let mut replica = Replica::new(Arc::clone(&ids));
            for kind in ids.iter() {
                let all = self.objects.of_kind(*kind);
                let all = all.map(|(key, version)| (key.clone(), version.clone())).collect();
                replica.cache.replace(*kind, all);
            }
            self.replicas.push(replica);
            self.start_process(at);
        }
        self.lead([true, false]);
    }

    /// Starts the controllers of a process. They remember nothing.
    pub(super) fn start_process(&mut self, at: usize) {
        let environment = &self.environment;
        let Some(replica) = self.replicas.get_mut(at) else {
            return;
        };
        let controllers = environment.start(at, &replica.leading.subscribe());
        replica.start(controllers);
    }

    fn task(&mut self, at: usize, task: usize) -> Option<&mut Task<E::Moment>> {
        self.replicas.get_mut(at)?.tasks.get_mut(task)
    }

    /// The position of the controller of a task.
    pub(super) fn controller_of(&self, at: usize, task: usize) -> usize {
        let task = self.replicas.get(at).and_then(|replica| replica.tasks.get(task));
        task.map_or(0, |task| task.controller)
    }

    /// Wakes a task at a time. Earlier wake-ups of it are void.
    pub(super) fn wake_at(&mut self, replica: usize, task: usize, time: i64) {
        let Some(slot) = self.task(replica, task) else {
            return;
        };
        slot.ticket += 1;
        let ticket = slot.ticket;
        self.at(time, Due::Wake { replica, task, ticket });
    }

    /// Wakes the tasks of one controller at a time.
    pub(super) fn wake_controller_at(&mut self, at: usize, controller: usize, time: i64) {
        for task in self.tasks_of(at, controller) {
            self.wake_at(at, task, time);
        }
    }

    /// Wakes the tasks of all controllers of a replica at a time.
    pub(super) fn wake_all_at(&mut self, at: usize, time: i64) {
        for controller in 0..self.environment.controllers().len() {
            self.wake_controller_at(at, controller, time);
        }
    }

    /// Lets all controllers of all replicas reconcile all their objects a second later. Something
    /// changed that no watch delivers.
    pub(crate) fn wake_all_soon(&mut self) {
        for at in 0..REPLICAS {
            self.wake_all_at(at, self.now + SECOND);
        }
    }

    /// The time from which no fault occurs, or the present time if it is later, in milliseconds.
    pub(crate) fn calm_from(&self) -> i64 {
        self.now.max(self.schedule.calm)
    }

    /// The tasks of all objects of a controller.
    fn tasks_of(&mut self, at: usize, controller: usize) -> Vec<usize> {
        self.tasks_for(at, controller, |controller, view| controller.all(view))
    }

    fn tasks_for(
        &mut self,
        at: usize,
        controller: usize,
        objects: impl Fn(&dyn Controller, &View) -> Vec<ObjectRef>,
    ) -> Vec<usize> {
        let view = self.view_of(at);
        let (Some(view), Some(replica)) = (view, self.replicas.get_mut(at)) else {
            return Vec::new();
        };
        let Some(process) = replica.controllers.get(controller) else {
            return Vec::new();
        };
        let objects: BTreeSet<ObjectRef> = objects(&**process, &view).into_iter().collect();
        objects.iter().map(|object| replica.task(controller, object)).collect()
    }

    pub(super) fn wake(&mut self, replica: usize, task: usize, ticket: u64) {
        if self.task(replica, task).is_some_and(|slot| slot.ticket == ticket) {
            self.reconcile(replica, task);
        }
    }

    /// The watch of a kind delivers what is due to a replica.
    pub(super) fn deliver(&mut self, at: usize, kind: KindId) {
        let now = self.now;
        let Some(replica) = self.replicas.get_mut(at) else {
            return;
        };
        let (changed, next) = replica.cache.deliver(kind, now);
        if let Some(next) = next {
            self.at(next, Due::Deliver(at, kind));
        }
        if changed.is_empty() || !self.works(at) {
            return;
        }
        let changed = changed.iter().map(|key| kind.info().object(&key.namespace, &key.name));
        let changed: Vec<ObjectRef> = changed.collect();
        for controller in 0..self.environment.controllers().len() {
            let affected = |controller: &dyn Controller, view: &View| {
                let objects = changed.iter();
                objects.flat_map(|object| controller.affected(object, view)).collect()
            };
            for task in self.tasks_for(at, controller, affected) {
                self.reconcile(at, task);
            }
        }
    }

    /// Whether a replica runs and believes that it leads.
    fn works(&self, at: usize) -> bool {
        self.replicas.get(at).is_some_and(|replica| replica.up && replica.leads)
    }

    /// Lets every controller of a replica reconcile all its objects.
    pub(super) fn reconcile_all(&mut self, at: usize) {
        if self.works(at) {
            for controller in 0..self.environment.controllers().len() {
                for task in self.tasks_of(at, controller) {
                    self.reconcile(at, task);
                }
            }
        }
    }

    /// What the caches of a replica show; the same value until they change.
    pub(crate) fn view_of(&mut self, at: usize) -> Option<Arc<View>> {
        let (environment, kinds) = (&self.environment, &self.kinds);
        let replica = self.replicas.get_mut(at)?;
        let changed = replica.cache.take_unshown();
        if changed.is_empty()
            && let Some(view) = &replica.view
        {
            return Some(Arc::clone(view));
        }
        // A view shares what did not change with the view before it, as in the production runtime.
        let mut view = replica.view.take().map_or_else(
            || {
                let mut view = View::default();
                kinds.iter().for_each(|kind| kind.show_empty(&mut view));
                environment.complete(&mut view);
                View { synced: true, ..view }
            },
            Arc::unwrap_or_clone,
        );
        for key in &changed {
            let version = replica.cache.objects().get(key);
            let kind = kinds.iter().find(|kind| kind.id == key.kind);
            kind.into_iter().for_each(|kind| kind.show(key, version, &mut view));
        }
        let view = Arc::new(view);
        replica.view = Some(Arc::clone(&view));
        Some(view)
    }

    /// Begins a reconcile, if the replica runs and leads.
    fn reconcile(&mut self, at: usize, task: usize) {
        let now = self.now;
        if !self.works(at) {
            return;
        }
        let Some(replica) = self.replicas.get_mut(at) else {
            return;
        };
        let hangs_until = replica.hangs_until;
        let Some(slot) = replica.tasks.get_mut(task) else {
            return;
        };
        if slot.running.is_some() {
            slot.changed = true;
            return;
        }
        if hangs_until > now {
            self.wake_at(at, task, hangs_until);
            return;
        }
        let controller = slot.controller;
        let started = || {
            let process = replica.controllers.get(controller)?;
            Some(process.reconciler(slot.object.clone(), slot.port.clone()))
        };
        let Some(reconciler) = slot.idle.take().or_else(started) else {
            return;
        };
        let stop = replica.stop.clone();
        let Some(view) = self.view_of(at) else { return };
        let altered = self.environment.altered_view(controller, &view);
        let view = altered.map_or(view, Arc::new);
        let moment = E::moment(self);
        if let Some(slot) = self.task(at, task) {
            slot.moments = vec![moment];
            slot.written.clear();
            slot.running = Some(reconciler.reconcile(view, stop));
        }
        self.poll(at, task);
    }

    fn local_time(&self, at: usize) -> Timestamp {
        let ahead = self.replicas.get(at).map_or(0, |replica| replica.clock);
        time_at(self.now + ahead)
    }

    /// Lets a reconcile continue until it ends or waits for the API server.
    pub(super) fn poll(&mut self, at: usize, task: usize) {
        let (time, instant) = (
            self.local_time(at),
            *BASE + Duration::from_millis(self.now.unsigned_abs()),
        );
        let Some(slot) = self.task(at, task) else {
            return;
        };
        slot.port.set_time(time, instant);
        let Some(running) = slot.running.as_mut() else {
            return;
        };
        match running.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => {
                for (id, call) in slot.port.take_calls() {
                    self.dispatch(at, task, id, call);
                }
            }
            Poll::Ready((reconciler, result)) => {
                slot.running = None;
                slot.idle = Some(reconciler);
                self.reconciled(at, task, result, time);
            }
        }
    }

    /// A reconcile has ended. It is judged, and the next one is planned.
    fn reconciled(&mut self, at: usize, task: usize, mut result: ReconcileResult, time: Timestamp) {
        let controller = self.controller_of(at, task);
        let forgets = self.environment.forgets(controller);
        let Some(slot) = self.task(at, task) else {
            return;
        };
        if forgets {
            slot.idle = None;
            result.behind = None;
        }
        let (events, written) = (slot.port.take_events(), std::mem::take(&mut slot.written));
        E::judge_reconcile(self, controller, &written, &events);
        if self.is_violated() {
            return;
        }
        let (now, restarts) = (self.now, self.environment.restarts_on_change(controller));
        let left = self.environment.polls_until().saturating_sub(now);
        let is_last = |until: &Timestamp| until.as_millisecond() - time.as_millisecond() > left;
        if result.requeue_at.as_ref().is_some_and(is_last) {
            result.requeue_at = None;
        }
        let Some(slot) = self.task(at, task) else {
            return;
        };
        match next_wake(slot, restarts, &result, now, time) {
            Some(next) => self.wake_at(at, task, next),
            None => self.forget_if_gone(at, task),
        }
    }

    /// Forgets what is remembered of an object once nothing is left to do about it.
    fn forget_if_gone(&mut self, at: usize, task: usize) {
        let view = self.view_of(at);
        let (Some(view), Some(replica)) = (view, self.replicas.get_mut(at)) else {
            return;
        };
        if let Some(slot) = replica.tasks.get_mut(task)
            && let Some(process) = replica.controllers.get(slot.controller)
            && process.is_gone(&slot.object, &view)
        {
            slot.idle = None;
        }
    }

    /// Lets the first replica reconcile although nothing changed, in a process that has just
    /// started or in the one that runs. Returns the number of writes.
    pub(super) fn reconcile_once_more(&mut self, restart: bool) -> u64 {
        let before = self.outcome.writes;
        if restart {
            self.start_process(0);
        }
        self.wake_all_at(0, self.now + 1);
        self.settle();
        self.outcome.writes - before
    }
}

/// When a controller reconciles next, as its run loop decides it, without the random part of the
/// pause. `restarts`: see [`Environment::restarts_on_change`].
fn next_wake<M>(
    slot: &mut Task<M>,
    restarts: bool,
    result: &ReconcileResult,
    now: i64,
    time: Timestamp,
) -> Option<i64> {
    let changed = std::mem::take(&mut slot.changed);
    if changed && restarts {
        slot.failures = 0;
        return Some(now);
    }
    let requested = result.requeue_at.map(|until| {
        let left = until.as_millisecond() - time.as_millisecond();
        now + left.max(1)
    });
    let mut pause = None;
    if result.failed {
        pause = Some(now + (100_i64 << slot.failures.min(9)).min(MAX_BACK_OFF));
        slot.failures += 1;
    } else if result.reconciled || restarts {
        slot.failures = 0;
    }
    let caught_up = result.behind.map(|behind| {
        let until = behind.duration_since(*BASE).as_millis();
        i64::try_from(until).unwrap_or(i64::MAX)
    });
    let next = [changed.then_some(now), requested, pause, caught_up];
    next.into_iter().flatten().min().map(|next| next.max(now + 1))
}
