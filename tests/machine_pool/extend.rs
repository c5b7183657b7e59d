//! Capstan beside a core manager that manages the pools.

use std::collections::BTreeSet;

use anyhow::ensure;
use capstan_core::pool::Mode;
use serde_json::{Value, json};

use crate::world::{NAMESPACE, World, condition, message, name, rolling};

const OLD: &str = "v1.35.0";
const NEW: &str = "v1.36.0";

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_is_scaled_repaired_rolled_out_and_deleted_beside_the_core_manager() {
    let world = World::new(true).await;
    let controller = world.start(Mode::Extend).await;
    world.create_pool("p", 3, &rolling(1), &json!({})).await;
    world.wait_until_settled("p", 3, OLD).await;
    let machines = complete(&world).await;
    for machine in &machines {
        assert_eq!(machine["metadata"]["labels"]["team"], "blue");
        assert_eq!(machine["metadata"]["ownerReferences"][0]["kind"], "MachinePool");
    }
    scale(&world, &machines).await;
    remediate(&world).await;
    roll_out(&world).await;
    replace(&world).await;
    nothing_is_written_at_rest(&world, &controller).await;
    let metrics = controller.metrics();
    let line = "capstan_machine_pool_machines{pool_namespace=\"pools\",pool=\"p\",state=\"available\"} 3";
    assert!(metrics.contains(line), "{metrics}");

    world
        .kubectl(&["delete", "machinepool", "p", "-n", NAMESPACE, "--wait=false"])
        .await;
    world
        .wait_for("everything of the pool to be gone", async || {
            for kind in [
                "machinepools",
                "machines.cluster.x-k8s.io",
                "simulatedmachines",
                "nodes",
            ] {
                let left: Vec<String> = world.objects(kind).await?.iter().map(name).collect();
                ensure!(left.is_empty(), "{kind}: {left:?}");
            }
            Ok(Some(()))
        })
        .await;
    assert!(world.cloud.of_group("pools/p").is_empty());
    controller.running.stop().await;
}

/// Waits until each Machine has what the core manager leaves out.
async fn complete(world: &World) -> Vec<Value> {
    world
        .wait_for("the timeouts of the template on every Machine", async || {
            let machines = world.objects("machines.cluster.x-k8s.io").await?;
            let has = |one: &Value| one["spec"]["deletion"]["nodeDrainTimeoutSeconds"] == 30;
            ensure!(machines.iter().all(has), "{machines:#?}");
            Ok(Some(machines))
        })
        .await
}

/// More machines, and fewer: the one that a user marked goes, and not the oldest one.
async fn scale(world: &World, machines: &[Value]) {
    world
        .kubectl(&["scale", "machinepool", "p", "-n", NAMESPACE, "--replicas=4"])
        .await;
    world.wait_until_settled("p", 4, OLD).await;
    let marked = name(&machines[1]);
    let kind = "machines.cluster.x-k8s.io";
    let annotation = "cluster.x-k8s.io/delete-machine=yes";
    world
        .kubectl(&["annotate", kind, &marked, "-n", NAMESPACE, annotation])
        .await;
    world
        .kubectl(&["scale", "machinepool", "p", "-n", NAMESPACE, "--replicas=3"])
        .await;
    let left = world.wait_until_settled("p", 3, OLD).await;
    let names: Vec<String> = left.iter().map(name).collect();
    assert!(!names.contains(&marked), "{marked} in {names:?}");
    assert!(names.contains(&name(&machines[0])), "{names:?}");
}

