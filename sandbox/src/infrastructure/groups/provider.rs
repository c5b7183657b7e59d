//! Runs the reference provider on a real API server: it watches the objects, and carries out the
//! decisions. It also plays the kubelets of the instances.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result};
use capstan_core::pool::max_surge;
use futures::StreamExt as _;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::cloud::{Cloud, Instance};
use super::decide::{Act, Group, Inventory, MachineOf, decide};

/// Keeps an infrastructure object until its instances are terminated.
pub const FINALIZER: &str = "simulated.capstan.dev/instance";
const MACHINES: &str = "machines";
const NODES: &str = "nodes";
const POOLS: &str = "machinepools";
const GROUPS: &str = "simulatedmachinepools";
const INSTANCES: &str = "simulatedmachines";

/// How fast the cloud is.
#[derive(Clone, Copy, Debug)]
pub struct GroupSpeeds {
    /// From the launch of an instance to its ready Node.
    pub boot: Duration,
    /// Between two looks at the cloud.
    pub poll: Duration,
}

impl Default for GroupSpeeds {
    fn default() -> Self {
        Self {
            boot: Duration::from_millis(300),
            poll: Duration::from_millis(100),
        }
    }
}

/// A running provider. It stops when it is dropped.
#[derive(Debug)]
pub struct GroupProvider {
    task: JoinHandle<()>,
}

impl GroupProvider {
    /// Starts the provider for the groups of a namespace.
    pub fn start(client: Client, namespace: &str, cloud: Cloud, speeds: GroupSpeeds) -> Self {
        let state = State {
            client,
            namespace: namespace.to_owned(),
            cloud,
            speeds,
            objects: BTreeMap::new(),
            first_seen: BTreeMap::new(),
        };
        Self {
            task: tokio::spawn(state.run()),
        }
    }
}

impl Drop for GroupProvider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct State {
    client: Client,
    namespace: String,
    cloud: Cloud,
    speeds: GroupSpeeds,
    /// The watched objects, by plural and name.
    objects: BTreeMap<&'static str, BTreeMap<String, Value>>,
    /// When an instance was seen first, for the time of its boot.
    first_seen: BTreeMap<String, Instant>,
}

fn resource(plural: &str) -> ApiResource {
    let (group, version, kind) = match plural {
        MACHINES => ("cluster.x-k8s.io", "v1beta2", "Machine"),
        POOLS => ("cluster.x-k8s.io", "v1beta2", "MachinePool"),
        GROUPS => ("infrastructure.cluster.x-k8s.io", "v1beta2", "SimulatedMachinePool"),
        INSTANCES => ("infrastructure.cluster.x-k8s.io", "v1beta2", "SimulatedMachine"),
        _ => ("", "v1", "Node"),
    };
    let api_version = match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

/// The name of the controller of an object of this kind.
fn owner<'v>(object: &'v Value, kind: &str) -> &'v str {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let mut owners = owners.into_iter().flatten();
    let owner = owners.find(|owner| text(owner, "/kind") == kind && owner.get("controller") == Some(&json!(true)));
    owner.map_or("", |owner| text(owner, "/name"))
}

