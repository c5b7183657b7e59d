//! Many toys at once, in a cluster that answers no read before all of them have asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use capstan::runtime::{Cluster, Metrics, Publisher, Shared, View, WatchedObject, Worker, Written};
use capstan_core::api::kind::KindInfo;
use capstan_core::api::objects::{CachedObject, KindObjects};
use capstan_core::model::{NamespacedName, ObjectRef};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::DeleteParams;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::{Barrier, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::controller::{PARTS, TOYS, Thing, Toys};

const SOON: Duration = Duration::from_secs(90);

/// A cluster whose reads wait until `barrier` lets them pass. It counts the creations.
#[derive(Clone)]
struct Crowd {
    barrier: Arc<Barrier>,
    created: Arc<AtomicUsize>,
}

fn watched<T: CachedObject>(kind: &KindInfo, namespace: &str, name: &str) -> Option<WatchedObject<T>> {
    let toy = json!({"metadata": {"name": name, "namespace": namespace, "uid": "u"}, "status": {"ready": true}});
    (kind.kind == TOYS.kind).then(|| serde_json::from_value(toy).unwrap())
}

impl Cluster for Crowd {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }

    async fn get<T: CachedObject>(
        &self,
        kind: &KindInfo,
        namespace: &str,
        name: &str,
    ) -> kube::Result<Option<WatchedObject<T>>> {
        if kind.kind == PARTS.kind {
            self.barrier.wait().await;
        }
        Ok(watched(kind, namespace, name))
    }

    async fn list<T: CachedObject>(&self, _: &KindInfo, _: &str, _: &[&str]) -> kube::Result<Vec<WatchedObject<T>>> {
        Ok(Vec::new())
    }

    async fn create(&self, _: &KindInfo, _: &ObjectRef, _: Value) -> kube::Result<Written> {
        self.created.fetch_add(1, Ordering::SeqCst);
        Ok(Written::default())
    }

    async fn patch(&self, _: &KindInfo, _: &ObjectRef, _: bool, _: Value) -> kube::Result<Written> {
        Ok(Written::default())
    }

    async fn apply(&self, _: &KindInfo, _: &ObjectRef, _: &str, _: Value) -> kube::Result<Written> {
        Ok(Written::default())
    }

    async fn delete(&self, _: &KindInfo, _: &ObjectRef, _: &DeleteParams) -> kube::Result<Option<Written>> {
        Ok(None)
    }

    fn publish(&self, _: &str, _: Vec<Event>) {}
}

/// A view of so many toys without parts, in ten namespaces.
fn view(toys: usize) -> (View, BTreeSet<ObjectRef>) {
    let key = |toy: usize| NamespacedName::new(format!("ns-{}", toy % 10), format!("toy-{}", toy / 10));
    let toy = |at| {
        let key = key(at);
        let toy = watched::<Thing>(&TOYS, &key.namespace, &key.name).unwrap();
        (key, toy.content.unwrap())
    };
    let known: KindObjects<Thing> = (0..toys).map(toy).collect();
    let changed = known.objects.keys().map(|key| TOYS.object(&key.namespace, &key.name));
    let changed = changed.collect();
    let mut view = View {
        synced: true,
        ..View::default()
    };
    view.objects.insert(&TOYS, known);
    view.objects.insert(&PARTS, KindObjects::<Thing>::default());
    (view, changed)
}

/// Reconciles so many toys, of which `in_flight` must be in flight at once. Returns how many bytes of
/// resident memory the worker added for each of them.
pub(crate) async fn play(toys: usize, in_flight: usize) -> usize {
    let cluster = Crowd {
        barrier: Arc::new(Barrier::new(in_flight)),
        created: Arc::default(),
    };
    let (_leads, leading) = watch::channel(true);
    let shared = Shared {
        controller: Toys,
        identity: "test".to_owned(),
        leading,
        metrics: Metrics::register(&mut Registry::default()),
    };
    let (stop, publisher) = (CancellationToken::new(), Publisher::default());
    let (view, changed) = view(toys);
    let before = resident();
    let worker = Worker::new(shared, cluster.clone()).in_flight(in_flight);
    let running = tokio::spawn(worker.run(publisher.subscribe(), stop.clone()));
    publisher.publish(view, &changed);
    let created = tokio::time::timeout(SOON, async {
        while cluster.created.load(Ordering::SeqCst) < toys {
            tokio::task::yield_now().await;
        }
    });
    created.await.expect("all toys are in flight at once");
    let after = resident();
    stop.cancel();
    running.await.unwrap();
    after.saturating_sub(before) / toys
}

/// The resident memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = status.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}
