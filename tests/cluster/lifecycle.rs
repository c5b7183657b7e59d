//! An installation on a real API server from the first check to the last deletion: `preflight`,
//! `verify` and `uninstall`, a trial with warnings, and upgrades.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use capstan_core::schema::crd;
use capstan_sandbox::control_plane::{ControlPlane, Options, Output, Process, free_port, point_at, wait_until};
use capstan_sandbox::installation::{Cluster, NAMESPACE, SERVICE_ACCOUNT, manifests_of};
use serde_json::{Value, json};

use super::fixtures;
use super::world::{SOON, capstan};

pub(super) const GROUPS: [&str; 2] = ["system:serviceaccounts", "system:serviceaccounts:openshift-machine-api"];

/// A control plane without Capstan.
pub(super) async fn empty() -> ControlPlane {
    let options = Options {
        audit: true,
        ..Options::default()
    };
    ControlPlane::start(options).await.unwrap()
}

/// Creates what an installation needs: the namespace, and the CRDs.
pub(super) async fn prepare(plane: &ControlPlane) {
    let cluster = Cluster::of(plane).unwrap();
    let namespace = ["create", "namespace", NAMESPACE];
    cluster.run(&namespace, "").await.unwrap().checked().unwrap();
    cluster
        .apply(&manifests_of(capstan(), "crds", "admission").await.unwrap())
        .await
        .unwrap();
    let foreign: Vec<String> = crd::foreign_crds().iter().map(Value::to_string).collect();
    cluster.apply(&foreign.join("\n---\n")).await.unwrap();
}

