//! The manifests in a cluster: kustomize builds them, the API server accepts them, and the pods
//! satisfy the restricted Pod Security Standard.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use capstan_core::admission::Feature;
use capstan_sandbox::installation::{NAMESPACE, manifests_of};
use serde_json::{Value, json};

use super::world::{World, capstan};

fn folder(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name).display().to_string()
}

/// The folders that kustomize builds, with the features that each installs.
const OVERLAYS: [(&str, &str); 4] = [
    ("manifests", "admission"),
    ("manifests/overlays/controllers", "admission,controllers"),
    ("manifests/overlays/mirroring", "admission,mirroring"),
    ("manifests/overlays/all", "admission,controllers,mirroring"),
];

/// Objects by kind and name. The order of the flags of a container has no meaning.
fn by_name(manifests: &str) -> BTreeMap<String, Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(manifests).unwrap();
    let mut objects = BTreeMap::new();
    for mut object in documents {
        if let Some(arguments) = object.pointer_mut("/spec/template/spec/containers/0/args") {
            arguments.as_array_mut().unwrap().sort_by_key(Value::to_string);
        }
        let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
        assert!(objects.insert(name.clone(), object).is_none(), "{name} must occur once");
    }
    objects
}

#[tokio::test]
async fn kustomize_and_the_command_install_the_same_objects() {
    let cluster = World::policies_only().await.with_machines(3).await;
    for (overlay, features) in OVERLAYS {
        let kustomize = cluster.plane().kubectl().args(["kustomize", &folder(overlay)]);
        let built = kustomize.run().await.unwrap().checked().unwrap().stdout;
        let printed = manifests_of(capstan(), "all", features).await.unwrap();
        let (built, printed) = (by_name(&built), by_name(&printed));
        assert_eq!(
            built.keys().collect::<Vec<_>>(),
            printed.keys().collect::<Vec<_>>(),
            "{overlay}"
        );
        for (name, object) in &built {
            assert_eq!(object, &printed[name], "{overlay}: {name}");
        }
    }
}

/// A feature that is not installed leaves nothing in the cluster that could refuse an edit or grant
/// a permission.
#[tokio::test]
async fn a_feature_adds_its_own_objects_only() {
    let objects = async |features: &str| -> BTreeSet<String> {
        let printed = manifests_of(capstan(), "all", features).await.unwrap();
        by_name(&printed).into_keys().collect()
    };
    let admission = objects("admission").await;
    assert!(
        admission
            .iter()
            .all(|name| !name.contains("mirroring") && !name.contains("authority"))
    );
    assert!(admission.iter().all(|name| !name.contains("capstan-controllers")));
    for feature in ["controllers", "mirroring"] {
        let together = objects(&format!("admission,{feature}")).await;
        assert!(together.is_superset(&admission), "{feature}");
        let kinds = |kind: &str| {
            let added = together.difference(&admission);
            added.filter(|name| name.contains(kind)).count()
        };
        assert_eq!(kinds("WebhookConfiguration") > 0, feature == "mirroring");
        assert_eq!(kinds("Deployment") > 0, feature == "controllers");
    }
}

#[tokio::test]
async fn all_manifests_are_applied_with_one_command_and_without_warnings() {
    // In other clusters, the registered webhooks have the address of this machine and would be
    // merged with these.
    let cluster = World::policies_only().await.with_machines(3).await;
    let plane = cluster.plane();
    let apply = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-k"];
    for (overlay, _) in OVERLAYS {
        let output = plane.kubectl().args(apply).args([folder(overlay)]).run().await.unwrap();
        assert!(output.success(), "{overlay}: {output}");
        assert_eq!(output.stderr, "", "{overlay}");
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
    for feature in [Feature::Admission, Feature::Controllers] {
        let manifests = capstan::manifests::join(&capstan::manifests::deployment_files(feature));
        let documents: Vec<Value> = serde_saphyr::from_multiple(&manifests).unwrap();
        let deployment = documents
            .iter()
            .find(|document| document["kind"] == "Deployment")
            .unwrap();
        let mut spec = deployment["spec"]["template"]["spec"].clone();
        // The service account is in another namespace and does not matter for the standard.
        spec.as_object_mut().unwrap().remove("serviceAccountName");
        spec["automountServiceAccountToken"] = json!(false);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": feature.name(), "namespace": namespace},
            "spec": spec});
        let create = plane
            .kubectl()
            .args(["create", "--dry-run=server", "-f", "-"])
            .stdin(pod.to_string());
        let output = create.run().await.unwrap();
        assert!(output.success(), "{output}");
    }
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
