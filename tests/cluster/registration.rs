//! `capstan register`: it registers the webhooks when the server is ready, with the permissions of
//! the manifests. An installation that is interrupted at any step leaves a working cluster.

use std::path::{Path, PathBuf};

use capstan_sandbox::control_plane::{ControlPlane, free_port, wait_until};
use capstan_sandbox::installation::{Cluster, NAMESPACE, manifests_of};
use serde_json::{Value, json};

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

/// A control plane with the objects that an installation finds.
async fn surrounded() -> ControlPlane {
    let plane = empty().await;
    prepare(&plane).await;
    plane.apply_yaml(&fixtures::surroundings()).await.unwrap();
    plane
}

/// The flag with the address of the server in this test.
fn url(port: u16) -> String {
    format!("--webhook-url=https://127.0.0.1:{port}")
}

/// Runs `capstan register` once: its exit code, and its output.
async fn attempt(access: &Path, flags: &[&str]) -> (i32, String) {
    let arguments = [&["register", "--once", "-o", "json"], flags].concat();
    let (code, text, stderr) = run(access, &arguments).await;
    (code, text + &stderr)
}

/// No pod becomes ready, or the API server cannot call it: nothing stays registered.
async fn fails_without_harm(plane: &ControlPlane, access: &Path, flags: &[&str]) {
    let (code, text) = attempt(access, &[flags, &["--wait=1s"]].concat()).await;
    assert_eq!(code, 1, "{text}");
    assert!(failed(&text)[0].starts_with("all replicas of Deployment"), "{text}");
    assert!(registered(plane).await.is_empty());
    mark_ready(plane, "capstan-webhook").await;
    let closed = url(free_port().unwrap());
    let (code, text) = attempt(access, &[flags, &["--wait=2s", &closed]].concat()).await;
    assert_eq!(code, 1, "{text}");
    assert!(
        failed(&text)[0].starts_with("the API server calls the webhooks: "),
        "{text}"
    );
    assert!(registered(plane).await.is_empty());
    assert!(can_create_a_set(plane).await);
}

/// The resource versions of everything that is registered.
async fn versions(plane: &ControlPlane) -> Vec<Value> {
    let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,\
                 validatingadmissionpolicybindings";
    let list = kubectl(plane, &["get", kinds, "-o", "json"]).await;
    let list: Value = serde_json::from_str(&list.checked().unwrap().stdout).unwrap();
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["resourceVersion"].clone()).collect()
}

