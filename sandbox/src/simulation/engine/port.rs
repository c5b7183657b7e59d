//! The port between a controller and the world: a call waits here until the world answers it.
//!
//! A controller runs as a future. When it calls the API server, the future stops, and the world
//! takes the call, decides what happens to it, and later stores the answer. A port decides nothing.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use capstan_core::api::kind::KindInfo;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde_json::Value;
use tokio::time::Instant;

use crate::api::Object;

use super::kinds::{KindId, ObjectKey, Version};

/// A call of a controller to the API server.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    /// Reads an object.
    Get(ObjectKey),
    /// Lists the objects of a kind and a namespace that fit at least one of these label selectors;
    /// all of them without selectors. An empty namespace stands for all namespaces.
    List { all: ObjectKey, selectors: Vec<String> },
    /// Creates an object.
    Create(ObjectKey, Value),
    /// Tries the creation of an object, and stores nothing.
    DryRun(ObjectKey, Value),
    /// Merges a patch into an object, or into its status.
    Patch { key: ObjectKey, status: bool, patch: Value },
    /// Applies an object as a field manager. Only a seeded bug forces conflicts.
    Apply {
        key: ObjectKey,
        manager: String,
        force: bool,
        object: Value,
    },
    /// Deletes an object, with the preconditions uid and resourceVersion.
    Delete {
        key: ObjectKey,
        uid: Option<String>,
        resource_version: Option<String>,
    },
}

impl Call {
    /// Whether the call changes an object.
    pub(crate) fn is_write(&self) -> bool {
        !matches!(self, Self::Get(_) | Self::List { .. } | Self::DryRun(..))
    }

    /// What the call does, in one word.
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Self::Get(_) => "get",
            Self::List { .. } => "list",
            Self::Create(..) => "create",
            Self::DryRun(..) => "dry run",
            Self::Patch { status: true, .. } => "patch of the status",
            Self::Patch { .. } => "patch",
            Self::Apply { .. } => "apply",
            Self::Delete { .. } => "delete",
        }
    }

    /// The kind of the objects that are read or written.
    pub(crate) fn kind(&self) -> KindId {
        self.key().kind
    }

    /// The name of the object; empty for a list.
    pub(crate) fn name(&self) -> &str {
        &self.key().name
    }

    fn key(&self) -> &ObjectKey {
        match self {
            Self::Get(key)
            | Self::List { all: key, .. }
            | Self::Create(key, _)
            | Self::DryRun(key, _)
            | Self::Patch { key, .. }
            | Self::Apply { key, .. }
            | Self::Delete { key, .. } => key,
        }
    }
}

/// The answer to a call.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// The object of a `Get`, if it exists.
    Object(Option<Version>),
    /// The objects of a `List`.
    List(Vec<Version>),
    /// The object of a write, as it is stored.
    Written(Arc<Object>),
    /// A deletion that left nothing behind.
    Gone,
}

/// One end of the connection between a controller and the world. Clones are the same end.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    /// The kinds of the environment.
    kinds: Arc<[KindId]>,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    now: Timestamp,
    instant: Instant,
    last_id: u64,
    calls: Vec<(u64, Call)>,
    answers: BTreeMap<u64, kube::Result<Answer>>,
    events: Vec<Event>,
}

impl Port {
    /// A port without calls, for the kinds of an environment.
    pub(crate) fn new(kinds: Arc<[KindId]>, instant: Instant) -> Self {
        Self {
            kinds,
            shared: Arc::new(Mutex::new(Shared {
                now: Timestamp::UNIX_EPOCH,
                instant,
                last_id: 0,
                calls: Vec::new(),
                answers: BTreeMap::new(),
                events: Vec::new(),
            })),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // One thread steps a world, so no other thread can have panicked with the lock.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kind of the environment that a controller names.
    pub(super) fn kind(&self, kind: &KindInfo) -> kube::Result<KindId> {
        let wanted = KindId::hash(kind);
        let known = self.kinds.iter().find(|known| known.has_hash(wanted));
        known.copied().ok_or_else(|| {
            let text = format!("the simulated environment has no kind {}", kind.title());
            kube::Error::Service(text.into())
        })
    }

    /// The kind of the environment with this group and name.
    pub(super) fn named(&self, group: &str, kind: &str) -> Option<KindInfo> {
        let mut known = self.kinds.iter().map(|known| known.info());
        known.find(|known| known.group == group && known.kind == kind).cloned()
    }

    /// Sets the clocks of the process.
    pub(crate) fn set_time(&self, now: Timestamp, instant: Instant) {
        let mut shared = self.lock();
        shared.now = now;
        shared.instant = instant;
    }

    /// The wall clock of the process.
    pub(crate) fn now(&self) -> Timestamp {
        self.lock().now
    }

    /// The monotonic clock of the process.
    pub(crate) fn instant(&self) -> Instant {
        self.lock().instant
    }

    /// Takes the calls that wait for the world.
    pub(crate) fn take_calls(&self) -> Vec<(u64, Call)> {
        std::mem::take(&mut self.lock().calls)
    }

    /// Takes the Kubernetes events that the controller has published.
    pub(crate) fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.lock().events)
    }

    /// Publishes Kubernetes events.
    pub(crate) fn publish(&self, events: Vec<Event>) {
        self.lock().events.extend(events);
    }

    /// Answers a call.
    pub(crate) fn answer(&self, id: u64, answer: kube::Result<Answer>) {
        self.lock().answers.insert(id, answer);
    }

    /// Makes a call and waits for its answer.
    pub(crate) async fn call(&self, call: Call) -> kube::Result<Answer> {
        let id = {
            let mut shared = self.lock();
            shared.last_id += 1;
            let id = shared.last_id;
            shared.calls.push((id, call));
            id
        };
        poll_fn(|_| match self.lock().answers.remove(&id) {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        })
        .await
    }
}