/// Runs the binary in the cluster. It returns the exit code, standard output, and standard error.
pub(super) async fn run(kubeconfig: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = tokio::process::Command::new(capstan());
    command.args(arguments).arg("--kubeconfig").arg(kubeconfig);
    let output = command.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().unwrap_or(-1),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// The checks of a report that failed.
pub(super) fn failed(report: &str) -> Vec<String> {
    let report: Value = serde_json::from_str(report).unwrap();
    let rows = report["checks"].as_array().unwrap().iter();
    rows.filter(|row| row["result"] == "failed")
        .map(|row| format!("{}: {}", row["check"].as_str().unwrap(), row["found"].as_str().unwrap()))
        .collect()
}

pub(super) async fn kubectl(plane: &ControlPlane, arguments: &[&str]) -> Output {
    plane.kubectl().args(arguments.iter().copied()).run().await.unwrap()
}

/// The names of all objects, except those that the cluster itself creates and renews.
pub(super) async fn all_objects(plane: &ControlPlane) -> BTreeSet<String> {
    let kinds = kubectl(plane, &["api-resources", "--verbs=list", "-o", "name"]).await;
    let kinds = kinds.checked().unwrap().stdout;
    let kinds: Vec<&str> = kinds.lines().filter(|kind| !kind.starts_with("events")).collect();
    let listed = kubectl(plane, &["get", &kinds.join(","), "--all-namespaces", "-o", "json"]).await;
    let list: Value = serde_json::from_str(&listed.checked().unwrap().stdout).unwrap();
    let title = |object: &Value| {
        format!(
            "{} {}/{}",
            object["kind"], object["metadata"]["namespace"], object["metadata"]["name"]
        )
    };
    list["items"].as_array().unwrap().iter().map(title).collect()
}

pub(super) async fn install(plane: &ControlPlane, features: &str) {
    let all = manifests_of(capstan(), "all", features).await.unwrap();
    Cluster::of(plane).unwrap().apply(&all).await.unwrap();
}

/// A webhook server with the permissions and the certificate of the manifests, and its port.
pub(super) async fn serve(plane: &ControlPlane, name: &str, flags: &[&str]) -> (Process, u16) {
    let kubeconfig = plane.kubeconfig_for(SERVICE_ACCOUNT, &GROUPS).unwrap();
    let (port, health) = (free_port().unwrap(), free_port().unwrap());
    let mut command = Command::new(capstan());
    command
        .args(["serve", "--dns-name=127.0.0.1", "--shutdown-delay=0s"])
        .arg(format!("--self-managed-secret={NAMESPACE}/capstan-webhook-tls"))
        .arg(format!("--listen=127.0.0.1:{port}"))
        .arg(format!("--health-addr=127.0.0.1:{health}"))
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .args(flags);
    let mut process = Process::spawn("capstan", command, &plane.folder().join(name)).unwrap();
    process
        .ready(&format!("http://127.0.0.1:{health}/readyz"), SOON)
        .await
        .unwrap();
    (process, port)
}

/// Registers the webhooks at a port of this machine, with an empty `caBundle`.
pub(super) async fn register(plane: &ControlPlane, port: u16, flags: &[&str]) {
    let output = Command::new(capstan())
        .args(["manifests", "webhooks"])
        .args(flags)
        .output()
        .unwrap();
    let webhooks = point_at(&String::from_utf8(output.stdout).unwrap(), port, "").unwrap();
    let mut list: Value = serde_json::from_str(&webhooks).unwrap();
    for configuration in list["items"].as_array_mut().unwrap() {
        for webhook in configuration["webhooks"].as_array_mut().unwrap() {
            webhook["clientConfig"].as_object_mut().unwrap().remove("caBundle");
        }
    }
    // A service and a URL exclude each other, so the fields of an applied service must go.
    let replace = plane.kubectl().args(["replace", "--force", "-f", "-"]);
    replace.stdin(list.to_string()).run().await.unwrap().checked().unwrap();
}

/// No kubelet runs the pods of the tests, so the Deployments become ready by hand.
pub(super) async fn mark_ready(plane: &ControlPlane, name: &str) {
    let get = [
        "get",
        "deployment",
        name,
        "-n",
        NAMESPACE,
        "-o=jsonpath={.spec.replicas}",
    ];
    let wanted = kubectl(plane, &get).await.checked().unwrap().stdout;
    let wanted: u32 = wanted.trim().parse().unwrap();
    let status = json!({"observedGeneration": 9, "replicas": wanted, "readyReplicas": wanted,
        "availableReplicas": wanted, "updatedReplicas": wanted});
    let flags = ["-n", NAMESPACE];
    plane.patch_status(["deployment", name], &flags, &status).await.unwrap();
}

#[tokio::test]
async fn preflight_names_each_missing_part_once() {
    let plane = empty().await;
    let admin = plane.kubeconfig().unwrap();
    let (code, text, stderr) = run(&admin, &["preflight", "-o", "json"]).await;
    assert_eq!((code, stderr.as_str()), (1, ""), "{text}");
    assert_eq!(
        failed(&text),
        [
            "the namespace openshift-machine-api exists: it does not exist",
            "the API server serves controlplanemachinesets of machine.openshift.io/v1: ",
            "the API server serves machines of machine.openshift.io/v1beta1: ",
        ]
    );
    prepare(&plane).await;
    let (code, text, _) = run(&admin, &["preflight", "--feature=admission,controllers"]).await;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("in a dry run") && text.ends_with(" 0 failed\n"), "{text}");
    // The command changes nothing.
    let objects = all_objects(&plane).await;
    assert!(!objects.iter().any(|title| title.contains("capstan")), "{objects:?}");

    let operator = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "control-plane-machine-set-operator", "namespace": NAMESPACE},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "a", "image": "a"}]}}}});
    plane.apply_yaml(&operator.to_string()).await.unwrap();
    let (code, text, _) = run(&admin, &["preflight", "--feature=admission,controllers", "-o", "json"]).await;
    assert_eq!(code, 1);
    assert_eq!(
        failed(&text),
        ["no other operator manages ControlPlaneMachineSets: the Deployment \
          openshift-machine-api/control-plane-machine-set-operator runs"]
    );
    let (code, text, _) = run(&admin, &["preflight"]).await;
    assert_eq!(code, 0, "the feature admission runs beside it: {text}");

    let delete = [
        "delete",
        "deployment",
        "control-plane-machine-set-operator",
        "-n",
        NAMESPACE,
    ];
    kubectl(&plane, &delete).await.checked().unwrap();
    let webhook = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "controlplanemachineset.machine.openshift.io"}, "webhooks": []});
    plane.apply_yaml(&webhook.to_string()).await.unwrap();
    let (code, text, _) = run(&admin, &["preflight", "-o", "json"]).await;
    assert_eq!((code, failed(&text).len()), (1, 1), "{text}");
    let delete = [
        "delete",
        "validatingwebhookconfiguration",
        "controlplanemachineset.machine.openshift.io",
    ];
    kubectl(&plane, &delete).await.checked().unwrap();

    // Controllers without their webhooks, and beside the controller of Cluster API.
    let namespace = "capi-kubeadm-control-plane-system";
    kubectl(&plane, &["create", "namespace", namespace])
        .await
        .checked()
        .unwrap();
    let mut other = operator;
    other["metadata"] = json!({"name": "capi-kubeadm-control-plane-controller-manager", "namespace": namespace});
    plane.apply_yaml(&other.to_string()).await.unwrap();
    let features = "--feature=admission,control-plane-controllers,kubeadm-control-plane-controllers";
    let (_, text, _) = run(&admin, &["preflight", features, "-o", "json"]).await;
    let failed_checks = failed(&text);
    for expected in [
        "the feature control-plane is installed with control-plane-controllers: it is not",
        "the feature kubeadm-control-plane is installed with kubeadm-control-plane-controllers: it is not",
        "no other controller manages KubeadmControlPlanes: the Deployment \
         capi-kubeadm-control-plane-system/capi-kubeadm-control-plane-controller-manager runs",
    ] {
        assert!(
            failed_checks.iter().any(|row| row == expected),
            "{expected}: {failed_checks:?}"
        );
    }

    let bob = plane.kubeconfig_for("bob", &[]).unwrap();
    plane.grant("bob", "view").await.unwrap();
    plane.allow("bob", &["get"], "", &["namespaces"]).await.unwrap();
    wait_until("bob may read", SOON, async || {
        let (code, text, stderr) = run(&bob, &["preflight", "-o", "json"]).await;
        anyhow::ensure!(code == 1, "{text}{stderr}");
        let failed = failed(&text);
        let forbidden = failed.iter().filter(|row| row.contains("cannot patch")).count();
        anyhow::ensure!(forbidden > 5 && forbidden == failed.len(), "{failed:?}");
        Ok(Some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn w178_w179_uninstall_keeps_crds_and_leases_of_other_programs() {
    let plane = empty().await;
    let admin = plane.kubeconfig().unwrap();
    prepare(&plane).await;
    let crd = "machinesets.machine.openshift.io";
    let unlabelled = ["label", "crd", crd, "app.kubernetes.io/name-"];
    kubectl(&plane, &unlabelled).await.checked().unwrap();
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "leader", "namespace": NAMESPACE}, "spec": {"holderIdentity": "other"}});
    plane.apply_yaml(&lease.to_string()).await.unwrap();
    // The garbage collector would delete the Machines that a deleted object owns.
    let unhealthy = json!([{"type": "Ready", "status": "Unknown", "timeout": "300s"}]);
    let check = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": {"name": "a", "namespace": NAMESPACE}, "spec": {"selector": {}, "unhealthyConditions": unhealthy}});
    plane.apply_yaml(&check.to_string()).await.unwrap();
    let all = ["uninstall", "--yes", "--crds", "--delete-objects"];
    let (code, text, stderr) = run(&admin, &all).await;
    assert_eq!(code, 1, "{text}{stderr}");
    assert!(text.contains("A CRD of another program is kept"), "{text}");
    let check = ["delete", "machinehealthcheck", "a", "-n", NAMESPACE];
    kubectl(&plane, &check).await.checked().unwrap();
    let (code, text, stderr) = run(&admin, &["uninstall", "--yes", "--crds", "--lease=leader"]).await;
    assert_eq!(code, 0, "{text}{stderr}");
    kubectl(&plane, &["get", "crd", crd]).await.checked().unwrap();
    let lease = ["get", "lease", "leader", "-n", NAMESPACE];
    kubectl(&plane, &lease).await.checked().unwrap();
    assert_eq!(text.matches("so it belongs to another program").count(), 2, "{text}");
    let own = kubectl(&plane, &["get", "crd", "machines.machine.openshift.io"]).await;
    assert!(!own.success(), "it has the label");
}

