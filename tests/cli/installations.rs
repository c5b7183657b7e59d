//! What `capstan preflight`, `install`, `verify`, and `uninstall` say about a cluster, on a server
//! that has a few objects. `tests/cluster/lifecycle.rs` installs in a real cluster.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::channel;

use serde_json::{Value, json};

use super::stub::{Answer, Stub, not_served, status, version};
use super::{capstan, path, stderr, stdout};

const NAMESPACE: &str = "openshift-machine-api";
const SYNC: &str = "sync.machine.openshift.io/finalizer";

/// A cluster with these objects and lists, by their paths. A deletion of one of the objects
/// succeeds, and changes nothing.
fn cluster(objects: Vec<(String, Value)>) -> Stub {
    Stub::new(move |method, path| answer(&objects, method, path))
}

fn answer(objects: &[(String, Value)], method: &str, path: &str) -> Answer {
    if path == "/version" {
        return version();
    }
    if method == "POST" && path.ends_with("accessreviews") {
        let kind = if path.contains("self") {
            "SelfSubjectAccessReview"
        } else {
            "SubjectAccessReview"
        };
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "metadata": {}, "spec": {},
            "status": {"allowed": true}});
        return (201, review.to_string());
    }
    match objects.iter().find(|(at, _)| at == path) {
        Some((_, object)) if ["GET", "DELETE"].contains(&method) => (200, object.to_string()),
        _ if path.starts_with("/api/v1/") => status(404, "NotFound", "not found"),
        _ => not_served(),
    }
}

fn namespace() -> (String, Value) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    (format!("/api/v1/namespaces/{NAMESPACE}"), object)
}

fn deployment(name: &str) -> (String, Value) {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name,
        "namespace": NAMESPACE, "labels": {"app.kubernetes.io/name": "capstan"}}});
    (
        format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}"),
        object,
    )
}

fn list(at: &str, items: &[Value]) -> (String, Value) {
    let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items});
    (format!("/apis/{at}"), list)
}

/// An object with finalizers.
fn held(name: &str, finalizers: &[&str]) -> Value {
    json!({"metadata": {"namespace": NAMESPACE, "name": name, "finalizers": finalizers}})
}

/// Runs a command. The commands of the remedies are returned without the flag of the kubeconfig.
fn run(stub: &Stub, arguments: &[&str]) -> (Option<i32>, String, String) {
    let config = stub.usual();
    let config = path(&config);
    let output = capstan(&[arguments, &["--kubeconfig", config]].concat(), "");
    let text = stdout(&output).replace(&format!("kubectl --kubeconfig {config} "), "kubectl ");
    (output.status.code(), text, stderr(&output))
}

/// The checks of a report as JSON.
fn checks(stub: &Stub, arguments: &[&str]) -> Vec<Value> {
    let (_, text, error) = run(stub, &[arguments, &["-o", "json"]].concat());
    let report: Value = serde_json::from_str(&text).map_err(|_| error).unwrap();
    report["checks"].as_array().unwrap().clone()
}

/// All features, as `--feature` takes them.
const FEATURES: [&str; 4] = [
    "admission,controllers,mirroring,kubeadm-control-plane",
    "admission,control-plane,machine-pools",
    "kubeadm-control-plane-controllers,control-plane-controllers",
    "mirroring-controllers,machine-pool-controllers",
];

#[test]
fn w91_the_remedy_for_a_missing_crd_prints_that_crd() {
    let stub = cluster(Vec::new());
    let mut printed = BTreeMap::new();
    for features in FEATURES {
        for check in checks(&stub, &["preflight", "-n", "elsewhere", "--feature", features]) {
            let [section, check, remedy] = ["section", "check", "remedy"].map(|field| check[field].as_str().unwrap());
            let Some(served) = check
                .strip_prefix("the API server serves ")
                .filter(|_| section == "CRDs")
            else {
                continue;
            };
            let (plural, version) = served.split_once(" of ").unwrap();
            let group = version.split_once('/').unwrap().0;
            let Some(command) = remedy.strip_suffix(" | kubectl apply --server-side -f -") else {
                assert_eq!(
                    (group, remedy),
                    ("cluster.x-k8s.io", "Install Cluster API first."),
                    "{features}"
                );
                continue;
            };
            let words: Vec<&str> = command.split(' ').skip(1).collect();
            let print = || stdout(&capstan(&words, ""));
            let manifests = printed.entry(command.to_owned()).or_insert_with(print);
            assert!(
                manifests.contains(&format!("\n  name: {plural}.{group}\n")),
                "{features}: {remedy}"
            );
            // A CRD with a conversion webhook names the namespace of the server.
            assert!(!manifests.contains(NAMESPACE), "{features}: {remedy}");
        }
    }
    assert_eq!(printed.len(), 3, "{:?}", printed.keys());
}

