//! The controller of Cluster API: it takes over the control planes of Capstan and gives them back
//! without a rollout, and it leaves the same objects behind.
//!
//! The two controllers never run at the same time. `CAPSTAN_KUBEADM_COMPARISON=full` runs the whole
//! list of changes with each of them, and prints the time and the writes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::ensure;
use capstan_sandbox::control_plane::wait_until;
use capstan_sandbox::neighbours::cluster_api::KubeadmControlPlanes;
use serde_json::{Value, json};

use crate::world::World;

const SOON: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_moves_to_cluster_api_and_back_without_a_rollout() {
    let world = World::new().await;
    let running = world.start("one").await;
    world.create("c", 3, "v1.35.0").await;
    let three = world.wait_until_settled("c", 3, "v1.35.0").await;
    running.controllers.stop().await;

    let upstream = KubeadmControlPlanes::start(&world.plane).await.unwrap();
    world.edit("c", &json!({"spec": {"replicas": 5}})).await;
    let five = world.wait_until_settled("c", 5, "v1.35.0").await;
    assert!(
        three.iter().all(|name| five.contains(name)),
        "{three:?} became {five:?}"
    );
    same_objects(&world, &three, &five).await;
    drop(upstream);

    // Capstan records on each machine of Cluster API what it got, and replaces none.
    let (created, writes) = (world.created().len(), world.writes().len());
    let running = world.start("two").await;
    let taken_over = wait_until("the records on all machines", SOON, async || {
        let machines = world.objects("machines.cluster.x-k8s.io").await?;
        let records = machines
            .iter()
            .filter(|one| one["metadata"]["annotations"].get("capstan.dev/propagated").is_some());
        ensure!(records.count() == 5, "{:#?}", world.writes().split_off(writes));
        Ok(Some(()))
    });
    taken_over.await.unwrap();
    let still = world.wait_until_settled("c", 5, "v1.35.0").await;
    assert_eq!(still, five);
    world.edit("c", &json!({"spec": {"replicas": 3}})).await;
    let left = world.wait_until_settled("c", 3, "v1.35.0").await;
    assert!(left.iter().all(|name| five.contains(name)), "{left:?}");
    assert_eq!(world.created().len(), created, "{:#?}", world.writes());
    labels_follow(&world).await;

    world.edit("c", &json!({"spec": {"version": "v1.36.0"}})).await;
    world.wait_until_settled("c", 3, "v1.36.0").await;
    delete(&world).await;
    running.controllers.stop().await;
    if std::env::var("CAPSTAN_KUBEADM_COMPARISON").as_deref() == Ok("full") {
        compare(&world).await;
    }
}

/// A label and a timeout of the control plane reach all objects of the machines, and leave them
/// again.
async fn labels_follow(world: &World) {
    let template = |metadata: Value, deletion: Value| json!({"spec": {"machineTemplate": {"metadata": metadata, "spec": {"deletion": deletion}}}});
    let (metadata, deletion) = (json!({"labels": {"team": "a"}}), json!({"nodeDrainTimeoutSeconds": 30}));
    world.edit("c", &template(metadata, deletion)).await;
    let kinds = ["machines.cluster.x-k8s.io", "kubeadmconfigs", "devmachines"];
    let reached = |wanted: Option<&'static str>| {
        wait_until("the label on all objects", SOON, async move || {
            for kind in kinds {
                for object in world.objects(kind).await? {
                    let label = object["metadata"]["labels"].get("team").and_then(Value::as_str);
                    ensure!(label == wanted, "{kind} {}: {label:?}", object["metadata"]["name"]);
                }
            }
            for machine in world.objects(kinds[0]).await? {
                let timeout = machine["spec"]["deletion"].get("nodeDrainTimeoutSeconds");
                ensure!(timeout.is_some() == wanted.is_some(), "{timeout:?}");
            }
            Ok(Some(()))
        })
    };
    reached(Some("a")).await.unwrap();
    world.edit("c", &template(Value::Null, Value::Null)).await;
    reached(None).await.unwrap();
}