#[tokio::test]
async fn each_step_of_an_installation_leaves_sets_editable_and_the_last_one_enforces_the_rules() {
    let plane = surrounded().await;
    let cluster = Cluster::of(&plane).unwrap();
    let manifests = manifests_of(capstan(), "all", "admission").await.unwrap();
    for object in serde_saphyr::from_multiple::<Value>(&manifests).unwrap() {
        cluster.apply(&object.to_string()).await.unwrap();
        assert!(
            can_create_a_set(&plane).await,
            "{} {}",
            object["kind"],
            object["metadata"]["name"]
        );
    }
    assert!(registered(&plane).await.is_empty(), "the manifests register nothing");
    let access = access(&plane);
    fails_without_harm(&plane, &access, &[]).await;

    // With a server, the webhooks are in force, and a further attempt writes nothing.
    let (server, port) = serve(&plane, "register.log", &[]).await;
    let open = url(port);
    let (code, text) = attempt(&access, &[&open]).await;
    assert_eq!(code, 0, "{text}\n{}", server.log());
    assert_eq!(registered(&plane).await, ["Fail"]);
    mark_ready(&plane, "capstan-registration").await;
    let admin = plane.kubeconfig().unwrap();
    let (code, text, stderr) = run(&admin, &["verify"]).await;
    assert_eq!(code, 0, "{text}{stderr}");
    let before = versions(&plane).await;
    let (code, text) = attempt(&access, &[&open]).await;
    assert_eq!(code, 0, "{text}");
    assert_eq!(versions(&plane).await, before);

    // Neither the same manifests again nor a failed attempt takes webhooks out of force.
    cluster.apply(&manifests).await.unwrap();
    let closed = url(free_port().unwrap());
    let (code, text) = attempt(&access, &["--wait=1s", &closed]).await;
    assert_eq!(code, 1, "{text}");
    assert_eq!(registered(&plane).await, ["Fail"]);
    let (code, text) = attempt(&access, &[&open]).await;
    assert_eq!(code, 0, "{text}");

    // What someone removes is registered again, but a deleted configuration is not created.
    let remove = r#"{"webhooks": null}"#;
    let patch = [
        "patch",
        "validatingwebhookconfiguration",
        "capstan",
        "--type=merge",
        "-p",
        remove,
    ];
    kubectl(&plane, &patch).await.checked().unwrap();
    let (code, text, _) = run(&admin, &["verify", "-o", "json"]).await;
    assert_eq!(code, 1, "{text}");
    assert!(
        failed(&text)[0].contains("validate.controlplanemachineset.capstan.dev is not registered"),
        "{text}"
    );
    let (code, text) = attempt(&access, &[&open]).await;
    assert_eq!(code, 0, "{text}");
    let (code, text, stderr) = run(&admin, &["verify"]).await;
    assert_eq!(code, 0, "{text}{stderr}");
    let delete = ["delete", "mutatingwebhookconfiguration", "capstan"];
    kubectl(&plane, &delete).await.checked().unwrap();
    let (code, text) = attempt(&access, &[&open]).await;
    assert_eq!(code, 1, "{text}");
    assert_eq!(
        failed(&text),
        ["MutatingWebhookConfiguration capstan exists: it does not"]
    );
    server.stop(SOON).await.unwrap();
}

/// Webhooks of the manifests become webhooks of the registration.
#[tokio::test]
async fn an_installation_changes_from_static_webhooks_to_registered_ones() {
    for flags in [&[][..], &["--server-side"]] {
        let plane = surrounded().await;
        let apply = async |choice: &[&str]| {
            let mut print = std::process::Command::new(capstan());
            let printed = print.args(["manifests", "all"]).args(choice).output().unwrap();
            let manifests = String::from_utf8(printed.stdout).unwrap();
            let apply = plane.kubectl().args(["apply", "-f", "-"]).args(flags.iter().copied());
            apply.stdin(manifests).run().await.unwrap()
        };
        apply(&["--static-webhooks"]).await.checked().unwrap();
        let (server, port) = serve(&plane, "static.log", &[]).await;
        assert_eq!(registered(&plane).await, ["Fail"]);
        apply(&[]).await.checked().unwrap();
        mark_ready(&plane, "capstan-webhook").await;
        let open = url(port);
        let (code, text) = attempt(&access(&plane), &[&open]).await;
        assert_eq!(code, 0, "{text}\n{}", server.log());
        assert_eq!(registered(&plane).await, ["Fail"]);
        apply(&[]).await.checked().unwrap();
        assert_eq!(registered(&plane).await, ["Fail"]);
        server.stop(SOON).await.unwrap();
    }
}

