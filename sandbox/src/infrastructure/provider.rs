//! Plays the world around a control plane: watches Machines and Nodes, and does what is due.

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

/// How the world behaves.
#[derive(Clone)]
pub struct Options {
    /// The namespace of the Machines.
    pub namespace: String,
    /// How fast everything goes.
    pub speeds: Speeds,
    /// How many members etcd is to have; 0 for no etcd operator.
    pub etcd_members: usize,
    /// What goes wrong with which machine.
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
    /// A world without faults.
    pub fn new(namespace: &str, speeds: Speeds, etcd_members: usize) -> Self {
        Self {
            namespace: namespace.to_owned(),
            speeds,
            etcd_members,
            fault: Arc::new(|_| Fault::None),
        }
    }
}

/// The world, until it is dropped. What it did stays; another that is started later goes on from there.
#[derive(Debug)]
pub struct Provider {
    task: JoinHandle<()>,
}

impl Provider {
    /// Starts to play. The client needs to read and write Machines and Nodes.
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
        let world = World {
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
            task: tokio::spawn(world.run()),
        }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct World {
    options: Options,
    machine_api: Api<DynamicObject>,
    node_api: Api<DynamicObject>,
    machines: BTreeMap<String, Machine>,
    nodes: BTreeMap<String, Node>,
    /// Uids of machines whose node is drained.
    drained: BTreeSet<String>,
    /// The members of etcd.
    members: Members,
    /// What was due to a machine when it was last looked at, and since when.
    changed: BTreeMap<String, (Next, Instant)>,
}

impl World {
    async fn run(mut self) {
        let mut machines = Box::pin(watcher::watcher(self.machine_api.clone(), watcher::Config::default()));
        let mut nodes = Box::pin(watcher::watcher(self.node_api.clone(), watcher::Config::default()));
        loop {
            let due = self.turn().await;
            let timer = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                Some(event) = machines.next() => note(event, &mut self.machines).await,
                Some(event) = nodes.next() => note(event, &mut self.nodes).await,
                () = timer => {}
            }
        }
    }

    /// Does what is due now, and says when to look again.
    async fn turn(&mut self) -> Option<Instant> {
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
            // A conflict means that the machine has changed: its event comes. Anything else is tried again.
            if self.step(&machine, step, &fault).await.is_err() {
                due.push(now + std::time::Duration::from_millis(50));
            } else if step == Next::Drain {
                // Known to nobody but us, so that no event comes of it.
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
                let rest = machine
                    .metadata
                    .finalizers
                    .iter()
                    .filter(|finalizer| *finalizer != FINALIZER);
                let rest: Vec<&String> = rest.collect();
                let version = &machine.metadata.resource_version;
                self.patch(
                    name,
                    json!({"metadata": {"resourceVersion": version, "finalizers": rest}}),
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

/// The instance of a machine, as its platform would call it.
fn provider_id(machine: &Machine) -> String {
    format!("simulated:///{}", machine.metadata.uid())
}

fn now() -> Timestamp {
    // Kubernetes keeps seconds.
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default()
}

/// What is gone needs nothing any more.
fn tolerate_absence<T>(result: kube::Result<T>) -> Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn note<T: DeserializeOwned>(event: watcher::Result<Event<DynamicObject>>, objects: &mut BTreeMap<String, T>) {
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
        // The watcher begins again by itself; without a pause it would do so at once, again and again.
        Err(_) => tokio::time::sleep(std::time::Duration::from_millis(200)).await,
    }
}
