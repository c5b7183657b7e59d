//! A control plane from its creation to its deletion.

use std::time::Duration;

use anyhow::ensure;
use capstan_sandbox::control_plane::wait_until;
use serde_json::json;

use crate::crashes::Lives;
use crate::port_forward;
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_grows_is_upgraded_shrinks_and_is_deleted_beside_cluster_api() {
    let world = World::new().await;
    let running = world.start("one").await;
    world.create("c", 1, "v1.35.0").await;
    let first = world.wait_until_settled("c", 1, "v1.35.0").await;
    wait_until_refused(&world, &first[0], true).await;
    world.edit("c", &json!({"spec": {"replicas": 3}})).await;
    let three = world.wait_until_settled("c", 3, "v1.35.0").await;
    wait_until_refused(&world, &first[0], false).await;
    assert!(three.contains(&first[0]), "{three:?}");
    assert_eq!(world.created().len(), 3, "{:#?}", world.writes());
    assert_eq!(port_forward::members(&world, "c").await, [3; 3]);

    // A reconcile of a settled control plane writes nothing.
    let (writes, reconciles) = (settled_writes(&world).await, running.reconciles());
    let annotate = ["annotate", "clusters.cluster.x-k8s.io", "c", "-n", "clusters", "a=b"];
    world.kubectl(&annotate).await;
    let again = wait_until("another reconcile", Duration::from_secs(240), async || {
        Ok((running.reconciles() > reconciles).then_some(()))
    });
    again.await.unwrap();
    assert_eq!(world.writes()[writes..], [""; 0]);

    world.edit("c", &json!({"spec": {"version": "v1.36.0"}})).await;
    let upgraded = world.wait_until_settled("c", 3, "v1.36.0").await;
    assert!(upgraded.iter().all(|name| !three.contains(name)), "{upgraded:?}");
    assert_eq!(world.created().len(), 6, "{:#?}", world.writes());

    world.edit("c", &json!({"spec": {"replicas": 5}})).await;
    world.wait_until_settled("c", 5, "v1.36.0").await;
    running.controllers.stop().await;

    // Each controller dies after its first write: a deletion, or the removal of a hook, which
    // follows the removal of the etcd member.
    let lives = Lives::start(&world).await;
    world.edit("c", &json!({"spec": {"replicas": 3}})).await;
    world.wait_until_settled("c", 3, "v1.36.0").await;
    let kills = lives.stop().await;
    for verb in ["DELETE", "PATCH"] {
        let is_of_machine = |kill: &&String| kill.starts_with(verb) && kill.contains("/machines/");
        assert_eq!(kills.iter().filter(is_of_machine).count(), 2, "{verb}: {kills:#?}");
    }
    assert_eq!(world.created().len(), 8, "{:#?}", world.writes());
    let running = world.start("one").await;

    let delete = [
        "delete",
        "clusters.cluster.x-k8s.io",
        "c",
        "-n",
        "clusters",
        "--wait=false",
    ];
    world.kubectl(&delete).await;
    for kind in [
        "machines.cluster.x-k8s.io",
        "kubeadmcontrolplanes",
        "clusters.cluster.x-k8s.io",
    ] {
        world.wait_until_gone(kind).await;
    }
    running.controllers.stop().await;
}

/// Waits until the policy refuses the deletion of a Machine, or allows it.
async fn wait_until_refused(world: &World, machine: &str, wanted: bool) {
    let policy = include_str!("../../webhooks/kubeadm-control-plane/policies/control-plane-machines.yaml");
    world.plane.apply_yaml(policy).await.unwrap();
    let delete = ["delete", "machines.cluster.x-k8s.io", machine, "-n", "clusters"];
    let waiting = wait_until("the answer to the deletion", Duration::from_secs(240), async || {
        let arguments = delete.iter().chain(&["--dry-run=server"]).copied();
        let output = world.plane.kubectl().args(arguments).run().await?;
        let refused = output.stderr.contains("would leave no voting etcd member");
        ensure!(refused == wanted && output.success() != wanted, "{output}");
        Ok(Some(()))
    });
    waiting.await.unwrap();
}

/// The number of writes, once the last ones are made: the status follows what others write.
async fn settled_writes(world: &World) -> usize {
    let mut last = 0;
    let waiting = wait_until("the writes to end", Duration::from_secs(120), async || {
        let now = world.writes().len();
        let before = std::mem::replace(&mut last, now);
        tokio::time::sleep(Duration::from_secs(3)).await;
        ensure!(before == now, "{before} became {now}");
        Ok(Some(now))
    });
    waiting.await.unwrap()
}