#[test]
fn w92_w174_controllers_are_refused_without_the_webhooks_that_guard_them() {
    let stub = cluster(vec![namespace()]);
    for (controllers, guards) in [
        ("controllers", "admission"),
        ("mirroring-controllers", "mirroring"),
        ("kubeadm-control-plane-controllers", "kubeadm-control-plane"),
        ("control-plane-controllers", "control-plane"),
        ("machine-pool-controllers", "machine-pools"),
    ] {
        let found = checks(&stub, &["preflight", "--feature", controllers]);
        let wanted = format!("the feature {guards} is installed with {controllers}");
        let check = found.iter().find(|check| check["check"] == wanted.as_str());
        let check = check.unwrap_or_else(|| panic!("{controllers}: {found:?}"));
        assert_eq!(check["result"], "failed");
        let admission = if guards == "admission" { "" } else { "admission," };
        let features = format!("{admission}{guards},{controllers}");
        assert_eq!(check["remedy"], format!("--feature {features}"));
        // The remedy does not fail next.
        let output = capstan(&["manifests", "all", "--feature", &features], "");
        assert_eq!(output.status.code(), Some(0), "{}", super::stderr(&output));
    }
}

#[test]
fn w92_no_certificate_is_demanded_of_an_installation_without_webhooks() {
    let stub = cluster(vec![namespace(), deployment("capstan-controllers")]);
    let found = checks(&stub, &["verify"]);
    assert!(
        found.iter().any(|check| check["found"] == "controllers"),
        "the installation is found: {found:?}"
    );
    assert!(
        !found.iter().any(|check| check["section"] == "certificates"),
        "{found:?}"
    );
    let guard = "the feature admission is installed with controllers";
    let guard = found.iter().find(|check| check["check"] == guard).unwrap();
    assert_eq!(guard["result"], "warning");
    assert_eq!(guard["remedy"], "--feature admission,controllers");
}

#[test]
fn w93_the_error_for_a_missing_feature_names_the_features_of_the_user() {
    for (given, wanted) in [
        ("control-plane", "--feature admission,control-plane\n"),
        ("machine-pools", "--feature admission,machine-pools\n"),
        (
            "machine-pools,kubeadm-control-plane",
            "--feature admission,kubeadm-control-plane,machine-pools\n",
        ),
        (
            "mirroring,mirroring-controllers",
            "--feature admission,mirroring,mirroring-controllers\n",
        ),
    ] {
        let output = capstan(&["manifests", "all", "--feature", given], "");
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.ends_with(wanted), "{error}");
    }
}

#[test]
fn w94_uninstall_says_that_nothing_is_installed_and_no_missing_namespace_is_kept() {
    for flags in [&[][..], &["--yes"], &["--dry-run"]] {
        let (code, text, error) = run(&cluster(Vec::new()), &[&["uninstall"], flags].concat());
        assert_eq!(code, Some(0), "{text}{error}");
        assert!(text.contains("nothing of Capstan is installed"), "{text}");
        assert!(
            text.contains(&format!("the namespace {NAMESPACE} does not exist")),
            "{text}"
        );
        assert!(!text.contains("ok       the namespace"), "{text}");
        let (_, text, _) = run(&cluster(vec![namespace()]), &[&["uninstall"], flags].concat());
        assert!(text.contains(&format!("ok       the namespace {NAMESPACE}")), "{text}");
    }
    let help = stdout(&capstan(&["uninstall", "--help"], ""));
    assert!(help.contains("if nothing is installed"), "{help}");
}

