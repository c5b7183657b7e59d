//! Runs the simulated provider: watches Machines and Nodes, and performs the steps that are due.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::pending;
use std::sync::Arc;

use anyhow::{Context, Result};
use capstan_core::api::core_v1::node::{CONTROL_PLANE_LABEL, MASTER_LABEL, Node};
use capstan_core::api::machine_openshift_io::machine::{KIND, Machine, PLURAL};
use capstan_core::api::machine_openshift_io::{GROUP, label};
use futures::StreamExt as _;
use jiff::Timestamp;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::etcd::{self, Ailments, Host, Members, Observed, Step};
use super::lifecycle::{FINALIZER, Fault, Next, Speeds, next};

/// Options of a provider.
#[derive(Clone)]
pub struct Options {
    /// The namespace of the Machines.
    pub namespace: String,
    /// The duration of each step.
    pub speeds: Speeds,
    /// The number of members that etcd must have; 0 disables the etcd operator.
    pub etcd_members: usize,
    /// The fault of each machine.
    pub fault: Arc<dyn Fn(&Machine) -> Fault + Send + Sync>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("namespace", &self.namespace)
            .field("speeds", &self.speeds)
            .field("etcd_members", &self.etcd_members)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// A provider without faults.
    pub fn new(namespace: &str, speeds: Speeds, etcd_members: usize) -> Self {
        Self {
            namespace: namespace.to_owned(),
            speeds,
            etcd_members,
            fault: Arc::new(|_| Fault::None),
        }
    }
}

/// A running provider. It stops when it is dropped. A provider that is started later continues from
/// the stored objects.
#[derive(Debug)]
pub struct Provider {
    task: JoinHandle<()>,
}

