//! Reports to users: by kubectl, by conditions, and when the controller itself fails.

use std::process::Stdio;
use std::time::Duration;

use capstan_core::api::config_openshift_io::cluster_operator::ClusterOperatorCondition;
use capstan_sandbox::control_plane::wait_until;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::world::{NAMESPACE, World};

async fn kubectl(world: &World, arguments: &[&str]) -> String {
    let arguments = [&["-n", NAMESPACE], arguments].concat();
    let output = world.plane.kubectl().args(arguments).run().await.unwrap();
    output.checked().unwrap().stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_explains_watches_and_waits_for_a_rollout() {
    let (world, running) = World::settled().await.unwrap();
    for (field, text) in [
        ("cpms.spec.strategy", "RollingUpdate"),
        ("cpms.status.conditions", "Progressing"),
        (
            "cpms.status.updatedReplicas",
            "The number of machines of the set that are ready, match the template",
        ),
    ] {
        let explained = kubectl(&world, &["explain", field]).await;
        assert!(
            explained
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .contains(text),
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

    world.set_instance_type("m6i.2xlarge").await.unwrap();
    kubectl(
        &world,
        &["wait", "cpms/cluster", "--for=condition=Progressing", "--timeout=300s"],
    )
    .await;
    kubectl(
        &world,
        &[
            "wait",
            "cpms/cluster",
            "--for=jsonpath={.status.updatedReplicas}=3",
            "--timeout=300s",
        ],
    )
    .await;
    let stable = [
        "wait",
        "cpms/cluster",
        "--for=condition=Progressing=False",
        "--timeout=300s",
    ];
    kubectl(&world, &stable).await;
    for condition in ["Available=True", "Degraded=False", "Error=False"] {
        let wait = format!("--for=condition={condition}");
        kubectl(&world, &["wait", "cpms/cluster", &wait, "--timeout=300s"]).await;
    }
    // The watch shows the number of updated machines growing from none to all.
    let mut updated = Vec::new();
    let deadline = tokio::time::timeout(Duration::from_secs(240), async {
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
        // Before the controller has seen the edit, all three machines are up to date.
        let mut begun = false;
        move |count| {
            begun |= *count == 0;
            begun
        }
    });
    assert_eq!(updated, [0, 1, 2, 3]);
    running.controllers.stop().await;
    world.check_invariants().unwrap();
}

/// B21: the upstream operator counts consecutive errors of the same text. Here a real API server
/// refuses the creations, in real time.
#[tokio::test(flavor = "multi_thread")]
async fn b21_continuous_errors_are_reported_until_they_end() {
    let (world, running) = World::settled().await.unwrap();
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
    world.set_instance_type("m6i.2xlarge").await.unwrap();
    let wait_for_condition = async |expected: &str| {
        wait_until(
            &format!("the condition {expected}"),
            Duration::from_secs(240),
            async || {
                let conditions = world.conditions().await?;
                Ok(conditions.iter().any(|condition| condition == expected).then_some(()))
            },
        )
        .await
        .unwrap();
    };
    wait_for_condition("Error=True/ContinuousErrors").await;
    let status = world.set().await.unwrap().status.unwrap();
    let error = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Error")
        .unwrap();
    assert!(
        error.message.contains("creating Machine prod-x7k2p-master-"),
        "{}",
        error.message
    );
    assert!(
        error.message.contains("manifests/components/controllers/rbac.yaml"),
        "the message must name what to do: {}",
        error.message
    );
    world
        .wait_for("the ClusterOperator to block upgrades", async |world| {
            let operator = world.operator().await?;
            let upgradeable = operator.condition("Upgradeable").cloned();
            let blocks = |condition: &ClusterOperatorCondition| {
                condition.reason.as_deref() == Some("ContinuousErrors") && condition.status == "False"
            };
            Ok(upgradeable.filter(blocks))
        })
        .await
        .unwrap();
    assert_eq!(world.machines().await.unwrap().len(), 3);
    kubectl(
        &world,
        &["patch", "role", "capstan-controllers", "--type=merge", "-p", &allowed],
    )
    .await;
    wait_for_condition("Error=False/AsExpected").await;
    world.wait_for_rollout("m6i.2xlarge").await.unwrap();
    running.controllers.stop().await;
    world.check_invariants().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unparsable_set_is_degraded_and_its_deletion_keeps_all_machines() {
    let (world, running) = World::settled().await.unwrap();
    // The CRD of another operator can accept sets that Capstan cannot parse.
    world
        .redefine(|schema| {
            let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            *schema.pointer_mut("/properties/spec").unwrap() = spec;
        })
        .await
        .unwrap();
    let counts = world.set().await.unwrap().status.unwrap();
    world
        .wait_for("the loose CRD", async |world| {
            Ok(world.edit(&json!({"spec": {"strategy": "fast"}})).await.ok())
        })
        .await
        .unwrap();
    let status_with = async |expected: &str| {
        world
            .wait_for(expected, async |world| {
                let set = world.api("controlplanemachinesets").get("cluster").await?;
                let conditions = set.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let found = conditions.iter().any(|one| {
                    format!("{}={}/{}", one["type"], one["status"], one["reason"]).replace('"', "") == expected
                });
                Ok(found.then_some(set.data["status"].clone()))
            })
            .await
            .unwrap()
    };
    let status = status_with("Degraded=True/UnparsableObjects").await;
    assert_eq!(
        status["replicas"],
        json!(counts.replicas),
        "only the conditions may be written"
    );
    assert!(status["conditions"].to_string().contains("fast"), "{status}");
    world
        .wait_for("the ClusterOperator to be degraded", async |world| {
            let operator = world.operator().await?;
            let degraded = operator.condition("Degraded").cloned();
            Ok(degraded.filter(|condition| condition.status == "True"))
        })
        .await
        .unwrap();
    world
        .wait_for("an event", async |world| {
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
        .wait_for("the set to be deleted", async |world| {
            let current = world.api("controlplanemachinesets").get_opt("cluster").await?;
            Ok(current.is_none_or(|set| set.metadata.uid != uid).then_some(()))
        })
        .await
        .unwrap();
    world
        .wait_for_garbage_collector(uid.as_deref().unwrap_or_default())
        .await
        .unwrap();
    let machines = world.machines().await.unwrap();
    assert!(machines.len() == 3 && machines.iter().all(|machine| !machine.metadata.is_deleting()));
    running.controllers.stop().await;
    world.check_invariants().unwrap();
}
