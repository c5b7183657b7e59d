//! A large pool: what it costs. `CAPSTAN_POOL_SIZE` is the number of machines.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use capstan_sandbox::control_plane::free_port;
use serde_json::json;

use crate::world::{DEADLINE, NAMESPACE, USER_KUBECONFIG, World, condition};

/// The built binary with the controller. It ends with the test.
struct Binary {
    process: Child,
    health: u16,
}

impl Binary {
    fn start(world: &World) -> Self {
        let (user, groups) = USER_KUBECONFIG;
        let kubeconfig = world.plane.kubeconfig_for(user, groups).unwrap();
        let health = free_port().unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_capstan"))
            .args(["serve", "--machine-pool-controllers", "--controllers-only"])
            .args(["--dev-certificate=memory", "--dns-name=localhost", "--log=warn"])
            .arg(format!("--listen=127.0.0.1:{}", free_port().unwrap()))
            .arg(format!("--health-addr=127.0.0.1:{health}"))
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { process, health }
    }

    /// A number of kilobytes in the status of the process.
    fn kilobytes(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim_start_matches(':')
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap()
    }

    /// The reconciles so far, and the seconds that they took.
    fn reconciles(&self) -> (f64, f64) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.health)).unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let sum = |name: &str| -> f64 {
            let lines = text.lines().filter(|line| line.starts_with(name));
            lines
                .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
                .sum()
        };
        let name = "capstan_reconcile_duration_seconds";
        (sum(&format!("{name}_count")), sum(&format!("{name}_sum")))
    }
}

impl Drop for Binary {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _ended = self.process.wait();
    }
}

fn size() -> usize {
    let text = std::env::var("CAPSTAN_POOL_SIZE").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(15)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_pool_costs_a_few_writes_for_each_machine() {
    let (world, size) = (World::new(true).await, size());
    let binary = Binary::start(&world);
    let began = Instant::now();
    world.create_pool("p", size, &json!({}), &json!({})).await;
    // The core manager sends a limited number of requests each second.
    let deadline = DEADLINE.max(Duration::from_secs(2) * u32::try_from(size).unwrap());
    world
        .wait_within(deadline, "all machines to be available", async || {
            let pool = world.pool("p").await?;
            let ready = condition(&pool, "MachinesReady") == "True" && condition(&pool, "ScalingUp") == "False";
            ensure!(ready && world.cloud.of_group("pools/p").len() == size, "{pool:#}");
            Ok(Some(()))
        })
        .await;
    let took = began.elapsed();
    let copied = |lines: &[String]| lines.iter().filter(|line| line.starts_with("patch machines/ ")).count();
    let writes = world
        .wait_for("every Machine to have the timeouts of the template", async || {
            let writes = world.writes();
            ensure!(copied(&writes) >= size, "{} patches", copied(&writes));
            Ok(Some(writes))
        })
        .await;
    let status = writes
        .iter()
        .filter(|line| line.contains("machinepools/status"))
        .count();
    let memory = (binary.kilobytes("VmRSS"), binary.kilobytes("VmHWM"));
    println!(
        "{size} machines: available after {took:?}, {} writes ({} patches of Machines, {status} of the status), \
         {} KiB resident, {} KiB at most",
        writes.len(),
        copied(&writes),
        memory.0,
        memory.1
    );
    // One patch for each Machine, and the status while the pool grows.
    assert!(copied(&writes) <= size + size / 10 + 2, "{} patches", copied(&writes));
    assert!(writes.len() <= 3 * size + 20, "{} writes", writes.len());
    nothing_is_written_without_a_change(&world, &binary).await;

    // One edit of the pool that concerns each Machine is one patch for each Machine.
    let (began, before) = (Instant::now(), world.writes().len());
    let patch = json!({"spec": {"template": {"spec": {"deletion": {"nodeDrainTimeoutSeconds": 60}}}}});
    world.edit("p", &patch).await;
    world
        .wait_for("the new timeout to reach every Machine", async || {
            let machines = world.objects("machines.cluster.x-k8s.io").await?;
            let has = machines
                .iter()
                .filter(|one| one["spec"]["deletion"]["nodeDrainTimeoutSeconds"] == 60)
                .count();
            ensure!(has == size, "{has} of {size}");
            Ok(Some(()))
        })
        .await;
    println!("a new timeout reached {size} machines after {:?}", began.elapsed());
    let patches = copied(&world.writes()[before..]);
    assert!((size..=size + size / 10 + 2).contains(&patches), "{patches} patches");
    let _deleted = world
        .plane
        .kubectl()
        .args(["delete", "machinepool", "p", "-n", NAMESPACE, "--wait=false"])
        .run()
        .await
        .context("deleting the pool")
        .unwrap();
}

/// A change that demands nothing is reconciled, and nothing is written. The last status follows the
/// last Machine, so that a change is repeated until then.
async fn nothing_is_written_without_a_change(world: &World, binary: &Binary) {
    let mut changes = 0;
    let (reconciles, took) = world
        .wait_for("a reconcile that writes nothing", async || {
            changes += 1;
            let (before, (count, seconds)) = (world.writes().len(), binary.reconciles());
            let note = format!("note={changes}");
            world
                .kubectl(&["annotate", "machinepool", "p", "-n", NAMESPACE, "--overwrite", &note])
                .await;
            let (now, took) = world
                .wait_for("a reconcile", async || {
                    let (now, took) = binary.reconciles();
                    ensure!(now > count);
                    Ok(Some((now, took)))
                })
                .await;
            let writes = world.writes();
            ensure!(writes.len() == before, "{:?}", &writes[before..]);
            Ok(Some((now - count, took - seconds)))
        })
        .await;
    println!("{reconciles} reconcile(s) without a change took {took} s");
}
