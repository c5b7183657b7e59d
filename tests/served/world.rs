//! The world of a run: a control plane, a provider, two processes of the controllers, and the
//! disturbances.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capstan::controllers::{self, Caches, Configuration, Metrics};
use capstan::runtime::{Election, Running};
use capstan_core::admission::{Admission, Options as AdmissionOptions};
use capstan_core::cpms::domains::inject;
use capstan_core::cpms::observed::Settings;
use capstan_core::cpms::spec::{ParseContext, parse};
use capstan_core::model::User;
use capstan_sandbox::api::admission::Capstan;
use capstan_sandbox::api::service::Server;
use capstan_sandbox::api::{
    Api, DeleteOptions, Kind, Object, Options, Part, PatchKind, Request, Target, Verb, WriteOptions,
};
use capstan_sandbox::infrastructure::{Options as ProviderOptions, Provider, Speeds};
use capstan_sandbox::random::Random;
use capstan_sandbox::simulation::FaultRates;
use jiff::{SignedDuration, Timestamp};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::faults::{Connection, Rates};
use crate::judge::{Judge, all, machines, ready};

const NAMESPACE: &str = "openshift-machine-api";
const LEASE: &str = "capstan-controllers";
/// The duration of the Lease.
const TERM: Duration = Duration::from_secs(15);
/// No fault occurs from this second on.
const CALM: u64 = 600;
/// A rollout must end before this second.
const DEADLINE: u64 = 4 * 3600;
/// The instance type that is rolled out.
const NEW_TYPE: &str = "m6i.2xlarge";

/// A disturbance of the processes or the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Disturbance {
    /// A process is killed, and restarts after this many seconds, but not before its Lease expires.
    Kill(usize, u64),
    /// The Lease expires while its holder still believes that it leads.
    LeaseExpires,
    /// Every watch breaks.
    WatchesBreak,
    /// The API server forgets old versions, so every watch must begin with a new list.
    HistoryCompacted,
    /// A user deletes the machine at this position.
    Delete(usize),
    /// A late request of a process that was killed takes the Lease.
    DeadLeader,
}

/// The plan of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub seed: u64,
    pub replicas: usize,
    pub rates: Rates,
    /// The disturbances, each with its second.
    pub disturbances: Vec<(u64, Disturbance)>,
    /// The bug: every attempt to create a machine uses another name.
    pub random_names: bool,
}

impl Plan {
    /// The plan of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut rate = |most| {
            if random.permille(600) {
                random.between(5, most)
            } else {
                0
            }
        };
        let rates = Rates {
            requests: FaultRates {
                refuse: rate(120),
                drop: rate(60),
                lose: rate(120),
                late: rate(60),
                crash_before: rate(20),
                crash_after: rate(20),
                read: rate(80),
                stall: 0,
                // With slow requests, 1 of 140 seeds ended with a node whose machine was gone. The
                // simulated provider deletes such a node by now; the seeds were not run again.
                slow: 0,
            },
            expired: rate(80),
            broken: rate(80),
            lag: rate(9000),
        };
        let mut disturbances = Vec::new();
        for _ in 0..random.between(0, 5) {
            let disturbance = match random.below(9) {
                0..=2 => Disturbance::Kill(usize::try_from(random.below(2)).unwrap(), random.between(1, 90)),
                3 | 4 => Disturbance::LeaseExpires,
                5 => Disturbance::WatchesBreak,
                6 | 7 => Disturbance::HistoryCompacted,
                _ => Disturbance::Delete(usize::try_from(random.below(5)).unwrap()),
            };
            disturbances.push((random.between(5, 500), disturbance));
        }
        disturbances.sort_by_key(|(at, _)| *at);
        Self {
            seed,
            replicas: if seed.is_multiple_of(2) { 3 } else { 5 },
            rates,
            disturbances,
            random_names: false,
        }
    }
}

