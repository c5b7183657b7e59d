//! The controllers that the tests play beside the core of Cluster API, for all objects of the
//! cluster: the Machine and MachineSet controllers of the Machine API, the AWS provider, and the
//! cloud with its instances and nodes.
//!
//! The cloud refuses a second instance of one name, and records which API acts on an instance.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capstan_core::authority::finalizers;
use capstan_core::authority::pair::FullObject;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cluster::{AWS, CLUSTER_API, MACHINE_API, send};

const HELD_BY_PROVIDER: &str = "awsmachine.infrastructure.cluster.x-k8s.io";
const NODES: &str = "/api/v1/nodes";

/// The instances, by the name of their Machine.
#[derive(Debug, Default)]
pub(crate) struct Cloud {
    instances: BTreeMap<String, String>,
    /// The names of all instances that were ever created.
    created: BTreeSet<String>,
    /// What must never happen and did.
    violations: Vec<String>,
    /// The names of the nodes that do not work.
    broken: BTreeSet<String>,
}

impl Cloud {
    /// The id of the instance of a Machine.
    pub(crate) fn id(name: &str) -> String {
        let number = name
            .bytes()
            .fold(7_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
        format!("aws:///us-east-1a/i-{number:017x}")
    }

    fn launch(&mut self, name: &str) -> String {
        if let Some(id) = self.instances.get(name) {
            return id.clone();
        }
        if !self.created.insert(name.to_owned()) {
            self.violations.push(format!("the instance of {name} is created again"));
        }
        let id = Self::id(name);
        self.instances.insert(name.to_owned(), id.clone());
        id
    }

    fn terminate(&mut self, name: &str) {
        self.instances.remove(name);
    }
}

/// The running players.
pub(crate) struct Players {
    cloud: Arc<Mutex<Cloud>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Players {
    /// Starts to play beside the core of Cluster API.
    pub(crate) fn start(client: &kube::Client) -> Self {
        Self::begin(client, false)
    }

    /// Starts to play, also the Machine controller of Cluster API.
    pub(crate) fn with_core(client: &kube::Client) -> Self {
        Self::begin(client, true)
    }

    fn begin(client: &kube::Client, core: bool) -> Self {
        let cloud = Arc::new(Mutex::new(Cloud::default()));
        let stop = CancellationToken::new();
        let play = Play {
            client: client.clone(),
            cloud: Arc::clone(&cloud),
            plays_core: core,
        };
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            while !stopped.is_cancelled() {
                play.round().await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        Self { cloud, stop, task }
    }

    fn cloud(&self) -> MutexGuard<'_, Cloud> {
        self.cloud.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of the Machines that have an instance.
    pub(crate) fn instances(&self) -> BTreeSet<String> {
        self.cloud().instances.keys().cloned().collect()
    }

    /// How many instances were ever created.
    pub(crate) fn created(&self) -> usize {
        self.cloud().created.len()
    }

    /// Lets the node of a Machine fail.
    pub(crate) fn break_node(&self, name: &str) {
        self.cloud().broken.insert(name.to_owned());
    }

    /// Stops, and fails if a violation was seen.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
        assert_eq!(self.cloud.lock().unwrap().violations, Vec::<String>::new());
    }
}

#[derive(Clone)]
pub(crate) struct Play {
    client: kube::Client,
    cloud: Arc<Mutex<Cloud>>,
    /// Whether a round plays the Machine controller of Cluster API too.
    plays_core: bool,
}

impl Play {
    /// The players, with a cloud that has these instances already.
    pub(crate) fn with_instances(client: &kube::Client, names: impl IntoIterator<Item = String>) -> Self {
        let mut cloud = Cloud::default();
        for name in names {
            cloud.launch(&name);
        }
        Self {
            client: client.clone(),
            cloud: Arc::new(Mutex::new(cloud)),
            plays_core: true,
        }
    }

    /// The names of all instances that exist, that were ever created, and what must never happen
    /// and did.
    pub(crate) fn record(&self) -> (BTreeSet<String>, BTreeSet<String>, Vec<String>) {
        let cloud = self.cloud();
        let instances = cloud.instances.keys().cloned().collect();
        (instances, cloud.created.clone(), cloud.violations.clone())
    }

    fn cloud(&self) -> MutexGuard<'_, Cloud> {
        self.cloud.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn list(&self, path: &str) -> Vec<FullObject> {
        let list = send(&self.client, "GET", path, None).await.unwrap_or_default();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.into_iter().map(FullObject::from).collect()
    }

    /// Sends a patch for the object as it was read. A conflict is repaired in the next round.
    async fn patch(&self, path: &str, object: &FullObject, mut patch: Value) -> bool {
        patch["metadata"]["resourceVersion"] = json!(object.resource_version());
        send(&self.client, "PATCH", path, Some(&patch)).await.ok();
        true
    }