#[tokio::test]
async fn uninstall_deletes_webhooks_first_and_leaves_nothing_of_an_installation() {
    let plane = empty().await;
    let admin = plane.kubeconfig().unwrap();
    prepare(&plane).await;
    let (code, text, stderr) = run(&admin, &["uninstall", "--yes"]).await;
    assert_eq!(code, 0, "{text}{stderr}");
    assert!(text.contains("nothing of Capstan is installed"), "{text}");

    let definitions = manifests_of(capstan(), "crds", "control-plane").await.unwrap();
    plane.apply_yaml(&definitions).await.unwrap();
    let before = all_objects(&plane).await;
    install(
        &plane,
        "admission,controllers,mirroring,control-plane,control-plane-controllers",
    )
    .await;
    let policies = include_str!("../../manifests/components/network-policies/networkpolicies.yaml");
    plane.apply_yaml(policies).await.unwrap();
    for name in ["capstan", "capstan-mirroring", "capstan-control-plane"] {
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"holderIdentity": "one"}});
        let apply = [
            "apply",
            "--server-side",
            "--field-manager=kube-lease-manager-one",
            "-f",
            "-",
        ];
        let apply = plane.kubectl().args(apply).stdin(lease.to_string());
        apply.run().await.unwrap().checked().unwrap();
    }
    // cert-manager does not delete the Secrets of its Certificates.
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "capstan-tls", "namespace": NAMESPACE,
        "annotations": {"cert-manager.io/certificate-name": "capstan-tls"}}});
    plane.apply_yaml(&secret.to_string()).await.unwrap();
    let installed = all_objects(&plane).await;
    assert!(installed.len() > before.len() + 20);

    let (code, text, stderr) = run(&admin, &["uninstall"]).await;
    assert_eq!(code, 2);
    assert!(
        text.contains("ValidatingWebhookConfiguration capstan-mirroring"),
        "{text}"
    );
    assert!(stderr.contains("--yes is required"), "{stderr}");
    let (code, text, _) = run(&admin, &["uninstall", "--dry-run"]).await;
    assert_eq!(code, 0, "{text}");
    assert_eq!(all_objects(&plane).await, installed, "a dry run deletes nothing");

    let (code, text, stderr) = run(&admin, &["uninstall", "--yes"]).await;
    assert_eq!(code, 0, "{text}{stderr}");
    assert!(text.contains("the CRDs and their objects"), "{text}");
    assert_eq!(all_objects(&plane).await, before);
    let deletions: Vec<String> = plane
        .audit_events()
        .unwrap()
        .into_iter()
        .filter(|event| event.verb == "delete" && event.request_uri.contains("capstan"))
        .map(|event| event.request_uri)
        .collect();
    // The dry run sent the same requests before.
    let (dry, deletions) = deletions.split_at(deletions.len() / 2);
    assert_eq!(dry, deletions);
    let is_webhook = |uri: &String| uri.contains("webhookconfigurations");
    // The registration would add webhooks again.
    assert!(
        deletions[0].contains("deployments/capstan-registration"),
        "{deletions:?}"
    );
    let webhooks = deletions[1..].iter().take_while(|uri| is_webhook(uri)).count();
    assert_eq!(webhooks, 6, "{deletions:?}");
    assert_eq!(deletions.iter().filter(|uri| is_webhook(uri)).count(), 6);

    let (code, text, stderr) = run(&admin, &["uninstall", "--yes", "--crds"]).await;
    assert_eq!(code, 0, "{text}{stderr}");
    let left = kubectl(&plane, &["get", "crd", "-o", "name"])
        .await
        .checked()
        .unwrap()
        .stdout;
    for plural in [
        "controlplanemachinesets",
        "controlplanes",
        "machines",
        "machinesets",
        "machinehealthchecks",
    ] {
        assert!(!left.contains(&format!("/{plural}.machine.openshift.io")), "{left}");
    }
}