/// The first installation keeps its webhooks, and the second one registers nothing.
#[tokio::test]
async fn v183_a_second_installation_does_not_move_webhooks_that_are_in_force() {
    let plane = surrounded().await;
    let manifests = manifests_of(capstan(), "all", "admission").await.unwrap();
    Cluster::of(&plane).unwrap().apply(&manifests).await.unwrap();
    mark_ready(&plane, "capstan-webhook").await;
    let (server, port) = serve(&plane, "register.log", &[]).await;
    let open = url(port);
    let (code, text) = attempt(&access(&plane), &[&open]).await;
    assert_eq!(code, 0, "{text}");
    // In this test the webhooks have a URL. In a cluster they have the Service of the first one.
    let service = json!({"namespace": NAMESPACE, "name": "capstan-webhook", "path": "/"});
    let kinds = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    for kind in kinds {
        let configuration = kubectl(&plane, &["get", kind, "capstan", "-o", "json"])
            .await
            .checked()
            .unwrap();
        let mut configuration: Value = serde_json::from_str(&configuration.stdout).unwrap();
        for webhook in configuration["webhooks"].as_array_mut().unwrap() {
            let client = webhook["clientConfig"].as_object_mut().unwrap();
            client.remove("url");
            client.insert("service".to_owned(), service.clone());
        }
        let replace = plane
            .kubectl()
            .args(["replace", "-f", "-"])
            .stdin(configuration.to_string());
        replace.run().await.unwrap().checked().unwrap();
    }
    let before = versions(&plane).await;
    let admin = plane.kubeconfig().unwrap();
    kubectl(&plane, &["create", "namespace", "other-api"])
        .await
        .checked()
        .unwrap();
    let mut deployments: Vec<Value> = serde_saphyr::from_multiple(&manifests).unwrap();
    deployments.retain(|object| ["Deployment", "Service"].contains(&object["kind"].as_str().unwrap()));
    for object in &mut deployments {
        object["metadata"]["namespace"] = json!("other-api");
        let mut apply = plane.kubectl().args(["apply", "-f", "-"]);
        apply = apply.stdin(object.to_string());
        apply.run().await.unwrap().checked().unwrap();
    }
    let ready = json!({"observedGeneration": 9, "replicas": 2, "readyReplicas": 2, "updatedReplicas": 2,
        "availableReplicas": 2});
    let flags = ["-n", "other-api"];
    plane
        .patch_status(["deployment", "capstan-webhook"], &flags, &ready)
        .await
        .unwrap();
    let (code, text) = attempt(&admin, &["--namespace=other-api", "--wait=1s"]).await;
    assert_eq!(code, 1, "{text}");
    let found = failed(&text);
    assert!(
        found[0].contains("it belongs to Capstan in the namespace openshift-machine-api"),
        "{found:?}"
    );
    assert_eq!(versions(&plane).await, before);
    server.stop(SOON).await.unwrap();
}

