//! The manifests in a cluster: kustomize builds them, the API server accepts them, and the pods
//! satisfy the restricted Pod Security Standard.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use capstan_sandbox::installation::{NAMESPACE, manifests_of};
use serde_json::{Value, json};

use super::world::{World, capstan};

fn folder(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name).display().to_string()
}

/// The folders that kustomize builds, with the features that each installs.
const OVERLAYS: [(&str, &str); 11] = [
    ("manifests", "admission"),
    ("manifests/overlays/controllers", "admission,controllers"),
    ("manifests/overlays/mirroring", "admission,mirroring"),
    (
        "manifests/overlays/mirroring-controllers",
        "admission,mirroring,mirroring-controllers",
    ),
    ("manifests/overlays/all", "admission,controllers,mirroring"),
    (
        "manifests/overlays/kubeadm-control-plane",
        "admission,kubeadm-control-plane",
    ),
    ("manifests/overlays/control-plane", "admission,control-plane"),
    (
        "manifests/overlays/kubeadm-control-plane-controllers",
        "admission,kubeadm-control-plane,kubeadm-control-plane-controllers",
    ),
    (
        "manifests/overlays/control-plane-controllers",
        "admission,control-plane,control-plane-controllers",
    ),
    ("manifests/overlays/machine-pools", "admission,machine-pools"),
    (
        "manifests/overlays/machine-pool-controllers",
        "admission,machine-pools,machine-pool-controllers",
    ),
];

/// The kustomizations that a user may write, with the flags of the command that prints the same.
const KUSTOMIZATIONS: [(&str, &[&str], &[&str], &str); 6] = [
    ("manifests", &["cert-manager"], &["--certificates=cert-manager"], ""),
    (
        "manifests",
        &["service-ca", "single-node", "network-policies"],
        &["--certificates=service-ca", "--single-node", "--network-policies"],
        "",
    ),
    ("manifests", &[], &[], "control-planes"),
    (
        "manifests",
        &[
            "controllers",
            "mirroring",
            "single-node",
            "network-policies",
            "secure-metrics",
        ],
        &[
            "--feature=admission,controllers,mirroring",
            "--single-node",
            "--network-policies",
            "--secure-metrics",
        ],
        "control-planes",
    ),
    (
        "manifests/overlays/all",
        &["cert-manager", "single-node"],
        &[
            "--feature=admission,controllers,mirroring",
            "--certificates=cert-manager",
            "--single-node",
        ],
        "control-planes",
    ),
    (
        "manifests/overlays/mirroring",
        &["control-plane", "machine-pools", "service-ca"],
        &[
            "--feature=admission,mirroring,control-plane,machine-pools",
            "--certificates=service-ca",
        ],
        "control-planes",
    ),
];

/// Writes a kustomization with this base and these components, for this namespace unless it is
/// empty.
fn kustomization(number: usize, base: &str, components: &[&str], namespace: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kustomization-{number}"));
    std::fs::create_dir_all(&folder).unwrap();
    let folder = folder.canonicalize().unwrap();
    // kustomize accepts relative paths only.
    let up = "../".repeat(folder.components().count() - 1);
    let repository = format!("{up}{}", folder_of_repository().trim_start_matches('/'));
    let components: Vec<String> = components
        .iter()
        .map(|name| format!("{repository}/manifests/components/{name}"))
        .collect();
    let mut text = json!({"resources": [format!("{repository}/{base}")], "components": components});
    if !namespace.is_empty() {
        text["namespace"] = json!(namespace);
        text["transformers"] = json!([format!("{repository}/manifests/namespace")]);
    }
    std::fs::write(folder.join("kustomization.yaml"), text.to_string()).unwrap();
    folder
}

fn folder_of_repository() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap();
    root.display().to_string()
}

