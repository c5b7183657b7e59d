//! The generator in a cluster in which every set is refused.

use std::sync::{Arc, Mutex};

use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::objects::{CachedObject, KindObjects};
use capstan_core::model::ObjectRef;
use k8s_openapi::api::core::v1::Event;
use kube::api::DeleteParams;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::controllers::Metrics;
use crate::runtime::{Cluster, Reconciler, Shared, WatchedObject, Written};

/// How often a set was applied, and the events.
#[derive(Clone, Default)]
struct Refusing(Arc<Mutex<(usize, Vec<Event>)>>);

fn unexpected<T>() -> kube::Result<T> {
    Err(kube::Error::Service("the generator does not send this request".into()))
}

impl Cluster for Refusing {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }

    async fn get<T: CachedObject>(&self, _: &KindInfo, _: &str, _: &str) -> kube::Result<Option<WatchedObject<T>>> {
        Ok(None)
    }

    async fn list<T: CachedObject>(&self, _: &KindInfo, _: &str, _: &[&str]) -> kube::Result<Vec<WatchedObject<T>>> {
        unexpected()
    }

    async fn create(&self, _: &KindInfo, _: &ObjectRef, _: Value) -> kube::Result<Written> {
        unexpected()
    }

    async fn patch(&self, _: &KindInfo, _: &ObjectRef, _: bool, _: Value) -> kube::Result<Written> {
        unexpected()
    }

    async fn apply(&self, _: &KindInfo, _: &ObjectRef, _: &str, _: Value) -> kube::Result<Written> {
        self.0.lock().unwrap().0 += 1;
        let status = json!({"status": "Failure", "code": 422, "reason": "Invalid", "message": "a rule refuses"});
        Err(kube::Error::Api(serde_json::from_value(status).unwrap()))
    }

    async fn delete(&self, _: &KindInfo, _: &ObjectRef, _: &DeleteParams) -> kube::Result<Option<Written>> {
        unexpected()
    }

    fn publish(&self, _: &str, events: Vec<Event>) {
        self.0.lock().unwrap().1.extend(events);
    }
}

fn view(version: &str) -> View {
    let mut view = View {
        synced: true,
        ..View::default()
    };
    let sets = KindObjects::<ControlPlaneMachineSet>::default();
    view.objects.insert(&kinds::CONTROL_PLANE_MACHINE_SETS, sets);
    for index in 0..3 {
        let machine = json!({
            "metadata": {"name": format!("c-master-{index}"), "uid": index.to_string(), "resourceVersion": version,
                "labels": {"machine.openshift.io/cluster-api-cluster": "c",
                    "machine.openshift.io/cluster-api-machine-role": "master",
                    "machine.openshift.io/cluster-api-machine-type": "master"}},
            "spec": {"providerSpec": {"value": {"kind": "GCPMachineProviderSpec", "zone": format!("z{index}")}}},
        });
        let machine: WatchedObject<Machine> = serde_json::from_value(machine).unwrap();
        view.put(&kinds::MACHINES, &machine.key(), Some(machine));
    }
    view
}

#[tokio::test(start_paused = true)]
async fn a_refused_set_is_reported_once_and_applied_again_when_something_changed() {
    let cluster = Refusing::default();
    let (_leads, leading) = watch::channel(true);
    let shared = Shared {
        controller: Generator::new("home"),
        identity: "test".to_owned(),
        leading,
        metrics: Metrics::register(&mut Registry::default()).runtime,
    };
    let object = shared.controller.object();
    let mut generator = Reconciler::new(Arc::new(shared), cluster.clone(), object);
    let (stop, applied) = (CancellationToken::new(), || cluster.0.lock().unwrap().0);
    let before = view("1");
    let mut reconciles = 0;
    while generator.reconcile(&before, &stop).await.failed {
        reconciles += 1;
        assert!(reconciles < 100, "the refusal never counts");
    }
    let first = applied();
    assert!(first > 1, "the caches of the webhook may be behind for a moment");
    for _ in 0..20 {
        assert!(!generator.reconcile(&before, &stop).await.failed);
    }
    assert_eq!(applied(), first);
    {
        let world = cluster.0.lock().unwrap();
        let events = world.1.iter().filter(|event| event.reason.as_deref() == Some(REFUSED));
        let [event] = events.collect::<Vec<_>>()[..] else {
            panic!("{:?}", world.1)
        };
        let message = event.message.as_deref().unwrap();
        assert!(message.contains("a rule refuses"), "{message}");
    }
    assert!(generator.reconcile(&view("2"), &stop).await.failed);
    assert_eq!(applied(), first + 1);
}

#[test]
fn a_field_that_is_left_to_others_is_removed_with_its_whole_list() {
    let mut object = json!({"spec": {"strategy": {"type": "a"}, "list": [{"x": 1}], "replicas": 3}});
    remove(&mut object, ".spec.strategy.type");
    remove(&mut object, ".spec.list[0].x");
    remove(&mut object, ".spec.absent.field");
    assert_eq!(object, json!({"spec": {"strategy": {}, "replicas": 3}}));
}

#[test]
fn the_hash_depends_on_the_spec_alone() {
    let mut set = ControlPlaneMachineSet::default();
    let before = hash(&set);
    set.metadata.name = Some("cluster".to_owned());
    assert_eq!(hash(&set), before);
    set.spec.replicas = Some(5);
    assert_ne!(hash(&set), before);
}