    async fn round(&self) {
        let machines = self.list(&format!("{MACHINE_API}/machines")).await;
        for machine in &machines {
            self.machine(machine).await;
        }
        for set in self.list(&format!("{MACHINE_API}/machinesets")).await {
            self.set(&set, &machines).await;
        }
        if self.plays_core {
            for machine in self.list(&format!("{CLUSTER_API}/machines")).await {
                self.core(&machine).await;
            }
        }
        for machine in self.list(&format!("{AWS}/awsmachines")).await {
            self.provider(&machine).await;
        }
        self.nodes().await;
    }

    async fn paused(&self, path: &str, object: &FullObject, status: &str) -> bool {
        if object.condition("Paused") == Some(status) {
            return false;
        }
        let conditions = object.value["status"]["conditions"].as_array();
        let mut conditions = conditions.cloned().unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "Paused");
        let mut condition = json!({"type": "Paused", "status": status, "reason": "Test",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        if path.starts_with(CLUSTER_API) {
            condition["message"] = json!("");
        }
        conditions.push(condition);
        let patch = json!({"status": {"conditions": conditions}});
        self.patch(&format!("{path}/status"), object, patch).await
    }

    async fn finalizer(&self, path: &str, object: &FullObject, name: &str, present: bool) -> bool {
        if object.has_finalizer(name) == present || (present && object.member.deleting) {
            return false;
        }
        let mut list = object.finalizers();
        list.retain(|known| *known != name);
        list.extend(present.then_some(name));
        self.patch(path, object, json!({"metadata": {"finalizers": list}}))
            .await
    }

    /// One step of the Machine controller of the Machine API.
    pub(crate) async fn machine(&self, machine: &FullObject) -> bool {
        let name = machine.text("/metadata/name").unwrap_or_default();
        let path = format!("{MACHINE_API}/machines/{name}");
        match machine.text("/status/authoritativeAPI") {
            None => return false,
            Some("MachineAPI") => {}
            Some(_) => return self.paused(&path, machine, "True").await,
        }
        if self.paused(&path, machine, "False").await {
            return true;
        }
        let held = finalizers::MACHINE_API;
        if machine.member.deleting {
            if machine.has_finalizer(held) {
                self.cloud().terminate(name);
            }
            return self.finalizer(&path, machine, held, false).await;
        }
        if self.finalizer(&path, machine, held, true).await {
            return true;
        }
        if machine.value["spec"]["providerID"].is_null() {
            let id = self.cloud().launch(name);
            return self.patch(&path, machine, json!({"spec": {"providerID": id}})).await;
        }
        if machine.text("/status/phase") != Some("Running") {
            let status = json!({"status": {"phase": "Running", "nodeRef": {"kind": "Node", "name": name}}});
            return self.patch(&format!("{path}/status"), machine, status).await;
        }
        false
    }

    /// One step of the MachineSet controller of the Machine API.
    async fn set(&self, set: &FullObject, machines: &[FullObject]) -> bool {
        let name = set.text("/metadata/name").unwrap_or_default();
        let path = format!("{MACHINE_API}/machinesets/{name}");
        if set.member.deleting {
            return false;
        }
        match set.text("/status/authoritativeAPI") {
            None => return false,
            Some("MachineAPI") => {}
            Some(_) => return self.paused(&path, set, "True").await,
        }
        if self.paused(&path, set, "False").await {
            return true;
        }
        let owned = |machine: &&FullObject| {
            let owners = machine.value["metadata"]["ownerReferences"].as_array();
            owners.into_iter().flatten().any(|owner| owner["uid"] == set.uid())
        };
        let all: Vec<&FullObject> = machines.iter().filter(owned).collect();
        let alive: Vec<&&FullObject> = all.iter().filter(|machine| !machine.member.deleting).collect();
        let wanted = usize::try_from(set.value["spec"]["replicas"].as_i64().unwrap_or(1)).unwrap_or_default();
        if alive.len() < wanted && alive.len() == all.len() {
            return self.create(set, name).await;
        }
        if let Some(machine) = alive.get(wanted) {
            let machine = machine.text("/metadata/name").unwrap_or_default();
            let path = format!("{MACHINE_API}/machines/{machine}");
            send(&self.client, "DELETE", &path, None).await.ok();
            return true;
        }
        let replicas = json!(all.len());
        let generation = &set.value["metadata"]["generation"];
        if set.value["status"]["replicas"] == replicas && set.value["status"]["observedGeneration"] == *generation {
            return false;
        }
        let status = json!({"status": {"replicas": replicas, "observedGeneration": generation}});
        self.patch(&format!("{path}/status"), set, status).await
    }

    async fn create(&self, set: &FullObject, name: &str) -> bool {
        let template = &set.value["spec"]["template"];
        let body = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "metadata": {"generateName": format!("{name}-"), "labels": template["metadata"]["labels"],
                "annotations": template["metadata"]["annotations"],
                "ownerReferences": [{"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
                    "name": name, "uid": set.uid(), "controller": true, "blockOwnerDeletion": true}]},
            "spec": template["spec"]});
        send(&self.client, "POST", &format!("{MACHINE_API}/machines"), Some(&body))
            .await
            .ok();
        true
    }

