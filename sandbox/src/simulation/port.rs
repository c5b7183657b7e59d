//! The seam between the controller that ships and the world: what it asks waits here until the world answers.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use capstan::controllers::{Cluster, Object, WatchedObject, Written};
use capstan_core::api::config_openshift_io::cluster_operator::ClusterOperator;
use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::machine::Machine;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ObjectMeta};
use serde_json::Value;
use tokio::time::Instant;

use crate::api::Object as Stored;

/// What the controller asks.
#[derive(Clone, Debug)]
pub(super) enum Question {
    Set,
    Machines,
    Nodes,
    Node(String),
    Etcd,
    Machine(String),
    Create(Object, Value),
    Patch(Object, bool, Value),
    /// A generated set is applied; whether with force, which only a bug asks for.
    Apply(Value, bool),
    Delete(String, Option<String>, Option<String>),
}

impl Question {
    pub(super) fn is_write(&self) -> bool {
        matches!(
            self,
            Self::Create(..) | Self::Patch(..) | Self::Apply(..) | Self::Delete(..)
        )
    }
}

/// What the world answers.
#[derive(Debug)]
pub(super) enum Answer {
    Set(Option<Arc<ControlPlaneMachineSet>>),
    Machines(Vec<Arc<Machine>>),
    Nodes(Vec<Arc<Node>>),
    Node(Option<Arc<Node>>),
    Operator(Option<Arc<ClusterOperator>>),
    Object(Arc<Stored>),
    Gone,
}

/// One end of the seam. Clones are the same end.
#[derive(Clone, Debug)]
pub(super) struct Port {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    now: Timestamp,
    instant: Instant,
    next: u64,
    asked: Vec<(u64, Question)>,
    answers: BTreeMap<u64, kube::Result<Answer>>,
    told: Vec<Event>,
}

impl Port {
    pub(super) fn new(instant: Instant) -> Self {
        Self {
            shared: Arc::new(Mutex::new(Shared {
                now: Timestamp::UNIX_EPOCH,
                instant,
                next: 0,
                asked: Vec::new(),
                answers: BTreeMap::new(),
                told: Vec::new(),
            })),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // One thread steps a world.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_time(&self, now: Timestamp, instant: Instant) {
        let mut shared = self.lock();
        shared.now = now;
        shared.instant = instant;
    }

    pub(super) fn asked(&self) -> Vec<(u64, Question)> {
        std::mem::take(&mut self.lock().asked)
    }

    pub(super) fn told(&self) -> Vec<Event> {
        std::mem::take(&mut self.lock().told)
    }

    pub(super) fn answer(&self, id: u64, answer: kube::Result<Answer>) {
        self.lock().answers.insert(id, answer);
    }

    async fn ask(&self, question: Question) -> kube::Result<Answer> {
        let id = {
            let mut shared = self.lock();
            shared.next += 1;
            let id = shared.next;
            shared.asked.push((id, question));
            id
        };
        poll_fn(|_| match self.lock().answers.remove(&id) {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        })
        .await
    }
}

fn seen<T>(meta: &capstan_core::api::meta::ObjectMeta, content: Arc<T>) -> WatchedObject<T> {
    WatchedObject {
        meta: ObjectMeta {
            name: meta.name.clone(),
            ..ObjectMeta::default()
        },
        content: Ok(content),
        raw: None,
    }
}

fn unexpected() -> kube::Error {
    kube::Error::Service("another question was answered".into())
}

fn written(answer: kube::Result<Answer>) -> kube::Result<Written> {
    match answer? {
        Answer::Object(object) => {
            let text = |field: &str| {
                let value = object.get("metadata").and_then(|meta| meta.get(field)?.as_str());
                value.unwrap_or_default().to_owned()
            };
            Ok(Written {
                uid: text("uid"),
                version: text("resourceVersion"),
                lists_machines: object
                    .get("status")
                    .is_some_and(|status| status.get("machines").is_some()),
            })
        }
        _ => Err(unexpected()),
    }
}

impl Cluster for Port {
    fn now(&self) -> Timestamp {
        self.lock().now
    }

    fn instant(&self) -> Instant {
        self.lock().instant
    }

    async fn set(&self) -> kube::Result<Option<WatchedObject<ControlPlaneMachineSet>>> {
        match self.ask(Question::Set).await? {
            Answer::Set(set) => Ok(set.map(|set| seen(&set.metadata, Arc::clone(&set)))),
            _ => Err(unexpected()),
        }
    }

    async fn machines(&self) -> kube::Result<Vec<WatchedObject<Machine>>> {
        match self.ask(Question::Machines).await? {
            Answer::Machines(all) => Ok(all
                .into_iter()
                .map(|one| seen(&one.metadata, Arc::clone(&one)))
                .collect()),
            _ => Err(unexpected()),
        }
    }

    async fn control_plane_nodes(&self) -> kube::Result<Vec<WatchedObject<Node>>> {
        match self.ask(Question::Nodes).await? {
            Answer::Nodes(all) => Ok(all
                .into_iter()
                .map(|one| seen(&one.metadata, Arc::clone(&one)))
                .collect()),
            _ => Err(unexpected()),
        }
    }

    async fn node(&self, name: &str) -> kube::Result<Option<WatchedObject<Node>>> {
        match self.ask(Question::Node(name.to_owned())).await? {
            Answer::Node(node) => Ok(node.map(|node| seen(&node.metadata, Arc::clone(&node)))),
            _ => Err(unexpected()),
        }
    }

    async fn etcd(&self) -> kube::Result<Option<WatchedObject<ClusterOperator>>> {
        match self.ask(Question::Etcd).await? {
            Answer::Operator(operator) => Ok(operator.map(|one| seen(&one.metadata, Arc::clone(&one)))),
            _ => Err(unexpected()),
        }
    }

    async fn machine(&self, name: &str) -> kube::Result<WatchedObject<Machine>> {
        match self.ask(Question::Machine(name.to_owned())).await? {
            Answer::Object(object) => object.read().map_err(kube::Error::SerdeError),
            _ => Err(unexpected()),
        }
    }

    async fn create(&self, what: &Object, object: Value) -> kube::Result<Written> {
        written(self.ask(Question::Create(what.clone(), object)).await)
    }

    async fn patch(&self, what: &Object, status: bool, patch: Value) -> kube::Result<Written> {
        written(self.ask(Question::Patch(what.clone(), status, patch)).await)
    }

    async fn apply(&self, set: Value) -> kube::Result<Written> {
        written(self.ask(Question::Apply(set, false)).await)
    }

    async fn delete(&self, machine: &str, params: &DeleteParams) -> kube::Result<Option<Written>> {
        let (uid, version) = params
            .preconditions
            .as_ref()
            .map(|wanted| (wanted.uid.clone(), wanted.resource_version.clone()))
            .unwrap_or_default();
        match self.ask(Question::Delete(machine.to_owned(), uid, version)).await? {
            Answer::Gone => Ok(None),
            answer => written(Ok(answer)).map(Some),
        }
    }

    fn tell(&self, _namespace: &str, events: Vec<Event>) {
        self.lock().told.extend(events);
    }
}
