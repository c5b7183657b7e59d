//! The state of one replica: a process that runs the controllers, with its own caches and its own clock.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use capstan::runtime::ReconcileResult;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cache::Cache;
use super::kinds::ObjectKey;
use super::port::Port;

/// The monotonic clock of every process begins here. Only differences are used, so any instant is as good.
pub(crate) static BASE: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A running reconcile. It gives the controller back with its result.
pub(crate) type Reconciling<V> = Pin<Box<dyn Future<Output = (Box<dyn Controller<V>>, ReconcileResult)>>>;

/// A controller as the engine runs it: one reconcile at a time, on the view `V` of its caches.
pub(crate) trait Controller<V> {
    /// Begins a reconcile.
    fn reconcile(self: Box<Self>, view: Arc<V>, stop: CancellationToken) -> Reconciling<V>;
}

/// One controller in one replica.
pub(crate) struct Task<V, M> {
    /// The connection of the controller to the world.
    pub(crate) port: Port,
    /// The controller, between two reconciles.
    pub(crate) idle: Option<Box<dyn Controller<V>>>,
    pub(crate) running: Option<Reconciling<V>>,
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

impl<V, M> Task<V, M> {
    pub(crate) fn new() -> Self {
        Self {
            port: Port::new(*BASE),
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

/// A replica.
pub(crate) struct Replica<V, M> {
    pub(crate) up: bool,
    /// How often the process was killed. An answer to an earlier process is void.
    pub(crate) epoch: u64,
    /// Whether it believes that it leads.
    pub(crate) leads: bool,
    pub(crate) leading: watch::Sender<bool>,
    pub(crate) cache: Cache,
    /// The view of the cache, and the revision that it shows.
    pub(crate) view: Option<(u64, Arc<V>)>,
    pub(crate) tasks: Vec<Task<V, M>>,
    /// How far its wall clock is ahead, in milliseconds.
    pub(crate) clock: i64,
    /// It does nothing before this time.
    pub(crate) hangs_until: i64,
    pub(crate) stop: CancellationToken,
}

impl<V, M> Replica<V, M> {
    /// A replica with so many controllers, which have not been started yet.
    pub(crate) fn new(tasks: usize) -> Self {
        Self {
            up: true,
            epoch: 0,
            leads: false,
            leading: watch::channel(false).0,
            cache: Cache::default(),
            view: None,
            tasks: (0..tasks).map(|_| Task::new()).collect(),
            clock: 0,
            hangs_until: 0,
            stop: CancellationToken::new(),
        }
    }
}
