//! A cluster of plain objects with a clock that only the test moves, for tests of controllers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capstan_core::admission::Options;
use capstan_core::api::config_openshift_io::cluster_operator::ClusterOperator;
use capstan_core::api::core_v1::node::Node;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, NAME};
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::objects::{CachedObject, KindObjects};
use capstan_core::cpms::observed::Settings;
use capstan_core::model::ObjectRef;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, DynamicObject};
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::{Configuration, ControlPlaneMachineSets};
use crate::controllers::metrics::Metrics;
use crate::runtime::{Cluster, ReconcileResult, Reconciler, Shared, View, WatchedObject, Written};

pub(super) type Controller = Reconciler<ControlPlaneMachineSets, Fake>;

/// Objects by kind and name, and what happened to them.
pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) objects: BTreeMap<(&'static str, String), Value>,
    pub(super) version: u64,
    /// Whether creations of machines are lost: neither carried out nor answered.
    pub(super) silent: bool,
    /// The message with which writes of machines are refused.
    pub(super) refusal: Option<String>,
    /// How long the answer to a patch of an object takes, other than of its status.
    pub(super) stall: Duration,
    /// The fields that the CRD of the set drops in the status.
    pub(super) pruned: &'static [&'static str],
    /// Whether a policy refuses patches of the labels of machines.
    pub(super) refuses_labels: bool,
    /// Whether a policy refuses patches of the owners of machines.
    pub(super) refuses_owners: bool,
    /// What a webhook changes in the provider spec of a machine that is created.
    pub(super) webhook: fn(&mut Value),
    /// What a policy of the cluster does to each object that is stored.
    pub(super) policy: fn(&str, &mut Value),
    /// How many dry-run creations were tried.
    pub(super) tried: usize,
    /// Every write that was accepted, as verb, object and content.
    pub(super) writes: Vec<(&'static str, String, Value)>,
    pub(super) events: Vec<Event>,
}

#[derive(Clone)]
pub(super) struct Fake(Arc<Mutex<World>>);

pub(super) const SET: &str = "ControlPlaneMachineSet";
pub(super) const MACHINE: &str = "Machine";
pub(super) const NODE: &str = "Node";
pub(super) const OPERATOR: &str = "ClusterOperator";

