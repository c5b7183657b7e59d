//! `capstan register`: it registers the webhooks when the server is ready, with the permissions of
//! the component, and everything goes with its ClusterRole.

use std::path::PathBuf;
use std::process::Command;

use capstan_sandbox::control_plane::{ControlPlane, free_port, wait_until};
use capstan_sandbox::installation::{Cluster, NAMESPACE};
use serde_json::Value;

use super::fixtures;
use super::install::{can_create_a_set, registered};
use super::lifecycle::{empty, failed, kubectl, mark_ready, prepare, run, serve};
use super::world::{SOON, capstan};

/// The access of the Deployment's service account, with the permissions of the manifests.
fn access(plane: &ControlPlane) -> PathBuf {
    let user = format!("system:serviceaccount:{NAMESPACE}:capstan-registration");
    let groups = ["system:serviceaccounts", "system:serviceaccounts:openshift-machine-api"];
    plane.kubeconfig_for(&user, &groups).unwrap()
}

#[tokio::test]
async fn the_webhooks_are_registered_by_the_cluster_itself_and_go_with_their_owner() {
    let plane = empty().await;
    prepare(&plane).await;
    plane.apply_yaml(&fixtures::surroundings()).await.unwrap();
    let printed = Command::new(capstan())
        .args(["manifests", "all", "--registration"])
        .output()
        .unwrap();
    let manifests = String::from_utf8(printed.stdout).unwrap();
    Cluster::of(&plane).unwrap().apply(&manifests).await.unwrap();
    assert!(registered(&plane).await.is_empty(), "the manifests register nothing");
    let access = access(&plane);

    // No pod becomes ready, or the API server cannot call it: nothing stays registered.
    let (code, text, stderr) = run(&access, &["register", "--once", "--wait=1s", "-o", "json"]).await;
    assert_eq!(code, 1, "{text}{stderr}");
    assert!(failed(&text)[0].starts_with("all replicas of Deployment"), "{text}");
    mark_ready(&plane, "capstan-webhook").await;
    let closed = format!("--webhook-url=https://127.0.0.1:{}", free_port().unwrap());
    let (code, text, stderr) = run(&access, &["register", "--once", "--wait=2s", &closed, "-o", "json"]).await;
    assert_eq!(code, 1, "{text}{stderr}");
    assert!(
        failed(&text)[0].starts_with("the API server calls the webhooks: "),
        "{text}"
    );
    assert!(registered(&plane).await.is_empty());
    assert!(can_create_a_set(&plane).await);

    // With a server, the webhooks are in force. What someone deletes is restored.
    let (server, port) = serve(&plane, "register.log", &[]).await;
    let open = format!("--webhook-url=https://127.0.0.1:{port}");
    for _ in 0..2 {
        let (code, text, stderr) = run(&access, &["register", "--once", &open]).await;
        assert_eq!(code, 0, "{text}{stderr}\n{}", server.log());
        assert_eq!(registered(&plane).await, ["Fail"]);
        let delete = ["delete", "validatingwebhookconfiguration", "capstan"];
        kubectl(&plane, &delete).await.checked().unwrap();
    }
    let (code, text, stderr) = run(&access, &["register", "--once", &open]).await;
    assert_eq!(code, 0, "{text}{stderr}");
    let admin = plane.kubeconfig().unwrap();
    let (code, text, stderr) = run(&admin, &["verify"]).await;
    assert_eq!(code, 0, "{text}{stderr}");

    // A steady state writes nothing.
    let versions = async || {
        let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,\
                     validatingadmissionpolicybindings";
        let list = kubectl(&plane, &["get", kinds, "-o", "json"])
            .await
            .checked()
            .unwrap()
            .stdout;
        let list: Value = serde_json::from_str(&list).unwrap();
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|item| item["metadata"]["resourceVersion"].clone())
            .collect::<Vec<_>>()
    };
    let before = versions().await;
    let (code, text, _) = run(&access, &["register", "--once", &open]).await;
    assert_eq!(code, 0, "{text}");
    assert_eq!(versions().await, before);

    // The garbage collector deletes what the ClusterRole owns, also while nothing of Capstan runs.
    server.stop(SOON).await.unwrap();
    let delete = ["delete", "clusterrole", "capstan-registration"];
    kubectl(&plane, &delete).await.checked().unwrap();
    wait_until("nothing is registered any more", SOON, async || {
        let left = kubectl(&plane, &["get", "validatingadmissionpolicies", "-o", "name"]).await;
        anyhow::ensure!(registered(&plane).await.is_empty() && left.stdout.is_empty(), "{left}");
        anyhow::ensure!(can_create_a_set(&plane).await);
        Ok(Some(()))
    })
    .await
    .unwrap();
}
