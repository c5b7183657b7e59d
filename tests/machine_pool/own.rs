//! Capstan in the place of a core manager that does not manage pools.

use anyhow::ensure;
use capstan_core::pool::Mode;
use serde_json::json;

use crate::world::{NAMESPACE, World, name};

#[tokio::test(flavor = "multi_thread")]
async fn capstan_alone_creates_scales_replaces_and_deletes_the_machines_of_a_pool() {
    let world = World::new(false).await;
    let controller = world.start(Mode::Own).await;
    // A name that is no label value.
    let pool = "p".repeat(70);
    world.create_pool(&pool, 2, &json!({}), &json!({})).await;
    let machines = world.wait_until_settled(&pool, 2, "v1.35.0").await;
    for machine in &machines {
        let labels = &machine["metadata"]["labels"];
        assert!(
            labels["cluster.x-k8s.io/pool-name"]
                .as_str()
                .unwrap()
                .starts_with("hash_")
        );
        assert_eq!(labels["team"], "blue");
        assert_eq!(machine["metadata"]["ownerReferences"][0]["name"], pool);
        assert_eq!(machine["spec"]["deletion"]["nodeVolumeDetachTimeoutSeconds"], 30);
    }
    world
        .wait_for("the status of the pool", async || {
            let stored = world.pool(&pool).await?;
            let status = &stored["status"];
            ensure!(
                status["readyReplicas"] == 2
                    && status["upToDateReplicas"] == 2
                    && status["phase"] == "Running"
                    && status["initialization"]["infrastructureProvisioned"] == true
                    && stored["spec"]["providerIDList"].as_array().map(Vec::len) == Some(2)
                    && stored["metadata"]["ownerReferences"][0]["kind"] == "Cluster",
                "{stored:#}"
            );
            Ok(Some(()))
        })
        .await;

    world
        .kubectl(&["scale", "machinepool", &pool, "-n", NAMESPACE, "--replicas=3"])
        .await;
    let machines = world.wait_until_settled(&pool, 3, "v1.35.0").await;
    let kind = "machines.cluster.x-k8s.io";
    let deleted = name(&machines[0]);
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
    world.wait_until_settled(&pool, 3, "v1.35.0").await;

    labels_return(&world, &pool).await;
    world
        .kubectl(&["delete", "machinepool", &pool, "-n", NAMESPACE, "--wait=false"])
        .await;
    world
        .wait_for("everything of the pool to be gone", async || {
            for kind in [
                "machinepools",
                kind,
                "simulatedmachinepools",
                "simulatedmachines",
                "nodes",
            ] {
                let left: Vec<String> = world.objects(kind).await?.iter().map(name).collect();
                ensure!(left.is_empty(), "{kind}: {left:?}");
            }
            Ok(Some(()))
        })
        .await;
    controller.running.stop().await;
}

/// A Machine that loses the labels of its pool gets them back, and no second Machine is created.
async fn labels_return(world: &World, pool: &str) {
    let kind = "machines.cluster.x-k8s.io";
    let launched = world.cloud.launched();
    let machines = world.wait_until_settled(pool, 3, "v1.35.0").await;
    let (pool_label, cluster_label) = ("cluster.x-k8s.io/pool-name", "cluster.x-k8s.io/cluster-name");
    for (machine, label) in machines.iter().zip([pool_label, cluster_label]) {
        let removal = format!("{label}-");
        let machine = name(machine);
        world
            .kubectl(&["label", kind, &machine, "-n", NAMESPACE, &removal])
            .await;
    }
    let again = world
        .wait_for("the labels to return", async || {
            let machines = world.objects(kind).await?;
            let has = |one: &serde_json::Value| {
                let labels = &one["metadata"]["labels"];
                labels[cluster_label] == "c" && labels.get(pool_label).is_some()
            };
            ensure!(machines.iter().all(has), "{machines:#?}");
            Ok(Some(machines))
        })
        .await;
    let uids = |machines: &[serde_json::Value]| {
        let uids = machines.iter().map(|one| one["metadata"]["uid"].to_string());
        uids.collect::<std::collections::BTreeSet<String>>()
    };
    assert_eq!(uids(&machines), uids(&again));
    assert_eq!(world.cloud.launched(), launched);
}

/// The event about the Machine must reconcile its own pool. Nothing else happens meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn v260_a_label_that_names_another_pool_is_corrected() {
    let world = World::new(false).await;
    let controller = world.start(Mode::Own).await;
    world.create_pool("p", 1, &json!({}), &json!({})).await;
    let machines = world.wait_until_settled("p", 1, "v1.35.0").await;
    let (kind, machine) = ("machines.cluster.x-k8s.io", name(&machines[0]));
    let label = "cluster.x-k8s.io/pool-name";
    let other = format!("{label}=another");
    world
        .kubectl(&["label", "--overwrite", kind, &machine, "-n", NAMESPACE, &other])
        .await;
    world
        .wait_for("the label to return", async || {
            let machines = world.objects(kind).await?;
            let is_back = |one: &serde_json::Value| one["metadata"]["labels"][label] == "p";
            ensure!(machines.iter().all(is_back), "{machines:#?}");
            Ok(Some(()))
        })
        .await;
    controller.running.stop().await;
}