#[tokio::test]
async fn w87_an_interrupted_installation_says_what_it_did_and_what_to_do() {
    use tokio::io::{AsyncBufReadExt as _, BufReader};

    let plane = empty().await;
    prepare(&plane).await;
    let mut install = tokio::process::Command::new(capstan());
    install
        .args(["install", "--wait=2m", "--kubeconfig"])
        .arg(plane.kubeconfig().unwrap());
    install
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = install.kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Each step is printed when it is done. No kubelet makes the replicas ready.
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains("the Deployments are applied") {
            break;
        }
    }
    let id = i32::try_from(child.id().unwrap()).unwrap();
    let process = rustix::process::Pid::from_raw(id).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(130));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("what was applied stays; repeat the command, or run capstan uninstall"),
        "{text}"
    );
}

#[tokio::test]
async fn w86_a_user_who_may_not_delete_the_webhooks_deletes_nothing() {
    let plane = empty().await;
    prepare(&plane).await;
    install(&plane, "admission").await;
    plane.grant("bob", "view").await.unwrap();
    for (group, resources) in [
        ("", &["secrets", "serviceaccounts", "services"][..]),
        ("apps", &["deployments"]),
        ("admissionregistration.k8s.io", &["mutatingwebhookconfigurations"]),
    ] {
        plane
            .allow("bob", &["get", "list", "delete"], group, resources)
            .await
            .unwrap();
    }
    let everything = ["get", "list"];
    plane.allow("bob", &everything, "*", &["*"]).await.unwrap();
    let before = all_objects(&plane).await;
    let bob = plane.kubeconfig_for("bob", &[]).unwrap();
    wait_until("bob may read", SOON, async || {
        let (code, text, stderr) = run(&bob, &["uninstall", "--yes"]).await;
        anyhow::ensure!(code == 1 && text.contains("Nothing was deleted"), "{text}{stderr}");
        Ok(Some(()))
    })
    .await
    .unwrap();
    assert_eq!(all_objects(&plane).await, before);
}