/// The server would refuse each request of a webhook that it does not have any more.
#[tokio::test]
async fn v184_the_webhooks_of_a_dropped_feature_and_objects_of_others_do_not_stay_in_the_way() {
    let plane = surrounded().await;
    let cluster = Cluster::of(&plane).unwrap();
    let definitions = manifests_of(capstan(), "crds", "control-plane").await.unwrap();
    plane.apply_yaml(&definitions).await.unwrap();
    let both = manifests_of(capstan(), "all", "admission,control-plane").await.unwrap();
    cluster.apply(&both).await.unwrap();
    // An object of another program with a name of Capstan.
    let theirs = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "capstan-control-plane", "labels": {"owner": "theirs"}}, "webhooks": [
            {"name": "x.example.com", "clientConfig": {"url": "https://127.0.0.9:1/x"}, "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore"}]});
    kubectl(
        &plane,
        &["delete", "mutatingwebhookconfiguration", "capstan-control-plane"],
    )
    .await
    .checked()
    .unwrap();
    plane.apply_yaml(&theirs.to_string()).await.unwrap();
    mark_ready(&plane, "capstan-webhook").await;
    let (server, port) = serve(&plane, "register.log", &["--control-plane"]).await;
    let open = url(port);
    let (_, text) = attempt(&access(&plane), &[&open]).await;
    assert!(
        text.contains("no other program has an object with the name of MutatingWebhookConfiguration"),
        "{text}"
    );
    let get = [
        "get",
        "mutatingwebhookconfiguration",
        "capstan-control-plane",
        "-o",
        "json",
    ];
    let stored: Value = serde_json::from_str(&kubectl(&plane, &get).await.checked().unwrap().stdout).unwrap();
    assert_eq!(stored["metadata"]["labels"], json!({"owner": "theirs"}));
    assert_eq!(stored["webhooks"].as_array().unwrap().len(), 1, "{stored}");
    server.stop(SOON).await.unwrap();

    // The feature is dropped, and nothing prunes its configurations.
    kubectl(
        &plane,
        &["delete", "mutatingwebhookconfiguration", "capstan-control-plane"],
    )
    .await
    .checked()
    .unwrap();
    let service = json!({"namespace": NAMESPACE, "name": "capstan-webhook", "path": "/"});
    let patch = json!({"webhooks": [{"name": "validate.controlplane.capstan.dev", "clientConfig": {"service": service},
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "rules": [{
            "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["x"], "operations": ["CREATE"]}]}]})
    .to_string();
    let patch = [
        "patch",
        "validatingwebhookconfiguration",
        "capstan-control-plane",
        "--type=merge",
        "-p",
        &patch,
    ];
    kubectl(&plane, &patch).await.checked().unwrap();
    // W110: no feature counts as dropped while the flags of the server cannot be read.
    let shell = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": ["-c", "capstan"]}]);
    let shell = shell.to_string();
    let patch = [
        "-n",
        NAMESPACE,
        "patch",
        "deployment",
        "capstan-webhook",
        "--type=json",
        "-p",
        &shell,
    ];
    kubectl(&plane, &patch).await.checked().unwrap();
    let before = versions(&plane).await;
    let (code, text) = attempt(&access(&plane), &[]).await;
    assert_eq!(code, 1, "{text}");
    assert!(failed(&text)[0].starts_with("the flags of Deployment"), "{text}");
    assert_eq!(versions(&plane).await, before);
    let one = manifests_of(capstan(), "all", "admission").await.unwrap();
    cluster.apply(&one).await.unwrap();
    mark_ready(&plane, "capstan-webhook").await;
    let (server, port) = serve(&plane, "without.log", &[]).await;
    let admin = plane.kubeconfig().unwrap();
    let (_, text, _) = run(&admin, &["verify", "-o", "json"]).await;
    let missing = "the server has the webhooks of ValidatingWebhookConfiguration capstan-control-plane";
    assert!(failed(&text).iter().any(|row| row.starts_with(missing)), "{text}");
    let open = url(port);
    let (code, text) = attempt(&access(&plane), &[&open]).await;
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("ValidatingWebhookConfiguration capstan-control-plane has no webhooks"),
        "{text}"
    );
    let get = [
        "get",
        "validatingwebhookconfiguration",
        "capstan-control-plane",
        "-o",
        "json",
    ];
    let stored: Value = serde_json::from_str(&kubectl(&plane, &get).await.checked().unwrap().stdout).unwrap();
    assert_eq!(stored["webhooks"], json!(null), "{stored}");
    server.stop(SOON).await.unwrap();
}

/// A bundle for OLM can contain neither policies nor webhook configurations, so the registration
/// creates them.
#[tokio::test]
async fn in_a_bundle_the_registration_creates_everything_and_it_goes_with_its_owner() {
    let plane = surrounded().await;
    let manifests = manifests_of(capstan(), "all", "admission").await.unwrap();
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&manifests).unwrap();
    objects.retain(|object| {
        let kind = object["kind"].as_str().unwrap();
        !kind.ends_with("WebhookConfiguration") && !kind.starts_with("ValidatingAdmissionPolicy")
    });
    objects.extend(serde_saphyr::from_multiple::<Value>(capstan::manifests::BUNDLE_RBAC).unwrap());
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    Cluster::of(&plane).unwrap().apply(&list.to_string()).await.unwrap();
    let access = access(&plane);
    let owner = "--owner=capstan-registration";
    fails_without_harm(&plane, &access, &[owner]).await;

    // What someone deletes is restored.
    let (server, port) = serve(&plane, "register.log", &[]).await;
    let open = url(port);
    for _ in 0..2 {
        let (code, text) = attempt(&access, &[owner, &open]).await;
        assert_eq!(code, 0, "{text}\n{}", server.log());
        assert_eq!(registered(&plane).await, ["Fail"]);
        let delete = ["delete", "validatingwebhookconfiguration", "capstan"];
        kubectl(&plane, &delete).await.checked().unwrap();
    }
    let (code, text) = attempt(&access, &[owner, &open]).await;
    assert_eq!(code, 0, "{text}");
    let before = versions(&plane).await;
    let (code, text) = attempt(&access, &[owner, &open]).await;
    assert_eq!(code, 0, "{text}");
    assert_eq!(versions(&plane).await, before);

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