    /// One step of the AWS provider.
    pub(crate) async fn provider(&self, machine: &FullObject) -> bool {
        let name = machine.text("/metadata/name").unwrap_or_default();
        let path = format!("{AWS}/awsmachines/{name}");
        let status = if machine.member.is_paused() { "True" } else { "False" };
        if self.paused(&path, machine, status).await || machine.member.is_paused() {
            return true;
        }
        if machine.member.deleting {
            if machine.has_finalizer(HELD_BY_PROVIDER) {
                self.cloud().terminate(name);
            }
            return self.finalizer(&path, machine, HELD_BY_PROVIDER, false).await;
        }
        // The provider waits until its Machine owns it and has bootstrap data.
        let owner = machine.member.owner().filter(|owner| owner.kind == "Machine");
        let Some(owner) = owner else { return false };
        let owner = format!("{CLUSTER_API}/machines/{}", owner.name);
        let owner = send(&self.client, "GET", &owner, None).await.unwrap_or_default();
        if owner["spec"]["bootstrap"]["dataSecretName"].is_null() {
            return false;
        }
        if self.finalizer(&path, machine, HELD_BY_PROVIDER, true).await {
            return true;
        }
        if machine.value["spec"]["providerID"].is_null() {
            let id = self.cloud().launch(name);
            let instance = id.rsplit('/').next();
            let spec = json!({"spec": {"providerID": id, "instanceID": instance}});
            return self.patch(&path, machine, spec).await;
        }
        if machine.value["status"]["ready"] != json!(true) {
            let status = json!({"status": {"ready": true, "instanceState": "running"}});
            return self.patch(&format!("{path}/status"), machine, status).await;
        }
        false
    }

    /// One step of the Machine controller of Cluster API.
    pub(crate) async fn core(&self, machine: &FullObject) -> bool {
        let name = machine.text("/metadata/name").unwrap_or_default();
        let path = format!("{CLUSTER_API}/machines/{name}");
        // As upstream: the finalizer comes before the pause.
        if self.finalizer(&path, machine, finalizers::CLUSTER_API, true).await {
            return true;
        }
        let status = if machine.member.is_paused() { "True" } else { "False" };
        if self.paused(&path, machine, status).await || machine.member.is_paused() {
            return true;
        }
        let of_provider = format!("{AWS}/awsmachines/{name}");
        let infrastructure = send(&self.client, "GET", &of_provider, None).await.unwrap_or_default();
        if machine.member.deleting {
            if infrastructure.is_null() {
                return self.finalizer(&path, machine, finalizers::CLUSTER_API, false).await;
            }
            if infrastructure["metadata"]["deletionTimestamp"].is_null() {
                send(&self.client, "DELETE", &of_provider, None).await.ok();
            }
            return true;
        }
        if infrastructure["status"]["ready"] != json!(true) {
            return false;
        }
        let id = &infrastructure["spec"]["providerID"];
        if machine.value["spec"]["providerID"] != *id {
            return self.patch(&path, machine, json!({"spec": {"providerID": id}})).await;
        }
        if machine.member.provisioned != Some(true) || machine.text("/status/nodeRef/name") != Some(name) {
            let status = json!({"phase": "Running", "initialization": {"infrastructureProvisioned": true},
                "nodeRef": {"name": name}});
            return self
                .patch(&format!("{path}/status"), machine, json!({"status": status}))
                .await;
        }
        false
    }

    /// The nodes of the instances. Their names are those of the Machines.
    async fn nodes(&self) {
        let (wanted, broken) = {
            let cloud = self.cloud();
            (cloud.instances.clone(), cloud.broken.clone())
        };
        let stored = self.list(NODES).await;
        let name = |node: &FullObject| node.text("/metadata/name").unwrap_or_default().to_owned();
        for (new, id) in &wanted {
            if !stored.iter().any(|node| name(node) == *new) {
                let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": new},
                    "spec": {"providerID": id}});
                send(&self.client, "POST", NODES, Some(&node)).await.ok();
            }
        }
        for node in &stored {
            let path = format!("{NODES}/{}", name(node));
            if !wanted.contains_key(&name(node)) {
                send(&self.client, "DELETE", &path, None).await.ok();
                continue;
            }
            let ready = if broken.contains(&name(node)) { "False" } else { "True" };
            if node.condition("Ready") != Some(ready) {
                let conditions = json!([{"type": "Ready", "status": ready, "reason": "Test", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]);
                let patch = json!({"status": {"conditions": conditions}});
                self.patch(&format!("{path}/status"), node, patch).await;
            }
        }
    }
}
