//! The output of the command line about a rollout, compared with the rollout itself.

use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::World;

struct Output {
    code: i32,
    stdout: String,
    stderr: String,
}

async fn capstan(world: &World, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command
        .args(arguments)
        .arg("--min-ready=0s")
        .arg("--kubeconfig")
        .arg(world.plane.kubeconfig().unwrap());
    let output = command.kill_on_drop(true).output().await.unwrap();
    Output {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_steps_of_capstan_plan_are_the_steps_of_the_rollout() {
    let (world, running) = World::settled().await.unwrap();
    running.controllers.stop().await;
    let unchanged = capstan(&world, &["plan", "-o", "json"]).await;
    let unchanged: Value = serde_json::from_str(&unchanged.stdout).unwrap();
    assert_eq!((&unchanged["next"], &unchanged["rollout"]), (&json!([]), &json!([])));
    assert_eq!(
        capstan(&world, &["wait", "--for", "stable", "--timeout", "2m"])
            .await
            .code,
        0
    );

    assert_eq!(capstan(&world, &["status", "--exit-code"]).await.code, 0);

    let before = world.writes().unwrap().len();
    world.set_instance_type("m6i.2xlarge").await.unwrap();
    assert_eq!(capstan(&world, &["status", "--exit-code"]).await.code, 3);
    assert_user_must_continue(&world).await;
    let plan = capstan(&world, &["plan", "-o", "json"]).await;
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap_or_else(|_| panic!("{}", plan.stderr));
    assert_eq!(
        plan["changes"],
        json!([{"field": "instanceType", "old": "m6i.xlarge", "new": "m6i.2xlarge"}])
    );
    let planned: Vec<String> = plan["rollout"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| {
            format!(
                "{} machines {}",
                step["action"].as_str().unwrap(),
                step["machine"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(planned.len(), 6);
    let waiting = capstan(&world, &["wait", "--for", "rollout", "--timeout", "10s"]).await;
    assert_eq!(waiting.code, 3, "{}", waiting.stderr);
    assert!(waiting.stderr.contains("0 of 3 up to date"), "{}", waiting.stderr);

    let running = world.start_controllers("one").await.unwrap();
    let done = capstan(&world, &["wait", "--for", "rollout", "--timeout", "5m"]).await;
    assert_eq!(done.code, 0, "{}", done.stderr);
    world.wait_for_rollout("m6i.2xlarge").await.unwrap();
    running.controllers.stop().await;
    let performed: Vec<String> = world
        .writes()
        .unwrap()
        .split_off(before)
        .into_iter()
        .filter(|write| write.contains(" machines "))
        .collect();
    assert_eq!(performed, planned);
    world.check_invariants().unwrap();
}

/// A paused rollout, a limit that is reached, and a machine that a user must delete.
async fn assert_user_must_continue(world: &World) {
    let annotated = |key: &str, value: Value| json!({"metadata": {"annotations": {(key): value}}});
    let holds = [
        (
            annotated("capstan.dev/paused-rollout", json!("true")),
            annotated("capstan.dev/paused-rollout", Value::Null),
        ),
        (
            annotated("capstan.dev/rollout-limit", json!("0")),
            annotated("capstan.dev/rollout-limit", Value::Null),
        ),
        (
            json!({"spec": {"strategy": {"type": "OnDelete"}}}),
            json!({"spec": {"strategy": {"type": "RollingUpdate"}}}),
        ),
    ];
    for (hold, release) in holds {
        world.edit(&hold).await.unwrap();
        let shown = capstan(world, &["status", "--exit-code"]).await;
        assert_eq!(shown.code, 1, "{hold}: {}", shown.stdout);
        let waiting = capstan(world, &["wait", "--timeout", "2m"]).await;
        assert_eq!(waiting.code, 1, "{hold}: {}", waiting.stderr);
        assert!(waiting.stderr.contains("a user must act: "), "{}", waiting.stderr);
        world.edit(&release).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn capstan_status_reports_why_the_rollout_waits() {
    let (world, running) = World::settled().await.unwrap();
    world
        .edit(&json!({"metadata": {"annotations": {"capstan.dev/paused-rollout": "true"}}}))
        .await
        .unwrap();
    world.set_instance_type("m6i.2xlarge").await.unwrap();
    world
        .wait_for_condition("Progressing=False/RolloutPaused")
        .await
        .unwrap();
    let text = capstan(&world, &["status"]).await.stdout;
    for part in [
        "0 of 3 up to date",
        "index 0  us-east-1a",
        "prod-x7k2p-master-1  Running, outdated, node",
        "paused",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json: Value = serde_json::from_str(&capstan(&world, &["status", "-o", "json"]).await.stdout).unwrap();
    assert_eq!(json["progress"], json!({"updated": 0, "total": 3}));
    assert_eq!(json["machines"][2]["current"], false);
    assert_eq!(json["indexes"][2]["machines"], json!(["prod-x7k2p-master-2"]));
    assert_eq!(
        json["indexes"][0]["failureDomain"]["placement"]["availabilityZone"],
        "us-east-1a"
    );
    assert_eq!(json["waits"][0]["for"], "Pause");
    running.controllers.stop().await;
    world.check_invariants().unwrap();
}