#[tokio::test]
async fn w69_objects_of_other_programs_with_a_name_of_capstan_stay_as_they_are() {
    let plane = empty().await;
    let admin = plane.kubeconfig().unwrap();
    prepare(&plane).await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "capstan-webhook", "labels": {"app": "registry-mirror"}},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let webhook = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "capstan"},
        "webhooks": [{"name": "pods.capstan.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Ignore", "clientConfig": {"service": {"name": "capstan-hoist", "namespace": "ops"}}}]});
    for object in [&role, &webhook] {
        plane.apply_yaml(&object.to_string()).await.unwrap();
    }
    let before = all_objects(&plane).await;
    let (code, text, stderr) = run(&admin, &["preflight", "-o", "json"]).await;
    assert_eq!(code, 1, "{text}{stderr}");
    let failed = failed(&text);
    for object in ["ClusterRole capstan-webhook", "ValidatingWebhookConfiguration capstan"] {
        let named = failed
            .iter()
            .any(|row| row.contains(object) && row.contains("without the label"));
        assert!(named, "{object}: {failed:?}");
    }
    let (code, text, stderr) = run(&admin, &["uninstall", "--yes"]).await;
    assert_eq!(code, 0, "{text}{stderr}");
    assert!(text.contains("belongs to another program"), "{text}");
    assert_eq!(all_objects(&plane).await, before);
    let (code, text, _) = run(&admin, &["verify"]).await;
    assert!(code == 1 && text.contains("no feature is installed"), "{text}");
}

