//! The third part of the tour: a Machine that exists in both APIs is migrated to Cluster API, a
//! field prevents the way back, and a request is taken back.
//!
//! The mirroring controllers are the production controllers, and run as the service account from
//! the manifests. The tour plays the controllers of Cluster API.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use capstan_core::schema::crd;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::task::JoinHandle;

use super::screen::Screen;
use crate::control_plane::{ControlPlane, wait_until};
use crate::installation::{Cluster, NAMESPACE, Server, manifests_of};

/// The user of the controllers, as in `manifests/components/mirroring-controllers/rbac.yaml`.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:openshift-machine-api:capstan-mirroring";
const CLUSTER_API: &str = "openshift-cluster-api";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const CLUSTER: &str = "prod-x7k2p";
/// The Machine of the tour.
const MACHINE: &str = "prod-x7k2p-worker-a";
const SOON: Duration = Duration::from_secs(60);

/// The controllers of Cluster API that the tour plays. They stop when this is dropped.
struct Players {
    /// Whether they acknowledge a pause.
    acknowledge: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Drop for Players {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Shows the migrations.
///
/// # Errors
/// A component does not start, or a command does not answer as the tour tells.
pub(super) async fn show(capstan: &Path, plane: &ControlPlane, cluster: &Cluster, screen: &mut Screen) -> Result<()> {
    screen.blank();
    screen.step("Installing the kinds of Cluster API, and starting the mirroring controllers");
    install(capstan, cluster).await?;
    let groups = ["system:serviceaccounts", "system:serviceaccounts:openshift-machine-api"];
    let kubeconfig = plane.kubeconfig_for(SERVICE_ACCOUNT, &groups)?;
    let folder = plane.folder().join("mirroring");
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let flags = [
        format!("--kubeconfig={}", kubeconfig.display()),
        String::from("--mirroring-controllers"),
        String::from("--controllers-only"),
    ];
    let _server = Server::start(capstan, &flags, "127.0.0.1", &folder).await?;
    let players = play(plane.client().await?);
    cluster.apply(&machine().to_string()).await?;
    wait_until("the Machine to be mirrored", SOON, async || {
        let found = cluster
            .run(&["get", MACHINES, MACHINE, "-n", NAMESPACE, "-o", "json"], "")
            .await?;
        let object: Value = serde_json::from_str(&found.stdout).unwrap_or_default();
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let is_true = |kind: &str, status: &str| {
            let mut all = conditions.into_iter().flatten();
            all.any(|known| known.get("type") == Some(&kind.into()) && known.get("status") == Some(&status.into()))
        };
        let runs = object.pointer("/status/phase") == Some(&"Running".into());
        Ok((runs && is_true("Synchronized", "True") && is_true("Paused", "False")).then_some(()))
    })
    .await?;
    let run = async |screen: &mut Screen, title: &str, arguments: &[&str]| {
        capstan_command(capstan, cluster, screen, title, arguments).await
    };
    run(
        screen,
        "A Machine of both APIs: Cluster API has a mirror of it.",
        &["status", "--both-apis"],
    )
    .await?;
    let to_cluster_api = ["migrate", "machine", MACHINE, "--to", "clusterAPI", "--wait"];
    run(
        screen,
        "Migrated: the controllers of Cluster API manage the same instance.",
        &to_cluster_api,
    )
    .await?;
    let gates = r#"{"spec": {"readinessGates": [{"conditionType": "example.com/Ready"}]}}"#;
    patch_mirror(cluster, gates).await?;
    let back = ["migrate", "machine", MACHINE, "--to", "machineAPI"];
    run(
        screen,
        "Refused: a user of Cluster API has set a field that the Machine API does not have.",
        &back,
    )
    .await?;
    patch_mirror(cluster, r#"{"spec": {"readinessGates": null}}"#).await?;
    // The controllers of Cluster API do not answer, so the migration waits.
    players.acknowledge.store(false, Ordering::Relaxed);
    wait_until("the field to be gone from the report", SOON, async || {
        let output = capstan_output(capstan, cluster, &[&back[..], &["--dry-run"]].concat()).await?;
        Ok(output.contains("possible").then_some(()))
    })
    .await?;
    run(
        screen,
        "Requested without the field, while the controllers of Cluster API do not answer.",
        &back,
    )
    .await?;
    run(screen, "The migration waits for them.", &["status", "--both-apis"]).await?;
    let cancel = ["migrate", "machine", MACHINE, "--cancel", "--wait"];
    run(screen, "Cancelled: Cluster API stays authoritative.", &cancel).await?;
    Ok(())
}

const MACHINES: &str = "machines.machine.openshift.io";

async fn patch_mirror(cluster: &Cluster, patch: &str) -> Result<()> {
    let machine = ["patch", "machines.cluster.x-k8s.io", MACHINE, "-n", CLUSTER_API];
    let patched = cluster
        .run(&[&machine[..], &["--type=merge", "-p", patch]].concat(), "")
        .await?;
    patched.checked().map(|_| ())
}

async fn capstan_output(capstan: &Path, cluster: &Cluster, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(capstan);
    command.args(arguments).args(cluster.flags()).kill_on_drop(true);
    let output = command.output().await.context("running capstan")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

async fn capstan_command(
    capstan: &Path,
    cluster: &Cluster,
    screen: &mut Screen,
    title: &str,
    arguments: &[&str],
) -> Result<()> {
    screen.command(title, &format!("capstan {}", arguments.join(" ")));
    let text = capstan_output(capstan, cluster, arguments).await?;
    screen.plain(text.trim_end());
    Ok(())
}

/// Creates the kinds, the permissions, and the Cluster.
async fn install(capstan: &Path, cluster: &Cluster) -> Result<()> {
    let wanted = |definition: &&Value| {
        let kind = definition
            .pointer("/spec/names/kind")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let group = definition.pointer("/spec/group").and_then(Value::as_str);
        group != Some(INFRASTRUCTURE) || kind.starts_with("AWS")
    };
    let definitions = crd::cluster_api_crds();
    let definitions: Vec<String> = definitions.iter().filter(wanted).map(Value::to_string).collect();
    cluster.apply(&definitions.join("\n---\n")).await?;
    let namespace = ["create", "namespace", CLUSTER_API];
    cluster.run(&namespace, "").await?.checked()?;
    cluster
        .apply(&manifests_of(capstan, "rbac", "mirroring-controllers").await?)
        .await?;
    // `kubectl apply` does not store a status, and the mirrors belong to the Cluster of this name.
    let status = json!({"status": {"infrastructureName": CLUSTER, "platform": "AWS",
        "platformStatus": {"type": "AWS", "aws": {"region": "us-east-1"}}}});
    let patch = [
        "patch",
        "infrastructures.config.openshift.io",
        "cluster",
        "--subresource=status",
    ];
    cluster
        .run(&[&patch[..], &["--type=merge", "-p", &status.to_string()]].concat(), "")
        .await?
        .checked()?;
    let objects = [
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": CLUSTER, "namespace": CLUSTER_API},
            "spec": {"infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "AWSCluster", "name": CLUSTER}}}),
        json!({"apiVersion": format!("{INFRASTRUCTURE}/v1beta2"), "kind": "AWSCluster",
            "metadata": {"name": CLUSTER, "namespace": CLUSTER_API}, "spec": {"region": "us-east-1"}}),
    ];
    let objects: Vec<String> = objects.iter().map(Value::to_string).collect();
    cluster.apply(&objects.join("\n---\n")).await
}

fn machine() -> Value {
    json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": MACHINE, "namespace": NAMESPACE, "labels": {
            "machine.openshift.io/cluster-api-cluster": CLUSTER,
            "machine.openshift.io/cluster-api-machine-role": "worker",
            "machine.openshift.io/cluster-api-machine-type": "worker"}},
        "spec": {"authoritativeAPI": "MachineAPI", "providerSpec": {"value": {
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "AWSMachineProviderConfig",
            "ami": {"id": "ami-0123456789abcdef0"}, "instanceType": "m6i.large",
            "placement": {"region": "us-east-1", "availabilityZone": "us-east-1a"},
            "subnet": {"id": "subnet-0123456789abcdef0"}, "userDataSecret": {"name": "worker-user-data"},
            "credentialsSecret": {"name": "aws-cloud-credentials"}}}}})
}

/// Plays the pauses of both APIs, and the Machine controller of Cluster API.
fn play(client: kube::Client) -> Players {
    let acknowledge = Arc::new(AtomicBool::new(true));
    let acks = Arc::clone(&acknowledge);
    let task = tokio::spawn(async move {
        loop {
            // A conflict is repaired in the next round.
            let _round = round(&client, acks.load(Ordering::Relaxed)).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    Players { acknowledge, task }
}

async fn round(client: &kube::Client, acknowledge: bool) -> Result<()> {
    let machine_api = format!("/apis/machine.openshift.io/v1beta1/namespaces/{NAMESPACE}/machines/{MACHINE}");
    let machine = get(client, &machine_api).await?;
    let text = |object: &Value, at: &str| object.pointer(at).and_then(Value::as_str).map(str::to_owned);
    match text(&machine, "/status/authoritativeAPI").as_deref() {
        None => return Ok(()),
        Some(api) => report(client, &machine_api, &machine, api != "MachineAPI").await?,
    }
    if !acknowledge {
        return Ok(());
    }
    for path in [
        format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{CLUSTER_API}/machines/{MACHINE}"),
        format!("/apis/{INFRASTRUCTURE}/v1beta2/namespaces/{CLUSTER_API}/awsmachines/{MACHINE}"),
    ] {
        let object = get(client, &path).await?;
        let paused = object
            .pointer("/metadata/annotations/cluster.x-k8s.io~1paused")
            .is_some();
        report(client, &path, &object, paused).await?;
    }
    Ok(())
}

async fn report(client: &kube::Client, path: &str, object: &Value, paused: bool) -> Result<()> {
    let status = if paused { "True" } else { "False" };
    let stored = object.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = stored.cloned().unwrap_or_default();
    let is_paused = |condition: &Value| condition.get("type") == Some(&"Paused".into());
    if conditions
        .iter()
        .any(|known| is_paused(known) && known.get("status") == Some(&status.into()))
    {
        return Ok(());
    }
    conditions.retain(|condition| !is_paused(condition));
    conditions.push(
        json!({"type": "Paused", "status": status, "reason": "Tour", "message": "",
        "lastTransitionTime": jiff::Timestamp::now().to_string()}),
    );
    let version = object.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
    let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}});
    let request = http::Request::builder()
        .method("PATCH")
        .uri(format!("{path}/status"))
        .header("Content-Type", "application/merge-patch+json")
        .body(patch.to_string().into_bytes())
        .context("building a request")?;
    client.request::<Value>(request).await.context("reporting a pause")?;
    Ok(())
}

async fn get(client: &kube::Client, path: &str) -> Result<Value> {
    let request = http::Request::builder()
        .uri(path)
        .body(Vec::new())
        .context("building a request")?;
    client.request(request).await.with_context(|| format!("reading {path}"))
}
