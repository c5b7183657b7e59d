//! A control plane, a provider, two processes of the controllers, and what disturbs them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capstan::controllers::{Caches, Configuration, Controllers, Metrics};
use capstan::runtime::Election;
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
use jiff::{SignedDuration, Timestamp};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::faults::{Mix, Wire};
use crate::judge::{Judge, all, machines, ready};

const NAMESPACE: &str = "openshift-machine-api";
const LEASE: &str = "capstan-controllers";
/// How long a Lease holds, by the clock of those who stand for election.
const TERM: Duration = Duration::from_secs(15);
/// From when on nothing fails any more, in seconds.
const CALM: u64 = 600;
/// When a rollout must have ended, in seconds.
const DEADLINE: u64 = 4 * 3600;
/// The type that is rolled out.
const WANTED: &str = "m6i.2xlarge";

/// What disturbs the processes from outside.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Disturbance {
    /// A process is killed, and another is started after so many seconds.
    Kill(usize, u64),
    /// The Lease runs out under its holder, which goes on for a while.
    RunOut,
    /// Every watch breaks.
    Cut,
    /// What watches could begin from is forgotten.
    Compact,
    /// A user deletes the machine of this position.
    Delete(usize),
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub seed: u64,
    pub replicas: usize,
    pub mix: Mix,
    /// What happens at which second.
    pub disturbances: Vec<(u64, Disturbance)>,
    pub rolls_names: bool,
}

impl Plan {
    /// What a seed decides.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut share = |most| {
            if random.permille(600) {
                random.between(5, most)
            } else {
                0
            }
        };
        let mix = Mix {
            refused: share(120),
            unsent: share(60),
            unanswered: share(120),
            late: share(60),
            unread: share(80),
            expired: share(80),
            broken: share(80),
            lag: share(9000),
        };
        let mut disturbances = Vec::new();
        for _ in 0..random.between(0, 5) {
            let what = match random.below(9) {
                0..=2 => Disturbance::Kill(usize::try_from(random.below(2)).unwrap(), random.between(1, 90)),
                3 | 4 => Disturbance::RunOut,
                5 => Disturbance::Cut,
                6 | 7 => Disturbance::Compact,
                _ => Disturbance::Delete(usize::try_from(random.below(5)).unwrap()),
            };
            disturbances.push((random.between(5, 500), what));
        }
        disturbances.sort_by_key(|(at, _)| *at);
        Self {
            seed,
            replicas: if seed.is_multiple_of(2) { 3 } else { 5 },
            mix,
            disturbances,
            rolls_names: false,
        }
    }
}

/// What came of a run.
#[derive(Debug, Default)]
pub(crate) struct End {
    pub violation: Option<String>,
    /// What happened last.
    pub story: Vec<String>,
    pub made: usize,
    pub deleted: usize,
    pub requests: u64,
    pub faults: u64,
    /// Seconds of the world.
    pub seconds: u64,
}

impl End {
    pub(crate) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.faults += other.faults;
        self.seconds += other.seconds;
    }
}

/// Plays a plan, in a time of its own.
pub(crate) fn play(plan: &Plan) -> End {
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
    wire: Wire,
    /// The watches end with them.
    _caches: Arc<Caches>,
    controllers: Controllers,
}

