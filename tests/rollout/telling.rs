//! What people are told: by kubectl, by conditions, and when the controller itself cannot work.

use std::process::Stdio;
use std::time::Duration;

use capstan_sandbox::control_plane::wait_until;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::world::{NAMESPACE, Setup, World};

async fn kubectl(world: &World, arguments: &[&str]) -> String {
    let arguments = [&["-n", NAMESPACE], arguments].concat();
    let output = world.plane.kubectl().args(arguments).run().await.unwrap();
    output.checked().unwrap().stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_explains_watches_and_waits_for_a_rollout() {
    let world = World::new(Setup::default()).await.unwrap();
    let running = world.control("one").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    for (field, words) in [
        ("cpms.spec.strategy", "RollingUpdate"),
        ("cpms.status.conditions", "Progressing"),
        (
            "cpms.status.updatedReplicas",
            "How many machines of the set are ready, have the provider spec",
        ),
    ] {
        let explained = kubectl(&world, &["explain", field]).await;
        assert!(
            explained
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .contains(words),
            "{explained}"
        );
    }
    let mut watch = tokio::process::Command::new(world.plane.binaries().folder().join("kubectl"))
        .arg("--kubeconfig")
        .arg(world.plane.kubeconfig().unwrap())
        .args(["-n", NAMESPACE, "get", "cpms", "cluster", "--watch"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let head = lines.next_line().await.unwrap().unwrap();
    let names: Vec<&str> = head.split_whitespace().collect();
    assert_eq!(
        names[..6],
        ["NAME", "DESIRED", "CURRENT", "READY", "UPDATED", "UNAVAILABLE"]
    );
    let columns = |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
    let first = lines.next_line().await.unwrap().unwrap();
    assert_eq!(columns(&first)[..6], ["cluster", "3", "3", "3", "3", "0"]);

    world.ask_for("m6i.2xlarge").await.unwrap();
    kubectl(
        &world,
        &["wait", "cpms/cluster", "--for=condition=Progressing", "--timeout=60s"],
    )
    .await;
    kubectl(
        &world,
        &[
            "wait",
            "cpms/cluster",
            "--for=jsonpath={.status.updatedReplicas}=3",
            "--timeout=90s",
        ],
    )
    .await;
    let stable = [
        "wait",
        "cpms/cluster",
        "--for=condition=Progressing=False",
        "--timeout=90s",
    ];
    kubectl(&world, &stable).await;
    for condition in ["Available=True", "Degraded=False", "Error=False"] {
        let wait = format!("--for=condition={condition}");
        kubectl(&world, &["wait", "cpms/cluster", &wait, "--timeout=60s"]).await;
    }
    // What the watch printed goes from none to all, and never back.
    let mut updated = Vec::new();
    let deadline = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            let row = columns(&lines.next_line().await.unwrap().unwrap());
            let count: u32 = row[4].parse().unwrap();
            if updated.last() != Some(&count) {
                updated.push(count);
            }
            if row[2..6] == ["3", "3", "3", "0"] && updated.contains(&0) {
                return;
            }
        }
    });
    deadline.await.unwrap();
    updated.retain({
        // Before the edit was seen all three were up to date.
        let mut begun = false;
        move |count| {
            begun |= *count == 0;
            begun
        }
    });
    assert_eq!(updated, [0, 1, 2, 3]);
    running.controllers.stop().await;
    world.judge().unwrap();
}

