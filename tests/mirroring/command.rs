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
    let (code, text) = run_beside(&mut machine, &["machine", "commanded", "--cancel", "--wait"]).await;
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
