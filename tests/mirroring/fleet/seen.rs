//! What watches of the three kinds show of a fleet. The players act on each change, and the test
//! waits for states.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use capstan_core::authority::pair::FullObject;
use capstan_core::authority::spec::Api;
use futures::StreamExt as _;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use tokio::task::JoinHandle;

use super::{AT_ONCE, DEADLINE};
use crate::players::Play;

/// The label that the test edits.
const EDITED: &str = "example.com/edit";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    MachineApi,
    ClusterApi,
    Infrastructure,
}

impl Watched {
    const ALL: [Self; 3] = [Self::MachineApi, Self::ClusterApi, Self::Infrastructure];

    fn objects(self, client: &kube::Client) -> kube::Api<DynamicObject> {
        let (namespace, group, version, kind) = match self {
            Self::MachineApi => ("openshift-machine-api", "machine.openshift.io", "v1beta1", "Machine"),
            Self::ClusterApi => ("openshift-cluster-api", "cluster.x-k8s.io", "v1beta2", "Machine"),
            Self::Infrastructure => (
                "openshift-cluster-api",
                "infrastructure.cluster.x-k8s.io",
                "v1beta2",
                "AWSMachine",
            ),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        kube::Api::namespaced_with(client.clone(), namespace, &resource)
    }
}

#[derive(Debug, Default)]
struct Known {
    /// The requested and the current API of each Machine, if its mirror agrees.
    agreed: BTreeMap<String, (String, String)>,
    /// The edit that each mirror has, and when it was seen.
    edits: BTreeMap<String, (String, Instant)>,
}

impl Known {
    fn note(&mut self, watched: Watched, object: &FullObject) {
        let name = object.member.name.clone();
        match watched {
            Watched::MachineApi => {
                let text = |at: &str| object.text(at).unwrap_or_default().to_owned();
                let agreed = (text("/spec/authoritativeAPI"), text("/status/authoritativeAPI"));
                match object.condition("Synchronized") {
                    Some("True") => self.agreed.insert(name, agreed),
                    _ => self.agreed.remove(&name),
                };
            }
            Watched::ClusterApi => {
                let Some(value) = object.member.labels.get(EDITED) else {
                    return;
                };
                let known = self.edits.get(&name).is_some_and(|(known, _)| known == value);
                if !known {
                    self.edits.insert(name, (value.clone(), Instant::now()));
                }
            }
            Watched::Infrastructure => {}
        }
    }
}

/// The Machines, as the watches show them.
pub(super) struct Fleet {
    seen: Arc<Mutex<Known>>,
    steps: Arc<AtomicUsize>,
    play: Play,
    tasks: Vec<JoinHandle<()>>,
    number: usize,
}

impl Fleet {
    /// Starts the watches and the players.
    pub(super) fn start(client: &kube::Client, names: &[String]) -> Self {
        let fleet = Self {
            seen: Arc::default(),
            steps: Arc::default(),
            play: Play::with_instances(client, names.iter().cloned()),
            tasks: Vec::new(),
            number: names.len(),
        };
        let tasks = Watched::ALL.map(|watched| fleet.watch(client, watched));
        Self {
            tasks: tasks.into(),
            ..fleet
        }
    }

    fn watch(&self, client: &kube::Client, watched: Watched) -> JoinHandle<()> {
        let objects = watched.objects(client);
        let (seen, play, steps) = (Arc::clone(&self.seen), self.play.clone(), Arc::clone(&self.steps));
        tokio::spawn(async move {
            let events = watcher::watcher(objects, watcher::Config::default()).default_backoff();
            let changed = events.filter_map(|event| async move {
                match event {
                    Ok(Event::Apply(object) | Event::InitApply(object)) => Some(object),
                    _ => None,
                }
            });
            let handled = changed.for_each_concurrent(AT_ONCE, |object| {
                let object = FullObject::from(serde_json::to_value(object).unwrap());
                seen.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .note(watched, &object);
                let (play, steps) = (play.clone(), Arc::clone(&steps));
                async move {
                    let acted = match watched {
                        Watched::MachineApi => play.machine(&object).await,
                        Watched::ClusterApi => play.core(&object).await,
                        Watched::Infrastructure => play.provider(&object).await,
                    };
                    steps.fetch_add(usize::from(acted), Ordering::Relaxed);
                }
            });
            handled.await;
        })
    }

    fn seen(&self) -> MutexGuard<'_, Known> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the players acted.
    pub(super) fn steps(&self) -> usize {
        self.steps.load(Ordering::Relaxed)
    }

    /// Waits until all Machines have this API as requested and authoritative one, and their mirrors
    /// agree.
    pub(super) async fn agree(&self, api: Api) {
        let began = Instant::now();
        let wanted = (api.as_str().to_owned(), api.as_str().to_owned());
        loop {
            let agreed = self.seen().agreed.values().filter(|known| **known == wanted).count();
            if agreed == self.number {
                return;
            }
            assert!(began.elapsed() < DEADLINE, "{agreed} of {} Machines agree", self.number);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a mirror has an edit, and tells when a watch showed it.
    pub(super) async fn mirror_has(&self, name: &str, value: &str) -> Instant {
        let began = Instant::now();
        loop {
            if let Some((_, at)) = self.seen().edits.get(name).filter(|(known, _)| known == value) {
                return *at;
            }
            assert!(began.elapsed() < DEADLINE, "the mirror {name} does not get {value}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Stops, and checks that the instances are those of the beginning.
    pub(super) async fn stop(self, names: &[String]) {
        for task in &self.tasks {
            task.abort();
        }
        let (instances, created, violations) = self.play.record();
        assert_eq!(violations, Vec::<String>::new());
        assert!(
            instances.iter().eq(names) && created.iter().eq(names),
            "other instances"
        );
    }
}