#[tokio::test]
async fn w70_webhooks_never_stay_without_their_server() {
    let plane = empty().await;
    let admin = plane.kubeconfig().unwrap();
    prepare(&plane).await;
    let definitions = manifests_of(capstan(), "crds", "control-plane").await.unwrap();
    plane.apply_yaml(&definitions).await.unwrap();
    let mut print = Command::new(capstan());
    print.args([
        "manifests",
        "all",
        "--static-webhooks",
        "--feature=admission,control-plane",
    ]);
    let manifests = String::from_utf8(print.output().unwrap().stdout).unwrap();
    Cluster::of(&plane).unwrap().apply(&manifests).await.unwrap();
    // The server of an installation with fewer features would not know the webhooks of the others.
    let (code, text, stderr) = run(&admin, &["preflight", "--feature", "admission", "-o", "json"]).await;
    assert_eq!(code, 1, "{text}{stderr}");
    let named = failed(&text)
        .iter()
        .any(|row| row.contains("the installed feature control-plane"));
    assert!(named, "{text}");
    // Another namespace would take the permissions away from the server that runs.
    let (code, text, stderr) = run(&admin, &["preflight", "-n", "default", "-o", "json"]).await;
    assert_eq!(code, 1, "{text}{stderr}");
    let named = failed(&text)
        .iter()
        .any(|row| row.contains("ClusterRoleBinding capstan-webhook"));
    assert!(named, "{text}");
    // A webhook configuration that lost its label is still recognized by the names of its webhooks.
    for kind in ["validatingwebhookconfiguration", "mutatingwebhookconfiguration"] {
        let label = ["label", kind, "capstan", "app.kubernetes.io/name-"];
        kubectl(&plane, &label).await.checked().unwrap();
    }
    let (code, text, stderr) = run(&admin, &["uninstall", "--yes"]).await;
    assert_eq!(code, 0, "{text}{stderr}");
    for kind in [
        "validatingwebhookconfiguration",
        "mutatingwebhookconfiguration",
        "validatingadmissionpolicy",
    ] {
        let left = kubectl(&plane, &["get", kind, "-o", "name"])
            .await
            .checked()
            .unwrap()
            .stdout;
        assert!(!left.contains("capstan"), "{left}");
    }
}

/// Without the server, no object of the CRD could be read.
#[tokio::test]
async fn w13_uninstall_deletes_nothing_while_the_server_converts_a_crd() {
    let plane = empty().await;
    let admin = plane.kubeconfig().unwrap();
    prepare(&plane).await;
    let crds = manifests_of(capstan(), "crds", "kubeadm-control-plane").await.unwrap();
    plane.apply_yaml(&crds).await.unwrap();
    install(&plane, "admission").await;
    let installed = all_objects(&plane).await;

    let (code, text, stderr) = run(&admin, &["uninstall", "--yes"]).await;
    assert_eq!(code, 1, "{text}{stderr}");
    assert!(text.contains("the webhook server converts its versions"), "{text}");
    assert_eq!(all_objects(&plane).await, installed);

    for name in ["kubeadmcontrolplanes", "kubeadmcontrolplanetemplates"] {
        let crd = format!("crd/{name}.controlplane.cluster.x-k8s.io");
        let none = r#"{"spec": {"conversion": {"strategy": "None", "webhook": null}}}"#;
        let patch = ["patch", &crd, "--type=merge", "-p", none];
        kubectl(&plane, &patch).await.checked().unwrap();
    }
    let (code, text, stderr) = run(&admin, &["uninstall", "--yes"]).await;
    assert_eq!(code, 0, "{text}{stderr}");
}

