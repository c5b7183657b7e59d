//! A control plane with an unhealthy machine, a rollout without additional machines, and a deletion
//! that waits for the workers.

use std::time::Duration;

use anyhow::ensure;
use capstan_sandbox::control_plane::wait_until;
use serde_json::json;

use crate::world::{World, list};

const SOON: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn an_unhealthy_machine_is_replaced_and_the_deletion_waits_for_the_workers() {
    let world = World::new().await;
    let running = world.start("one").await;
    world.create("c", 3, "v1.35.0").await;
    let three = world.wait_until_settled("c", 3, "v1.35.0").await;

    let check = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
        "metadata": {"name": "c", "namespace": "clusters"},
        "spec": {
            "clusterName": "c", "selector": {"matchLabels": {"cluster.x-k8s.io/control-plane": ""}},
            "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}]},
        },
    });
    world.plane.apply_yaml(&check.to_string()).await.unwrap();
    let unhealthy = three[1].as_str();
    let annotation = "cluster.x-k8s.io/remediate-machine=";
    let annotate = [
        "annotate",
        "machines.cluster.x-k8s.io",
        unhealthy,
        "-n",
        "clusters",
        annotation,
    ];
    world.kubectl(&annotate).await;
    let replaced = wait_until("a replacement", SOON, async || {
        let names = world.created();
        ensure!(names.len() == 4, "{names:?}");
        Ok(Some(()))
    });
    replaced.await.unwrap();
    let healed = world.wait_until_settled("c", 3, "v1.35.0").await;
    assert!(!healed.iter().any(|name| name == unhealthy), "{healed:?}");
    let own = world.objects("kubeadmcontrolplanes").await.unwrap();
    assert_eq!(own[0]["status"]["lastRemediation"]["machine"], unhealthy);

    // With maxSurge 0, a machine is deleted before its replacement is created.
    let before = world.writes().len();
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}});
    let patch = json!({"spec": {"version": "v1.36.0", "rollout": {"strategy": strategy}}});
    world.edit("c", &patch).await;
    world.wait_until_settled("c", 3, "v1.36.0").await;
    let writes = world.writes().split_off(before);
    let steps = writes.iter().filter_map(|write| {
        let (verb, rest) = write.split_once(' ')?;
        (rest.starts_with("machines/ ") && verb != "patch").then_some(verb)
    });
    let steps: Vec<&str> = steps.collect();
    assert_eq!(steps, ["delete", "create"].repeat(3), "{writes:#?}");

    create_worker(&world).await;
    let delete = ["delete", "kubeadmcontrolplanes", "c", "-n", "clusters", "--wait=false"];
    world.kubectl(&delete).await;
    let waits = wait_until("the wait for the workers", SOON, async || {
        let own = world.objects("kubeadmcontrolplanes").await?;
        let text = own[0]["status"]["conditions"].to_string();
        ensure!(text.contains("WaitingForWorkersDeletion"), "{text}");
        Ok(Some(()))
    });
    waits.await.unwrap();
    let worker = [
        "delete",
        "machinedeployments.cluster.x-k8s.io",
        "w",
        "-n",
        "clusters",
        "--wait=false",
    ];
    world.kubectl(&worker).await;
    world.wait_until_gone("kubeadmcontrolplanes").await;
    world.wait_until_gone("machines.cluster.x-k8s.io").await;
    running.controllers.stop().await;
}

/// Creates a worker machine, and waits until its Machine exists.
async fn create_worker(world: &World) {
    let metadata = json!({"name": "w", "namespace": "clusters"});
    let reference = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": "w"});
    let infrastructure = "infrastructure.cluster.x-k8s.io";
    let objects = [
        json!({
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfigTemplate", "metadata": metadata,
            "spec": {"template": {"spec": {"joinConfiguration": {"nodeRegistration": {"name": "worker"}}}}},
        }),
        json!({
            "apiVersion": format!("{infrastructure}/v1beta2"), "kind": "DevMachineTemplate", "metadata": metadata,
            "spec": {"template": {"spec": {"backend": {"inMemory": {}}}}},
        }),
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": metadata,
            "spec": {
                "clusterName": "c", "replicas": 1, "selector": {"matchLabels": {"worker": "w"}},
                "template": {
                    "metadata": {"labels": {"worker": "w"}},
                    "spec": {
                        "clusterName": "c", "version": "v1.36.0",
                        "bootstrap": {"configRef": reference("bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate")},
                        "infrastructureRef": reference(infrastructure, "DevMachineTemplate"),
                    },
                },
            },
        }),
    ];
    world.plane.apply_yaml(&list(&objects)).await.unwrap();
    let exists = wait_until("the Machine of the worker", SOON, async || {
        let machines = world.objects("machines.cluster.x-k8s.io").await?;
        ensure!(machines.len() == 4, "{} machines", machines.len());
        Ok(Some(()))
    });
    exists.await.unwrap();
}
