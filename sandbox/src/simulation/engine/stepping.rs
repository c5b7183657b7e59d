//! How controllers run: wake-ups, reconciles, and the back-off between them.
//!
//! The simulator runs the production controllers. It polls their reconciles by hand, so that a reconcile stops at every
//! call to the API server, and any other event may come before the answer.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use capstan::runtime::ReconcileResult;
use jiff::Timestamp;

use super::kinds::KindId;
use super::replica::{BASE, Replica, Task};
use super::schedule::SECOND;
use super::world::{Due, Environment, REPLICAS, World, time_at};

/// The longest pause after failed reconciles, in milliseconds.
const MAX_BACK_OFF: i64 = 30 * SECOND;

impl<E: Environment> World<E> {
    /// Starts all replicas with complete caches. The first one leads.
    pub(super) fn start_replicas(&mut self, tasks: usize) {
        for at in 0..REPLICAS {
            let mut replica = Replica::new(tasks);
            for kind in &self.kinds {
                let all = self.objects.of_kind(kind.id);
                let all = all.map(|(key, typed)| (key.clone(), typed.clone())).collect();
                replica.cache.replace(kind.id, all);
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
        for (task, slot) in replica.tasks.iter_mut().enumerate() {
            let ticket = slot.ticket;
            *slot = Task::new();
            // A wake-up of the process before it is void, and a later one must not be.
            slot.ticket = ticket;
            slot.idle = Some(environment.start(task, at, slot.port.clone(), replica.leading.subscribe()));
        }
    }

    fn task(&mut self, at: usize, task: usize) -> Option<&mut Task<E::View, E::Moment>> {
        self.replicas.get_mut(at)?.tasks.get_mut(task)
    }

    /// Wakes a controller at a time. Earlier wake-ups of it are void.
    pub(super) fn wake_at(&mut self, replica: usize, task: usize, time: i64) {
        let Some(slot) = self.task(replica, task) else {
            return;
        };
        slot.ticket += 1;
        let ticket = slot.ticket;
        self.at(time, Due::Wake { replica, task, ticket });
    }

    /// Wakes all controllers of a replica at a time.
    pub(super) fn wake_all_at(&mut self, at: usize, time: i64) {
        for task in self.tasks_of(at) {
            self.wake_at(at, task, time);
        }
    }

    fn tasks_of(&self, at: usize) -> std::ops::Range<usize> {
        0..self.replicas.get(at).map_or(0, |replica| replica.tasks.len())
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
        let (any, next) = replica.cache.deliver(kind, now);
        if let Some(next) = next {
            self.at(next, Due::Deliver(at, kind));
        }
        if any {
            self.reconcile_all(at);
        }
    }

    /// Lets every controller of a replica reconcile.
    pub(super) fn reconcile_all(&mut self, at: usize) {
        for task in self.tasks_of(at) {
            self.reconcile(at, task);
        }
    }

    /// What the caches of a replica show; the same value until they change.
    pub(crate) fn view_of(&mut self, at: usize) -> Option<Arc<E::View>> {
        let environment = &self.environment;
        let replica = self.replicas.get_mut(at)?;
        let revision = replica.cache.revision();
        if let Some((of, view)) = &replica.view
            && *of == revision
        {
            return Some(Arc::clone(view));
        }
        let view = Arc::new(environment.view(&replica.cache));
        replica.view = Some((revision, Arc::clone(&view)));
        Some(view)
    }

    /// Begins a reconcile, if the replica runs and leads.
    fn reconcile(&mut self, at: usize, task: usize) {
        let now = self.now;
        let moment = E::moment(self);
        let Some(replica) = self.replicas.get_mut(at) else {
            return;
        };
        let (hangs_until, stop) = (replica.hangs_until, replica.stop.clone());
        if !replica.up || !replica.leads {
            return;
        }
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
        let Some(controller) = slot.idle.take() else {
            return;
        };
        slot.moments = vec![moment];
        slot.written.clear();
        let Some(view) = self.view_of(at) else { return };
        let view = self.environment.altered_view(task, &view).unwrap_or(view);
        if let Some(slot) = self.task(at, task) {
            slot.running = Some(controller.reconcile(view, stop));
        }
        self.poll(at, task);
    }

    fn local_time(&self, at: usize) -> Timestamp {
        let ahead = self.replicas.get(at).map_or(0, |replica| replica.clock);
        time_at(self.now + ahead)
    }

    /// Lets a reconcile go on until it ends or waits for the API server.
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
            Poll::Ready((controller, result)) => {
                slot.running = None;
                slot.idle = Some(controller);
                self.reconciled(at, task, result, time);
            }
        }
    }

    /// A reconcile has ended. It is judged, and the next one is planned.
    fn reconciled(&mut self, at: usize, task: usize, mut result: ReconcileResult, time: Timestamp) {
        if self.environment.forgets(task) {
            self.forget(at, task);
            result.behind = None;
        }
        let Some(slot) = self.task(at, task) else {
            return;
        };
        let (events, written) = (slot.port.take_events(), std::mem::take(&mut slot.written));
        E::judge_reconcile(self, task, &written, &events);
        if self.is_violated() {
            return;
        }
        let (now, restarts) = (self.now, self.environment.restarts_on_change(task));
        let Some(slot) = self.task(at, task) else {
            return;
        };
        if let Some(next) = next_wake(slot, restarts, &result, now, time) {
            self.wake_at(at, task, next);
        }
    }

    /// Replaces a controller by one that remembers nothing.
    fn forget(&mut self, at: usize, task: usize) {
        let environment = &self.environment;
        let Some(replica) = self.replicas.get_mut(at) else {
            return;
        };
        let leading = replica.leading.subscribe();
        if let Some(slot) = replica.tasks.get_mut(task) {
            slot.idle = Some(environment.start(task, at, slot.port.clone(), leading));
        }
    }

    /// Lets the first replica reconcile although nothing changed, in a process that has just started or in the one that runs.
    /// Returns the number of writes.
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

/// When a controller reconciles next, as its run loop decides it, without the random part of the pause. `restarts`: see
/// [`Environment::restarts_on_change`].
fn next_wake<V, M>(
    slot: &mut Task<V, M>,
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
