//! `capstan install`: an installation that fails or is killed at any step leaves a cluster in which
//! sets can be edited, and one that succeeds is in force.

use std::process::{Command, Stdio};

use capstan_sandbox::control_plane::{ControlPlane, free_port, wait_until};
use capstan_sandbox::installation::NAMESPACE;
use serde_json::{Value, json};

use super::fixtures;
use super::lifecycle::{empty, failed, mark_ready, prepare, run, serve};
use super::world::{SOON, capstan};

/// The failure policies of the webhooks that are registered, each once.
pub(super) async fn registered(plane: &ControlPlane) -> Vec<String> {
    let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
    let get = plane.kubectl().args(["get", kinds, "-o", "json"]);
    let list: Value = serde_json::from_str(&get.run().await.unwrap().checked().unwrap().stdout).unwrap();
    let configurations = list["items"].as_array().unwrap().iter();
    let webhooks = configurations.flat_map(|configuration| configuration["webhooks"].as_array());
    let mut policies: Vec<String> = webhooks
        .flatten()
        .map(|webhook| webhook["failurePolicy"].as_str().unwrap().to_owned())
        .collect();
    policies.sort();
    policies.dedup();
    policies
}

/// Whether a valid set can be created, in a dry run.
pub(super) async fn can_create_a_set(plane: &ControlPlane) -> bool {
    let set = fixtures::set_of(3, "Inactive").to_string();
    let create = plane
        .kubectl()
        .args(["create", "--dry-run=server", "-f", "-"])
        .stdin(set);
    create.run().await.unwrap().success()
}

#[tokio::test]
async fn an_installation_that_fails_or_is_killed_leaves_sets_editable() {
    let plane = empty().await;
    let admin = plane.kubeconfig().unwrap();
    prepare(&plane).await;
    plane.apply_yaml(&fixtures::surroundings()).await.unwrap();

    // No pod becomes ready.
    let (code, text, stderr) = run(&admin, &["install", "--wait=1s", "-o", "json"]).await;
    assert_eq!(code, 1, "{text}{stderr}");
    assert_eq!(
        failed(&text),
        [
            "all replicas of Deployment openshift-machine-api/capstan-webhook are ready: \
          2 wanted, 0 exist, 0 updated, 0 ready"
        ]
    );
    assert!(registered(&plane).await.is_empty());
    assert!(can_create_a_set(&plane).await);

    // The pods are ready, but the API server cannot call them.
    mark_ready(&plane, "capstan-webhook").await;
    mark_ready(&plane, "capstan-registration").await;
    let closed = format!("--webhook-url=https://127.0.0.1:{}", free_port().unwrap());
    let (code, text, stderr) = run(&admin, &["install", "--wait=2s", &closed, "-o", "json"]).await;
    assert_eq!(code, 1, "{text}{stderr}");
    assert!(
        failed(&text)[0].starts_with("the API server calls the webhooks: "),
        "{text}"
    );
    assert!(registered(&plane).await.is_empty());
    assert!(can_create_a_set(&plane).await);

    // The command is killed while it waits for the first call.
    let mut killed = Command::new(capstan())
        .args(["install", &closed, "--kubeconfig"])
        .arg(&admin)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the webhooks are registered", SOON, async || {
        anyhow::ensure!(registered(&plane).await == ["Ignore"]);
        Ok(Some(()))
    })
    .await
    .unwrap();
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(can_create_a_set(&plane).await);

    // The next attempt succeeds, and the webhooks are in force. The preflight is skipped, because
    // its dry run would add a Service to webhooks with a URL.
    let (server, port) = serve(&plane, "install.log", &[]).await;
    let open = format!("--webhook-url=https://127.0.0.1:{port}");
    let (code, text, stderr) = run(&admin, &["install", "--skip-preflight", &open]).await;
    assert_eq!(code, 0, "{text}{stderr}\n{}", server.log());
    assert_eq!(registered(&plane).await, ["Fail"]);
    let (code, text, stderr) = run(&admin, &["verify"]).await;
    assert_eq!(code, 0, "{text}{stderr}");
    assert!(can_create_a_set(&plane).await);

    upgrade(&plane, &open).await;

    server.stop(SOON).await.unwrap();
    wait_until("the webhooks fail closed", SOON, async || {
        anyhow::ensure!(!can_create_a_set(&plane).await);
        Ok(Some(()))
    })
    .await
    .unwrap();
}

/// A failed upgrade keeps the webhooks in force, and names the user that synchronizes mirrors.
async fn upgrade(plane: &ControlPlane, open: &str) {
    let admin = plane.kubeconfig().unwrap();
    let cluster_api = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-cluster-api"}});
    plane.apply_yaml(&cluster_api.to_string()).await.unwrap();
    let install = [
        "install",
        "--skip-preflight",
        "--feature=admission,mirroring",
        "--wait=1s",
        open,
        "-o",
        "json",
    ];
    for (replicas, user) in [
        (0, format!("{NAMESPACE}:capstan-mirroring")),
        (1, "openshift-cluster-api:capi-controllers".to_owned()),
    ] {
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "capi-controllers", "namespace": "openshift-cluster-api"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"serviceAccountName": "capi-controllers", "containers": [{"name": "a", "image": "a"}]}}}});
        plane.apply_yaml(&deployment.to_string()).await.unwrap();
        let (code, text, stderr) = run(&admin, &install).await;
        assert_eq!(code, 1, "{text}{stderr}");
        assert!(text.contains(&format!("\"system:serviceaccount:{user}\"")), "{text}");
        let failed = failed(&text);
        // The server runs without the feature, so it writes no caBundle.
        assert!(
            failed.len() == 1 && failed[0].contains("capstan-mirroring has no caBundle"),
            "{failed:?}"
        );
        assert_eq!(registered(plane).await, ["Fail"]);
    }
}