#[tokio::test]
async fn verify_succeeds_with_a_server_and_names_what_broke() {
    let plane = empty().await;
    let admin = plane.kubeconfig().unwrap();
    prepare(&plane).await;
    let (code, text, _) = run(&admin, &["verify"]).await;
    assert_eq!(code, 1);
    assert!(text.contains("no feature is installed"), "{text}");

    plane.apply_yaml(&fixtures::surroundings()).await.unwrap();
    install(&plane, "admission").await;
    let (mut server, port) = serve(&plane, "verify.log", &[]).await;
    register(&plane, port, &[]).await;
    mark_ready(&plane, "capstan-webhook").await;
    mark_ready(&plane, "capstan-registration").await;
    wait_until("the installation is complete", SOON, async || {
        let (code, text, stderr) = run(&admin, &["verify"]).await;
        anyhow::ensure!(code == 0, "{text}{stderr}\n{}", server.log());
        Ok(Some(()))
    })
    .await
    .unwrap();

    let (_, text, _) = run(&admin, &["verify", "--certificates=cert-manager"]).await;
    assert!(text.contains("the Secret capstan-tls contains a certificate"), "{text}");

    let delete = ["delete", "clusterrolebinding", "capstan-webhook"];
    kubectl(&plane, &delete).await.checked().unwrap();
    server.still_runs().unwrap();
    server.stop(SOON).await.unwrap();
    wait_until("the failures are visible", SOON, async || {
        let (code, text, _) = run(&admin, &["verify", "-o", "json"]).await;
        anyhow::ensure!(code == 1, "{text}");
        let failed = failed(&text);
        let has = |part: &str| failed.iter().any(|row| row.contains(part));
        anyhow::ensure!(
            has("ClusterRoleBinding capstan-webhook exists: it does not exist")
                && has("failed calling webhook")
                && has("missing: get nodes"),
            "{failed:?}"
        );
        Ok(Some(()))
    })
    .await
    .unwrap();
}

/// The remedy in another namespace is not to install Capstan there, too.
#[tokio::test]
async fn w134_verify_names_the_namespace_of_the_installation() {
    let plane = empty().await;
    let admin = plane.kubeconfig().unwrap();
    prepare(&plane).await;
    install(&plane, "admission").await;
    let (code, text, stderr) = run(&admin, &["verify", "--namespace=default", "--feature=admission"]).await;
    assert_eq!(code, 1, "{text}{stderr}");
    assert!(
        text.contains("belongs to Capstan in the namespace openshift-machine-api"),
        "{text}"
    );
    assert!(
        text.contains("Repeat the command with --namespace openshift-machine-api."),
        "{text}"
    );
    assert!(
        !text.contains("it does not exist") && !text.contains("Apply the manifests"),
        "{text}"
    );
}

/// A set that breaks a rule of the webhook and one of the policy.
fn invalid_set() -> Value {
    let mut set = fixtures::set_of(3, "Inactive");
    set["metadata"]["namespace"] = json!("default");
    set["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    set
}

#[tokio::test]
async fn a_trial_warns_and_refuses_nothing_also_without_a_server() {
    let plane = empty().await;
    prepare(&plane).await;
    plane.apply_yaml(&fixtures::surroundings()).await.unwrap();
    let trial = ["--enforcement=warn"];
    let printed = Command::new(capstan())
        .args(["manifests", "all"])
        .args(trial)
        .output()
        .unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.contains("- --enforcement=warn\n"));
    assert!(!printed.contains("failurePolicy: Fail") && !printed.contains("- Deny"));
    Cluster::of(&plane).unwrap().apply(&printed).await.unwrap();
    let (server, port) = serve(&plane, "trial.log", &trial).await;
    register(&plane, port, &trial).await;
    let create = async || {
        let create = plane.kubectl().args(["create", "--dry-run=server", "-f", "-"]);
        create.stdin(invalid_set().to_string()).run().await
    };
    wait_until("both the webhook and the policy warn", SOON, async || {
        let output = create().await?;
        anyhow::ensure!(output.success(), "{output}");
        anyhow::ensure!(output.stderr.contains("not enforced: "), "{output}");
        anyhow::ensure!(output.stderr.contains("cpms-namespace"), "{output}");
        anyhow::ensure!(output.stderr.contains("ValidatingAdmissionPolicy"), "{output}");
        Ok(Some(()))
    })
    .await
    .unwrap();
    server.stop(SOON).await.unwrap();
    let output = create().await.unwrap();
    assert!(output.success(), "{output}");
}

