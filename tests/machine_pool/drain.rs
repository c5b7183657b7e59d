//! A Machine of a pool is deleted as any other Machine: hooks, drain, and the detachment of volumes
//! hold its instance. The core manager of Cluster API does this; Capstan gives it the timeouts.

use anyhow::ensure;
use capstan_core::pool::Mode;
use serde_json::{Value, json};

use crate::world::{NAMESPACE, World, message, name};

const KIND: &str = "machines.cluster.x-k8s.io";
const HOOK: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io/backup";

/// The Machines of a settled pool without timeouts: what holds a Machine holds it without an end.
async fn without_timeouts(world: &World, replicas: usize) -> Vec<Value> {
    world.create_pool("p", replicas, &json!({}), &json!({})).await;
    let no_end = json!({"nodeDrainTimeoutSeconds": 0, "nodeVolumeDetachTimeoutSeconds": 0});
    world
        .edit("p", &json!({"spec": {"template": {"spec": {"deletion": no_end}}}}))
        .await;
    let machines = world.wait_until_settled("p", replicas, "v1.35.0").await;
    world
        .wait_for("the Machines to have no timeout", async || {
            let machines = world.objects(KIND).await?;
            let timeouts = ["nodeDrainTimeoutSeconds", "nodeVolumeDetachTimeoutSeconds"];
            let has_none = |one: &Value| timeouts.iter().all(|field| one["spec"]["deletion"][field] == 0);
            ensure!(machines.iter().all(has_none));
            Ok(Some(()))
        })
        .await;
    machines
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_and_a_drain_hold_a_machine_of_a_pool_until_the_timeout_of_the_pool() {
    let world = World::new(true).await;
    let controller = world.start(Mode::Extend).await;
    let machine = name(&without_timeouts(&world, 1).await[0]);
    run_a_pod_that_cannot_be_evicted(&world, &machine).await;
    let hook = format!("{HOOK}=team");
    world
        .kubectl(&["annotate", KIND, &machine, "-n", NAMESPACE, &hook])
        .await;
    world
        .kubectl(&["delete", KIND, &machine, "-n", NAMESPACE, "--wait=false"])
        .await;
    held(&world, &machine, "pre-drain hook").await;
    let removal = format!("{HOOK}-");
    world
        .kubectl(&["annotate", KIND, &machine, "-n", NAMESPACE, &removal])
        .await;
    held(&world, &machine, "rain").await;

    // The user gives the pool a timeout. It reaches the Machine that is being deleted.
    let short = json!({"nodeDrainTimeoutSeconds": 1, "nodeVolumeDetachTimeoutSeconds": 1});
    world
        .edit("p", &json!({"spec": {"template": {"spec": {"deletion": short}}}}))
        .await;
    world
        .wait_for("the instance to be replaced", async || {
            let instances = world.cloud.of_group("pools/p");
            let is_replaced = instances.len() == 1 && instances[0].name() != machine;
            ensure!(is_replaced, "{instances:?}");
            Ok(Some(()))
        })
        .await;
    world.wait_until_settled("p", 1, "v1.35.0").await;
    controller.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_hold_the_machines_of_a_pool_until_they_are_detached_or_the_timeout_of_the_pool() {
    let world = World::new(true).await;
    let controller = world.start(Mode::Extend).await;
    let machines = without_timeouts(&world, 2).await;
    let (detached, stuck) = (name(&machines[0]), name(&machines[1]));
    for machine in [&detached, &stuck] {
        attach_a_volume(&world, machine).await;
    }
    world
        .kubectl(&["delete", KIND, &detached, &stuck, "-n", NAMESPACE, "--wait=false"])
        .await;
    for machine in [&detached, &stuck] {
        let claim = format!("PersistentVolumeClaims: {NAMESPACE}/{machine}");
        held(&world, machine, &claim).await;
    }
    world.kubectl(&["delete", "volumeattachment", &detached]).await;
    terminated(&world, &detached).await;
    let instances = world.cloud.of_group("pools/p");
    assert!(instances.iter().any(|one| one.name() == stuck), "{instances:?}");

    // The user gives the pool a timeout. It reaches the Machine that is being deleted.
    let short = json!({"nodeVolumeDetachTimeoutSeconds": 1});
    world
        .edit("p", &json!({"spec": {"template": {"spec": {"deletion": short}}}}))
        .await;
    terminated(&world, &stuck).await;
    world.wait_until_settled("p", 2, "v1.35.0").await;
    let attached = world.kubectl(&["get", "volumeattachments", "-o", "name"]).await;
    assert!(attached.contains(&stuck), "{attached}");
    controller.running.stop().await;
}

/// Attaches a volume to the Node of a Machine, as a CSI driver reports it.
async fn attach_a_volume(world: &World, node: &str) {
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": node},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": node},
            "csi": {"driver": "csi.example.com", "volumeHandle": node},
        },
    });
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": node},
        "spec": {"attacher": "csi.example.com", "nodeName": node, "source": {"persistentVolumeName": node}},
    });
    for object in [volume, attachment] {
        world.plane.apply_yaml(&object.to_string()).await.unwrap();
    }
    let attached = json!({"status": {"attached": true}}).to_string();
    let flags = ["--subresource=status", "--type=merge", "-p", &attached];
    world
        .kubectl(&[&["patch", "volumeattachment", node], &flags[..]].concat())
        .await;
}

/// Waits until the instance of a Machine is terminated.
async fn terminated(world: &World, machine: &str) {
    world
        .wait_for(&format!("the instance of {machine} to be terminated"), async || {
            let instances = world.cloud.of_group("pools/p");
            ensure!(instances.iter().all(|one| one.name() != machine), "{instances:?}");
            Ok(Some(()))
        })
        .await;
}

/// A Pod on the Node of the Machine, which a disruption budget protects.
async fn run_a_pod_that_cannot_be_evicted(world: &World, node: &str) {
    let labels = json!({"app": "store"});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "store", "namespace": NAMESPACE, "labels": labels},
        "spec": {"nodeName": node, "automountServiceAccountToken": false,
            "containers": [{"name": "store", "image": "store"}]},
    });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "store", "namespace": NAMESPACE},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
    });
    world
        .wait_for("the Pod to be created", async || {
            // The ServiceAccount of the namespace is created late.
            world.plane.apply_yaml(&pod.to_string()).await?;
            Ok(Some(()))
        })
        .await;
    world.plane.apply_yaml(&budget.to_string()).await.unwrap();
    // A Pod that is pending may always be evicted.
    let running = json!({"status": {"phase": "Running"}}).to_string();
    let flags = ["--subresource=status", "--type=merge", "-p", &running];
    world
        .kubectl(&[&["patch", "pod", "store", "-n", NAMESPACE], &flags[..]].concat())
        .await;
}

/// Waits until the condition `Deleting` of the Machine says what holds it. The instance stays.
async fn held(world: &World, machine: &str, by: &str) {
    world
        .wait_for(&format!("the Machine to wait for {by:?}"), async || {
            let machines = world.objects(KIND).await?;
            let found = machines.iter().find(|one| name(one) == machine);
            let text = found.map(|one| message(one, "Deleting")).unwrap_or_default();
            ensure!(
                text.contains(by),
                "{text:?}: {:#}",
                found.unwrap_or(&Value::Null)["status"]["conditions"]
            );
            Ok(Some(()))
        })
        .await;
    let instances = world.cloud.of_group("pools/p");
    assert!(instances.iter().any(|one| one.name() == machine), "{instances:?}");
}
