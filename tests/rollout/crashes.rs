//! Controllers that are killed and answers that are lost, at every write. No machine is created
//! twice, and the rollout completes.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capstan_sandbox::control_plane::{Call, Faults, Process};
use capstan_sandbox::infrastructure::Speeds;

use crate::world::{CONTROLLERS, Setup, World, start_controllers};

/// Kills a process after the API server has stored its write, and before the process receives the
/// answer.
#[derive(Default)]
struct Killer {
    victim: Mutex<Option<Process>>,
    kills: Mutex<Vec<String>>,
}

impl Faults for Killer {
    fn before(&self, call: &Call) -> bool {
        // In a real network, requests that a process sent before it died still arrive. The proxy
        // drops them, so that each process makes exactly one write.
        call.write.is_none() || self.victim.lock().unwrap().is_some()
    }

    fn after(&self, call: &Call, code: u16) -> bool {
        if call.write.is_none() || !(200..300).contains(&code) {
            return true;
        }
        // Dropping the process sends SIGKILL and waits for the exit.
        drop(self.victim.lock().unwrap().take());
        self.kills
            .lock()
            .unwrap()
            .push(format!("{} {}", call.method, call.path));
        false
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn killing_the_leader_after_every_write_creates_no_second_machine() {
    // The machines are slow, so that the controllers also write the status between two steps.
    let setup = Setup {
        speeds: Speeds::all(Duration::from_millis(250)),
        ..Setup::default()
    };
    let world = World::new(setup).await.unwrap();
    let first = world.start_controllers("settle").await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    first.controllers.stop().await;
    // Each process uses a Lease of its own, so that the test does not wait for the Lease of the
    // killed process to expire.
    let leases = ["coordination.k8s.io", "leases"];
    world
        .plane
        .allow(CONTROLLERS, &["get", "patch", "create"], leases[0], &[leases[1]])
        .await
        .unwrap();
    let killer = Arc::new(Killer::default());
    let faults: Arc<dyn Faults> = Arc::clone(&killer) as Arc<dyn Faults>;
    let proxy = world
        .plane
        .proxy(CONTROLLERS, &["system:serviceaccounts"], faults)
        .await
        .unwrap();
    let before = world.writes().unwrap().len();
    world.set_instance_type("m6i.2xlarge").await.unwrap();
    let mut lives = 0;
    let log = world.plane.folder().join("capstan.log");
    loop {
        let dead = killer.victim.lock().unwrap().is_none();
        if dead {
            let done = world.is_rolled_out("m6i.2xlarge").await.unwrap();
            if done
                && world
                    .conditions()
                    .await
                    .unwrap()
                    .contains(&"Progressing=False/AllReplicasUpdated".to_owned())
            {
                break;
            }
            lives += 1;
            assert!(
                lives < 200,
                "the rollout must finish within 200 processes: {:?}",
                killer.kills.lock().unwrap()
            );
            let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
            command
                .args([
                    "serve",
                    "--controllers",
                    "--controllers-only",
                    "--min-ready=0s",
                    "--lease-duration=3s",
                ])
                .args(["--listen=127.0.0.1:0", "--health-addr=127.0.0.1:0"])
                .args(["--dev-certificate=memory", "--dns-name=localhost"])
                .arg(format!("--lease=life-{lives}"))
                // A restarted container keeps the identity of its pod.
                .arg("--identity=capstan")
                .arg(format!("--kubeconfig={}", proxy.kubeconfig().display()));
            *killer.victim.lock().unwrap() = Some(Process::spawn("capstan", command, &log).unwrap());
        }
        if let Some(process) = killer.victim.lock().unwrap().as_mut() {
            process.still_runs().unwrap();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let writes = world.writes().unwrap().split_off(before);
    let count = |what: &str| writes.iter().filter(|write| write.starts_with(what)).count();
    assert_eq!(
        (count("create machines "), count("delete machines ")),
        (3, 3),
        "{writes:?}"
    );
    // Every process was killed at its first write.
    let kills = killer.kills.lock().unwrap().clone();
    assert_eq!(kills.len(), lives);
    let machines = kills.iter().filter(|kill| kill.contains("/machines")).count();
    assert_eq!(machines, 6, "{kills:?}");
    assert!(lives > machines, "{kills:?}");
    world.check_invariants().unwrap();
}

/// Drops the answer to every second write. The write is stored.
#[derive(Default)]
struct LostAnswers {
    lost: Mutex<usize>,
}

impl Faults for LostAnswers {
    fn after(&self, call: &Call, _code: u16) -> bool {
        let Some(number) = call.write else { return true };
        let is_delivered = number % 2 == 0;
        *self.lost.lock().unwrap() += usize::from(!is_delivered);
        is_delivered
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_answers_create_no_second_machine() {
    let world = World::new(Setup::default()).await.unwrap();
    let lost_answers = Arc::new(LostAnswers::default());
    let faults: Arc<dyn Faults> = Arc::clone(&lost_answers) as Arc<dyn Faults>;
    let proxy = world
        .plane
        .proxy(CONTROLLERS, &["system:serviceaccounts"], faults)
        .await
        .unwrap();
    let running = start_controllers(&proxy.client().await.unwrap(), "one", "capstan", 3);
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    world.set_instance_type("m6i.2xlarge").await.unwrap();
    world.wait_for_rollout("m6i.2xlarge").await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    running.controllers.stop().await;
    let writes = world.writes().unwrap();
    let count = |what: &str| writes.iter().filter(|write| write.starts_with(what)).count();
    assert_eq!(
        (count("create machines "), count("delete machines ")),
        (3, 3),
        "{writes:?}"
    );
    assert!(*lost_answers.lost.lock().unwrap() > 6);
    world.check_invariants().unwrap();
}

/// Drops every request during an outage, reads included.
#[derive(Default)]
struct Outage {
    down: AtomicBool,
    dropped: AtomicUsize,
}

impl Faults for Outage {
    fn before(&self, _call: &Call) -> bool {
        let down = self.down.load(Ordering::SeqCst);
        self.dropped.fetch_add(usize::from(down), Ordering::SeqCst);
        !down
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_api_server_delays_a_rollout_only() {
    let world = World::new(Setup::default()).await.unwrap();
    let outage = Arc::new(Outage::default());
    let faults: Arc<dyn Faults> = Arc::clone(&outage) as Arc<dyn Faults>;
    let groups = ["system:serviceaccounts"];
    let proxy = world.plane.proxy(CONTROLLERS, &groups, faults).await.unwrap();
    let running = start_controllers(&proxy.client().await.unwrap(), "one", "capstan", 3);
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    world.set_instance_type("m6i.2xlarge").await.unwrap();
    world
        .wait_for("a replacement", async |world| {
            Ok((world.machines().await?.len() > 3).then_some(()))
        })
        .await
        .unwrap();
    outage.down.store(true, Ordering::SeqCst);
    // The outage lasts until requests have failed.
    world
        .wait_for("requests to be dropped", async |_| {
            Ok((outage.dropped.load(Ordering::SeqCst) >= 5).then_some(()))
        })
        .await
        .unwrap();
    outage.down.store(false, Ordering::SeqCst);
    world.wait_for_rollout("m6i.2xlarge").await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    running.controllers.stop().await;
    let writes = world.writes().unwrap();
    let count = |what: &str| writes.iter().filter(|write| write.starts_with(what)).count();
    assert_eq!(
        (count("create machines "), count("delete machines ")),
        (3, 3),
        "{writes:?}"
    );
    world.check_invariants().unwrap();
}
