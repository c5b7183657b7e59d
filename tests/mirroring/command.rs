//! `capstan migrate` on a real API server, with the shipped controllers.

use std::process::{Output, Stdio};

use capstan_core::authority::pair::Part;
use capstan_core::authority::spec::Api;
use serde_json::json;
use tokio::process::{Child, Command};

use crate::cluster::{Cluster, Machine};

fn start(cluster: &Cluster, arguments: &[&str]) -> Child {
    let kubeconfig = cluster.plane.kubeconfig().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command
        .arg("migrate")
        .args(arguments)
        .arg("--kubeconfig")
        .arg(kubeconfig);
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    output.spawn().unwrap()
}

/// The exit code and the output of the command.
fn read(output: Output) -> (i32, String) {
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

async fn run(cluster: &Cluster, arguments: &[&str]) -> (i32, String) {
    read(start(cluster, arguments).wait_with_output().await.unwrap())
}

/// Runs the command while the controllers of both APIs act.
async fn run_beside(machine: &mut Machine<'_>, arguments: &[&str]) -> (i32, String) {
    let command = start(machine.cluster, arguments);
    let mut ended = tokio::spawn(command.wait_with_output());
    loop {
        tokio::select! {
            output = &mut ended => return read(output.unwrap().unwrap()),
            _ = machine.controllers() => {}
        }
    }
}

pub(crate) async fn the_command_migrates_waits_cancels_and_names_a_field(cluster: &Cluster) {
    let mut machine = cluster.machine("commanded", Api::MachineApi, None).await;
    machine.synchronized(Api::MachineApi).await;
    let to_cluster_api = ["machine", "commanded", "--to", "clusterAPI"];
    let (code, text) = run(cluster, &[&to_cluster_api[..], &["--dry-run"]].concat()).await;
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("possible") && text.contains("nothing is written"),
        "{text}"
    );
    let asked = async |machine: &Machine<'_>| {
        let object = machine.get(Part::MachineApi).await.unwrap();
        object["spec"]["authoritativeAPI"].as_str().unwrap().to_owned()
    };
    assert_eq!(asked(&machine).await, "MachineAPI");

    // The controllers of the source do not act, so the migration cannot end.
    let (code, text) = run(cluster, &[&to_cluster_api[..], &["--wait", "--timeout", "1s"]].concat()).await;
    assert_eq!(code, 3, "{text}");
    assert_eq!(asked(&machine).await, "ClusterAPI");
    // They have not acknowledged the pause, so the cancellation waits for none of them.
    let (code, text) = run(cluster, &["machine", "commanded", "--cancel", "--wait"]).await;
    assert!(
        code == 0 && text.contains("the Machine API is authoritative"),
        "{code}: {text}"
    );
    machine.synchronized(Api::MachineApi).await;
    let (code, text) = run_beside(&mut machine, &[&to_cluster_api[..], &["--wait"]].concat()).await;
    assert!(
        code == 0 && text.contains("Cluster API is authoritative"),
        "{code}: {text}"
    );
    let (code, text) = run(cluster, &to_cluster_api).await;
    assert!(code == 0 && text.contains("already"), "{code}: {text}");
    assert_eq!(machine.instances, 1);

    let mut machine = cluster.machine("commanded-in-vain", Api::MachineApi, None).await;
    machine.synchronized(Api::MachineApi).await;
    let field = json!({"spec": {"providerSpec": {"value": {"fieldOfTomorrow": 1}}}});
    machine.patch(Part::MachineApi, &field).await;
    let (code, text) = run(
        cluster,
        &["machine", "commanded-in-vain", "--to", "clusterAPI", "--wait"],
    )
    .await;
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("spec.providerSpec.value.fieldOfTomorrow"), "{text}");
    assert_eq!(asked(&machine).await, "MachineAPI");
    let (code, text) = run(cluster, &["machineset", "absent", "--to", "clusterAPI"]).await;
    assert!(code == 2 && text.contains("must exist"), "{code}: {text}");
}

