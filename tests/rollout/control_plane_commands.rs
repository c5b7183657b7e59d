//! The command line about a ControlPlane of a cluster, and the change from a set to a ControlPlane
//! and back, which replaces no machine.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use capstan_core::api::machine_openshift_io::machine::Machine;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::control_plane::{Plane, shape};
use crate::world::World;

/// The exit code and the output of a command.
async fn capstan(world: &World, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command
        .args(arguments)
        .arg("--kubeconfig")
        .arg(world.plane.kubeconfig().unwrap());
    let output = command.kill_on_drop(true).output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap_or(-1),
        text(output.stdout),
        text(output.stderr),
    )
}

pub(crate) async fn read(world: &World, command: &str) -> Value {
    let (_, output, errors) = capstan(world, &[command, "-o", "json"]).await;
    serde_json::from_str(&output).unwrap_or_else(|_| panic!("{errors}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_status_and_wait_follow_the_control_plane_of_a_cluster() {
    let plane = Plane::new(3).await;
    let world = &plane.world;
    let running = plane.start("one").await;
    plane.wait_until_settled(3, "m6i.xlarge").await;
    let status = read(world, "status").await;
    assert_eq!(
        (&status["kind"], &status["progress"]),
        (&json!("ControlPlane"), &json!({"updated": 3, "total": 3}))
    );
    let (_, text, _) = capstan(world, &["status"]).await;
    assert!(
        text.contains("3 of 3 up to date") && text.contains("us-east-1a"),
        "{text}"
    );
    assert_eq!(
        capstan(world, &["wait", "--for", "stable", "--timeout", "5m"]).await.0,
        0
    );
    running.stop().await;

    plane.edit(&shape("m6i.2xlarge")).await;
    let plan = read(world, "plan").await;
    assert_eq!(plan["kind"], "ControlPlane");
    let planned: Vec<&str> = plan["rollout"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["action"].as_str().unwrap())
        .collect();
    let count = |action: &str| planned.iter().filter(|one| **one == action).count();
    assert_eq!((count("create"), count("delete")), (3, 3), "{planned:?}");
    let (code, _, errors) = capstan(world, &["wait", "--timeout", "1s"]).await;
    assert_eq!(code, 3, "{errors}");
    let running = plane.start("two").await;
    let (code, _, errors) = capstan(world, &["wait", "--for", "rollout", "--timeout", "3m"]).await;
    assert_eq!(code, 0, "{errors}");
    plane.wait_until_settled(3, "m6i.2xlarge").await;
    running.stop().await;
}

fn names(machines: &[Machine]) -> BTreeSet<String> {
    machines
        .iter()
        .map(|machine| machine.metadata.name().to_owned())
        .collect()
}

/// Waits until these machines, and no others, belong to an object of a kind.
async fn owned(world: &World, kind: &str, expected: &BTreeSet<String>) {
    let what = format!("the machines to belong to a {kind}");
    let wait = world.wait_for(&what, async |world| {
        let machines: Vec<Machine> = world.machines().await?;
        ensure!(names(&machines) == *expected, "the machines are {:?}", names(&machines));
        let is_owned = |machine: &Machine| machine.metadata.controller().is_some_and(|owner| owner.kind == kind);
        ensure!(machines.iter().all(is_owned), "a machine has another owner");
        Ok(Some(()))
    });
    wait.await.unwrap();
}

async fn set_state(world: &World) -> Result<Option<String>> {
    let set = world.api("controlplanemachinesets").get_opt("cluster").await?;
    Ok(set.and_then(|set| set.data["spec"]["state"].as_str().map(str::to_owned)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_becomes_a_control_plane_and_the_reverse_without_a_replacement() {
    let plane = Plane::of_set(3).await;
    let world = &plane.world;
    let sets = world.start_controllers("sets").await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    let machines = names(&world.machines().await.unwrap());
    owned(world, "ControlPlaneMachineSet", &machines).await;

    let (code, yaml, errors) = capstan(world, &["generate", "--kind", "ControlPlane"]).await;
    assert_eq!(code, 0, "{errors}");
    let object: DynamicObject = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(object.data["spec"]["replicas"], 3);
    let api = world.api("controlplanemachinesets");
    api.delete("cluster", &DeleteParams::default()).await.unwrap();
    world
        .wait_for("the set to be deleted or Inactive", async |world| {
            let state = set_state(world).await?;
            Ok((state.as_deref() != Some("Active")).then_some(()))
        })
        .await
        .unwrap();
    plane.api.create(&PostParams::default(), &object).await.unwrap();
    let running = plane.start("one").await;
    plane.wait_until_settled(3, "m6i.xlarge").await;
    owned(world, "ControlPlane", &machines).await;

    plane.api.delete("cluster", &DeleteParams::default()).await.unwrap();
    world
        .wait_for(
            "the ControlPlane to be deleted and a set to be generated",
            async |world| {
                let gone = plane.api.get_opt("cluster").await?.is_none();
                Ok((gone && set_state(world).await?.is_some()).then_some(()))
            },
        )
        .await
        .unwrap();
    running.stop().await;
    let active = Patch::Merge(json!({"spec": {"state": "Active"}}));
    api.patch("cluster", &PatchParams::default(), &active).await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    owned(world, "ControlPlaneMachineSet", &machines).await;
    sets.controllers.stop().await;
}
