//! The nodes of the test: each machine with a ready node runs one etcd process, which joins as a
//! learner and is promoted, and which is started again when it is killed. The process ends with its
//! machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result};
use capstan::workload::CLIENT_URLS;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_sandbox::control_plane::{Binaries, Process, free_port};
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use serde_json::json;

use super::grpc::{Client, Member};
use crate::control_plane::Plane;
use crate::etcd_processes::Authority;

/// The keys of a client begin with this.
pub(super) fn key_prefix(client: usize) -> String {
    format!("client-{client:02}-")
}

/// The ports of a member: with TLS, without TLS, and for other members.
#[derive(Clone, Copy)]
struct Ports {
    tls: u16,
    plain: u16,
    peer: u16,
}

struct Running {
    client: Client,
    process: Option<Process>,
    arguments: Vec<String>,
    restarts: u32,
}

#[derive(Default)]
struct State {
    /// The members by the names of their nodes.
    running: BTreeMap<String, Running>,
    ports: BTreeMap<String, Ports>,
    /// Machines that were gone while etcd still had their member.
    early: Vec<String>,
    kills: u64,
}

/// The nodes.
pub(super) struct Nodes {
    folder: PathBuf,
    etcd: PathBuf,
    authority: Authority,
    machines: Api<DynamicObject>,
    nodes: Api<DynamicObject>,
    pods: Api<DynamicObject>,
    state: Mutex<State>,
}

