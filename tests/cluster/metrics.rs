//! The metrics over TLS on a real API server: it says whose token a client has, and what its user
//! may do. The server has the permissions of the manifests. The watches of the server are measured.

use std::process::Command;

use capstan_sandbox::control_plane::{Binaries, ControlPlane, free_port, wait_until};
use capstan_sandbox::installation::{Cluster, NAMESPACE};

use super::fixtures;
use super::lifecycle::{empty, prepare, serve};
use super::world::{SOON, capstan};

/// A token of a new service account.
async fn token(plane: &ControlPlane, name: &str) -> String {
    let cluster = Cluster::of(plane).unwrap();
    let create = ["create", "serviceaccount", name, "-n", NAMESPACE];
    cluster.run(&create, "").await.unwrap().checked().unwrap();
    let token = cluster.run(&["create", "token", name, "-n", NAMESPACE], "").await;
    token.unwrap().checked().unwrap().stdout.trim().to_owned()
}

/// Reads a page with a token: whether that succeeded, and the page or the error.
fn read(address: &str, token: &str) -> (bool, String) {
    let mut command = Command::new(Binaries::locate().unwrap().kubectl);
    command.args([
        "get",
        "--raw=/metrics",
        "--kubeconfig=/dev/null",
        "--insecure-skip-tls-verify",
    ]);
    let output = command
        .arg(format!("--server={address}"))
        .arg(format!("--token={token}"));
    let output = output.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_user_who_may_get_the_metrics_reads_them_over_tls() {
    let plane = empty().await;
    prepare(&plane).await;
    plane.apply_yaml(&fixtures::surroundings()).await.unwrap();
    let cluster = Cluster::of(&plane).unwrap();
    let printed = Command::new(capstan())
        .args(["manifests", "all", "--secure-metrics"])
        .output()
        .unwrap();
    let manifests = String::from_utf8(printed.stdout).unwrap();
    cluster.apply(&manifests).await.unwrap();
    let (reader, other) = (token(&plane, "prometheus").await, token(&plane, "other").await);
    let account = format!("--serviceaccount={NAMESPACE}:prometheus");
    let bind = [
        "create",
        "clusterrolebinding",
        "prometheus",
        "--clusterrole=capstan-metrics-reader",
        &account,
    ];
    cluster.run(&bind, "").await.unwrap().checked().unwrap();

    let metrics = free_port().unwrap();
    let flag = format!("--metrics-addr=127.0.0.1:{metrics}");
    let (server, _) = serve(&plane, "metrics.log", &[&flag]).await;
    let address = format!("https://127.0.0.1:{metrics}");
    wait_until("the binding counts", SOON, async || {
        let (success, page) = read(&address, &reader);
        anyhow::ensure!(success, "{page}\n{}", server.log());
        anyhow::ensure!(page.contains("capstan_build_info{"), "{page}");
        // The API server has sent the first part of each watch.
        anyhow::ensure!(
            page.contains("capstan_watch_last_contact_timestamp_seconds{resource=\"machines.machine.openshift.io\"}"),
            "{page}"
        );
        Ok(Some(()))
    })
    .await
    .unwrap();
    let (success, page) = read(&address, &other);
    assert!(!success && page.contains("Forbidden"), "{page}");
    let (success, page) = read(&address, "unknown");
    assert!(!success && page.contains("must be logged in"), "{page}");
    server.stop(SOON).await.unwrap();
}