/// The objects of a machine of Capstan and of a machine of Cluster API, which both joined, have the
/// same fields.
async fn same_objects(world: &World, ours: &[String], all: &[String]) {
    for kind in ["machines.cluster.x-k8s.io", "kubeadmconfigs", "devmachines"] {
        let objects = world.objects(kind).await.unwrap();
        let named = |name: &String| {
            objects
                .iter()
                .find(|object| object["metadata"]["name"] == name.as_str())
                .unwrap()
        };
        let joined =
            |name: &&String| kind != "kubeadmconfigs" || named(name)["spec"].get("joinConfiguration").is_some();
        let own = ours.iter().rfind(joined).unwrap();
        let their = all.iter().find(|name| !ours.contains(name)).unwrap();
        assert_eq!(shape(named(own), own), shape(named(their), their), "{kind}");
    }
}

/// What must agree of an object: its labels, its annotations except those of Capstan, its owners,
/// and its spec. The name is masked.
fn shape(object: &Value, name: &str) -> Value {
    let metadata = &object["metadata"];
    let owners = metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
    let owners = owners.iter().map(|owner| json!([owner["kind"], owner["controller"]]));
    let annotations = metadata["annotations"].as_object().cloned().unwrap_or_default();
    let annotations: BTreeMap<String, Value> = annotations
        .into_iter()
        .filter(|(name, _)| !name.starts_with("capstan.dev/"))
        .collect();
    let mut spec = object["spec"].clone();
    // The tokens of a join and the state of a fake instance differ.
    for path in ["/joinConfiguration", "/backend"] {
        if let Some(fields) = spec.pointer_mut(path).and_then(Value::as_object_mut) {
            fields.remove("discovery");
        }
    }
    let whole = json!({
        "labels": metadata["labels"], "annotations": annotations, "owners": owners.collect::<Vec<Value>>(),
        "spec": spec,
    });
    serde_json::from_str(&whole.to_string().replace(name, "NAME")).unwrap()
}

async fn delete(world: &World) {
    let delete = [
        "delete",
        "clusters.cluster.x-k8s.io",
        "--all",
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
}

/// Runs the list with each controller, and prints the time and the writes of each change.
async fn compare(world: &World) {
    let running = world.start("three").await;
    let ours = list(world, "ours", || world.writes().len()).await;
    running.controllers.stop().await;
    let upstream = KubeadmControlPlanes::start(&world.plane).await.unwrap();
    let theirs = list(world, "theirs", || world.writes_of_cluster_api().len()).await;
    drop(upstream);
    for ((change, seconds, writes), (_, of_their, their_writes)) in ours.iter().zip(&theirs) {
        eprintln!(
            "{change}: {seconds:.0} s and {writes} writes; Cluster API {of_their:.0} s and {their_writes} writes"
        );
    }
}

async fn list(world: &World, name: &str, writes: impl Fn() -> usize) -> Vec<(&'static str, f64, usize)> {
    let scale = |replicas: usize| json!({"spec": {"replicas": replicas}});
    let rolling = |surge: u8| json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}}});
    let changes: [(&'static str, Value, usize, &str); 5] = [
        ("1 to 3 machines", scale(3), 3, "v1.34.0"),
        ("3 to 5 machines", scale(5), 5, "v1.34.0"),
        ("5 to 3 machines", scale(3), 3, "v1.34.0"),
        ("upgrade", json!({"spec": {"version": "v1.35.0"}}), 3, "v1.35.0"),
        (
            "upgrade with maxSurge 0",
            json!({"spec": {"version": "v1.36.0", "rollout": rolling(0)}}),
            3,
            "v1.36.0",
        ),
    ];
    let mut figures = Vec::new();
    let mut last = (Instant::now(), writes());
    let mut figure = |change: &'static str| {
        let now = (Instant::now(), writes());
        figures.push((change, (now.0 - last.0).as_secs_f64(), now.1 - last.1));
        last = now;
    };
    world.create(name, 1, "v1.34.0").await;
    world.wait_until_settled(name, 1, "v1.34.0").await;
    figure("0 to 1 machine");
    for (change, patch, replicas, version) in changes {
        world.edit(name, &patch).await;
        world.wait_until_settled(name, replicas, version).await;
        figure(change);
    }
    delete(world).await;
    figure("deletion");
    figures
}
