//! The shipped binary, killed with SIGKILL right after each write of a migration. Two replicas take
//! turns: each process is killed after the API server has stored its first write, and before it
//! receives the answer.

use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capstan_core::authority::pair::Part;
use capstan_core::authority::spec::Api;
use capstan_sandbox::control_plane::{Call, Faults, Process, Proxy};
use serde_json::json;

use crate::cluster::{Cluster, MIRRORING, Machine};
use crate::health_checks::Check;
use crate::sets::{self, Set};

/// Kills a process after its first write.
#[derive(Default)]
struct Killer {
    victim: Mutex<Option<Process>>,
    kills: Mutex<Vec<String>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Killer {
    fn lives(&self) -> bool {
        locked(&self.victim).is_some()
    }
}

impl Faults for Killer {
    fn before(&self, call: &Call) -> bool {
        // A request that a process sent before it died still arrives in a real network. The proxy
        // drops it, so that each process makes exactly one write.
        call.write.is_none() || self.lives()
    }

    fn after(&self, call: &Call, code: u16) -> bool {
        if call.write.is_none() || !(200..300).contains(&code) {
            return true;
        }
        // Dropping the process sends SIGKILL and waits for the exit.
        drop(locked(&self.victim).take());
        locked(&self.kills).push(format!("{} {}", call.method, call.path));
        false
    }
}

/// A process of the shipped binary with the controllers of mirrored objects. `CAPSTAN_BINARY` is
/// another build of it, for figures of an optimised one.
pub(crate) fn process(cluster: &Cluster, proxy: &Proxy, name: &str, lease: &str, health: u16) -> Process {
    let binary = std::env::var("CAPSTAN_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_capstan").to_owned());
    let mut command = Command::new(binary);
    command
        .args([
            "serve",
            "--mirroring-controllers",
            "--controllers-only",
            "--lease-duration=3s",
        ])
        .arg("--listen=127.0.0.1:0")
        .arg(format!("--health-addr=127.0.0.1:{health}"))
        .args(["--dev-certificate=memory", "--dns-name=localhost"])
        .arg(format!("--mirroring-lease={lease}"))
        .arg(format!("--identity={name}"))
        .arg(format!("--kubeconfig={}", proxy.kubeconfig().display()));
    let log = cluster.plane.folder().join(format!("{name}.log"));
    Process::spawn(name, command, &log).unwrap()
}

struct Replica {
    killer: Arc<Killer>,
    proxy: Proxy,
    name: &'static str,
}

impl Replica {
    async fn new(cluster: &Cluster, name: &'static str) -> Self {
        let killer = Arc::new(Killer::default());
        let faults: Arc<dyn Faults> = Arc::clone(&killer) as _;
        let groups = ["system:serviceaccounts"];
        let proxy = cluster.plane.proxy(MIRRORING, &groups, faults).await.unwrap();
        Self { killer, proxy, name }
    }

    /// Starts a process. Each has a Lease of its own: the test does not wait for the Lease of a
    /// process that was killed, and no safety depends on one.
    fn start(&self, cluster: &Cluster, life: usize) {
        let lease = format!("killed-{}-{life}", self.name);
        let process = process(cluster, &self.proxy, self.name, &lease, 0);
        *locked(&self.killer.victim) = Some(process);
    }

    /// Lets a process live until its first write, or until nothing is left to write.
    async fn live(&self, objects: &mut Objects<'_>, api: Api) -> bool {
        let mut quiet = 0;
        while self.killer.lives() && quiet < 10 {
            objects.controllers().await;
            quiet = if objects.agree(api).await { quiet + 1 } else { 0 };
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        let killed = !self.killer.lives();
        drop(locked(&self.killer.victim).take());
        killed
    }
}

/// One object of each kind.
struct Objects<'a> {
    machine: Machine<'a>,
    set: Set<'a>,
    check: Check<'a>,
}

impl Objects<'_> {
    /// Lets the controllers of both APIs act.
    async fn controllers(&mut self) {
        self.machine.controllers().await;
        self.set.controllers().await;
        self.check.controller().await;
    }

    /// Whether an API is authoritative for all objects, and the mirrors agree.
    async fn agree(&self, api: Api) -> bool {
        let all = [
            self.machine.object(Part::MachineApi).await,
            self.set.get(Api::MachineApi).await,
            self.check.get(Api::MachineApi).await,
        ];
        all.iter().all(|object| {
            object.as_ref().is_some_and(|object| {
                object.text("/status/authoritativeAPI") == Some(api.as_str())
                    && object.condition("Synchronized") == Some("True")
            })
        })
    }
}

/// Migrations of all kinds there and back, during which every process is killed after its first
/// write.
pub(crate) async fn the_migrations_end_although_each_process_is_killed_after_one_write(cluster: &Cluster) {
    let running = cluster.controllers().await;
    let mut machine = cluster.machine("killed", Api::MachineApi, None).await;
    machine.synchronized(Api::MachineApi).await;
    let mut objects = Objects {
        machine,
        set: sets::set(cluster, "killed", Api::MachineApi).await,
        check: Check::create(cluster, "killed", Api::MachineApi).await,
    };
    running.stop().await;
    let replicas = [Replica::new(cluster, "one").await, Replica::new(cluster, "two").await];
    let mut life = 0;
    for api in [Api::ClusterApi, Api::MachineApi] {
        objects.machine.request(api).await;
        objects.set.request(api).await;
        let request = json!({"spec": {"authoritativeAPI": api.as_str()}});
        objects.check.patch(Api::MachineApi, &request).await;
        loop {
            life += 1;
            assert!(life < 240, "the migrations do not end");
            let replica = &replicas[life % 2];
            replica.start(cluster, life);
            if !replica.live(&mut objects, api).await {
                break;
            }
        }
        assert!(objects.agree(api).await);
        let machine = &objects.machine;
        assert_eq!((machine.instances, machine.instance.is_some()), (1, true), "{api:?}");
    }
    let mut kills = Vec::new();
    for replica in &replicas {
        let of_replica = locked(&replica.killer.kills).clone();
        assert!(!of_replica.is_empty(), "{} was never killed", replica.name);
        kills.extend(of_replica);
    }
    // A process that is killed may have sent the writes of other objects at the same moment, and
    // only the first write is counted. Chance decides between the two replicas, too.
    assert!(kills.len() >= 8, "{kills:?}");
    for kind in ["/machines/", "/machinesets/", "/machinehealthchecks/"] {
        let of_kind = kills.iter().filter(|kill| kill.contains(kind)).count();
        assert!(of_kind >= 1, "{kind}: {kills:?}");
    }
    let touched = |kill: &&String| kill.starts_with("POST") || kill.starts_with("DELETE");
    assert_eq!(
        kills.iter().find(touched),
        None,
        "a migration creates and deletes nothing"
    );
}