impl Fake {
    /// A set with three owned, ready and updated machines.
    pub(super) fn new() -> Self {
        let fake = Self(Arc::new(Mutex::new(World {
            now: "2026-01-01T12:00:00Z".parse().unwrap(),
            objects: BTreeMap::new(),
            version: 100,
            silent: false,
            refusal: None,
            stall: Duration::ZERO,
            pruned: &[],
            refuses_labels: false,
            refuses_owners: false,
            webhook: |_| {},
            policy: |_, _| {},
            tried: 0,
            writes: Vec::new(),
            events: Vec::new(),
        })));
        let provider_spec = json!({"kind": "GCPMachineProviderSpec", "machineType": "n2-standard-4"});
        let labels = json!({
            "machine.openshift.io/cluster-api-cluster": "c",
            "machine.openshift.io/cluster-api-machine-role": "master",
            "machine.openshift.io/cluster-api-machine-type": "master",
        });
        fake.put(
            SET,
            NAME,
            json!({
                "apiVersion": "machine.openshift.io/v1", "kind": SET,
                "metadata": {"name": NAME, "namespace": "openshift-machine-api", "uid": "set", "generation": 1,
                    "finalizers": ["controlplanemachineset.machine.openshift.io"]},
                "spec": {"state": "Active", "replicas": 3, "strategy": {"type": "RollingUpdate"},
                    "selector": {"matchLabels": labels}, "template": {
                    "machineType": "machines_v1beta1_machine_openshift_io",
                    "machines_v1beta1_machine_openshift_io": {"metadata": {"labels": labels},
                        "spec": {"providerSpec": {"value": provider_spec}}}}},
            }),
        );
        for index in 0..3 {
            let name = format!("c-master-{index}");
            fake.put(
                MACHINE,
                &name,
                json!({
                    "apiVersion": "machine.openshift.io/v1beta1", "kind": MACHINE,
                    "metadata": {"name": name, "namespace": "openshift-machine-api", "uid": name, "labels": labels,
                        "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [{
                        "apiVersion": "machine.openshift.io/v1", "kind": SET, "name": NAME, "uid": "set",
                        "controller": true, "blockOwnerDeletion": true}]},
                    "spec": {"providerSpec": {"value": provider_spec}},
                    "status": {"phase": "Running", "nodeRef": {"name": name}},
                }),
            );
            fake.put(
                NODE,
                &name,
                json!({"metadata": {"name": name, "labels": {"node-role.kubernetes.io/control-plane": ""}},
                    "status": {"conditions": [{"type": "Ready", "status": "True",
                        "lastTransitionTime": "2026-01-01T01:00:00Z"}]}}),
            );
        }
        fake
    }

    pub(super) fn world<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    pub(super) fn put(&self, kind: &'static str, name: &str, mut object: Value) {
        self.world(|world| {
            world.version += 1;
            object["metadata"]["resourceVersion"] = json!(world.version.to_string());
            world.objects.insert((kind, name.to_owned()), object);
        });
    }

    pub(super) fn edit(&self, kind: &'static str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.object(kind, name).unwrap();
        change(&mut object);
        self.put(kind, name, object);
    }

    /// Changes the machine type of the template.
    pub(super) fn want(&self, machine_type: &str) {
        self.edit(SET, NAME, |set| {
            set["spec"]["template"]["machines_v1beta1_machine_openshift_io"]["spec"]["providerSpec"]["value"]["machineType"] =
                json!(machine_type);
        });
    }

    pub(super) fn object(&self, kind: &'static str, name: &str) -> Option<Value> {
        self.world(|world| world.objects.get(&(kind, name.to_owned())).cloned())
    }

    pub(super) fn watched<T: CachedObject>(&self, kind: &'static str, name: &str) -> Option<WatchedObject<T>> {
        self.object(kind, name)
            .map(|object| serde_json::from_value(object).unwrap())
    }

    pub(super) fn all<T: CachedObject>(&self, kind: &'static str) -> Vec<WatchedObject<T>> {
        let objects = self.world(|world| world.objects.clone());
        let of = objects.into_iter().filter(|((there, _), _)| *there == kind);
        of.map(|(_, object)| serde_json::from_value(object).unwrap()).collect()
    }

    fn known<T: CachedObject>(&self, view: &mut View, kind: &'static str, info: &KindInfo) {
        view.objects.insert(info, KindObjects::<T>::default());
        for object in self.all::<T>(kind) {
            view.put(info, &object.key(), Some(object));
        }
    }

    /// What caches show that are up to date.
    pub(super) fn view(&self) -> View {
        let mut view = View {
            synced: true,
            ..View::default()
        };
        self.known::<ControlPlaneMachineSet>(&mut view, SET, &kinds::CONTROL_PLANE_MACHINE_SETS);
        self.known::<Machine>(&mut view, MACHINE, &kinds::MACHINES);
        self.known::<Node>(&mut view, NODE, &kinds::NODES);
        self.known::<ClusterOperator>(&mut view, OPERATOR, &kinds::CLUSTER_OPERATORS);
        view
    }

    pub(super) fn controller(&self) -> (Controller, Registry) {
        self.controller_of("test")
    }

    pub(super) fn controller_of(&self, identity: &str) -> (Controller, Registry) {
        let (shared, registry) = shared(identity);
        let object = shared.controller.object();
        (Reconciler::new(Arc::new(shared), self.clone(), object), registry)
    }

    /// Reconciles until a reconcile writes nothing.
    pub(super) async fn settle(&self, controller: &mut Controller) {
        for _ in 0..30 {
            let before = self.writes().len();
            self.reconcile(controller).await;
            if self.writes().len() == before {
                return;
            }
        }
        panic!("no steady state: {:?}", self.writes());
    }

    pub(super) async fn reconcile(&self, controller: &mut Controller) -> ReconcileResult {
        controller.reconcile(&self.view(), &CancellationToken::new()).await
    }

    pub(super) fn pass(&self, seconds: i64) {
        self.world(|world| world.now = world.now.checked_add(SignedDuration::from_secs(seconds)).unwrap());
    }

    pub(super) fn refuse(&self, message: Option<&str>) {
        self.world(|world| world.refusal = message.map(str::to_owned));
    }

    pub(super) fn writes(&self) -> Vec<(&'static str, String, Value)> {
        self.world(|world| world.writes.clone())
    }

    /// The first machine that was created.
    pub(super) fn made(&self) -> String {
        let writes = self.writes().into_iter();
        let mut made = writes.filter(|(verb, ..)| *verb == "create");
        made.find_map(|(_, object, _)| Some(object.strip_prefix("Machine ")?.to_owned()))
            .unwrap()
    }

    /// The conditions of the set or of the operator, as `type=status/reason`.
    pub(super) fn conditions(&self, kind: &'static str, name: &str) -> Vec<String> {
        let object = self.object(kind, name).unwrap_or_default();
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let word = |there: &Value, field: &str| there[field].as_str().unwrap_or_default().to_owned();
        conditions
            .iter()
            .map(|there| {
                format!(
                    "{}={}/{}",
                    word(there, "type"),
                    word(there, "status"),
                    word(there, "reason")
                )
            })
            .collect()
    }

    pub(super) fn events(&self, reason: &str) -> usize {
        self.world(|world| {
            let of = |event: &&Event| event.reason.as_deref() == Some(reason);
            world.events.iter().filter(of).count()
        })
    }

    pub(super) fn write(
        &self,
        verb: &'static str,
        kind: &'static str,
        name: &str,
        content: &Value,
    ) -> kube::Result<Written> {
        self.world(|world| {
            if let Some(message) = world.refusal.clone().filter(|_| kind == MACHINE) {
                return Err(refused(403, "Forbidden", &message));
            }
            if world.refuses_labels && verb == "patch" && kind == MACHINE && !content["metadata"]["labels"].is_null() {
                return Err(refused(403, "Forbidden", "a policy denied the request"));
            }
            let owners = !content["metadata"]["ownerReferences"].is_null();
            if world.refuses_owners && verb == "patch" && kind == MACHINE && owners {
                return Err(refused(403, "Forbidden", "a policy denied the request"));
            }
            if world.silent && verb == "create" && kind == MACHINE {
                world
                    .writes
                    .push(("unanswered create", format!("{kind} {name}"), content.clone()));
                return Err(kube::Error::Service("no answer".into()));
            }
            let there = world.objects.get(&(kind, name.to_owned())).cloned();
            let mut object = match (verb, there) {
                ("create", Some(_)) => return Err(refused(409, "AlreadyExists", "there already")),
                ("create", None) => {
                    let mut object = content.clone();
                    if kind == MACHINE {
                        (world.webhook)(&mut object["spec"]["providerSpec"]["value"]);
                    }
                    object
                }
                (_, None) => return Err(refused(404, "NotFound", "not there")),
                (_, Some(there)) => {
                    for field in ["uid", "resourceVersion"] {
                        let wanted = &content["metadata"][field];
                        if !wanted.is_null() && *wanted != there["metadata"][field] {
                            return Err(refused(409, "Conflict", field));
                        }
                    }
                    let mut object = there;
                    json_patch::merge(&mut object, content);
                    object
                }
            };
            (world.policy)(kind, &mut object);
            if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
                status.retain(|field, _| kind != SET || !world.pruned.contains(&field.as_str()));
            }
            world.version += 1;
            object["metadata"]["resourceVersion"] = json!(world.version.to_string());
            if verb == "create" {
                object["metadata"]["uid"] = json!(format!("uid-{name}"));
            }
            world.writes.push((verb, format!("{kind} {name}"), content.clone()));
            let gone = object["metadata"]["deletionTimestamp"].is_string()
                && object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
            if gone {
                world.objects.remove(&(kind, name.to_owned()));
            } else {
                world.objects.insert((kind, name.to_owned()), object.clone());
            }
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            Ok(object.into())
        })
    }
}

