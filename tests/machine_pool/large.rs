//! A large pool: what it costs. `CAPSTAN_POOL_SIZE` is the number of machines.

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use capstan_sandbox::control_plane::free_port;
use serde_json::json;

use crate::world::{NAMESPACE, USER_KUBECONFIG, World, condition};

/// The built binary with the controller. It ends with the test.
struct Binary(Child);

impl Binary {
    fn start(world: &World) -> Self {
        let (user, groups) = USER_KUBECONFIG;
        let kubeconfig = world.plane.kubeconfig_for(user, groups).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_capstan"))
            .args(["serve", "--machine-pool-controllers", "--controllers-only"])
            .args(["--dev-certificate=memory", "--dns-name=localhost", "--log=warn"])
            .arg(format!("--listen=127.0.0.1:{}", free_port().unwrap()))
            .arg(format!("--health-addr=127.0.0.1:{}", free_port().unwrap()))
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// A number of kilobytes in the status of the process.
    fn kilobytes(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim_start_matches(':')
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap()
    }
}

impl Drop for Binary {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
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
    world
        .wait_for("all machines to be available", async || {
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

    // One edit of the pool that concerns no Machine is one reconcile without a write.
    let began = Instant::now();
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
    let _deleted = world
        .plane
        .kubectl()
        .args(["delete", "machinepool", "p", "-n", NAMESPACE, "--wait=false"])
        .run()
        .await
        .context("deleting the pool")
        .unwrap();
}