/// The outcome of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub violation: Option<String>,
    /// The last lines of the trace.
    pub trace: Vec<String>,
    /// The number of created machines.
    pub created: usize,
    /// The number of deleted machines.
    pub deleted: usize,
    pub requests: u64,
    pub faults: u64,
    /// The simulated time, in seconds.
    pub seconds: u64,
}

impl Outcome {
    pub(crate) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.faults += other.faults;
        self.seconds += other.seconds;
    }
}

/// Runs a plan with a paused clock.
pub(crate) fn run(plan: &Plan) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async { World::new(plan.clone()).run().await })
}

/// A process of the controllers.
struct Process {
    identity: String,
    connection: Connection,
    /// Dropping the caches ends their watches.
    _caches: Arc<Caches>,
    controllers: Running,
}

struct World {
    plan: Plan,
    began: Instant,
    server: Server,
    connection: Connection,
    processes: [Option<Process>; 2],
    started: u32,
    /// A holder of the Lease that does not run, and the second of this observation.
    dead_holder: Option<(String, u64)>,
    _provider: Provider,
}

fn user() -> User {
    User {
        name: "admin".to_owned(),
        groups: vec!["system:masters".to_owned()],
        ..User::default()
    }
}

fn place(plural: &str) -> (&'static str, &'static str) {
    match plural {
        "machines" | "controlplanemachinesets" => ("machine.openshift.io", NAMESPACE),
        "clusteroperators" => ("config.openshift.io", ""),
        "leases" => ("coordination.k8s.io", NAMESPACE),
        _ => ("", ""),
    }
}

/// Makes a request of a user.
fn request(server: &Server, plural: &str, name: &str, part: Part, verb: Verb) {
    let (group, namespace) = place(plural);
    let content = Request {
        target: Target {
            group: group.to_owned(),
            plural: plural.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            part,
        },
        verb,
        user: user(),
    };
    let (answer, _) = server.api().apply(&content, Timestamp::now());
    answer.unwrap();
    server.publish();
}

fn create(server: &Server, plural: &str, object: Value) {
    let verb = Verb::Create(object, WriteOptions::default());
    request(server, plural, "", Part::Main, verb);
}

fn patch(server: &Server, plural: &str, name: &str, part: Part, patch: Value) {
    let verb = Verb::Patch(PatchKind::Merge, patch, WriteOptions::default());
    request(server, plural, name, part, verb);
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn kinds() -> Vec<Kind> {
    let mut kinds = Kind::built_ins().unwrap();
    let mut add = |text: &str| kinds.push(Kind::of_definition(&serde_saphyr::from_str(text).unwrap()).unwrap());
    for name in ["machines", "controlplanemachinesets", "machinesets"] {
        add(&read(&format!("manifests/crds/machine.openshift.io_{name}.yaml")));
    }
    read("tests/rollout/configuration-kinds.yaml")
        .split("\n---\n")
        .for_each(add);
    kinds
}

/// Creates the objects that an installer creates.
fn install(server: &Server, replicas: usize) {
    create(server, "namespaces", json!({"metadata": {"name": NAMESPACE}}));
    create(
        server,
        "clusteroperators",
        json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": {"name": "etcd"}, "spec": {}}),
    );
    let condition = |type_: &str, status: &str| {
        json!({"type": type_, "status": status, "message": "EtcdMembersAvailable: 3 members are available",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions =
        json!({"status": {"conditions": [condition("Available", "True"), condition("Degraded", "False")]}});
    patch(server, "clusteroperators", "etcd", Part::Status, conditions);
    let mut set: Value = serde_saphyr::from_str(&read("tests/fixtures/aws/set.yaml")).unwrap();
    set["spec"]["replicas"] = json!(replicas);
    let spec = parse(&serde_json::from_value(set.clone()).unwrap(), &ParseContext::default()).unwrap();
    for index in 0..replicas {
        let name = format!("prod-x7k2p-master-{index}");
        let domain = &spec.failure_domains[index % spec.failure_domains.len()];
        let provider_spec = inject(&spec.template.provider_spec, domain, None).unwrap();
        create(
            server,
            "machines",
            json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": spec.template.labels},
            "spec": {"providerSpec": {"value": provider_spec}, "providerID": format!("simulated:///{index}")}}),
        );
        create(
            server,
            "nodes",
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name,
            "labels": {"node-role.kubernetes.io/master": "", "node-role.kubernetes.io/control-plane": ""}}}),
        );
        let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        patch(
            server,
            "nodes",
            &name,
            Part::Status,
            json!({"status": {"conditions": ready}}),
        );
        let status = json!({"phase": "Running", "nodeRef": {"kind": "Node", "name": name}});
        patch(server, "machines", &name, Part::Status, json!({ "status": status }));
    }
    create(server, "controlplanemachinesets", set);
}