impl State {
    fn api(&self, plural: &str) -> Api<DynamicObject> {
        if plural == NODES {
            return Api::all_with(self.client.clone(), &resource(plural));
        }
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource(plural))
    }

    async fn run(mut self) {
        let watched = [MACHINES, NODES, POOLS, GROUPS, INSTANCES];
        let streams = watched.map(|plural| {
            let events = watcher::watcher(self.api(plural), watcher::Config::default());
            events.map(move |event| (plural, event)).boxed()
        });
        let mut events = futures::stream::select_all(streams);
        let mut timer = tokio::time::interval(self.speeds.poll);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some((plural, event)) = events.next() => self.record(plural, event),
                _ = timer.tick() => self.reconcile().await,
            }
        }
    }

    fn record(&mut self, plural: &'static str, event: watcher::Result<Event<DynamicObject>>) {
        let known = self.objects.entry(plural).or_default();
        match event {
            Ok(Event::Init) => known.clear(),
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let name = object.metadata.name.clone().unwrap_or_default();
                known.insert(name, serde_json::to_value(object).unwrap_or_default());
            }
            Ok(Event::Delete(object)) => {
                known.remove(object.metadata.name.as_deref().unwrap_or_default());
            }
            Ok(Event::InitDone) | Err(_) => {}
        }
    }

    fn all(&self, plural: &str) -> impl Iterator<Item = (&String, &Value)> {
        self.objects.get(plural).into_iter().flatten()
    }

    async fn reconcile(&mut self) {
        let groups: Vec<Value> = self.all(GROUPS).map(|(_, group)| group.clone()).collect();
        for group in groups {
            // A conflict or a lost race is retried with the next look.
            let _retried = self.group(&group).await;
        }
    }

    async fn group(&mut self, object: &Value) -> Result<()> {
        let name = text(object, "/metadata/name").to_owned();
        let key = format!("{}/{name}", self.namespace);
        let pool = self
            .objects
            .get(POOLS)
            .and_then(|all| all.get(owner(object, "MachinePool")));
        let Some(pool) = pool.cloned() else {
            return self.release_group(object, &key).await;
        };
        let finalizers = object.pointer("/metadata/finalizers");
        if finalizers.is_none() && !is_deleting(object) {
            let patch = json!({"metadata": {"finalizers": [FINALIZER]}});
            return self.patch(GROUPS, &name, &patch, false).await;
        }
        let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        let replicas = pool.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
        let annotations = pool.pointer("/metadata/annotations").cloned().unwrap_or_default();
        let annotations: BTreeMap<String, String> = serde_json::from_value(annotations).unwrap_or_default();
        let group = Group {
            replicas: usize::try_from(replicas)?,
            version: text(&pool, "/spec/template/spec/version").to_owned(),
            model: text(object, "/spec/model").to_owned(),
            surge: max_surge(&annotations, usize::try_from(replicas)?)
                .unwrap_or(usize::try_from(number("/spec/surge"))?),
            is_deleting: is_deleting(object),
        };
        self.kubelets(&key).await?;
        if object.pointer("/spec/managed") == Some(&json!(true)) {
            return self.managed(object, &group, &key).await;
        }
        let seen = self.seen(&key);
        for act in decide(&group, &seen) {
            self.act(object, &pool, &group, &key, act).await?;
        }
        if group.is_deleting {
            return match seen.machines.is_empty() {
                true => self.release_group(object, &key).await,
                false => Ok(()),
            };
        }
        self.outdated(&group, &key).await?;
        let ids: Vec<String> = seen.machines.values().map(|one| one.provider_id.clone()).collect();
        let provisioned = seen.machines.len() >= group.replicas;
        self.report(object, ids, provisioned, Some("SimulatedMachine")).await
    }

    /// A group that cannot delete a single instance: it launches and terminates on its own.
    async fn managed(&mut self, object: &Value, group: &Group, key: &str) -> Result<()> {
        let instances = self.cloud.of_group(key);
        if group.is_deleting {
            return self.release_group(object, key).await;
        }
        for instance in instances.iter().skip(group.replicas) {
            self.cloud.terminate(&instance.provider_id());
        }
        for _ in instances.len()..group.replicas {
            self.cloud.launch(key, &group.version, &group.model);
        }
        let ids: Vec<String> = self.cloud.of_group(key).iter().map(Instance::provider_id).collect();
        self.report(object, ids, true, None).await
    }

    /// Terminates what is left of a group, and releases its object.
    async fn release_group(&mut self, object: &Value, key: &str) -> Result<()> {
        if !is_deleting(object) {
            return Ok(());
        }
        for instance in self.cloud.of_group(key) {
            self.cloud.terminate(&instance.provider_id());
        }
        let patch = json!({"metadata": {"finalizers": null}});
        self.patch(GROUPS, text(object, "/metadata/name"), &patch, false).await
    }

    fn seen(&self, key: &str) -> Inventory {
        let name = key.rsplit('/').next().unwrap_or_default();
        let own = self.all(INSTANCES).filter(|(_, one)| text(one, "/spec/group") == name);
        let machines = own.map(|(name, one)| {
            let owner = owner(one, "Machine");
            let machine = self.objects.get(MACHINES).and_then(|all| all.get(owner));
            let marked = "/metadata/annotations/cluster.x-k8s.io~1delete-machine";
            let machine_of = MachineOf {
                provider_id: text(one, "/spec/providerID").to_owned(),
                is_deleting: is_deleting(one),
                owner: machine.map_or_else(String::new, |_| owner.to_owned()),
                owner_is_deleting: machine.is_some_and(is_deleting),
                is_marked: machine.is_some_and(|machine| machine.pointer(marked).is_some()),
            };
            (name.clone(), machine_of)
        });
        // A Node that just became ready may have to stay so for minReadySeconds.
        let is_available = |machine: &Value| {
            let conditions = machine.pointer("/status/conditions").and_then(Value::as_array);
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|one| text(one, "/type") == "Available" && text(one, "/status") == "True")
        };
        let available = self.all(MACHINES).filter(|(_, machine)| is_available(machine));
        Inventory {
            instances: self.cloud.of_group(key),
            machines: machines.collect(),
            available: available
                .map(|(_, machine)| text(machine, "/spec/providerID").to_owned())
                .collect(),
        }
    }

    async fn act(&mut self, object: &Value, pool: &Value, group: &Group, key: &str, act: Act) -> Result<()> {
        match act {
            Act::Launch(count) => (0..count).for_each(|_| self.cloud.launch(key, &group.version, &group.model)),
            Act::Represent(instance) => self.represent(object, pool, &instance).await?,
            Act::DeleteOwner(name) => self.delete(MACHINES, &name).await?,
            Act::Delete(name) => self.delete(INSTANCES, &name).await?,
            Act::Release(name) => {
                let known = self.objects.get(INSTANCES).and_then(|all| all.get(&name));
                let id = known.map(|one| text(one, "/spec/providerID").to_owned());
                if let Some(id) = id {
                    self.cloud.terminate(&id);
                }
                self.patch(INSTANCES, &name, &json!({"metadata": {"finalizers": null}}), false)
                    .await?;
            }
        }
        Ok(())
    }

    async fn represent(&mut self, object: &Value, pool: &Value, instance: &Instance) -> Result<()> {
        let cluster = text(pool, "/spec/clusterName");
        let label = capstan_core::api::cluster_x_k8s_io::label_value(text(pool, "/metadata/name"));
        let machine = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "SimulatedMachine",
            "metadata": {
                "name": instance.name(), "namespace": self.namespace, "finalizers": [FINALIZER],
                "labels": {"cluster.x-k8s.io/cluster-name": cluster, "cluster.x-k8s.io/pool-name": label},
                // Until the Machine exists, the group keeps the object from being an orphan.
                "ownerReferences": [{
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "SimulatedMachinePool",
                    "name": text(object, "/metadata/name"), "uid": text(object, "/metadata/uid"),
                }],
            },
            "spec": {"providerID": instance.provider_id(), "group": text(object, "/metadata/name")},
        });
        self.create(INSTANCES, machine).await?;
        let status = json!({"status": {"ready": true, "initialization": {"provisioned": true}}});
        self.patch(INSTANCES, &instance.name(), &status, true).await
    }

    /// Reports which instances do not have the model of the group. The version needs no report.
    async fn outdated(&mut self, group: &Group, key: &str) -> Result<()> {
        for instance in self.cloud.of_group(key) {
            let status = if instance.model == group.model { "True" } else { "False" };
            let known = self.objects.get(INSTANCES).and_then(|all| all.get(&instance.name()));
            let Some(known) = known else { continue };
            let conditions = known.pointer("/status/conditions").and_then(Value::as_array);
            let mut conditions = conditions.into_iter().flatten();
            let current = conditions.find(|one| text(one, "/type") == "UpToDate");
            if current.map_or("True", |one| text(one, "/status")) == status {
                continue;
            }
            let message = format!("it has model {:?}, and the group has {:?}", instance.model, group.model);
            let condition = json!({"type": "UpToDate", "status": status, "reason": "Model", "message": message});
            let patch = json!({"status": {"conditions": [condition]}});
            self.patch(INSTANCES, &instance.name(), &patch, true).await?;
        }
        Ok(())
    }

    async fn report(&mut self, object: &Value, mut ids: Vec<String>, ready: bool, kind: Option<&str>) -> Result<()> {
        ids.sort();
        let name = text(object, "/metadata/name").to_owned();
        if object.pointer("/spec/providerIDList") != Some(&json!(ids)) {
            let patch = json!({"spec": {"providerIDList": ids}});
            self.patch(GROUPS, &name, &patch, false).await?;
        }
        // Once ready, a group stays ready.
        let ready = ready || object.pointer("/status/ready") == Some(&json!(true));
        let mut status = json!({"ready": ready, "replicas": ids.len(), "initialization": {"provisioned": ready}});
        if let (Some(kind), Some(fields)) = (kind, status.as_object_mut()) {
            fields.insert("infrastructureMachineKind".to_owned(), json!(kind));
        }
        let current = object.get("status").and_then(Value::as_object);
        let differs = |(field, value): (&String, &Value)| current.and_then(|all| all.get(field)) != Some(value);
        if status.as_object().into_iter().flatten().any(differs) {
            self.patch(GROUPS, &name, &json!({ "status": status }), true).await?;
        }
        Ok(())
    }

    /// A Node for each instance that booted, ready while its kubelet works.
    async fn kubelets(&mut self, key: &str) -> Result<()> {
        let now = Instant::now();
        let instances = self.cloud.of_group(key);
        let running: BTreeSet<String> = instances.iter().map(Instance::provider_id).collect();
        for instance in instances {
            let id = instance.provider_id();
            let since = *self.first_seen.entry(id.clone()).or_insert(now);
            if now.duration_since(since) < self.speeds.boot {
                continue;
            }
            let node = self.objects.get(NODES).and_then(|all| all.get(&instance.name()));
            match node {
                None => self.join(&instance).await?,
                Some(node) => self.heartbeat(&node.clone(), instance.is_healthy).await?,
            }
        }
        // The Node of an instance that is gone stays, and is not ready.
        let prefix = format!("simulated://{key}/");
        let lost: Vec<Value> = self
            .all(NODES)
            .map(|(_, node)| node)
            .filter(|node| {
                let id = text(node, "/spec/providerID");
                id.starts_with(&prefix) && !running.contains(id)
            })
            .cloned()
            .collect();
        for node in lost {
            self.heartbeat(&node, false).await?;
        }
        Ok(())
    }

    async fn join(&mut self, instance: &Instance) -> Result<()> {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": instance.name()},
            "spec": {"providerID": instance.provider_id()},
        });
        self.create(NODES, node).await?;
        let info = json!({"kubeletVersion": instance.version, "architecture": "", "bootID": "",
            "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "machineID": "",
            "operatingSystem": "", "osImage": "", "systemUUID": ""});
        let patch = json!({"status": {"nodeInfo": info}});
        self.patch(NODES, &instance.name(), &patch, true).await
    }

    async fn heartbeat(&mut self, node: &Value, is_healthy: bool) -> Result<()> {
        let status = if is_healthy { "True" } else { "Unknown" };
        let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        let ready = conditions.find(|one| text(one, "/type") == "Ready");
        if ready.is_some_and(|one| text(one, "/status") == status) {
            return Ok(());
        }
        let now = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second())?;
        let condition = json!({"type": "Ready", "status": status, "reason": "Simulated", "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now});
        let healthy = ["MemoryPressure", "DiskPressure", "PIDPressure"].map(|type_| {
            json!({"type": type_, "status": "False", "reason": "Simulated", "message": "",
                "lastHeartbeatTime": now, "lastTransitionTime": now})
        });
        let all: Vec<Value> = healthy.into_iter().chain([condition]).collect();
        let patch = json!({"status": {"conditions": all}});
        self.patch(NODES, text(node, "/metadata/name"), &patch, true).await
    }

    async fn create(&mut self, plural: &'static str, body: Value) -> Result<()> {
        let object: DynamicObject = serde_json::from_value(body).context("an object of the provider")?;
        let created = self.api(plural).create(&PostParams::default(), &object).await;
        match created {
            Ok(created) => self.keep(plural, created),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error).context(format!("creating one of {plural}")),
        }
        Ok(())
    }

    async fn patch(&mut self, plural: &'static str, name: &str, patch: &Value, status: bool) -> Result<()> {
        let (api, params) = (self.api(plural), PatchParams::default());
        let patched = if status {
            api.patch_status(name, &params, &Patch::Merge(patch)).await
        } else {
            api.patch(name, &params, &Patch::Merge(patch)).await
        };
        match patched {
            Ok(patched) => self.keep(plural, patched),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error).context(format!("patching {plural} {name}")),
        }
        Ok(())
    }

    /// Keeps an object as it was written, so that nothing is written twice before the watch shows
    /// it.
    fn keep(&mut self, plural: &'static str, object: DynamicObject) {
        let name = object.metadata.name.clone().unwrap_or_default();
        let is_gone = object.metadata.deletion_timestamp.is_some() && object.metadata.finalizers.is_none();
        let known = self.objects.entry(plural).or_default();
        if is_gone {
            known.remove(&name);
        } else {
            known.insert(name, serde_json::to_value(object).unwrap_or_default());
        }
    }

    async fn delete(&mut self, plural: &'static str, name: &str) -> Result<()> {
        match self.api(plural).delete(name, &DeleteParams::default()).await {
            Ok(deleted) => {
                if let Some(deleting) = deleted.left() {
                    self.keep(plural, deleting);
                }
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error).context(format!("deleting {plural} {name}")),
        }
        Ok(())
    }
}
