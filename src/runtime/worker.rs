//! The worker of one controller: a queue of objects, and a bounded number of them in flight.
//!
//! What is remembered belongs to one object, and is forgotten when the object is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::model::ObjectRef;
use jiff::Timestamp;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::caches::{Subscription, View};
use super::cluster::Cluster;
use super::queue::Queue;
use super::reconcile::Reconcile;
use super::reconciler::{ReconcileResult, Reconciler, Shared};

/// How many objects of one controller are reconciled at the same time by default.
const IN_FLIGHT: usize = 10;

/// Runs a controller.
pub struct Worker<R: Reconcile, C> {
    shared: Arc<Shared<R>>,
    cluster: C,
    in_flight: usize,
    view: Arc<View>,
    queue: Queue,
    /// What is kept of the objects that are not reconciled at this moment.
    idle: BTreeMap<ObjectRef, Box<Reconciler<R, C>>>,
    /// The objects that are reconciled, by task.
    running: BTreeMap<tokio::task::Id, ObjectRef>,
}

/// A finished reconcile.
type Finished<R, C> = (Box<Reconciler<R, C>>, ReconcileResult);

impl<R: Reconcile, C: Cluster> Worker<R, C> {
    /// A worker that has not begun.
    pub fn new(shared: Shared<R>, cluster: C) -> Self {
        Self {
            shared: Arc::new(shared),
            cluster,
            in_flight: IN_FLIGHT,
            view: Arc::default(),
            queue: Queue::default(),
            idle: BTreeMap::new(),
            running: BTreeMap::new(),
        }
    }

    /// How many objects are reconciled at the same time; at least one.
    #[must_use]
    pub fn in_flight(mut self, objects: usize) -> Self {
        self.in_flight = objects.max(1);
        self
    }

    /// Works until `stop` while this process is the leader. A write that has begun is finished, and
    /// none is begun after `stop`.
    pub async fn run(mut self, mut changes: Subscription, stop: CancellationToken) {
        let mut leading = self.shared.leading.clone();
        let mut tasks: JoinSet<Finished<R, C>> = JoinSet::new();
        let mut is_leader = false;
        loop {
            let leads = *leading.borrow_and_update();
            self.shared.metrics.is_leader(leads);
            if leads != is_leader {
                is_leader = leads;
                self.leadership(leads);
            }
            while is_leader && tasks.len() < self.in_flight && !stop.is_cancelled() {
                let Some(object) = self.queue.begin(Instant::now()) else {
                    break;
                };
                self.spawn(&mut tasks, object, &stop);
            }
            self.shared.metrics.queued(R::NAME, self.queue.len());
            let working = !stop.is_cancelled();
            tokio::select! {
                biased;
                () = stop.cancelled(), if tasks.is_empty() => return,
                Some(finished) = tasks.join_next_with_id() => self.finished(finished),
                changed = leading.changed(), if working => if changed.is_err() { return },
                changed = changes.changed(), if working => {
                    let Some(changed) = changed else { return };
                    self.changed(changed.view, &changed.objects, is_leader);
                }
                () = until(self.queue.due()), if working && is_leader && tasks.len() < self.in_flight => {}
            }
        }
    }

    /// A process that begins to lead reconciles every object. One that no longer leads begins no
    /// reconcile.
    fn leadership(&mut self, leads: bool) {
        self.shared.controller.leadership(leads);
        self.queue.clear();
        if leads {
            for object in self.shared.controller.all(&self.view) {
                self.queue.changed(object);
            }
        }
    }

    fn changed(&mut self, view: Arc<View>, objects: &BTreeSet<ObjectRef>, is_leader: bool) {
        let first = view.synced && !self.view.synced;
        self.view = view;
        if !is_leader {
            return;
        }
        let controller = &self.shared.controller;
        let affected: BTreeSet<ObjectRef> = if first {
            controller.all(&self.view).into_iter().collect()
        } else {
            let objects = objects.iter();
            objects
                .flat_map(|object| controller.affected(object, &self.view))
                .collect()
        };
        for object in affected {
            self.queue.changed(object);
        }
    }

    fn spawn(&mut self, tasks: &mut JoinSet<Finished<R, C>>, object: ObjectRef, stop: &CancellationToken) {
        let reconciler = self.idle.remove(&object).unwrap_or_else(|| {
            let shared = Arc::clone(&self.shared);
            Box::new(Reconciler::new(shared, self.cluster.clone(), object.clone()))
        });
        let (view, stop) = (Arc::clone(&self.view), stop.clone());
        let task = tasks.spawn(async move {
            let mut reconciler = reconciler;
            let result = reconciler.reconcile(&view, &stop).await;
            (reconciler, result)
        });
        self.running.insert(task.id(), object);
    }

    fn finished(&mut self, finished: Result<(tokio::task::Id, Finished<R, C>), tokio::task::JoinError>) {
        let (id, finished) = match finished {
            Ok((id, finished)) => (id, Some(finished)),
            Err(error) => {
                tracing::error!(%error, controller = R::NAME, "a reconcile panicked; its object starts anew");
                (error.id(), None)
            }
        };
        let Some(object) = self.running.remove(&id) else {
            return;
        };
        let panicked = ReconcileResult {
            failed: true,
            ..ReconcileResult::default()
        };
        let (reconciler, result) = match finished {
            Some((reconciler, result)) => (Some(reconciler), result),
            None => (None, panicked),
        };
        self.queue.finished(&object, &result, Instant::now(), Timestamp::now());
        let gone = || self.shared.controller.is_gone(&object, &self.view);
        if self.queue.is_at_rest(&object) && gone() {
            self.queue.forget(&object);
        } else if let Some(reconciler) = reconciler {
            self.idle.insert(object, reconciler);
        }
    }
}

/// Waits until a time; for ever without one.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