impl World {
    fn new(plan: Plan) -> Self {
        let options = Options {
            history: 2000,
            ..Options::default()
        };
        let admission = Capstan::new(Admission::new(AdmissionOptions::default()).unwrap());
        let api = Api::new(Arc::new(kinds()), options).with_admission(Arc::new(admission));
        let server = Server::new(api, Timestamp::now);
        install(&server, plan.replicas);
        let mut judge = Judge::new(plan.replicas);
        judge.check(&server.api());
        judge.created = 0;
        let mut random = Random::new(plan.seed);
        let connection = Connection {
            server: server.clone(),
            judge: Arc::new(Mutex::new(judge)),
            name: "provider".to_owned(),
            rates: Rates::default(),
            calm: Instant::now() + Duration::from_secs(CALM),
            random: Arc::new(Mutex::new(random.branch())),
            faults: Arc::new(AtomicU64::new(0)),
            requests: Arc::new(AtomicU64::new(0)),
            is_dead: Arc::new(AtomicBool::new(false)),
            random_names: false,
        };
        let speeds = Speeds::all(Duration::from_secs(15));
        let options = ProviderOptions::new(NAMESPACE, speeds, plan.replicas);
        let provider = Provider::start(connection.client(), options);
        let mut world = Self {
            began: Instant::now(),
            server,
            processes: [None, None],
            started: 0,
            dead_holder: None,
            _provider: provider,
            plan,
            connection,
        };
        world.start(0);
        world.start(1);
        world
    }

    /// Starts a process.
    fn start(&mut self, at: usize) {
        self.started += 1;
        let identity = format!("capstan-{at}-{}", self.started);
        let connection = Connection {
            name: identity.clone(),
            rates: self.plan.rates,
            is_dead: Arc::new(AtomicBool::new(false)),
            random_names: self.plan.random_names,
            ..self.connection.clone()
        };
        let client = connection.client();
        let caches = Caches::start(&client, NAMESPACE);
        let configuration = Configuration {
            options: AdmissionOptions::default(),
            // The conditions of nodes contain wall clock times. The wall clock hardly advances
            // during a run, so no node would become ready for long enough.
            settings: Settings {
                min_ready: SignedDuration::ZERO,
            },
            identity: identity.clone(),
        };
        let election = Election {
            namespace: NAMESPACE.to_owned(),
            name: LEASE.to_owned(),
            identity: identity.clone(),
            duration: TERM,
        };
        let metrics = Metrics::register(&mut Registry::default());
        let controllers = controllers::start(&client, &caches, configuration, election, metrics);
        self.record(&format!("-- {identity} starts"));
        self.processes[at] = Some(Process {
            identity,
            connection,
            _caches: caches,
            controllers,
        });
    }

    fn record(&self, line: &str) {
        self.connection.judge.lock().unwrap().record(line);
    }

    /// Kills a process. Returns whether it ran.
    fn kill(&mut self, at: usize) -> bool {
        let Some(process) = self.processes[at].take() else {
            return false;
        };
        self.record(&format!("-- {} is killed", process.identity));
        process.connection.is_dead.store(true, Ordering::Relaxed);
        tokio::spawn(process.controllers.stop());
        true
    }

    fn lease_holder(&self) -> Option<String> {
        let api = self.server.api();
        let leases = all(&api, "coordination.k8s.io", "leases");
        let holder = leases.first()?.1.pointer("/spec/holderIdentity")?.as_str()?;
        Some(holder.to_owned())
    }