/// The output of `capstan manifests` with these flags.
fn printed(what: &str, flags: &[&str], namespace: &str) -> String {
    let mut command = Command::new(capstan());
    command.args(["manifests", what]).args(flags);
    if !namespace.is_empty() {
        command.args(["--namespace", namespace]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn assert_same(place: &str, built: &str, printed: &str) {
    let (built, printed) = (by_name(built), by_name(printed));
    assert_eq!(
        built.keys().collect::<Vec<_>>(),
        printed.keys().collect::<Vec<_>>(),
        "{place}"
    );
    for (name, object) in &built {
        assert!(object == &printed[name], "{place}: {name}\n{object}\n{}", printed[name]);
    }
}

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
        assert_same(overlay, &built, &printed);
    }
}

#[tokio::test]
async fn a_kustomization_with_components_and_a_namespace_installs_what_the_command_prints() {
    let cluster = World::policies_only().await.with_machines(3).await;
    for (number, (base, components, flags, namespace)) in KUSTOMIZATIONS.into_iter().enumerate() {
        let folder = kustomization(number, base, components, namespace);
        let built = cluster
            .plane()
            .kubectl()
            .args(["kustomize", &folder.display().to_string()]);
        let built = built.run().await.unwrap().checked().unwrap();
        assert_eq!(built.stderr, "");
        let place = format!("{base} {components:?} {namespace}");
        assert_same(&place, &built.stdout, &printed("all", flags, namespace));
        if !namespace.is_empty() {
            // The default namespace may be absent, or belong to another installation.
            assert!(!built.stdout.contains(NAMESPACE), "{place}");
        }
    }
}

/// The folders with a kustomization below this one.
fn kustomizations_below(folder: &Path, found: &mut Vec<PathBuf>) {
    if folder.join("kustomization.yaml").is_file() {
        found.push(folder.to_owned());
    }
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            kustomizations_below(&path, found);
        }
    }
}

#[test]
fn w60_every_kustomization_of_the_repository_builds() {
    let kubectl = capstan_sandbox::control_plane::Binaries::locate().unwrap().kubectl;
    let mut folders = Vec::new();
    for top in ["manifests", "webhooks"] {
        kustomizations_below(Path::new(&folder(top)), &mut folders);
    }
    assert!(folders.len() > 30, "{folders:?}");
    for found in folders {
        let text = std::fs::read_to_string(found.join("kustomization.yaml")).unwrap();
        let built = if text.contains("kind: Component") {
            let component = found.file_name().unwrap().to_str().unwrap();
            kustomization(60, "manifests", &[component], "")
        } else {
            found.clone()
        };
        let output = Command::new(&kubectl).arg("kustomize").arg(&built).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && error.is_empty(),
            "{}: {error}",
            found.display()
        );
    }
}

/// Another namespace and other certificates are installed in one step, as the default is.
#[tokio::test]
async fn kustomizations_with_components_are_applied_in_a_restricted_namespace_without_warnings() {
    let cluster = World::policies_only().await.with_machines(3).await;
    let plane = cluster.plane();
    plane.apply_yaml(CERT_MANAGER).await.unwrap();
    let namespace = r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "control-planes",
        "labels": {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}}}"#;
    plane.apply_yaml(namespace).await.unwrap();
    let apply = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-k"];
    for (number, (base, components, _, namespace)) in KUSTOMIZATIONS.into_iter().enumerate() {
        let folder = kustomization(number + KUSTOMIZATIONS.len(), base, components, namespace);
        let output = plane.kubectl().args(apply).args([folder.display().to_string()]);
        let output = output.run().await.unwrap();
        assert!(output.success(), "{base} {components:?}: {output}");
        assert_eq!(output.stderr, "", "{base} {components:?}");
    }
}

/// The kinds of cert-manager that the component installs, without their schemas.
const CERT_MANAGER: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: issuers.cert-manager.io}
spec:
  group: cert-manager.io
  names: {kind: Issuer, plural: issuers, singular: issuer, listKind: IssuerList}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: certificates.cert-manager.io}
spec:
  group: cert-manager.io
  names: {kind: Certificate, plural: certificates, singular: certificate, listKind: CertificateList}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
";

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
    // The permissions of the mirroring controllers are in the namespace of Cluster API, too.
    let create = ["create", "namespace", "openshift-cluster-api"];
    plane.kubectl().args(create).run().await.unwrap().checked().unwrap();
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
    let features = "--feature=admission,controllers,mirroring";
    for (number, flags) in [
        &[features][..],
        &[features, "--certificates=cert-manager"],
        &[features, "--certificates=service-ca", "--single-node"],
    ]
    .into_iter()
    .enumerate()
    {
        let documents: Vec<Value> = serde_saphyr::from_multiple(&printed("deployment", flags, "")).unwrap();
        let deployments = documents.iter().filter(|document| document["kind"] == "Deployment");
        for (replica, deployment) in deployments.enumerate() {
            let mut spec = deployment["spec"]["template"]["spec"].clone();
            // The service account is in another namespace and does not matter for the standard.
            spec.as_object_mut().unwrap().remove("serviceAccountName");
            spec["automountServiceAccountToken"] = json!(false);
            let name = format!("pod-{number}-{replica}");
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
                "spec": spec});
            let create = plane
                .kubectl()
                .args(["create", "--dry-run=server", "-f", "-"])
                .stdin(pod.to_string());
            let output = create.run().await.unwrap();
            assert!(output.success(), "{flags:?}: {output}");
        }
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