impl Nodes {
    /// Starts the member of the first machine, and follows the machines from then on.
    pub(super) async fn start(plane: &Plane) -> Arc<Self> {
        let binaries = tokio::task::spawn_blocking(Binaries::locate).await.unwrap().unwrap();
        let folder = plane.world.plane.folder().join("members");
        std::fs::create_dir(&folder).unwrap();
        let authority = Authority::new("etcd-ca");
        let client = authority.sign("capstan", &[]);
        for (name, content) in [
            ("ca.crt", authority.certificate()),
            ("tls.crt", client.certificate),
            ("tls.key", client.key),
        ] {
            std::fs::write(folder.join(name), content).unwrap();
        }
        let pods = ApiResource {
            group: String::new(),
            version: "v1".to_owned(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            plural: "pods".to_owned(),
        };
        let nodes = Arc::new(Self {
            folder,
            etcd: binaries.etcd.clone(),
            authority,
            machines: plane.world.api("machines"),
            nodes: plane.world.api("nodes"),
            pods: Api::namespaced_with(plane.world.client.clone(), "kube-system", &pods),
            state: Mutex::default(),
        });
        let first = nodes.ready_nodes().await.unwrap();
        let first = first.values().next().unwrap();
        nodes.run(first, &[], true).await.unwrap();
        tokio::spawn(Arc::clone(&nodes).follow());
        nodes
    }

    /// The folder with the certificates of a client.
    pub(super) fn certificates(&self) -> &Path {
        &self.folder
    }

    /// A client of one of the running members.
    pub(super) fn any(&self, position: usize) -> Option<Client> {
        let state = self.state.lock().unwrap();
        let running = state.running.values().filter(|one| one.process.is_some());
        let clients: Vec<&Client> = running.map(|one| &one.client).collect();
        clients
            .get(position.checked_rem(clients.len())?)
            .map(|client| (*client).clone())
    }

    /// The members, as the first one that answers reports them.
    async fn members(&self) -> Result<Vec<Member>> {
        let count = self.state.lock().unwrap().running.len();
        let mut last = anyhow::anyhow!("no member runs");
        for position in 0..count {
            match self.any(position).context("no member runs")?.members().await {
                Ok(members) => return Ok(members),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The number of voting members.
    pub(super) async fn voters(&self) -> Result<usize> {
        Ok(self.roles().await?.0)
    }

    /// The number of members that do not vote yet.
    pub(super) async fn learners(&self) -> Result<usize> {
        Ok(self.roles().await?.1)
    }

    /// The numbers of voters and of learners, once all members have started.
    async fn roles(&self) -> Result<(usize, usize)> {
        let members = self.members().await?;
        anyhow::ensure!(members.iter().all(|member| !member.name.is_empty()), "{members:?}");
        let learners = members.iter().filter(|member| member.is_learner).count();
        Ok((members.len() - learners, learners))
    }

    /// Kills a member with SIGKILL. It starts again a moment later.
    pub(super) async fn kill_a_member(&self, number: u64) {
        let mut state = self.state.lock().unwrap();
        let count = u64::try_from(state.running.len()).unwrap();
        let Some(position) = number.checked_rem(count) else {
            return;
        };
        let position = usize::try_from(position).unwrap();
        if let Some(one) = state.running.values_mut().nth(position)
            && one.process.take().is_some()
        {
            state.kills += 1;
        }
    }

    /// The stored keys of each client.
    pub(super) async fn count_keys(&self, clients: usize) -> Vec<u64> {
        let mut counts = Vec::new();
        for client in 0..clients {
            let prefix = key_prefix(client);
            let count = capstan_sandbox::control_plane::wait_until("the keys", Duration::from_secs(240), async || {
                Ok(Some(self.any(0).context("no member runs")?.count(&prefix).await?))
            });
            counts.push(count.await.unwrap());
        }
        counts
    }

    /// The machines that went before their member, and the number of killed members.
    pub(super) fn outcome(&self) -> (Vec<String>, u64) {
        let state = self.state.lock().unwrap();
        (state.early.clone(), state.kills)
    }

    /// The ready nodes of machines, by the names of the machines.
    async fn ready_nodes(&self) -> Result<BTreeMap<String, String>> {
        let params = kube::api::ListParams::default();
        let mut ready = BTreeSet::new();
        for node in self.nodes.list(&params).await? {
            let node: capstan_core::api::core_v1::node::Node = serde_json::from_value(serde_json::to_value(node)?)?;
            if node.is_ready() {
                ready.insert(node.metadata.name().to_owned());
            }
        }
        let mut found = BTreeMap::new();
        for machine in self.machines.list(&params).await? {
            let machine: Machine = serde_json::from_value(serde_json::to_value(machine)?)?;
            if let Some(node) = machine.node_name() {
                let known = ready.contains(node) || self.state.lock().unwrap().running.contains_key(node);
                if known {
                    found.insert(machine.metadata.name().to_owned(), node.to_owned());
                }
            }
        }
        Ok(found)
    }

    async fn follow(self: Arc<Self>) {
        loop {
            // A failure of one round is one of the disturbances; the next round tries again.
            let _failed = self.round().await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn round(&self) -> Result<()> {
        let wanted: BTreeSet<String> = self.ready_nodes().await?.into_values().collect();
        let members = self.members().await;
        // Without a quorum no member lists the others, and only restarts help.
        self.restart(members.as_deref().ok());
        let members = members?;
        let gone: Vec<String> = {
            let state = self.state.lock().unwrap();
            let running = state.running.keys();
            running.filter(|node| !wanted.contains(*node)).cloned().collect()
        };
        for node in gone {
            let has_member = members.iter().any(|member| member.name == node);
            {
                let mut state = self.state.lock().unwrap();
                state.running.remove(&node);
                if has_member {
                    state.early.push(node.clone());
                }
            }
            let params = DeleteParams::default().grace_period(0);
            let _pod_gone = self.pods.delete(&format!("etcd-{node}"), &params).await;
        }
        for member in members
            .iter()
            .filter(|member| member.is_learner && !member.name.is_empty())
        {
            // Refused until the learner has caught up, and by the learner itself.
            for position in 0..members.len() {
                if let Some(one) = self.any(position)
                    && one.promote(member.id).await.is_ok()
                {
                    break;
                }
            }
        }
        let is_joining = |node: &&String| !self.state.lock().unwrap().running.contains_key(*node);
        let Some(node) = wanted.iter().find(is_joining) else {
            return Ok(());
        };
        let own = format!("http://127.0.0.1:{}", self.ports_of(node)?.peer);
        let others_vote = members
            .iter()
            .all(|member| member.peer_urls.contains(&own) || !(member.name.is_empty() || member.is_learner));
        if others_vote {
            self.run(node, &members, false).await?;
        }
        Ok(())
    }

    /// Starts the killed members that etcd still has, or all of them if that is unknown.
    fn restart(&self, members: Option<&[Member]>) {
        let mut state = self.state.lock().unwrap();
        for (node, one) in &mut state.running {
            let is_member = members.is_none_or(|members| members.iter().any(|member| member.name == *node));
            if one.process.is_none() && is_member {
                let mut command = Command::new(&self.etcd);
                command.args(&one.arguments);
                one.restarts += 1;
                let log = self.folder.join(format!("{node}-{}.log", one.restarts));
                one.process = Some(Process::spawn(node, command, &log).unwrap());
            }
        }
    }

    /// The ports of a node. They stay the same when an attempt to join is repeated.
    fn ports_of(&self, node: &str) -> Result<Ports> {
        if let Some(known) = self.state.lock().unwrap().ports.get(node) {
            return Ok(*known);
        }
        let ports = Ports {
            tls: free_port()?,
            plain: free_port()?,
            peer: free_port()?,
        };
        self.state.lock().unwrap().ports.insert(node.to_owned(), ports);
        Ok(ports)
    }

    /// Adds the member of a node, unless it is the first, and starts its process.
    async fn run(&self, node: &str, members: &[Member], is_first: bool) -> Result<()> {
        let ports = self.ports_of(node)?;
        let own = format!("http://127.0.0.1:{}", ports.peer);
        let is_added = members.iter().any(|member| member.peer_urls.contains(&own));
        if !is_first && !is_added {
            self.any(0).context("no member runs")?.add_learner(&own).await?;
        }
        let others = members.iter().filter(|member| !member.peer_urls.contains(&own));
        let others = others.flat_map(|member| {
            let urls = member.peer_urls.iter();
            urls.map(|url| format!("{}={url}", member.name))
        });
        let cluster: Vec<String> = others.chain([format!("{node}={own}")]).collect();
        let arguments = self.arguments(node, ports, &cluster.join(","), is_first);
        self.create_pod(node, ports.tls).await;
        let mut command = Command::new(&self.etcd);
        command.args(&arguments);
        let log = self.folder.join(format!("{node}.log"));
        let running = Running {
            client: Client::new(ports.plain),
            process: Some(Process::spawn(node, command, &log)?),
            arguments,
            restarts: 0,
        };
        self.state.lock().unwrap().running.insert(node.to_owned(), running);
        Ok(())
    }

    /// The pod of a member, as kubeadm leaves it. Only its annotation matters.
    async fn create_pod(&self, node: &str, port: u16) {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("etcd-{node}"),
            "namespace": "kube-system", "labels": {"component": "etcd", "tier": "control-plane"},
            "annotations": {(CLIENT_URLS): format!("https://127.0.0.1:{port}"),
                "kubernetes.io/config.mirror": "static"}},
            "spec": {"nodeName": node, "hostNetwork": true, "containers": [{"name": "etcd", "image": "etcd"}]}});
        let pod: DynamicObject = serde_json::from_value(pod).unwrap();
        match self.pods.create(&PostParams::default(), &pod).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => println!("the pod of the member {node} cannot be created: {error}"),
        }
    }

    fn arguments(&self, node: &str, ports: Ports, cluster: &str, is_first: bool) -> Vec<String> {
        let pair = self.authority.sign(node, &[node, "localhost", "127.0.0.1"]);
        let file = |end: &str| self.folder.join(format!("{node}.{end}"));
        std::fs::write(file("crt"), pair.certificate).unwrap();
        std::fs::write(file("key"), pair.key).unwrap();
        let Ports { tls, plain, peer } = ports;
        vec![
            format!("--name={node}"),
            format!("--data-dir={}", file("data").display()),
            String::from("--log-level=warn"),
            format!("--listen-client-urls=https://127.0.0.1:{tls},http://127.0.0.1:{plain}"),
            format!("--advertise-client-urls=https://127.0.0.1:{tls}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-cluster={cluster}"),
            format!("--initial-cluster-state={}", if is_first { "new" } else { "existing" }),
            String::from("--client-cert-auth"),
            format!("--trusted-ca-file={}", self.folder.join("ca.crt").display()),
            format!("--cert-file={}", file("crt").display()),
            format!("--key-file={}", file("key").display()),
        ]
    }
}