impl Provider {
    /// Starts the provider. The client must be allowed to read and write Machines and Nodes.
    pub fn start(client: Client, options: Options) -> Self {
        let machine = ApiResource {
            group: GROUP.to_owned(),
            version: "v1beta1".to_owned(),
            api_version: format!("{GROUP}/v1beta1"),
            kind: KIND.to_owned(),
            plural: PLURAL.to_owned(),
        };
        let node = ApiResource {
            group: String::new(),
            version: "v1".to_owned(),
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            plural: "nodes".to_owned(),
        };
        let state = State {
            machine_api: Api::namespaced_with(client.clone(), &options.namespace, &machine),
            node_api: Api::all_with(client, &node),
            options,
            machines: BTreeMap::new(),
            nodes: BTreeMap::new(),
            drained: BTreeSet::new(),
            members: Members::default(),
            changed: BTreeMap::new(),
        };
        Self {
            task: tokio::spawn(state.run()),
        }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct State {
    options: Options,
    machine_api: Api<DynamicObject>,
    node_api: Api<DynamicObject>,
    machines: BTreeMap<String, Machine>,
    nodes: BTreeMap<String, Node>,
    /// The uids of machines whose node is drained.
    drained: BTreeSet<String>,
    /// The members of etcd.
    members: Members,
    /// What was due to a machine when it was last looked at, and since when.
    changed: BTreeMap<String, (Next, Instant)>,
}

impl State {
    async fn run(mut self) {
        let mut machines = Box::pin(watcher::watcher(self.machine_api.clone(), watcher::Config::default()));
        let mut nodes = Box::pin(watcher::watcher(self.node_api.clone(), watcher::Config::default()));
        loop {
            let due = self.reconcile().await;
            let timer = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                Some(event) = machines.next() => record(event, &mut self.machines).await,
                Some(event) = nodes.next() => record(event, &mut self.nodes).await,
                () = timer => {}
            }
        }
    }

    /// Performs the steps that are due, and returns the time of the next one.
    async fn reconcile(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let mut due: Vec<Instant> = Vec::new();
        for machine in self.machines.clone().into_values() {
            let node = machine.node_name().and_then(|name| self.nodes.get(name)).cloned();
            let uid = machine.metadata.uid().to_owned();
            let fault = (self.options.fault)(&machine);
            let drained = self.drained.contains(&uid);
            let Some((step, wait)) = next(&machine, node.as_ref(), drained, &fault, &self.options.speeds) else {
                self.changed.remove(&uid);
                continue;
            };
            let since = match self.changed.get(&uid) {
                Some((before, since)) if *before == step => *since,
                _ => now,
            };
            self.changed.insert(uid.clone(), (step, since));
            if since + wait > now {
                due.push(since + wait);
                continue;
            }
            // After a conflict, the watch delivers the changed machine. Any failed step is retried.
            if self.step(&machine, step, &fault).await.is_err() {
                due.push(now + std::time::Duration::from_millis(50));
            } else if step == Next::Drain {
                // The API server does not know about the drain, so no event follows from it.
                due.push(now);
            }
        }
        if let Some(step) = self.next_etcd_step() {
            match self.etcd(&step).await {
                Ok(()) => {
                    self.members.take(&step);
                    // A step that writes nothing causes no event.
                    due.push(now);
                }
                Err(_) => due.push(now + std::time::Duration::from_millis(50)),
            }
        }
        due.into_iter().min()
    }

    async fn step(&mut self, machine: &Machine, step: Next, fault: &Fault) -> Result<()> {
        let name = machine.metadata.name();
        match step {
            Next::Adopt => {
                let mut finalizers = machine.metadata.finalizers.clone();
                if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
                    finalizers.push(FINALIZER.to_owned());
                    let version = &machine.metadata.resource_version;
                    self.patch(
                        name,
                        json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}}),
                    )
                    .await?;
                }
                if machine.phase().is_none() {
                    self.status(name, json!({"phase": "Provisioning"})).await?;
                }
            }
            Next::Provision => {
                self.patch(name, json!({"spec": {"providerID": provider_id(machine)}}))
                    .await?;
                self.status(name, json!({"phase": "Provisioned"})).await?;
            }
            Next::Fail => {
                let Fault::Fails(message) = fault else { return Ok(()) };
                let status = json!({"phase": "Failed", "errorReason": "CreateError", "errorMessage": message});
                self.status(name, status).await?;
            }
            Next::Join => {
                self.join(machine).await?;
                self.status(
                    name,
                    json!({"phase": "Running", "nodeRef": {"kind": "Node", "name": name}}),
                )
                .await?;
            }
            Next::Ready => self.ready(name, "True").await?,
            Next::BeginDeletion => self.status(name, json!({"phase": "Deleting"})).await?,
            Next::Drain => {
                self.drained.insert(machine.metadata.uid().to_owned());
            }
            Next::Terminate => {
                let node = machine.node_name().unwrap_or(name);
                tolerate_absence(self.node_api.delete(node, &DeleteParams::default()).await)?;
            }
            Next::Release => {
                // The node may have joined after the deletion began, and the status of the machine
                // does not name it. It is deleted with its instance.
                let node = machine.node_name().unwrap_or(name);
                tolerate_absence(self.node_api.delete(node, &DeleteParams::default()).await)?;
                let remaining = machine
                    .metadata
                    .finalizers
                    .iter()
                    .filter(|finalizer| *finalizer != FINALIZER);
                let remaining: Vec<&String> = remaining.collect();
                let version = &machine.metadata.resource_version;
                self.patch(
                    name,
                    json!({"metadata": {"resourceVersion": version, "finalizers": remaining}}),
                )
                .await?;
            }
        }
        Ok(())
    }

    async fn join(&self, machine: &Machine) -> Result<()> {
        let name = machine.metadata.name();
        let master = machine
            .metadata
            .labels
            .get(label::ROLE)
            .is_some_and(|role| role == "master");
        let labels = if master {
            json!({MASTER_LABEL: "", CONTROL_PLANE_LABEL: ""})
        } else {
            json!({"node-role.kubernetes.io/worker": ""})
        };
        let node: DynamicObject = serde_json::from_value(json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"providerID": provider_id(machine)}}))?;
        match self.node_api.create(&PostParams::default(), &node).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error).context("joining"),
        }
        self.ready(name, "Unknown").await
    }

    async fn ready(&self, node: &str, status: &str) -> Result<()> {
        let patch = json!({"status": {"conditions": [
            {"type": "Ready", "status": status, "reason": "Simulated", "lastTransitionTime": now()}]}});
        let params = PatchParams::default();
        self.node_api
            .patch_status(node, &params, &Patch::Strategic(patch))
            .await?;
        Ok(())
    }

    async fn patch(&self, machine: &str, patch: Value) -> Result<()> {
        let params = PatchParams::default();
        tolerate_absence(self.machine_api.patch(machine, &params, &Patch::Merge(patch)).await)
    }

    async fn status(&self, machine: &str, status: Value) -> Result<()> {
        let (params, patch) = (PatchParams::default(), json!({ "status": status }));
        tolerate_absence(
            self.machine_api
                .patch_status(machine, &params, &Patch::Merge(patch))
                .await,
        )
    }

    /// The next step of the etcd operator.
    fn next_etcd_step(&mut self) -> Option<Step> {
        if self.options.etcd_members == 0 {
            return None;
        }
        let is_ready = |machine: &Machine| {
            let node = machine.node_name().and_then(|name| self.nodes.get(name));
            node.is_some_and(Node::is_ready)
        };
        let control_plane = self.machines.values().filter(|machine| {
            let role = machine.metadata.labels.get(label::ROLE);
            role.is_some_and(|role| role == "master")
        });
        let observed = Observed {
            hosts: control_plane
                .map(|machine| Host::of(machine, is_ready(machine)))
                .collect(),
            reported: None,
            size: self.options.etcd_members,
            ailments: Ailments::default(),
        };
        self.members.adopt(&observed.hosts);
        self.members.next(&observed)
    }

    /// Writes the hook that a step asks for.
    async fn etcd(&self, step: &Step) -> Result<()> {
        let (name, hooked) = match step {
            Step::Join(name) => (name, true),
            Step::Leave(name) => (name, false),
            Step::Report(_) | Step::Promote(_) | Step::Forget(_) => return Ok(()),
        };
        let Some(machine) = self.machines.get(name) else {
            return Ok(());
        };
        let patch = json!({"metadata": {"resourceVersion": machine.metadata.resource_version},
            "spec": {"lifecycleHooks": {"preDrain": etcd::with_hook(machine, hooked)}}});
        self.patch(name, patch).await
    }
}