#[test]
fn w95_an_empty_secret_is_not_called_a_secret_that_must_be_applied() {
    let secret = |name: &str, data: Value| {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/name": "capstan"}}, "data": data});
        (format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}"), object)
    };
    let certificate = |secrets: Vec<(String, Value)>| {
        let objects = [vec![namespace(), deployment("capstan-webhook")], secrets].concat();
        let found = checks(&cluster(objects), &["verify"]);
        let check = found.iter().find(|check| check["section"] == "certificates").unwrap();
        ["found", "remedy"].map(|field| check[field].as_str().unwrap().to_owned())
    };
    for data in [json!(null), json!({}), json!({"tls.crt": "", "tls.key": ""})] {
        let [found, remedy] = certificate(vec![secret("capstan-webhook-tls", data.clone())]);
        assert_eq!(found, "the server has not written it yet", "{data}");
        assert!(remedy.contains("logs deployment/capstan-webhook"), "{data}: {remedy}");
        assert!(!remedy.contains("apply"), "{data}: {remedy}");
    }
    let [found, remedy] = certificate(Vec::new());
    assert_eq!(found, "the Secret does not exist");
    assert!(remedy.contains("kubectl apply the Secret"), "{remedy}");
}

#[test]
fn w96_a_dry_run_names_the_objects_that_would_die_with_their_crds() {
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/";
    let name = "machines.machine.openshift.io";
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "capstan"}}});
    let stub = cluster(vec![
        namespace(),
        (format!("{crds}{name}"), crd),
        list(
            "machine.openshift.io/v1beta1/machines",
            &[held("m-0", &[]), held("m-1", &[])],
        ),
    ]);
    for flags in [&["--dry-run"][..], &["--yes", "--wait", "0s"]] {
        let command = [&["uninstall", "--crds", "--delete-objects"], flags].concat();
        let (_, text, error) = run(&stub, &command);
        let objects = format!("2 objects: {NAMESPACE}/m-0, {NAMESPACE}/m-1");
        assert!(text.contains(&objects), "{flags:?}: {text}{error}");
    }
}