    /// Writes the holder of the Lease, if there is a Lease.
    fn set_lease_holder(&self, holder: Option<&str>) {
        let exists = !all(&self.server.api(), "coordination.k8s.io", "leases").is_empty();
        if exists {
            let spec = json!({"spec": {"holderIdentity": holder}});
            patch(&self.server, "leases", LEASE, Part::Main, spec);
        }
    }

    /// Takes the Lease from its holder.
    fn expire_lease(&self) {
        if self.lease_holder().is_some() {
            self.record("-- the Lease expires");
            self.set_lease_holder(None);
        }
    }

    /// Takes the Lease from a process that has not run for the duration of the Lease. Candidates
    /// compare the Lease with the wall clock, which hardly advances during a run, so the Lease does
    /// not expire by itself. A late request can take it for a process that was killed.
    fn expire_lease_of_a_dead_holder(&mut self, now: u64) {
        let runs = |holder: &String| {
            let mut running = self.processes.iter().flatten();
            running.any(|process| process.identity == *holder)
        };
        let dead = self.lease_holder().filter(|holder| !runs(holder));
        let since = match (&self.dead_holder, &dead) {
            (Some((known, since)), Some(dead)) if known == dead => *since,
            _ => now,
        };
        self.dead_holder = dead.map(|dead| (dead, since));
        if now >= since + TERM.as_secs() && self.dead_holder.take().is_some() {
            self.expire_lease();
        }
    }

    async fn run(mut self) -> Outcome {
        let value = json!({"instanceType": NEW_TYPE});
        let template = json!({"machines_v1beta1_machine_openshift_io": {"spec": {"providerSpec": {"value": value}}}});
        sleep(Duration::from_secs(5)).await;
        self.record("-- a user changes the instance type");
        let edit = json!({"spec": {"template": template}});
        patch(&self.server, "controlplanemachinesets", "cluster", Part::Main, edit);
        let mut disturbances: Vec<(u64, Disturbance)> = self.plan.disturbances.clone();
        let mut restarts: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let mut violation = None;
        loop {
            sleep(Duration::from_secs(1)).await;
            let now = self.began.elapsed().as_secs();
            violation = violation.or_else(|| self.connection.judge.lock().unwrap().violation.clone());
            if violation.is_some() {
                break;
            }
            while disturbances.first().is_some_and(|(at, _)| *at <= now) {
                let (_, disturbance) = disturbances.remove(0);
                self.disturb(disturbance, now, &mut restarts);
            }
            self.restart_crashed(now, &mut restarts);
            self.expire_lease_of_a_dead_holder(now);
            let due: Vec<u64> = restarts.range(..=now).map(|(at, _)| *at).collect();
            for at in due.into_iter().filter_map(|at| restarts.remove(&at)).flatten() {
                if self.processes[at].is_none() {
                    self.start(at);
                }
            }
            if now > CALM && self.is_complete() {
                violation = self.writes_at_the_end().await;
                break;
            }
            if now > DEADLINE {
                violation = Some(format!("the rollout does not end: {}", self.describe()));
            }
        }
        let judge = self.connection.judge.lock().unwrap();
        Outcome {
            violation,
            trace: judge.trace.clone(),
            created: judge.created,
            deleted: judge.deleted,
            requests: self.connection.requests.load(Ordering::Relaxed),
            faults: self.connection.faults.load(Ordering::Relaxed),
            seconds: self.began.elapsed().as_secs(),
        }
    }

    /// Schedules the restart of processes that a fault of a request has killed.
    fn restart_crashed(&mut self, now: u64, restarts: &mut BTreeMap<u64, Vec<usize>>) {
        for at in 0..self.processes.len() {
            let process = self.processes[at].as_ref();
            if process.is_some_and(|process| process.connection.is_dead.load(Ordering::Relaxed)) {
                self.disturb(Disturbance::Kill(at, 0), now, restarts);
            }
        }
    }