fn refused(code: u16, reason: &str, message: &str) -> kube::Error {
    kube::Error::Api(Box::new(kube::core::Status {
        code,
        reason: reason.to_owned(),
        message: message.to_owned(),
        ..kube::core::Status::default()
    }))
}

fn kind_of(kind: &KindInfo) -> &'static str {
    let known = [SET, MACHINE, NODE, OPERATOR].into_iter();
    known.into_iter().find(|known| *known == kind.kind).unwrap()
}

impl Cluster for Fake {
    fn now(&self) -> Timestamp {
        self.world(|world| world.now)
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }

    async fn get<T: CachedObject>(
        &self,
        kind: &KindInfo,
        _namespace: &str,
        name: &str,
    ) -> kube::Result<Option<WatchedObject<T>>> {
        Ok(self.watched(kind_of(kind), name))
    }

    async fn list<T: CachedObject>(
        &self,
        kind: &KindInfo,
        _namespace: &str,
        _selectors: &[&str],
    ) -> kube::Result<Vec<WatchedObject<T>>> {
        Ok(self.all(kind_of(kind)))
    }

    async fn create(&self, kind: &KindInfo, object: &ObjectRef, body: Value) -> kube::Result<Written> {
        self.write("create", kind_of(kind), &object.name, &body)
    }

