//! The manifests in a cluster: kustomize builds them, the API server accepts them, and the pods
//! satisfy the restricted Pod Security Standard.

use std::path::Path;

use capstan_sandbox::installation::NAMESPACE;
use serde_json::{Value, json};

use super::world::World;

fn folder(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name).display().to_string()
}

#[tokio::test]
async fn all_manifests_are_applied_with_one_command_and_without_warnings() {
    // In other clusters, the registered webhooks have the address of this machine and would be
    // merged with these.
    let cluster = World::policies_only().await.with_machines(3).await;
    let plane = cluster.plane();
    let apply = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-k"];
    let output = plane
        .kubectl()
        .args(apply)
        .args([folder("manifests")])
        .run()
        .await
        .unwrap();
    assert!(output.success(), "{output}");
    assert_eq!(output.stderr, "");
    for kind in [
        "serviceaccount",
        "deployment.apps",
        "service",
        "poddisruptionbudget.policy",
        "mutatingwebhookconfiguration",
        "validatingwebhookconfiguration",
        "validatingadmissionpolicy.",
        "validatingadmissionpolicybinding",
        "role.",
        "rolebinding",
        "clusterrole.",
        "clusterrolebinding",
    ] {
        assert!(output.stdout.contains(kind), "the output must contain {kind}: {output}");
    }
}

#[tokio::test]
async fn the_pods_satisfy_the_restricted_standard() {
    let cluster = World::ours().await.with_machines(3).await;
    let plane = cluster.plane();
    let namespace = plane.namespace("restricted").await.unwrap();
    let label = [
        "label",
        "namespace",
        &namespace,
        "pod-security.kubernetes.io/enforce=restricted",
    ];
    plane.kubectl().args(label).run().await.unwrap().checked().unwrap();
    let manifests = capstan::manifests::join(&capstan::manifests::deployment_files());
    let documents: Vec<Value> = serde_saphyr::from_multiple(&manifests).unwrap();
    let deployment = documents
        .iter()
        .find(|document| document["kind"] == "Deployment")
        .unwrap();
    let mut spec = deployment["spec"]["template"]["spec"].clone();
    // The service account is in another namespace and does not matter for the standard.
    spec.as_object_mut().unwrap().remove("serviceAccountName");
    spec["automountServiceAccountToken"] = json!(false);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "webhook", "namespace": namespace}, "spec": spec});
    let create = plane
        .kubectl()
        .args(["create", "--dry-run=server", "-f", "-"])
        .stdin(pod.to_string());
    let output = create.run().await.unwrap();
    assert!(output.success(), "{output}");
}

#[tokio::test]
async fn the_service_account_has_only_the_permissions_of_its_server() {
    let cluster = World::ours().await.with_machines(3).await;
    let account = capstan_sandbox::installation::SERVICE_ACCOUNT;
    for (verb, resource, namespace, allowed) in [
        ("watch", "machines.machine.openshift.io", NAMESPACE, "yes"),
        ("delete", "machines.machine.openshift.io", NAMESPACE, "no"),
        ("patch", "controlplanemachinesets.machine.openshift.io", NAMESPACE, "no"),
        ("list", "secrets", NAMESPACE, "no"),
        ("get", "secrets/capstan-webhook-tls", NAMESPACE, "yes"),
        ("get", "secrets/master-user-data", NAMESPACE, "no"),
        ("get", "secrets/capstan-webhook-tls", "default", "no"),
        (
            "patch",
            "validatingwebhookconfigurations.admissionregistration.k8s.io/capstan",
            NAMESPACE,
            "yes",
        ),
        (
            "patch",
            "validatingwebhookconfigurations.admissionregistration.k8s.io/other",
            NAMESPACE,
            "no",
        ),
    ] {
        let can_i = ["auth", "can-i", verb, resource, "-n", namespace, "--as", account];
        let output = cluster.plane().kubectl().args(can_i).run().await.unwrap();
        assert_eq!(
            output.stdout.trim(),
            allowed,
            "{verb} {resource} in {namespace}: {output}"
        );
    }
}