/// `capstan status --both-apis` has a line for each pair, also for one that waits.
pub(crate) async fn the_status_shows_both_apis(cluster: &Cluster) {
    let mut machine = cluster.machine("shown", Api::MachineApi, None).await;
    machine.synchronized(Api::MachineApi).await;
    let line = async |arguments: &[&str]| {
        let kubeconfig = cluster.plane.kubeconfig().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
        command.args(["status", "--both-apis"]).args(arguments);
        let output = command.arg("--kubeconfig").arg(kubeconfig).output().await.unwrap();
        let (code, text) = read(output);
        assert_eq!(code, 0, "{text}");
        text
    };
    let row = |text: &str| {
        let mut lines = text.lines();
        let found = lines.find(|line| line.split_whitespace().nth(1) == Some("shown"));
        found.unwrap().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let calm = row(&line(&[]).await);
    assert_eq!(calm, ["Machine", "shown", "MachineAPI", "True", "ClusterAPI", "-", "-"]);
    machine
        .patch(
            Part::MachineApi,
            &json!({"spec": {"providerSpec": {"value": {"fieldOfTomorrow": 1}}}}),
        )
        .await;
    machine.request(Api::ClusterApi).await;
    machine
        .until("the field blocks", async |machine| {
            machine.condition("Synchronized").await == "False"
        })
        .await;
    let waits = row(&line(&[]).await);
    assert_eq!(waits[2..6], ["MachineAPI", "False", "ClusterAPI", "ClusterAPI"]);
    assert!(waits[6].ends_with('s') || waits[6].ends_with('m'), "{waits:?}");
    assert!(
        waits.join(" ").contains("spec.providerSpec.value.fieldOfTomorrow"),
        "{waits:?}"
    );
    let report: serde_json::Value = serde_json::from_str(&line(&["-o", "json"]).await).unwrap();
    let pairs = report["pairs"].as_array().unwrap();
    let found = pairs.iter().find(|pair| pair["name"] == "shown").unwrap();
    assert_eq!(
        (&found["requested"], &found["synchronized"]),
        (&json!("ClusterAPI"), &json!("False"))
    );
}

/// The exit code and standard output of a command, which runs while the controllers of both APIs
/// act on Machines.
async fn beside(command: Child, machines: &mut [Machine<'_>]) -> (i32, String) {
    let mut ended = tokio::spawn(command.wait_with_output());
    loop {
        for machine in &mut *machines {
            machine.controllers().await;
        }
        if ended.is_finished() {
            let output = (&mut ended).await.unwrap().unwrap();
            return (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap());
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Two of three selected Machines migrate, one after the other, and one is refused. `-o json` tells
/// it for each.
pub(crate) async fn several_objects_are_migrated_one_after_the_other(cluster: &Cluster) {
    let mut machines = Vec::new();
    for name in ["batch-a", "batch-b", "batch-c"] {
        let mut machine = cluster.machine(name, Api::MachineApi, None).await;
        machine.synchronized(Api::MachineApi).await;
        let label = json!({"metadata": {"labels": {"batch": "one"}}});
        machine.patch(Part::MachineApi, &label).await;
        machines.push(machine);
    }
    let field = json!({"spec": {"providerSpec": {"value": {"fieldOfTomorrow": 1}}}});
    machines[1].patch(Part::MachineApi, &field).await;
    let selected = ["machine", "--selector", "batch=one", "--to", "clusterAPI", "-o", "json"];
    let results = |text: &str| {
        // Standard error has the progress.
        let report: serde_json::Value = serde_json::from_str(text).unwrap();
        let objects = report["objects"].as_array().unwrap().clone();
        let result = |object: serde_json::Value| object["result"].as_str().unwrap().to_owned();
        (
            report["exitCode"].as_i64().unwrap(),
            objects.into_iter().map(result).collect::<Vec<_>>(),
        )
    };
    let (code, text) = beside(start(cluster, &[&selected[..], &["--dry-run"]].concat()), &mut machines).await;
    let expected = ["possible", "refused", "possible"].map(str::to_owned).to_vec();
    assert_eq!((code, results(&text)), (1, (1, expected)), "{text}");
    assert!(text.contains("spec.providerSpec.value.fieldOfTomorrow"), "{text}");

    // No controller runs, so the first migration does not end, and the others are not requested.
    let wait = [
        "machine",
        "batch-a",
        "batch-c",
        "absent",
        "--to",
        "clusterAPI",
        "--wait",
    ];
    let (code, text) = run(cluster, &[&wait[..], &["--timeout", "1s"]].concat()).await;
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("3 objects: 1 timedOut, 2 skipped"), "{text}");
    assert_eq!(
        machines[2].get(Part::MachineApi).await.unwrap()["spec"]["authoritativeAPI"],
        "MachineAPI"
    );
    // Otherwise it may end before the next command reads it.
    let (code, text) = run(cluster, &["machine", "batch-a", "--cancel", "--wait"]).await;
    assert_eq!(code, 0, "{text}");

    let (code, text) = beside(start(cluster, &[&selected[..], &["--wait"]].concat()), &mut machines).await;
    let expected = ["migrated", "refused", "migrated"].map(str::to_owned).to_vec();
    assert_eq!((code, results(&text)), (1, (1, expected)), "{text}");
    let (code, text) = run(cluster, &["machine", "absent", "batch-a", "--to", "clusterAPI"]).await;
    assert!(
        code == 2 && text.contains("Machine openshift-machine-api/absent must exist"),
        "{text}"
    );
    let (code, text) = run(cluster, &["machine", "-l", "batch=none", "--to", "clusterAPI"]).await;
    assert!(
        code == 2 && text.contains("a Machine with the labels batch=none must exist"),
        "{text}"
    );
    for machine in &machines {
        assert_eq!(machine.instances, 1);
    }
}

/// Changes the CRD of the cluster, which all later tests would see.
pub(crate) async fn a_migration_does_not_begin_if_the_crd_drops_a_field_that_it_needs(cluster: &Cluster) {
    let running = cluster.controllers().await;
    let mut machine = cluster.machine("dropping", Api::MachineApi, None).await;
    machine.synchronized(Api::MachineApi).await;
    let field = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/synchronizedAPI";
    let patch = json!([{"op": "remove", "path": field}]).to_string();
    let crd = "machines.machine.openshift.io";
    cluster
        .kubectl(&["patch", "crd", crd, "--type=json", "-p", &patch])
        .await;
    let (code, text) = run(cluster, &["machine", "dropping", "--to", "clusterAPI", "--dry-run"]).await;
    assert!(
        code == 1 && text.contains("refused: ") && text.contains("does not store status.synchronizedAPI"),
        "{code}: {text}"
    );
    machine.request(Api::ClusterApi).await;
    let told = "the CRD of Machines in the Machine API does not store status.synchronizedAPI";
    machine
        .until("the condition names the field", async |machine| {
            let object = machine.get(Part::MachineApi).await.unwrap();
            object["status"]["conditions"].to_string().contains(told)
        })
        .await;
    machine.settle().await;
    assert_eq!(machine.authority().await, "MachineAPI");
    running.stop().await;
}
