//! Rollouts of real etcd members under a writer. The plan is that of core, and the leadership and
//! the members change through the client of the controller. The test plays the machines.
//!
//! A controller that dies is a call that is dropped at a random moment; the next plan follows from
//! what the members report then. The writer counts what etcd acknowledges, and everything that it
//! acknowledged must be there in the end. `CAPSTAN_ETCD_WRITES` sets how many writes there are.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::ensure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use capstan::workload::{CLIENT_URLS, EtcdAccess, EtcdError, ManagedCluster, MembersReport, Way, credentials};
use capstan_core::kcp::action::Action;
use capstan_core::kcp::observed::Observed;
use capstan_core::kcp::plan::plan;
use capstan_core::kcp::state::State;
use capstan_sandbox::control_plane::{Binaries, Process, free_port, wait_until};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::etcd::Pods;
use super::members::{Authority, arguments, base64};

const SOON: Duration = Duration::from_secs(60);
/// The deadline of a write. A member that is gone must not hold up the writer.
const SHORT: Duration = Duration::from_secs(3);

/// A machine with its etcd member.
struct Machine {
    process: Option<Process>,
    client: u16,
    peer: u16,
    version: String,
    is_deleting: bool,
    /// The position in the order of creation.
    created: usize,
}

struct World {
    authority: Authority,
    binaries: Binaries,
    folder: tempfile::TempDir,
    machines: BTreeMap<String, Machine>,
    version: String,
    /// The addresses of the members, for the writer.
    addresses: Arc<Mutex<Vec<String>>>,
    created: usize,
    random: u64,
}

impl World {
    async fn new() -> Self {
        let binaries = tokio::task::spawn_blocking(Binaries::locate).await.unwrap().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("etcd-ca");
        std::fs::write(folder.path().join("ca.crt"), authority.certificate()).unwrap();
        let mut world = Self {
            authority,
            binaries,
            folder,
            machines: BTreeMap::new(),
            version: String::from("v1.30.0"),
            addresses: Arc::default(),
            created: 0,
            random: 1,
        };
        let names = ["node-a", "node-b", "node-c"];
        for name in names {
            world.add(name);
        }
        // The oldest machine is outdated.
        world.machines.get_mut("node-a").unwrap().version = String::from("v1.29.9");
        for name in names {
            world.start(name, "new");
        }
        let formed = wait_until("the members to form a cluster", SOON, async || {
            let report = world.access().await.report().await?;
            ensure!(report.silent.is_empty() && report.leader().is_some(), "{report:?}");
            Ok(Some(()))
        });
        formed.await.unwrap();
        world
    }

    fn add(&mut self, name: &str) {
        self.created += 1;
        let machine = Machine {
            process: None,
            client: free_port().unwrap(),
            peer: free_port().unwrap(),
            version: self.version.clone(),
            is_deleting: false,
            created: self.created,
        };
        self.machines.insert(name.to_owned(), machine);
    }

    /// Starts the process of a member, also again with its data.
    fn start(&mut self, name: &str, state: &str) {
        let peers = self
            .machines
            .iter()
            .map(|(name, machine)| format!("{name}=http://127.0.0.1:{}", machine.peer));
        let peers = peers.collect::<Vec<String>>().join(",");
        let machine = &self.machines[name];
        let mut command = Command::new(&self.binaries.etcd);
        let ports = [machine.client, machine.peer];
        command.args(arguments(self.folder.path(), &self.authority, name, ports, &peers));
        command.arg(format!("--initial-cluster-state={state}"));
        let log = self.folder.path().join(format!("{name}.log"));
        let process = Process::spawn(name, command, &log).unwrap();
        self.machines.get_mut(name).unwrap().process = Some(process);
        let addresses = self
            .machines
            .values()
            .map(|machine| format!("127.0.0.1:{}", machine.client));
        *self.addresses.lock().unwrap() = addresses.collect();
    }