/// Manifests of an earlier version let the server create the Secret. The upgrade adopts it.
#[tokio::test]
async fn an_upgrade_keeps_the_certificate_that_the_server_created_itself() {
    let plane = empty().await;
    let cluster = Cluster::of(&plane).unwrap();
    prepare(&plane).await;
    plane.apply_yaml(&fixtures::surroundings()).await.unwrap();
    let rbac = manifests_of(capstan(), "rbac", "admission").await.unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&rbac).unwrap();
    let without_secret: Vec<String> = documents
        .iter()
        .filter(|object| object["kind"] != "Secret")
        .map(Value::to_string)
        .collect();
    cluster.apply(&without_secret.join("\n---\n")).await.unwrap();
    // The server of that version created the Secret with a field manager of its own.
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": "capstan-webhook-tls", "namespace": NAMESPACE}});
    let create = plane.kubectl().args(["create", "--field-manager=capstan", "-f", "-"]);
    create.stdin(secret.to_string()).run().await.unwrap().checked().unwrap();
    let (server, port) = serve(&plane, "old.log", &[]).await;
    register(&plane, port, &[]).await;
    let data = async || {
        let get = ["get", "secret", "capstan-webhook-tls", "-n", NAMESPACE, "-o", "json"];
        let found: Value = serde_json::from_str(&kubectl(&plane, &get).await.checked().unwrap().stdout).unwrap();
        found["data"].clone()
    };
    let called = async || {
        let mut probe = fixtures::set_of(3, "Inactive");
        probe["metadata"]["namespace"] = json!("default");
        wait_until("the webhooks are called", SOON, async || {
            let create = plane.kubectl().args(["create", "--dry-run=server", "-f", "-"]);
            let output = create.stdin(probe.to_string()).run().await?;
            anyhow::ensure!(output.stderr.contains("cpms-namespace"), "{output}");
            Ok(Some(()))
        })
        .await
        .unwrap();
    };
    // From now on, the certificate does not change; the state of its rotation may.
    called().await;
    let before = data().await;
    assert!(before["tls.crt"].is_string(), "{before}");

    // The upgrade, the way back to the older manifests, and the upgrade again.
    for manifests in [rbac.clone(), without_secret.join("\n---\n"), rbac] {
        cluster.apply(&manifests).await.unwrap();
        let after = data().await;
        for key in ["ca.crt", "tls.crt", "tls.key"] {
            assert_eq!(after[key], before[key], "apply does not change {key}");
        }
        called().await;
    }
    server.stop(SOON).await.unwrap();
}

#[tokio::test]
async fn an_api_server_that_does_not_answer_is_one_sentence_within_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept() {
            kept.push(stream);
        }
    });
    let closed = free_port().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (port, reason) in [(silent, "did not respond within 1s"), (closed, "Connection refused")] {
        let path = folder.path().join(format!("{port}.yaml"));
        let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": format!("https://127.0.0.1:{port}")}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "users": [{"name": "a", "user": {}}]});
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        for command in ["preflight", "verify", "uninstall"] {
            let start = Instant::now();
            let (code, _, stderr) = run(&path, &[command, "--timeout=1s"]).await;
            assert_eq!(code, 2, "{command}: {stderr}");
            assert_eq!(stderr.lines().count(), 1, "{command}: {stderr}");
            assert!(
                stderr.contains(reason) && stderr.contains(&port.to_string()),
                "{stderr}"
            );
            assert!(start.elapsed() < Duration::from_secs(10), "{command}");
        }
        let start = Instant::now();
        let (code, _, stderr) = run(&path, &["wait", "--timeout=1s"]).await;
        let is_silent = port == silent;
        assert_eq!(
            (code == 3, stderr.contains("the timeout has passed")),
            (is_silent, is_silent),
            "{stderr}"
        );
        assert!(start.elapsed() < Duration::from_secs(10), "{stderr}");
    }
}