/// B21: today's operator counts errors in a row of the same text. What is said here is said by a real API server, which
/// refuses the creation, and the time that it takes is the real one.
#[tokio::test(flavor = "multi_thread")]
async fn b21_a_controller_that_cannot_work_says_so_after_a_while_and_no_longer_than_it_lasts() {
    let world = World::new(Setup::default()).await.unwrap();
    let running = world.control("one").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    let role: Value =
        serde_json::from_str(&kubectl(&world, &["get", "role", "capstan-controllers", "-o", "json"]).await).unwrap();
    let rules = |may_create: bool| {
        let mut rules = role["rules"].clone();
        for rule in rules.as_array_mut().unwrap() {
            if rule["resources"] == json!(["machines"]) && !may_create {
                rule["verbs"].as_array_mut().unwrap().retain(|verb| verb != "create");
            }
        }
        json!({ "rules": rules }).to_string()
    };
    let (forbidden, allowed) = (rules(false), rules(true));
    assert_ne!(forbidden, allowed);
    kubectl(
        &world,
        &["patch", "role", "capstan-controllers", "--type=merge", "-p", &forbidden],
    )
    .await;
    world.ask_for("m6i.2xlarge").await.unwrap();
    let says = async |expected: &str| {
        wait_until(
            &format!("the set to say {expected}"),
            Duration::from_secs(240),
            async || {
                let said = world.conditions().await?;
                Ok(said.iter().any(|said| said == expected).then_some(()))
            },
        )
        .await
        .unwrap();
    };
    says("Error=True/ContinuousErrors").await;
    let status = world.set().await.unwrap().status.unwrap();
    let error = status.conditions.iter().find(|there| there.type_ == "Error").unwrap();
    assert!(
        error.message.contains("creating Machine prod-x7k2p-master-"),
        "{}",
        error.message
    );
    assert!(
        error.message.contains("manifests/controllers-rbac.yaml"),
        "what to do: {}",
        error.message
    );
    world
        .until("the ClusterOperator to block upgrades", async |world| {
            let operator = world.operator().await?;
            let said = operator.condition("Upgradeable").cloned();
            Ok(said.filter(|said| said.reason.as_deref() == Some("ContinuousErrors") && said.status == "False"))
        })
        .await
        .unwrap();
    assert_eq!(world.machines().await.unwrap().len(), 3);
    kubectl(
        &world,
        &["patch", "role", "capstan-controllers", "--type=merge", "-p", &allowed],
    )
    .await;
    says("Error=False/AsExpected").await;
    world.rolled_out("m6i.2xlarge").await.unwrap();
    running.controllers.stop().await;
    world.judge().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_cannot_be_read_is_degraded_and_its_deletion_leaves_all_machines() {
    let world = World::new(Setup::default()).await.unwrap();
    let running = world.control("one").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    // A definition that is looser than Capstan can read, as somebody else's may be.
    world
        .redefine(|schema| {
            let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            *schema.pointer_mut("/properties/spec").unwrap() = spec;
        })
        .await
        .unwrap();
    let counts = world.set().await.unwrap().status.unwrap();
    world
        .until("the loose definition", async |world| {
            Ok(world.edit(&json!({"spec": {"strategy": "fast"}})).await.ok())
        })
        .await
        .unwrap();
    let said = async |expected: &str| {
        world
            .until(expected, async |world| {
                let set = world.api("controlplanemachinesets").get("cluster").await?;
                let conditions = set.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let found = conditions.iter().any(|there| {
                    format!("{}={}/{}", there["type"], there["status"], there["reason"]).replace('"', "") == expected
                });
                Ok(found.then_some(set.data["status"].clone()))
            })
            .await
            .unwrap()
    };
    let status = said("Degraded=True/UnparsableObjects").await;
    assert_eq!(
        status["replicas"],
        json!(counts.replicas),
        "nothing but the conditions is written"
    );
    assert!(status["conditions"].to_string().contains("fast"), "{status}");
    world
        .until("the ClusterOperator to say so", async |world| {
            let operator = world.operator().await?;
            let said = operator.condition("Degraded").cloned();
            Ok(said.filter(|said| said.status == "True"))
        })
        .await
        .unwrap();
    world
        .until("an event", async |world| {
            let events: Vec<Value> = world.list("events").await?;
            Ok(events
                .iter()
                .any(|event| event["reason"] == "UnparsableObjects")
                .then_some(()))
        })
        .await
        .unwrap();
    let uid = world
        .api("controlplanemachinesets")
        .get("cluster")
        .await
        .unwrap()
        .metadata
        .uid;
    let params = DeleteParams::default();
    world
        .api("controlplanemachinesets")
        .delete("cluster", &params)
        .await
        .unwrap();
    world
        .until("the set to be gone", async |world| {
            let there = world.api("controlplanemachinesets").get_opt("cluster").await?;
            Ok(there.is_none_or(|there| there.metadata.uid != uid).then_some(()))
        })
        .await
        .unwrap();
    world
        .garbage_is_collected(uid.as_deref().unwrap_or_default())
        .await
        .unwrap();
    let machines = world.machines().await.unwrap();
    assert!(machines.len() == 3 && machines.iter().all(|machine| !machine.metadata.is_deleting()));
    running.controllers.stop().await;
    world.judge().unwrap();
}
