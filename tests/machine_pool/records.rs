//! A group whose provider cannot delete a single instance.

use anyhow::ensure;
use capstan_core::pool::Mode;
use serde_json::{Value, json};

use crate::world::{NAMESPACE, World, condition, message, name};

const KIND: &str = "machines.cluster.x-k8s.io";

#[tokio::test(flavor = "multi_thread")]
async fn the_instances_of_a_managed_group_are_shown_and_bug_3_its_nodes_are_deleted_with_it() {
    let world = World::new(true).await;
    let controller = world.start(Mode::Extend).await;
    world.create_pool("m", 2, &json!({}), &json!({"managed": true})).await;
    let machines = shown(&world, 2).await;
    let pool = world.pool("m").await.unwrap();
    assert_eq!(condition(&pool, "InstancesDeletable"), "False");
    assert!(message(&pool, "InstancesDeletable").contains("cannot delete a single instance"));
    for machine in &machines {
        assert_eq!(condition(machine, "Deletable"), "False", "{machine:#}");
    }

    // A deletion of a Machine deletes no instance, and the Machine is shown again.
    let launched = world.cloud.launched();
    world
        .kubectl(&["delete", KIND, &name(&machines[0]), "-n", NAMESPACE])
        .await;
    let again = shown(&world, 2).await;
    assert_eq!(
        machines.iter().map(name).collect::<Vec<String>>(),
        again.iter().map(name).collect::<Vec<String>>()
    );
    assert_eq!(world.cloud.launched(), launched);

    world
        .kubectl(&["scale", "machinepool", "m", "-n", NAMESPACE, "--replicas=1"])
        .await;
    shown(&world, 1).await;

    world
        .kubectl(&["delete", "machinepool", "m", "-n", NAMESPACE, "--wait=false"])
        .await;
    world
        .wait_for("everything of the pool to be gone", async || {
            for kind in ["machinepools", KIND, "nodes"] {
                let left: Vec<String> = world.objects(kind).await?.iter().map(name).collect();
                ensure!(left.is_empty(), "{kind}: {left:?}");
            }
            Ok(Some(()))
        })
        .await;
    controller.running.stop().await;
}

/// The creation of a record arrives after its pool was released, and another one after a pool of
/// the same name was created.
#[tokio::test(flavor = "multi_thread")]
async fn v263_a_record_without_its_pool_does_not_stay_in_deletion() {
    let world = World::new(true).await;
    let controller = world.start(Mode::Extend).await;
    let record = |pool: &str| {
        let group = "infrastructure.cluster.x-k8s.io";
        let labels = json!({"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/pool-name": pool});
        let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "name": pool,
            "uid": "of-a-deleted-pool", "controller": true});
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": format!("{pool}-late"), "namespace": NAMESPACE, "labels": labels,
                "ownerReferences": [owner], "finalizers": ["machine.cluster.x-k8s.io"],
                "annotations": {"capstan.dev/instance-record": "true", "cluster.x-k8s.io/paused": "true"}},
            "spec": {"clusterName": "c", "providerID": "simulated://late", "bootstrap": {"dataSecretName": "boot"},
                "infrastructureRef": {"apiGroup": group, "kind": "SimulatedMachinePool", "name": "late"}},
        })
    };
    world.create_pool("m", 1, &json!({}), &json!({"managed": true})).await;
    shown(&world, 1).await;
    world.apply(&[record("gone"), record("m")]).await;
    world
        .wait_for("the records without their pools to be gone", async || {
            let left: Vec<String> = world.objects(KIND).await?.iter().map(name).collect();
            ensure!(left.iter().all(|name| !name.ends_with("-late")), "{left:?}");
            Ok(Some(()))
        })
        .await;
    shown(&world, 1).await;
    controller.running.stop().await;
}

/// Waits until so many Machines show an instance with a Node.
async fn shown(world: &World, count: usize) -> Vec<Value> {
    world
        .wait_for("a Machine for each instance", async || {
            let machines = world.objects(KIND).await?;
            let is_shown = |machine: &Value| {
                machine["status"]["nodeRef"]["name"].is_string() && condition(machine, "Available") == "True"
            };
            ensure!(
                machines.len() == count && machines.iter().all(is_shown),
                "{machines:#?}"
            );
            Ok(Some(machines))
        })
        .await
}