/// A cluster with the controllers, and a set that is being deleted.
fn with_terminating_set(owner: &str, controllers: &str) -> Stub {
    let mut set = held("cluster", &["controlplanemachineset.machine.openshift.io"]);
    set["metadata"]["uid"] = json!("u-1");
    set["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut machine = held("m-0", &["machine.machine.openshift.io"]);
    machine["metadata"]["ownerReferences"] = json!([{"apiVersion": "machine.openshift.io/v1",
        "kind": "ControlPlaneMachineSet", "name": "cluster", "uid": owner, "controller": true}]);
    cluster(vec![
        namespace(),
        deployment(controllers),
        list(
            &format!("machine.openshift.io/v1/namespaces/{NAMESPACE}/controlplanemachinesets"),
            &[set],
        ),
        list(
            &format!("machine.openshift.io/v1beta1/namespaces/{NAMESPACE}/machines"),
            &[machine],
        ),
    ])
}

#[test]
fn w97_the_controllers_are_not_removed_while_they_release_the_machines_of_a_deleted_set() {
    let stub = with_terminating_set("u-1", "capstan-controllers");
    let warning = format!("ControlPlaneMachineSet {NAMESPACE}/cluster");
    for (flags, expected) in [(&[][..], 2), (&["--dry-run"], 1), (&["--yes", "--wait", "0s"], 1)] {
        let (code, text, error) = run(&stub, &[&["uninstall"], flags].concat());
        assert_eq!(code, Some(expected), "{flags:?}: {text}{error}");
        let line = text
            .lines()
            .find(|line| line.contains(&warning))
            .unwrap_or_else(|| panic!("{text}{error}"));
        assert!(line.contains("it is being deleted, and owns 1 machine"), "{text}");
        assert!(text.contains("garbage collector"), "{text}");
        assert!(
            !text.contains("Deployment") || flags.is_empty(),
            "nothing is deleted: {text}"
        );
    }
    // No machine refers to it: it waits for its controller nevertheless (W185).
    let stub = with_terminating_set("u-2", "capstan-controllers");
    let (code, text, error) = run(&stub, &["uninstall", "--dry-run"]);
    assert_eq!(code, Some(1), "{text}{error}");
    assert!(
        text.contains("it is being deleted and has finalizers, so nothing is deleted"),
        "{text}"
    );
    // The controllers are not those of Capstan.
    let stub = with_terminating_set("u-1", "capstan-webhook");
    let (code, text, error) = run(&stub, &["uninstall", "--dry-run"]);
    assert_eq!(code, Some(0), "{text}{error}");
    assert!(!text.contains("it is being deleted, and owns"), "{text}");
    assert!(text.contains("it is being deleted, it has finalizers"), "{text}");
    assert!(!text.contains("Before you delete it"), "{text}");
}

/// A cluster with the controller of ControlPlanes, and a ControlPlane whose machine has the hook.
fn with_control_plane(is_deleted: bool) -> Stub {
    let mut object = held("cluster", &["controlplane.machine.openshift.io"]);
    object["metadata"]["uid"] = json!("u-1");
    if is_deleted {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    let mut machine = held("m-0", &["machine.machine.openshift.io"]);
    machine["metadata"]["ownerReferences"] = json!([{"apiVersion": "machine.openshift.io/v1alpha1",
        "kind": "ControlPlane", "name": "cluster", "uid": "u-1", "controller": true}]);
    machine["spec"] = json!({"lifecycleHooks": {"preDrain": [{"name": "capstan.dev/EtcdMember", "owner": "capstan"}]}});
    let objects = |path: &str, object: Value| list(&format!("machine.openshift.io/{path}"), &[object]);
    cluster(vec![
        namespace(),
        deployment("capstan-control-plane"),
        objects(&format!("v1alpha1/namespaces/{NAMESPACE}/controlplanes"), object),
        objects(&format!("v1beta1/namespaces/{NAMESPACE}/machines"), machine),
    ])
}

#[test]
fn w122_uninstall_reports_the_hooks_of_machines_and_does_not_strand_a_deleted_control_plane() {
    let (_, text, error) = run(&with_control_plane(false), &["uninstall", "--dry-run"]);
    let hooks = "1 Machines have the hook capstan.dev/EtcdMember";
    let place = text.find(hooks).unwrap_or_else(|| panic!("{text}{error}"));
    let removal = text
        .find("Deployment openshift-machine-api/capstan-control-plane")
        .unwrap();
    assert!(place < removal, "{text}");
    assert!(
        text.contains("ControlPlane openshift-machine-api/cluster: it has finalizers"),
        "{text}"
    );
    let (code, text, error) = run(&with_control_plane(true), &["uninstall", "--yes", "--wait", "0s"]);
    assert_eq!(code, Some(1), "{text}{error}");
    assert!(
        text.contains("it is being deleted, and owns 1 machine, so nothing is deleted"),
        "{text}"
    );
    assert!(!text.contains("Deployment"), "{text}");
}

#[test]
fn w128_uninstall_reports_an_owner_of_machines_before_it_deletes_the_controllers() {
    for flags in [&[][..], &["--dry-run"]] {
        let (_, text, error) = run(&with_control_plane(false), &[&["uninstall"], flags].concat());
        let owner =
            "ControlPlane openshift-machine-api/cluster: it owns 1 machine, and only its controllers release them";
        let place = text.find(owner).unwrap_or_else(|| panic!("{text}{error}"));
        let removal = text.find("Deployment openshift-machine-api/capstan-control-plane");
        assert!(place < removal.unwrap(), "{text}");
    }
}

#[test]
fn w188_uninstall_keeps_the_controller_of_a_kubeadm_control_plane_that_is_being_deleted() {
    let finalizer = "kubeadm.controlplane.cluster.x-k8s.io";
    let with = |object: Value| {
        let path = "controlplane.cluster.x-k8s.io/v1beta2/kubeadmcontrolplanes";
        let stub = cluster(vec![
            namespace(),
            deployment("capstan-kubeadm-control-plane"),
            list(path, &[object]),
        ]);
        run(&stub, &["uninstall", "--yes", "--wait", "0s"])
    };
    let mut object = held("cp", &[finalizer]);
    let (_, text, error) = with(object.clone());
    assert!(text.contains("Deployment"), "{text}{error}");
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let (code, text, error) = with(object.clone());
    assert_eq!(code, Some(1), "{text}{error}");
    let report = "KubeadmControlPlane openshift-machine-api/cp: it is being deleted, and only its controller ends that";
    assert!(text.contains(report), "{text}");
    assert!(!text.contains("Deployment"), "{text}");
    object["metadata"]["finalizers"] = json!(["other"]);
    let (_, text, error) = with(object);
    assert!(text.contains("Deployment"), "{text}{error}");
}

/// A cluster with objects that have the finalizer of the sync controller, and a Deployment of
/// OpenShift's sync controller with this number of replicas.
fn with_mirrors(replicas: u32) -> Stub {
    let sync = json!({"metadata": {"namespace": "openshift-cluster-api", "name": "cluster-capi-operator"},
        "spec": {"replicas": replicas, "template": {"spec": {"serviceAccountName": "capi-controllers"}}}});
    cluster(vec![
        namespace(),
        deployment("capstan-mirroring"),
        list("apps/v1/namespaces/openshift-cluster-api/deployments", &[sync]),
        list(
            "machine.openshift.io/v1beta1/machines",
            &[
                held("m-0", &[SYNC]),
                held("m-1", &["other", SYNC]),
                held("m-2", &["other"]),
            ],
        ),
        list("machine.openshift.io/v1beta1/machinesets", &[held("s", &[])]),
        list("cluster.x-k8s.io/v1beta2/machines", &[held("m-0", &[SYNC])]),
        list("cluster.x-k8s.io/v1beta1/machinesets", &[held("s", &[SYNC])]),
        list(
            "infrastructure.cluster.x-k8s.io/v1beta2/awsmachines",
            &[held("m-0", &[SYNC])],
        ),
    ])
}

#[test]
fn w98_uninstall_counts_the_objects_that_keep_the_finalizer_of_the_sync_controller() {
    let stub = with_mirrors(0);
    for flags in [&[][..], &["--dry-run"], &["--yes", "--wait", "0s"]] {
        let (_, text, error) = run(&stub, &[&["uninstall"], flags].concat());
        let counts = "2 machines.machine.openshift.io, 1 machines.cluster.x-k8s.io, 1 machinesets.cluster.x-k8s.io, \
                      1 awsmachines.infrastructure.cluster.x-k8s.io";
        let place = text.find(counts).unwrap_or_else(|| panic!("{text}{error}"));
        // The warning precedes the first deletion.
        let removal = text.find("Deployment openshift-machine-api/capstan-mirroring").unwrap();
        assert!(place < removal, "{text}");
        assert!(text.contains("their deletion waits for ever"), "{text}");
        let command = "kubectl get machines.machine.openshift.io,machines.cluster.x-k8s.io,\
                       machinesets.cluster.x-k8s.io,awsmachines.infrastructure.cluster.x-k8s.io -A -o json | jq -r";
        assert!(text.contains(command), "{text}");
    }
    // OpenShift's sync controller removes the finalizer.
    let (_, text, _) = run(&with_mirrors(1), &["uninstall", "--dry-run"]);
    assert!(!text.contains(SYNC), "{text}");
}

#[test]
fn w145_uninstall_names_the_machine_pools_that_wait_for_the_controller_before_it_deletes_it() {
    const FINALIZER: &str = "capstan.dev/machine-pool";
    let mut deleted = held("d", &["other", FINALIZER]);
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let pools = list(
        "cluster.x-k8s.io/v1beta2/machinepools",
        &[held("p", &[FINALIZER]), held("q", &["other"]), deleted],
    );
    let stub = cluster(vec![namespace(), deployment("capstan-machine-pool"), pools]);
    for flags in [&[][..], &["--dry-run"], &["--yes", "--wait", "0s"]] {
        let (_, text, error) = run(&stub, &[&["uninstall"], flags].concat());
        let removal = text
            .find("Deployment openshift-machine-api/capstan-machine-pool")
            .unwrap();
        for report in [
            "MachinePool openshift-machine-api/p: it has the finalizer capstan.dev/machine-pool, and only its controller",
            "MachinePool openshift-machine-api/d: it is being deleted, it has the finalizer",
        ] {
            let place = text.find(report).unwrap_or_else(|| panic!("{text}{error}"));
            assert!(place < removal, "{text}");
        }
        assert!(!text.contains("openshift-machine-api/q"), "{text}");
    }
}

#[test]
fn w99_an_interrupted_installation_prints_its_report_as_json() {
    let (asked, asks) = channel();
    let (end, ended) = channel::<()>();
    let (asked, ended) = (Mutex::new(asked), Mutex::new(ended));
    let stub = Stub::new(move |method, path| {
        if path.starts_with("/api/v1/namespaces/") {
            asked.lock().unwrap().send(()).unwrap();
            // The command waits for the answer until it is interrupted.
            let _ended = ended.lock().unwrap().recv();
        }
        answer(&[], method, path)
    });
    let mut child = Command::new(env!("CARGO_BIN_EXE_capstan"))
        .args(["install", "-o", "json", "--timeout", "1m", "--kubeconfig"])
        .arg(stub.usual())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    asks.recv().unwrap();
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    child.wait().unwrap();
    let output = child.wait_with_output().unwrap();
    drop(end);
    assert_eq!(output.status.code(), Some(130));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["ok"], &report["interrupted"]), (&json!(false), &json!(true)));
    assert!(report["checks"].is_array(), "{report}");
    assert!(
        stderr(&output).contains("interrupted: what was applied stays"),
        "{}",
        stderr(&output)
    );
}