struct World {
    plan: Plan,
    began: Instant,
    server: Server,
    wire: Wire,
    processes: [Option<Process>; 2],
    started: u32,
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

/// Does what somebody outside does.
fn act(server: &Server, plural: &str, name: &str, part: Part, verb: Verb) {
    let (group, namespace) = place(plural);
    let request = Request {
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
    let (answer, _) = server.api().apply(&request, Timestamp::now());
    answer.unwrap();
    server.publish();
}

fn create(server: &Server, plural: &str, object: Value) {
    let verb = Verb::Create(object, WriteOptions::default());
    act(server, plural, "", Part::Main, verb);
}

fn patch(server: &Server, plural: &str, name: &str, part: Part, patch: Value) {
    let verb = Verb::Patch(PatchKind::Merge, patch, WriteOptions::default());
    act(server, plural, name, part, verb);
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

/// What an installer leaves.
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
        judge.look(&server.api());
        judge.made = 0;
        let mut random = Random::new(plan.seed);
        let wire = Wire {
            server: server.clone(),
            judge: Arc::new(Mutex::new(judge)),
            name: "provider".to_owned(),
            mix: Mix::default(),
            calm: Instant::now() + Duration::from_secs(CALM),
            random: Arc::new(Mutex::new(random.branch())),
            faults: Arc::new(AtomicU64::new(0)),
            requests: Arc::new(AtomicU64::new(0)),
            dead: Arc::new(AtomicBool::new(false)),
            rolls_names: false,
        };
        let speeds = Speeds::all(Duration::from_secs(15));
        let options = ProviderOptions::new(NAMESPACE, speeds, plan.replicas);
        let provider = Provider::start(wire.client(), options);
        let mut world = Self {
            began: Instant::now(),
            server,
            processes: [None, None],
            started: 0,
            _provider: provider,
            plan,
            wire,
        };
        world.start(0);
        world.start(1);
        world
    }

    /// Starts a process.
    fn start(&mut self, at: usize) {
        self.started += 1;
        let identity = format!("capstan-{at}-{}", self.started);
        let wire = Wire {
            name: identity.clone(),
            mix: self.plan.mix,
            dead: Arc::new(AtomicBool::new(false)),
            rolls_names: self.plan.rolls_names,
            ..self.wire.clone()
        };
        let client = wire.client();
        let caches = Caches::start(&client, NAMESPACE);
        let configuration = Configuration {
            options: AdmissionOptions::default(),
            // Nodes tell the time of day, which passes too slowly here for a machine to grow old by it.
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
        let controllers = Controllers::start(&client, &caches, configuration, election, metrics);
        self.tell(&format!("-- {identity} begins"));
        self.processes[at] = Some(Process {
            identity,
            wire,
            _caches: caches,
            controllers,
        });
    }

    fn tell(&self, line: &str) {
        self.wire.judge.lock().unwrap().tell(line);
    }

    /// Ends a process: nothing that it says from here on is heard. Returns who it was.
    fn kill(&mut self, at: usize) -> Option<String> {
        let process = self.processes[at].take()?;
        self.tell(&format!("-- {} is killed", process.identity));
        process.wire.dead.store(true, Ordering::Relaxed);
        tokio::spawn(process.controllers.stop());
        Some(process.identity)
    }

    /// The clocks of those who wait for a Lease are of the day, and stand nearly still: so it is taken from its holder.
    fn run_out(&self, whose: Option<&str>) {
        let held = {
            let api = self.server.api();
            let leases = all(&api, "coordination.k8s.io", "leases");
            let holder = leases
                .first()
                .and_then(|(_, lease)| lease.pointer("/spec/holderIdentity")?.as_str());
            holder.is_some_and(|holder| whose.is_none_or(|whose| whose == holder))
        };
        if held {
            self.tell("-- the Lease runs out");
            let spec = json!({"spec": {"holderIdentity": null}});
            patch(&self.server, "leases", LEASE, Part::Main, spec);
        }
    }

    async fn run(mut self) -> End {
        let value = json!({"instanceType": WANTED});
        let template = json!({"machines_v1beta1_machine_openshift_io": {"spec": {"providerSpec": {"value": value}}}});
        sleep(Duration::from_secs(5)).await;
        self.tell("-- another type is asked for");
        let wanted = json!({"spec": {"template": template}});
        patch(&self.server, "controlplanemachinesets", "cluster", Part::Main, wanted);
        let mut coming: Vec<(u64, Disturbance)> = self.plan.disturbances.clone();
        let mut later: BTreeMap<u64, Vec<(usize, String)>> = BTreeMap::new();
        let mut violation = None;
        loop {
            sleep(Duration::from_secs(1)).await;
            let now = self.began.elapsed().as_secs();
            violation = violation.or_else(|| self.wire.judge.lock().unwrap().violation.clone());
            if violation.is_some() {
                break;
            }
            while coming.first().is_some_and(|(at, _)| *at <= now) {
                let (_, what) = coming.remove(0);
                self.disturb(what, now, &mut later);
            }
            let due: Vec<u64> = later.range(..=now).map(|(at, _)| *at).collect();
            for (at, killed) in due.into_iter().filter_map(|at| later.remove(&at)).flatten() {
                self.run_out(Some(&killed));
                if self.processes[at].is_none() {
                    self.start(at);
                }
            }
            if now > CALM && self.is_done() {
                violation = self.stays_quiet().await;
                break;
            }
            if now > DEADLINE {
                violation = Some(format!("it does not end: {}", self.portrait()));
            }
        }
        let judge = self.wire.judge.lock().unwrap();
        End {
            violation,
            story: judge.story.clone(),
            made: judge.made,
            deleted: judge.deleted,
            requests: self.wire.requests.load(Ordering::Relaxed),
            faults: self.wire.faults.load(Ordering::Relaxed),
            seconds: self.began.elapsed().as_secs(),
        }
    }

    fn disturb(&mut self, what: Disturbance, now: u64, later: &mut BTreeMap<u64, Vec<(usize, String)>>) {
        match what {
            Disturbance::Kill(at, delay) => {
                if let Some(killed) = self.kill(at) {
                    let back = now + delay.max(TERM.as_secs());
                    later.entry(back).or_default().push((at, killed));
                }
            }
            Disturbance::RunOut => self.run_out(None),
            Disturbance::Cut => {
                self.tell("-- every watch breaks");
                self.server.cut_watches();
            }
            Disturbance::Compact => {
                self.tell("-- the history is forgotten, and every watch breaks");
                self.server.api().compact();
                self.server.cut_watches();
            }
            Disturbance::Delete(position) => {
                let name = {
                    let api = self.server.api();
                    let there = machines(&api);
                    there[position % there.len()].0.to_owned()
                };
                self.tell(&format!("-- a user deletes {name}"));
                self.wire.judge.lock().unwrap().deleted_by_user.insert(name.clone());
                let verb = Verb::Delete(DeleteOptions::default());
                act(&self.server, "machines", &name, Part::Main, verb);
            }
        }
    }

    /// Whether everything is as it was asked for, and the set says so.
    fn is_done(&self) -> bool {
        let api = self.server.api();
        let (there, ready) = (machines(&api), ready(&api));
        let is_new = |machine: &Object| {
            let node = machine.pointer("/status/nodeRef/name").and_then(Value::as_str);
            machine.pointer("/metadata/deletionTimestamp").is_none()
                && machine.pointer("/spec/providerSpec/value/instanceType") == Some(&json!(WANTED))
                && node.is_some_and(|node| ready.contains(node))
        };
        let sets = all(&api, "machine.openshift.io", "controlplanemachinesets");
        let set = sets[0].1;
        let says = |field: &str| set.pointer(&format!("/status/{field}")) == Some(&json!(self.plan.replicas));
        let quiet = |one: &Value| one["type"] == "Progressing" && one["status"] == "False";
        there.len() == self.plan.replicas
            && there.iter().all(|(_, machine)| is_new(machine))
            && set.pointer("/status/observedGeneration") == set.pointer("/metadata/generation")
            && ["replicas", "readyReplicas", "updatedReplicas"].into_iter().all(says)
            && set["status"]["conditions"]
                .as_array()
                .is_some_and(|all| all.iter().any(quiet))
    }

    /// Nothing is written any more: what is wrong, if anything is.
    async fn stays_quiet(&self) -> Option<String> {
        sleep(Duration::from_secs(120)).await;
        let before = self.wire.judge.lock().unwrap().writes;
        sleep(Duration::from_secs(300)).await;
        let judge = self.wire.judge.lock().unwrap();
        let written = judge.writes - before;
        judge
            .violation
            .clone()
            .or_else(|| (written > 0).then(|| format!("{written} writes although nothing changes")))
    }

    fn portrait(&self) -> String {
        let api = self.server.api();
        let all: Vec<String> = machines(&api)
            .iter()
            .map(|(name, machine)| {
                format!(
                    "{name} {} {} going {}",
                    machine["spec"]["providerSpec"]["value"]["instanceType"],
                    machine["status"]["phase"],
                    machine["metadata"]["deletionTimestamp"]
                )
            })
            .collect();
        let sets = crate::judge::all(&api, "machine.openshift.io", "controlplanemachinesets");
        let leases = crate::judge::all(&api, "coordination.k8s.io", "leases");
        let holder = leases.first().map(|(_, lease)| lease["spec"]["holderIdentity"].clone());
        format!("{all:#?}\n{:#}\nthe Lease: {holder:?}", sets[0].1["status"])
    }
}