    async fn access(&self) -> EtcdAccess {
        let pods = self.machines.iter().map(|(name, machine)| {
            let urls = format!("https://127.0.0.1:{}", machine.client);
            json!({"metadata": {"annotations": {(CLIENT_URLS): urls}}, "spec": {"nodeName": name}})
        });
        let cluster = ManagedCluster {
            namespace: String::from("ns"),
            name: String::from("c"),
            uid: String::from("u"),
        };
        let signed = credentials(&self.authority.certificate(), &self.authority.key()).unwrap();
        EtcdAccess::of(&Pods(pods.collect()), &cluster, signed, &Way::Advertised)
            .await
            .unwrap()
    }

    /// The state of the control plane, with the members as they are reported.
    fn state(&self, report: &MembersReport) -> State {
        let mut objects = vec![
            json!({
                "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
                "metadata": {
                    "name": "cp", "namespace": "ns", "uid": "cp", "resourceVersion": "1",
                    "finalizers": ["kubeadm.controlplane.cluster.x-k8s.io"],
                    "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "c"}],
                },
                "spec": {"replicas": 3, "version": self.version, "machineTemplate": {"spec": {"infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "t",
                }}}},
                "status": {
                    "initialization": {"controlPlaneInitialized": true},
                    "conditions": [{"type": "CertificatesAvailable", "status": "True"}],
                },
            }),
            json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
                "metadata": {"name": "c", "namespace": "ns", "uid": "c"},
                "spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}},
                "status": {"initialization": {"infrastructureProvisioned": true}},
            }),
        ];
        let members: Vec<Value> = report
            .survey
            .members
            .iter()
            .map(|(member, alarms)| {
                assert!(alarms.is_empty(), "{alarms:?}");
                let is_silent = report.silent.contains_key(&member.name);
                json!({"name": member.name, "learner": member.is_learner, "healthy": !is_silent})
            })
            .collect();
        for (name, machine) in &self.machines {
            let works = members
                .iter()
                .any(|member| member["name"] == name.as_str() && member["healthy"] == true);
            objects.push(machine_object(name, machine, works));
            objects.push(json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }));
        }
        objects.push(json!({
            "apiVersion": "capstan.dev/v1", "kind": "EtcdMembers", "leader": report.leader().unwrap_or_default(),
            "members": members,
        }));
        State::observe(&Observed::of_objects(&objects).unwrap(), Timestamp::now())
    }

    /// A number below a limit, from a fixed sequence.
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit
    }

    /// Takes steps until the plan is empty. Returns how often the controller died.
    async fn roll(&mut self) -> u64 {
        let (mut deaths, mut killed) = (0, false);
        let end = tokio::time::Instant::now() + 5 * SOON;
        loop {
            assert!(tokio::time::Instant::now() < end, "the rollout must end");
            let access = self.access().await;
            let Ok(report) = access.report().await else {
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            };
            let voting = report
                .survey
                .members
                .iter()
                .filter(|(member, _)| !member.is_learner)
                .count();
            assert!((3..=4).contains(&voting), "{report:?}");
            let state = self.state(&report);
            let plan = plan(&state, Timestamp::now());
            assert!(plan.degraded.is_empty(), "{:?}", plan.degraded);
            let Some(step) = plan.steps.first() else {
                if plan.waits.is_empty() && self.machines.len() == 3 {
                    return deaths;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            };
            let machine = step.machine_of_control_plane().unwrap_or_default().to_owned();
            let member = step.action.member().map(str::to_owned);
            match &step.action {
                Action::Create { .. } => {
                    self.join(&machine, &access).await;
                    if !killed {
                        killed = true;
                        self.kill_the_leader(&report).await;
                    }
                }
                Action::Delete { move_leader_to, .. } | Action::RemoveHook { move_leader_to, .. } => {
                    // A slow machine needs more time than the first attempts get.
                    let patience = Duration::from_millis(self.below(150 * (1 + deaths)));
                    let performed = perform(&access, &machine, member.as_deref(), move_leader_to);
                    match tokio::time::timeout(patience, performed).await {
                        // The controller dies before the answer, or after it and before its write.
                        Err(_) => deaths += 1,
                        Ok(Ok(())) if self.below(2) == 0 => deaths += 1,
                        // etcd refuses a removal for some seconds after a change.
                        Ok(Err(_)) => tokio::time::sleep(Duration::from_millis(200)).await,
                        Ok(Ok(())) if member.is_some() => drop(self.machines.remove(&machine)),
                        Ok(Ok(())) => self.machines.get_mut(&machine).unwrap().is_deleting = true,
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// A new machine joins as kubeadm does it: its member is added, and then it starts.
    async fn join(&mut self, name: &str, access: &EtcdAccess) {
        self.add(name);
        let peer = format!("http://127.0.0.1:{}", self.machines[name].peer);
        let addresses: Vec<String> = self.addresses.lock().unwrap().clone();
        let added = wait_until("the member to be added", SOON, async || {
            let report = access.report().await?;
            let mut urls = report.survey.members.iter().flat_map(|(member, _)| &member.peer_urls);
            if urls.any(|url| *url == peer) {
                return Ok(Some(()));
            }
            let body = json!({"peerURLs": [peer]});
            for address in &addresses {
                let client = gateway(&self.authority, address)?;
                if post(&client, "/v3/cluster/member/add", &body, SHORT).await.is_ok() {
                    return Ok(Some(()));
                }
            }
            Ok(None)
        });
        added.await.unwrap();
        self.start(name, "existing");
        let started = wait_until("the new member to answer", SOON, async || {
            let report = self.access().await.report().await?;
            ensure!(report.silent.is_empty(), "{:?}", report.silent);
            Ok(Some(()))
        });
        started.await.unwrap();
    }

    /// Kills the leader, and starts it again with its data.
    async fn kill_the_leader(&mut self, report: &MembersReport) {
        let leader = report.leader().unwrap().to_owned();
        self.machines.get_mut(&leader).unwrap().process = None;
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.start(&leader, "existing");
    }
}

/// What the controller does before it deletes a machine, or removes its hook.
async fn perform(access: &EtcdAccess, machine: &str, member: Option<&str>, to: &[String]) -> Result<(), EtcdError> {
    if !to.is_empty() {
        access.move_leader(machine, to).await?;
    }
    match member {
        Some(member) => access.remove(member).await,
        None => Ok(()),
    }
}

fn machine_object(name: &str, machine: &Machine, works: bool) -> Value {
    let condition =
        |type_: &str, is_true: bool| json!({"type": type_, "status": if is_true { "True" } else { "False" }});
    let mut conditions: Vec<Value> = [
        "APIServerPodHealthy",
        "ControllerManagerPodHealthy",
        "SchedulerPodHealthy",
    ]
    .iter()
    .map(|type_| condition(type_, true))
    .collect();
    conditions.extend(
        ["EtcdPodHealthy", "EtcdMemberHealthy"]
            .iter()
            .map(|type_| condition(type_, works)),
    );
    let mut metadata = json!({
        "name": name, "namespace": "ns", "uid": name, "resourceVersion": "1",
        "creationTimestamp": format!("2026-01-01T00:{:02}:00Z", machine.created % 60),
        "labels": {"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/control-plane": ""},
        "annotations": {"pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup": ""},
        "ownerReferences": [{
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane", "name": "cp",
            "uid": "cp", "controller": true,
        }],
    });
    if machine.is_deleting {
        metadata["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
        conditions.push(json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"}));
    }
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": metadata,
        "spec": {"clusterName": "c", "version": machine.version, "providerID": format!("test://{name}")},
        "status": {"nodeRef": {"name": name}, "conditions": conditions},
    })
}

/// A client of the JSON gateway of a member, which Capstan does not use.
fn gateway(authority: &Authority, address: &str) -> anyhow::Result<kube::Client> {
    let pair = authority.sign("root", &[]);
    let mut config = kube::Config::new(format!("https://{address}").parse()?);
    let root = rustls::pki_types::pem::PemObject::from_pem_slice(authority.certificate().as_bytes());
    let root: rustls::pki_types::CertificateDer<'_> = root?;
    config.root_cert = Some(vec![root.to_vec()]);
    config.auth_info.client_certificate_data = Some(base64(&pair.certificate));
    config.auth_info.client_key_data = Some(base64(&pair.key).into());
    Ok(kube::Client::try_from(config)?)
}

async fn post(client: &kube::Client, path: &str, body: &Value, deadline: Duration) -> anyhow::Result<Value> {
    let request = http::Request::post(path).body(body.to_string().into_bytes())?;
    Ok(tokio::time::timeout(deadline, client.request::<Value>(request)).await??)
}

/// Writes keys until the test ends, each to a member that answers. It keeps the keys that etcd
/// acknowledged.
struct Writer {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<BTreeSet<String>>>,
}

impl Writer {
    fn start(world: &World, tasks: usize) -> Self {
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let tasks = (0..tasks).map(|task| {
            let (stop, count) = (Arc::clone(&stop), Arc::clone(&acknowledged));
            let addresses = Arc::clone(&world.addresses);
            let authority = world.authority.clone();
            tokio::spawn(async move {
                let mut clients: BTreeMap<String, kube::Client> = BTreeMap::new();
                let (mut own, mut number, mut at) = (BTreeSet::new(), 0_usize, task);
                while !stop.load(Ordering::SeqCst) {
                    let all = addresses.lock().unwrap().clone();
                    let address = all[at % all.len()].clone();
                    let client = clients
                        .entry(address.clone())
                        .or_insert_with(|| gateway(&authority, &address).unwrap());
                    let key = format!("{task}-{number}");
                    let body = json!({"key": STANDARD.encode(&key), "value": STANDARD.encode("v")});
                    // A write without an answer may be there or not. Its key is not used again.
                    number += 1;
                    if post(client, "/v3/kv/put", &body, SHORT).await.is_ok() {
                        own.insert(key);
                        count.fetch_add(1, Ordering::SeqCst);
                    } else {
                        clients.remove(&address);
                        at += 1;
                    }
                }
                own
            })
        });
        Self {
            tasks: tasks.collect(),
            stop,
            acknowledged,
        }
    }

    async fn stop(self) -> BTreeSet<String> {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = BTreeSet::new();
        for task in self.tasks {
            all.extend(task.await.unwrap());
        }
        all
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_while_members_are_replaced_and_the_controller_dies() {
    let wanted: usize = std::env::var("CAPSTAN_ETCD_WRITES").map_or(500, |text| text.parse().unwrap());
    let mut world = World::new().await;
    // Many writes need many writers, because each waits for its answer.
    let writer = Writer::start(&world, 2 + wanted / 2_000);
    let mut deaths = world.roll().await;
    let mut rollouts = 1;
    while writer.acknowledged.load(Ordering::SeqCst) < wanted {
        rollouts += 1;
        world.version = format!("v1.30.{rollouts}");
        deaths += world.roll().await;
    }
    let acknowledged = writer.stop().await;
    let versions: BTreeSet<&str> = world
        .machines
        .values()
        .map(|machine| machine.version.as_str())
        .collect();
    assert_eq!(versions, BTreeSet::from([world.version.as_str()]));
    let member = world.machines.values().next().unwrap();
    let client = gateway(&world.authority, &format!("127.0.0.1:{}", member.client)).unwrap();
    // All keys, from the first one on.
    let everything = json!({"key": STANDARD.encode([0]), "range_end": STANDARD.encode([0]), "keys_only": true});
    let stored = post(&client, "/v3/kv/range", &everything, SOON).await.unwrap();
    let stored: BTreeSet<String> = stored["kvs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| String::from_utf8(STANDARD.decode(pair["key"].as_str().unwrap()).unwrap()).unwrap())
        .collect();
    let lost: Vec<&String> = acknowledged.difference(&stored).collect();
    eprintln!(
        "{} acknowledged writes, {} stored, {rollouts} rollouts, {deaths} deaths of the controller",
        acknowledged.len(),
        stored.len()
    );
    assert!(lost.is_empty(), "{} of {}: {lost:?}", lost.len(), acknowledged.len());
    assert!(acknowledged.len() >= wanted);
}