/// A health check of Cluster API reports a machine, Capstan deletes it, and the pool makes another.
async fn remediate(world: &World) {
    let check = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
        "metadata": {"name": "p", "namespace": NAMESPACE},
        "spec": {
            "clusterName": "c", "selector": {"matchLabels": {"cluster.x-k8s.io/pool-name": "p"}},
            "checks": {"nodeStartupTimeoutSeconds": 300, "unhealthyNodeConditions": [
                {"type": "Ready", "status": "Unknown", "timeoutSeconds": 1}]},
        },
    });
    world.plane.apply_yaml(&check.to_string()).await.unwrap();
    let before = world.cloud.of_group("pools/p");
    let sick = &before[0];
    world.cloud.fail(&sick.provider_id());
    world
        .wait_for("the unhealthy machine to be replaced", async || {
            let now = world.cloud.of_group("pools/p");
            ensure!(
                now.len() == 3 && !now.iter().any(|one| one.number == sick.number),
                "{now:?}"
            );
            Ok(Some(()))
        })
        .await;
    world.wait_until_settled("p", 3, OLD).await;
    // Only the unhealthy one.
    let now: BTreeSet<u64> = world.cloud.of_group("pools/p").iter().map(|one| one.number).collect();
    assert!(before[1..].iter().all(|one| now.contains(&one.number)), "{now:?}");
}

/// A new version replaces one machine after the other; the provider does not surge.
async fn roll_out(world: &World) {
    world
        .edit("p", &json!({"spec": {"template": {"spec": {"version": NEW}}}}))
        .await;
    let mut seen_outdated = false;
    world
        .wait_for("the rollout", async || {
            let machines = world.objects("machines.cluster.x-k8s.io").await?;
            let available = machines
                .iter()
                .filter(|one| condition(one, "Available") == "True")
                .count();
            assert!(available >= 2, "{available} of 3 machines are available");
            let pool = world.pool("p").await?;
            if condition(&pool, "MachinesUpToDate") == "False" {
                seen_outdated = true;
                assert!(message(&pool, "MachinesUpToDate").contains("are outdated"));
            }
            let is_new = |machine: &Value| machine["status"]["nodeInfo"]["kubeletVersion"] == NEW;
            ensure!(
                machines.len() == 3 && machines.iter().all(is_new),
                "{available} available"
            );
            Ok(Some(()))
        })
        .await;
    assert!(seen_outdated);
    world.wait_until_settled("p", 3, NEW).await;
}

/// A deleted Machine, and an instance that vanishes, are replaced.
async fn replace(world: &World) {
    let machines = world.wait_until_settled("p", 3, NEW).await;
    let deleted = name(&machines[0]);
    let kind = "machines.cluster.x-k8s.io";
    world
        .kubectl(&["delete", kind, &deleted, "-n", NAMESPACE, "--wait=false"])
        .await;
    world
        .wait_for("the deleted Machine to be gone", async || {
            let machines = world.objects(kind).await?;
            ensure!(machines.iter().all(|one| name(one) != deleted));
            Ok(Some(()))
        })
        .await;
    world.wait_until_settled("p", 3, NEW).await;
    let instances = world.cloud.of_group("pools/p");
    assert!(instances.iter().all(|one| one.name() != deleted));
    let lost = instances[0].clone();
    world.cloud.terminate(&lost.provider_id());
    world
        .wait_for("the Machine of the lost instance to be gone", async || {
            let machines = world.objects(kind).await?;
            ensure!(machines.iter().all(|one| name(one) != lost.name()));
            Ok(Some(()))
        })
        .await;
    world.wait_until_settled("p", 3, NEW).await;
}

/// Changes that demand nothing are reconciled, and nothing is written. The last writes about the
/// change before may follow late, so two reconciles in succession must write nothing.
async fn nothing_is_written_at_rest(world: &World, controller: &crate::world::Controller) {
    complete(world).await;
    let mut quiet = 0;
    for note in 0..10 {
        let (before, reconciles) = (world.writes().len(), controller.reconciles());
        let note = format!("note=x{note}");
        world
            .kubectl(&["annotate", "machinepool", "p", "-n", NAMESPACE, &note, "--overwrite"])
            .await;
        world
            .wait_for("a reconcile", async || {
                ensure!(controller.reconciles() > reconciles);
                Ok(Some(()))
            })
            .await;
        let is_quiet = world.writes().len() == before;
        quiet = if is_quiet { quiet + 1 } else { 0 };
        if quiet == 2 {
            return;
        }
    }
    panic!(
        "ten reconciles in a steady state write again and again: {:?}",
        world.writes()
    );
}
