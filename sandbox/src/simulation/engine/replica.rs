//! The state of one replica: a process that runs the controllers, with its own caches and its own
//! clock.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use capstan::runtime::{Reconcile, ReconcileResult, Reconciler, Shared, View};
use capstan_core::model::ObjectRef;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cache::Cache;
use super::kinds::{KindId, ObjectKey};
use super::port::Port;

/// The monotonic clock of every process begins here. Only differences are used, so any instant is
/// as good.
pub(crate) static BASE: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A running reconcile. It gives the reconciler back with its result.
pub(crate) type Reconciling = Pin<Box<dyn Future<Output = (Box<dyn ObjectReconciler>, ReconcileResult)>>>;

/// The runtime's reconciler of one object, without the type of its controller.
pub(crate) trait ObjectReconciler {
    /// Begins a reconcile.
    fn reconcile(self: Box<Self>, view: Arc<View>, stop: CancellationToken) -> Reconciling;
}

impl<R: Reconcile> ObjectReconciler for Reconciler<R, Port> {
    fn reconcile(mut self: Box<Self>, view: Arc<View>, stop: CancellationToken) -> Reconciling {
        Box::pin(async move {
            let result = Reconciler::reconcile(&mut *self, &view, &stop).await;
            let reconciler: Box<dyn ObjectReconciler> = self;
            (reconciler, result)
        })
    }
}

/// A controller of one process, without its type.
pub(crate) trait Controller {
    /// The objects to reconcile after a process begins to lead.
    fn all(&self, view: &View) -> Vec<ObjectRef>;
    /// The objects to reconcile after an object changed.
    fn affected(&self, changed: &ObjectRef, view: &View) -> Vec<ObjectRef>;
    /// Whether nothing is left to do about an object.
    fn is_gone(&self, object: &ObjectRef, view: &View) -> bool;
    /// The process has begun to lead, or no longer leads.
    fn leadership(&self, is_leader: bool);
    /// A reconciler of an object that remembers nothing.
    fn reconciler(&self, object: ObjectRef, port: Port) -> Box<dyn ObjectReconciler>;
}

impl<R: Reconcile> Controller for Arc<Shared<R>> {
    fn all(&self, view: &View) -> Vec<ObjectRef> {
        self.controller.all(view)
    }

    fn affected(&self, changed: &ObjectRef, view: &View) -> Vec<ObjectRef> {
        self.controller.affected(changed, view)
    }

    fn is_gone(&self, object: &ObjectRef, view: &View) -> bool {
        self.controller.is_gone(object, view)
    }

    fn leadership(&self, is_leader: bool) {
        self.controller.leadership(is_leader);
    }

    fn reconciler(&self, object: ObjectRef, port: Port) -> Box<dyn ObjectReconciler> {
        Box::new(Reconciler::new(Arc::clone(self), port, object))
    }
}

/// One object of one controller in one replica.
pub(crate) struct Task<M> {
    /// The position of the controller.
    pub(crate) controller: usize,
    pub(crate) object: ObjectRef,
    /// The connection of the reconciler to the world.
    pub(crate) port: Port,
    /// The reconciler, between two reconciles; `None` before the first one.
    pub(crate) idle: Option<Box<dyn ObjectReconciler>>,
    pub(crate) running: Option<Reconciling>,
    /// A cache changed during the reconcile that runs.
    pub(crate) changed: bool,
    /// The number of the last wake-up; earlier ones are void.
    pub(crate) ticket: u64,
    /// Failed reconciles in a row.
    pub(crate) failures: u32,
    /// What was true when the reconcile began, and when it read live.
    pub(crate) moments: Vec<M>,
    /// Objects that this reconcile created or deleted, as far as the controller knows.
    pub(crate) written: Vec<ObjectKey>,
}

/// A replica.
pub(crate) struct Replica<M> {
    pub(crate) up: bool,
    /// How often the process was killed. An answer to an earlier process is void.
    pub(crate) epoch: u64,
    /// Whether it believes that it leads.
    pub(crate) leads: bool,
    pub(crate) leading: watch::Sender<bool>,
    pub(crate) cache: Cache,
    /// What the caches showed last.
    pub(crate) view: Option<Arc<View>>,
    pub(crate) controllers: Vec<Box<dyn Controller>>,
    pub(crate) tasks: Vec<Task<M>>,
    /// The positions of tasks, by controller and object.
    positions: BTreeMap<(usize, ObjectRef), usize>,
    kinds: Arc<[KindId]>,
    /// How far its wall clock is ahead, in milliseconds.
    pub(crate) clock: i64,
    /// It does nothing before this time.
    pub(crate) hangs_until: i64,
    pub(crate) stop: CancellationToken,
}

impl<M> Replica<M> {
    /// A replica whose controllers have not been started yet.
    pub(crate) fn new(kinds: Arc<[KindId]>) -> Self {
        Self {
            up: true,
            epoch: 0,
            leads: false,
            leading: watch::channel(false).0,
            cache: Cache::default(),
            view: None,
            controllers: Vec::new(),
            tasks: Vec::new(),
            positions: BTreeMap::new(),
            kinds,
            clock: 0,
            hangs_until: 0,
            stop: CancellationToken::new(),
        }
    }

    /// Starts the process with these controllers. Its tasks remember nothing.
    pub(crate) fn start(&mut self, controllers: Vec<Box<dyn Controller>>) {
        self.controllers = controllers;
        for task in &mut self.tasks {
            let ticket = task.ticket;
            *task = Task::new(
                task.controller,
                task.object.clone(),
                Port::new(Arc::clone(&self.kinds), *BASE),
            );
            // A wake-up of the process before it is void, and a later one must not be.
            task.ticket = ticket;
        }
    }

    /// The position of the task of an object.
    pub(crate) fn task(&mut self, controller: usize, object: &ObjectRef) -> usize {
        if let Some(known) = self.positions.get(&(controller, object.clone())) {
            return *known;
        }
        let port = Port::new(Arc::clone(&self.kinds), *BASE);
        let position = self.tasks.len();
        self.tasks.push(Task::new(controller, object.clone(), port));
        self.positions.insert((controller, object.clone()), position);
        position
    }
}

impl<M> Task<M> {
    fn new(controller: usize, object: ObjectRef, port: Port) -> Self {
        Self {
            controller,
            object,
            port,
            idle: None,
            running: None,
            changed: false,
            ticket: 0,
            failures: 0,
            moments: Vec::new(),
            written: Vec::new(),
        }
    }
}
