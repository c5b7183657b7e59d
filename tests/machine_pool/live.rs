//! `capstan plan` and `capstan status` of a pool in a management cluster.

use std::process::Command;

use anyhow::ensure;
use capstan_core::pool::Mode;
use serde_json::{Value, json};

use crate::world::{NAMESPACE, World, name, rolling};

const KIND: &str = "machines.cluster.x-k8s.io";

/// The output of a subcommand about the pool `p`. It must succeed.
fn capstan(world: &World, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_capstan"))
        .args(arguments)
        .args(["--machine-pool", "pools/p", "--kubeconfig"])
        .arg(world.plane.kubeconfig().unwrap())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn plan(world: &World) -> Value {
    serde_json::from_str(&capstan(world, &["plan", "-o", "json"])).unwrap()
}

/// The steps of a plan as `patch MachinePool/p`.
fn steps(plan: &Value) -> Vec<String> {
    let steps = plan["next"].as_array().unwrap().iter();
    let shown = steps.map(|step| {
        format!(
            "{} {}",
            step["action"].as_str().unwrap(),
            step["object"].as_str().unwrap()
        )
    });
    shown.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plan_and_the_state_of_a_live_pool_say_what_the_controller_does() {
    let world = World::new(true).await;
    world.create_pool("p", 2, &rolling(1), &json!({})).await;
    let machines = world
        .wait_for("the Machines of the core manager", async || {
            let machines = world.objects(KIND).await?;
            let has_node = |one: &Value| one["status"]["nodeInfo"]["kubeletVersion"] == "v1.35.0";
            ensure!(machines.len() == 2 && machines.iter().all(has_node), "{machines:#?}");
            Ok(Some(machines))
        })
        .await;
    // Before the controller runs: what the core manager leaves out.
    let mut expected = vec![String::from("patch MachinePool/p")];
    expected.extend(machines.iter().map(|one| format!("patch Machine/{}", name(one))));
    assert_eq!(steps(&plan(&world)), expected);
    assert!(world.writes().is_empty());

    let controller = world.start(Mode::Extend).await;
    world.wait_until_settled("p", 2, "v1.35.0").await;
    let rest = plan(&world);
    assert_eq!((steps(&rest), &rest["waits"]), (Vec::new(), &json!([])));
    controller.running.stop().await;

    // An edit while the controller is stopped: the plan has what it then does.
    world
        .edit("p", &json!({"spec": {"template": {"spec": {"version": "v1.36.0"}}}}))
        .await;
    let oldest = name(machines.iter().min_by_key(|one| age(one)).unwrap());
    let shown = plan(&world);
    assert_eq!(steps(&shown), ["patch MachinePool/p"], "{shown:#}");
    assert_eq!(shown["rollout"].as_array().unwrap().len(), 2);
    let state = capstan(&world, &["status"]);
    for line in [
        "0 of 2 up to date and available",
        &format!("{oldest}  v1.35.0  available, outdated, Node {oldest}"),
        "Next: patch MachinePool/p: the rollout of the template begins",
    ] {
        assert!(state.contains(line), "{line}\n{state}");
    }
    let before = world.writes().len();
    let controller = world.start(Mode::Extend).await;
    let deletions = world
        .wait_for("the first deletion", async || {
            let writes = world.writes();
            let deletions = writes[before..]
                .iter()
                .filter(|line| line.starts_with("delete machines/ "));
            let deletions: Vec<String> = deletions.cloned().collect();
            ensure!(!deletions.is_empty(), "{writes:?}");
            Ok(Some(deletions))
        })
        .await;
    assert_eq!(deletions[0], format!("delete machines/ {oldest}"));
    world.wait_until_settled("p", 2, "v1.36.0").await;
    let state: Value = serde_json::from_str(&capstan(&world, &["status", "-o", "json"])).unwrap();
    assert_eq!(state["progress"], json!({"updated": 2, "total": 2}));
    controller.running.stop().await;
    what_holds_the_pool_is_reported(&world);
    let _deleted = world
        .kubectl(&["delete", "machinepool", "p", "-n", NAMESPACE, "--wait=false"])
        .await;
}

/// `capstan uninstall` says that no controller removes the finalizer of the pool.
fn what_holds_the_pool_is_reported(world: &World) {
    let output = Command::new(env!("CARGO_BIN_EXE_capstan"))
        .args(["uninstall", "--dry-run", "--kubeconfig"])
        .arg(world.plane.kubeconfig().unwrap())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    for part in ["MachinePool pools/p", "it has the finalizer capstan.dev/machine-pool"] {
        assert!(text.contains(part), "{output:?}");
    }
}

/// The order of equal moments is that of the names.
fn age(machine: &Value) -> (String, String) {
    let created = machine["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
    (created, name(machine))
}