    fn disturb(&mut self, disturbance: Disturbance, now: u64, restarts: &mut BTreeMap<u64, Vec<usize>>) {
        match disturbance {
            Disturbance::Kill(at, delay) => {
                if self.kill(at) {
                    let restart = now + delay.max(TERM.as_secs());
                    restarts.entry(restart).or_default().push(at);
                }
            }
            Disturbance::LeaseExpires => self.expire_lease(),
            Disturbance::DeadLeader => {
                self.record("-- a late request of a killed process takes the Lease");
                self.set_lease_holder(Some("capstan-0-0"));
            }
            Disturbance::WatchesBreak => {
                self.record("-- every watch breaks");
                self.server.cut_watches();
            }
            Disturbance::HistoryCompacted => {
                self.record("-- the API server forgets old versions, and every watch breaks");
                self.server.api().compact();
                self.server.cut_watches();
            }
            Disturbance::Delete(position) => {
                let name = {
                    let api = self.server.api();
                    let existing = machines(&api);
                    existing[position % existing.len()].0.to_owned()
                };
                self.record(&format!("-- a user deletes {name}"));
                self.connection
                    .judge
                    .lock()
                    .unwrap()
                    .deleted_by_user
                    .insert(name.clone());
                let verb = Verb::Delete(DeleteOptions::default());
                request(&self.server, "machines", &name, Part::Main, verb);
            }
        }
    }

    /// Whether every machine is new and ready, and the status of the set reports it.
    fn is_complete(&self) -> bool {
        let api = self.server.api();
        let (existing, ready) = (machines(&api), ready(&api));
        let is_new = |machine: &Object| {
            let node = machine.pointer("/status/nodeRef/name").and_then(Value::as_str);
            machine.pointer("/metadata/deletionTimestamp").is_none()
                && machine.pointer("/spec/providerSpec/value/instanceType") == Some(&json!(NEW_TYPE))
                && node.is_some_and(|node| ready.contains(node))
        };
        let sets = all(&api, "machine.openshift.io", "controlplanemachinesets");
        let set = sets[0].1;
        let reports = |field: &str| set.pointer(&format!("/status/{field}")) == Some(&json!(self.plan.replicas));
        let has_ended = |one: &Value| one["type"] == "Progressing" && one["status"] == "False";
        existing.len() == self.plan.replicas
            && existing.iter().all(|(_, machine)| is_new(machine))
            && set.pointer("/status/observedGeneration") == set.pointer("/metadata/generation")
            && ["replicas", "readyReplicas", "updatedReplicas"]
                .into_iter()
                .all(reports)
            && set["status"]["conditions"]
                .as_array()
                .is_some_and(|all| all.iter().any(has_ended))
    }

    /// After a rollout, the controllers write nothing. Returns the violation, if there is one.
    async fn writes_at_the_end(&self) -> Option<String> {
        sleep(Duration::from_secs(120)).await;
        let before = self.connection.judge.lock().unwrap().writes;
        sleep(Duration::from_secs(300)).await;
        let judge = self.connection.judge.lock().unwrap();
        let written = judge.writes - before;
        judge
            .violation
            .clone()
            .or_else(|| (written > 0).then(|| format!("{written} writes although nothing changed")))
    }

    fn describe(&self) -> String {
        let api = self.server.api();
        let all: Vec<String> = machines(&api)
            .iter()
            .map(|(name, machine)| {
                format!(
                    "{name} {} {} deletionTimestamp {}",
                    machine["spec"]["providerSpec"]["value"]["instanceType"],
                    machine["status"]["phase"],
                    machine["metadata"]["deletionTimestamp"]
                )
            })
            .collect();
        let sets = crate::judge::all(&api, "machine.openshift.io", "controlplanemachinesets");
        let leases = crate::judge::all(&api, "coordination.k8s.io", "leases");
        let holder = leases.first().map(|(_, lease)| lease["spec"]["holderIdentity"].clone());
        format!("{all:#?}\n{:#}\nholder of the Lease: {holder:?}", sets[0].1["status"])
    }
}