    async fn dry_run(&self, _kind: &KindInfo, _object: &ObjectRef, mut body: Value) -> kube::Result<Option<Value>> {
        self.world(|world| {
            world.tried += 1;
            (world.webhook)(&mut body["spec"]["providerSpec"]["value"]);
        });
        Ok(Some(body))
    }

    async fn patch(&self, kind: &KindInfo, object: &ObjectRef, status: bool, patch: Value) -> kube::Result<Written> {
        let verb = if status { "status" } else { "patch" };
        let written = self.write(verb, kind_of(kind), &object.name, &patch);
        let stall = self.world(|world| world.stall);
        if !status && !stall.is_zero() {
            tokio::time::advance(stall).await;
        }
        written
    }

    async fn apply(&self, kind: &KindInfo, object: &ObjectRef, _manager: &str, body: Value) -> kube::Result<Written> {
        self.write("apply", kind_of(kind), &object.name, &body)
    }

    async fn delete(
        &self,
        kind: &KindInfo,
        object: &ObjectRef,
        params: &DeleteParams,
    ) -> kube::Result<Option<Written>> {
        let kind = kind_of(kind);
        self.world(|world| {
            let content = serde_json::to_value(params).unwrap();
            world
                .writes
                .push(("delete", format!("{kind} {}", object.name), content));
            world.objects.remove(&(kind, object.name.clone()));
        });
        Ok(None)
    }

    fn publish(&self, _namespace: &str, events: Vec<Event>) {
        self.world(|world| world.events.extend(events));
    }
}

/// What the reconcilers of a process share, which is always the leader.
pub(super) fn shared(identity: &str) -> (Shared<ControlPlaneMachineSets>, Registry) {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let configuration = Configuration {
        options: Options::default(),
        settings: Settings::default(),
        identity: identity.to_owned(),
    };
    let (leads, leading) = watch::channel(true);
    // The sender is kept for ever, and with it the leadership.
    std::mem::forget(leads);
    let shared = Shared {
        metrics: metrics.runtime.clone(),
        controller: ControlPlaneMachineSets::new(configuration, metrics),
        identity: identity.to_owned(),
        leading,
    };
    (shared, registry)
}

pub(super) fn figures(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    text
}

pub(super) fn parsed<T: DeserializeOwned>(object: Option<Value>) -> T {
    serde_json::from_value(object.unwrap()).unwrap()
}