/// The provider id of a machine. On AWS it has the form of AWS, which the conversion to Cluster API
/// demands.
fn provider_id(machine: &Machine) -> String {
    let uid = machine.metadata.uid();
    let value = machine.spec.provider_spec.value.as_ref();
    let zone = value.and_then(|value| value.pointer("/placement/availabilityZone")?.as_str());
    match zone {
        Some(zone) => {
            let id: String = uid.chars().filter(char::is_ascii_hexdigit).take(17).collect();
            format!("aws:///{zone}/i-{id}")
        }
        None => format!("simulated:///{uid}"),
    }
}

fn now() -> Timestamp {
    // Kubernetes stores whole seconds.
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default()
}

/// Accepts that the object does not exist.
fn tolerate_absence<T>(result: kube::Result<T>) -> Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn record<T: DeserializeOwned>(event: watcher::Result<Event<DynamicObject>>, objects: &mut BTreeMap<String, T>) {
    let read = |object: &DynamicObject| {
        let value = serde_json::to_value(object).ok()?;
        Some((object.metadata.name.clone()?, serde_json::from_value(value).ok()?))
    };
    match event {
        Ok(Event::Init) => objects.clear(),
        Ok(Event::InitApply(object) | Event::Apply(object)) => objects.extend(read(&object)),
        Ok(Event::Delete(object)) => {
            objects.remove(object.metadata.name.as_deref().unwrap_or_default());
        }
        Ok(Event::InitDone) => {}
        // The watcher restarts by itself. The pause keeps it from restarting in a tight loop.
        Err(_) => tokio::time::sleep(std::time::Duration::from_millis(200)).await,
    }
}
