//! A controller that is killed, and answers that are lost, at every write: nothing is made twice, and it goes on.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capstan_sandbox::control_plane::{Call, Faults, Process};
use capstan_sandbox::infrastructure::Speeds;

use crate::world::{CONTROLLERS, Setup, World, control};

/// Kills a process right after the API server has applied a write of it, before it hears of that.
#[derive(Default)]
struct Killer {
    victim: Mutex<Option<Process>>,
    kills: Mutex<Vec<String>>,
}

impl Faults for Killer {
    fn before(&self, call: &Call) -> bool {
        // What a dead process had sent before it died still arrives in a real network; here it does not, so that each
        // process makes exactly one write.
        call.write.is_none() || self.victim.lock().unwrap().is_some()
    }

    fn after(&self, call: &Call, code: u16) -> bool {
        if call.write.is_none() || !(200..300).contains(&code) {
            return true;
        }
        // Dropping it is SIGKILL, and waits for its end.
        drop(self.victim.lock().unwrap().take());
        self.kills
            .lock()
            .unwrap()
            .push(format!("{} {}", call.method, call.path));
        false
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn kill_9_of_the_leader_between_any_two_writes_makes_no_second_machine() {
    // Slow enough that a process sees the world between two of its steps, and writes about that too.
    let setup = Setup {
        speeds: Speeds::all(Duration::from_millis(250)),
        ..Setup::default()
    };
    let world = World::new(setup).await.unwrap();
    let first = world.control("settle").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    first.controllers.stop().await;
    // Every process stands for a Lease of its own: waiting for the last one's to end would only take time.
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
    world.ask_for("m6i.2xlarge").await.unwrap();
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
            assert!(lives < 200, "no end: {:?}", killer.kills.lock().unwrap());
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
                // As a container that starts again, in the same pod.
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
    // Every write was somebody's last.
    let kills = killer.kills.lock().unwrap().clone();
    assert_eq!(kills.len(), lives);
    let machines = kills.iter().filter(|kill| kill.contains("/machines")).count();
    assert_eq!(machines, 6, "{kills:?}");
    assert!(lives > machines, "{kills:?}");
    world.judge().unwrap();
}

/// Loses every second answer: the write was made, and nobody hears of it.
#[derive(Default)]
struct Deaf {
    lost: Mutex<usize>,
}

impl Faults for Deaf {
    fn after(&self, call: &Call, _code: u16) -> bool {
        let Some(number) = call.write else { return true };
        let heard = number % 2 == 0;
        *self.lost.lock().unwrap() += usize::from(!heard);
        heard
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_answers_make_no_second_machine() {
    let world = World::new(Setup::default()).await.unwrap();
    let deaf = Arc::new(Deaf::default());
    let faults: Arc<dyn Faults> = Arc::clone(&deaf) as Arc<dyn Faults>;
    let proxy = world
        .plane
        .proxy(CONTROLLERS, &["system:serviceaccounts"], faults)
        .await
        .unwrap();
    let running = control(&proxy.client().await.unwrap(), "deaf", "capstan", 3);
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    world.ask_for("m6i.2xlarge").await.unwrap();
    world.rolled_out("m6i.2xlarge").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    running.controllers.stop().await;
    let writes = world.writes().unwrap();
    let count = |what: &str| writes.iter().filter(|write| write.starts_with(what)).count();
    assert_eq!(
        (count("create machines "), count("delete machines ")),
        (3, 3),
        "{writes:?}"
    );
    assert!(*deaf.lost.lock().unwrap() > 6);
    world.judge().unwrap();
}

/// Cuts every call while it is down, reads too.
#[derive(Default)]
struct Outage {
    down: AtomicBool,
    cut: AtomicUsize,
}

impl Faults for Outage {
    fn before(&self, _call: &Call) -> bool {
        let down = self.down.load(Ordering::SeqCst);
        self.cut.fetch_add(usize::from(down), Ordering::SeqCst);
        !down
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_away_in_the_middle_of_a_rollout_only_delays_it() {
    let world = World::new(Setup::default()).await.unwrap();
    let outage = Arc::new(Outage::default());
    let faults: Arc<dyn Faults> = Arc::clone(&outage) as Arc<dyn Faults>;
    let groups = ["system:serviceaccounts"];
    let proxy = world.plane.proxy(CONTROLLERS, &groups, faults).await.unwrap();
    let running = control(&proxy.client().await.unwrap(), "cut", "capstan", 3);
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    world.ask_for("m6i.2xlarge").await.unwrap();
    world
        .until("a replacement", async |world| {
            Ok((world.machines().await?.len() > 3).then_some(()))
        })
        .await
        .unwrap();
    outage.down.store(true, Ordering::SeqCst);
    // Long enough that it was tried in vain, and the Lease was lost.
    world
        .until("calls to be cut", async |_| {
            Ok((outage.cut.load(Ordering::SeqCst) >= 5).then_some(()))
        })
        .await
        .unwrap();
    outage.down.store(false, Ordering::SeqCst);
    world.rolled_out("m6i.2xlarge").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    running.controllers.stop().await;
    let writes = world.writes().unwrap();
    let count = |what: &str| writes.iter().filter(|write| write.starts_with(what)).count();
    assert_eq!(
        (count("create machines "), count("delete machines ")),
        (3, 3),
        "{writes:?}"
    );
    world.judge().unwrap();
}
