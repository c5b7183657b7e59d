//! The shipped binary, killed with SIGKILL right after each write of a migration. Two replicas take
//! turns: each process is killed after the API server has stored its first write, and before it
//! receives the answer.

use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capstan_core::authority::spec::Api;
use capstan_sandbox::control_plane::{Call, Faults, Process, Proxy};

use crate::cluster::{Cluster, MIRRORING, Machine};

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

    fn kills(&self) -> usize {
        locked(&self.kills).len()
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
        command
            .args([
                "serve",
                "--mirroring-controllers",
                "--controllers-only",
                "--lease-duration=3s",
            ])
            .args(["--listen=127.0.0.1:0", "--health-addr=127.0.0.1:0"])
            .args(["--dev-certificate=memory", "--dns-name=localhost"])
            .arg(format!("--mirroring-lease=killed-{}-{life}", self.name))
            .arg(format!("--identity={}", self.name))
            .arg(format!("--kubeconfig={}", self.proxy.kubeconfig().display()));
        let log = cluster.plane.folder().join(format!("{}.log", self.name));
        *locked(&self.killer.victim) = Some(Process::spawn(self.name, command, &log).unwrap());
    }

    /// Lets a process live until its first write, or until nothing is left to write.
    async fn live(&self, machine: &mut Machine<'_>, api: Api) -> bool {
        let mut quiet = 0;
        while self.killer.lives() && quiet < 10 {
            machine.controllers().await;
            let done = machine.authority().await == api.as_str() && machine.condition("Synchronized").await == "True";
            quiet = if done { quiet + 1 } else { 0 };
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        let killed = !self.killer.lives();
        drop(locked(&self.killer.victim).take());
        killed
    }
}

/// A migration there and back, during which every process is killed after its first write.
pub(crate) async fn a_migration_ends_although_each_process_is_killed_after_one_write(cluster: &Cluster) {
    let running = cluster.controllers().await;
    let mut machine = cluster.machine("killed", Api::MachineApi, None).await;
    machine.synchronized(Api::MachineApi).await;
    running.stop().await;
    let replicas = [Replica::new(cluster, "one").await, Replica::new(cluster, "two").await];
    let mut life = 0;
    for api in [Api::ClusterApi, Api::MachineApi] {
        machine.request(api).await;
        loop {
            life += 1;
            assert!(life < 120, "the migration does not end");
            let replica = &replicas[life % 2];
            replica.start(cluster, life);
            if !replica.live(&mut machine, api).await {
                break;
            }
        }
        assert_eq!(machine.authority().await, api.as_str());
        assert_eq!((machine.instances, machine.instance.is_some()), (1, true), "{api:?}");
    }
    for replica in &replicas {
        let kills = locked(&replica.killer.kills).clone();
        assert!(replica.killer.kills() >= 4, "{}: {kills:?}", replica.name);
        let touched = |kill: &&String| kill.starts_with("POST") || kill.starts_with("DELETE");
        assert_eq!(
            kills.iter().find(touched),
            None,
            "a migration creates and deletes nothing"
        );
    }
}
