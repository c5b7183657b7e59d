//! A ControlPlane whose etcd members Capstan removes itself (`--etcd-members=capstan`), with real
//! etcd processes, one for each machine.
//!
//! The control plane is scaled 1 → 3 → 5 → 3 → 1 and reshaped while clients write to etcd, and
//! while members and Capstan are killed at random moments. No acknowledged write may be lost, and
//! no machine may go before its member. `CAPSTAN_ETCD_WRITES` is the least number of writes.
//! Without it, the control plane is only scaled 1 → 3 → 1.

#![allow(clippy::print_stdout, reason = "the figures are the result of the test")]

mod grpc;
mod nodes;
mod writer;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use capstan_sandbox::control_plane::{Process, wait_until};
use serde_json::{Value, json};

use crate::control_plane::{GROUPS, Plane, USER, shape, size};
use nodes::Nodes;
use writer::Writer;

/// The time for one change, also on a loaded machine.
const CHANGE: Duration = Duration::from_secs(400);

/// How long nothing is killed while a member is a learner.
const CATCH_UP: Duration = Duration::from_secs(20);

/// A process of Capstan, which is killed and started again.
struct Capstan {
    lives: u32,
    process: Option<Process>,
    arguments: Vec<String>,
    log: std::path::PathBuf,
}

impl Capstan {
    fn new(plane: &Plane, certificates: &Path) -> Self {
        let kubeconfig = plane.world.plane.kubeconfig_for(USER, GROUPS).unwrap();
        let arguments = [
            "serve",
            "--control-plane-controllers",
            "--controllers-only",
            "--lease-duration=3s",
            "--etcd-members=capstan",
            "--listen=127.0.0.1:0",
            "--health-addr=127.0.0.1:0",
            "--dev-certificate=memory",
            "--dns-name=localhost",
            "--identity=capstan",
        ];
        let mut arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        arguments.push(format!("--etcd-certificates={}", certificates.display()));
        arguments.push(format!("--kubeconfig={}", kubeconfig.display()));
        Self {
            lives: 0,
            process: None,
            arguments,
            log: plane.world.plane.folder().to_owned(),
        }
    }

    /// Kills the process, if it runs, and starts another one.
    fn restart(&mut self) {
        // Dropping it sends SIGKILL.
        self.process = None;
        self.lives += 1;
        let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
        command
            .args(&self.arguments)
            .arg(format!("--control-plane-lease=life-{}", self.lives));
        let log = self.log.join(format!("capstan-{}.log", self.lives));
        self.process = Some(Process::spawn("capstan", command, &log).unwrap());
    }
}

/// A stream of numbers that is the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Kills members and Capstan at random moments until it is dropped.
async fn disturb(nodes: Arc<Nodes>, mut capstan: Capstan) {
    let mut dice = Dice(7);
    let mut last = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_millis(1500 + dice.below(4000))).await;
        // On a loaded machine, members that are killed again and again would never elect a leader,
        // and a learner would never catch up.
        match nodes.learners().await {
            Ok(0) => {}
            Ok(_) if last.elapsed() > CATCH_UP => {}
            _ => continue,
        }
        last = Instant::now();
        match dice.below(3) {
            0 => capstan.restart(),
            _ => nodes.kill_a_member(dice.below(16)).await,
        }
    }
}

/// Waits until the ControlPlane is settled with this number of machines of this type, each with a
/// voting member.
async fn settled(plane: &Plane, nodes: &Nodes, replicas: usize, instance_type: &str) {
    let began = Instant::now();
    let what = format!("{replicas} machines of type {instance_type} with a member each");
    wait_until(&what, CHANGE, async || {
        let machines = plane.machines_if_settled(replicas, instance_type).await?;
        let voters = nodes.voters().await?;
        anyhow::ensure!(voters == replicas, "etcd has {voters} voting members");
        Ok(Some(machines))
    })
    .await
    .unwrap();
    println!("{what}: {:.1} s", began.elapsed().as_secs_f64());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_while_capstan_manages_the_members_and_processes_are_killed() {
    let wanted = std::env::var("CAPSTAN_ETCD_WRITES").ok();
    let writes: u64 = wanted.as_ref().map_or(2000, |text| text.parse().unwrap());
    let plane = Plane::without_etcd_operator(1).await;
    let nodes = Nodes::start(&plane).await;
    // Each life has a Lease of its own, because the dead process holds that of the one before.
    let verbs = ["get", "patch", "create"];
    let lease = ("coordination.k8s.io", ["leases"]);
    plane.world.plane.allow(USER, &verbs, lease.0, &lease.1).await.unwrap();
    let mut capstan = Capstan::new(&plane, nodes.certificates());
    capstan.restart();
    settled(&plane, &nodes, 1, "m6i.xlarge").await;
    let writer = Writer::start(&nodes);
    let disturbing = tokio::spawn(disturb(Arc::clone(&nodes), capstan));
    let began = Instant::now();
    let mut changes: Vec<(Value, usize, &str)> = vec![
        (size(3), 3, "m6i.xlarge"),
        (size(5), 5, "m6i.xlarge"),
        (size(3), 3, "m6i.xlarge"),
        (shape("m6i.2xlarge"), 3, "m6i.2xlarge"),
        (size(1), 1, "m6i.2xlarge"),
    ];
    if wanted.is_none() {
        changes = vec![(size(3), 3, "m6i.xlarge"), (size(1), 1, "m6i.xlarge")];
    }
    for (edit, replicas, instance_type) in changes {
        plane.edit(&edit).await;
        settled(&plane, &nodes, replicas, instance_type).await;
    }
    let changing = began.elapsed();
    writer.reach(writes).await;
    disturbing.abort();
    let written = writer.stop().await;
    let stored = nodes.count_keys(written.len()).await;
    for (at, (acknowledged, stored)) in std::iter::zip(&written, &stored).enumerate() {
        assert_eq!(acknowledged, stored, "client {at}: every acknowledged write is stored");
    }
    let (early, kills) = nodes.outcome();
    assert!(early.is_empty(), "machines went before their members: {early:?}");
    let sum: u64 = written.iter().sum();
    let summary = json!({"acknowledged": sum, "lost": 0, "secondsOfChanges": changing.as_secs_f64(),
        "membersKilled": kills, "seconds": began.elapsed().as_secs_f64()});
    println!("{summary}");
    assert!(sum >= writes && kills > 0, "{summary}");
}
