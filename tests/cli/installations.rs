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

fn run(stub: &Stub, arguments: &[&str]) -> (Option<i32>, String, String) {
    let config = stub.usual();
    let output = capstan(&[arguments, &["--kubeconfig", path(&config)]].concat(), "");
    (output.status.code(), stdout(&output), stderr(&output))
}

/// The checks of a report as JSON.
fn checks(stub: &Stub, arguments: &[&str]) -> Vec<Value> {
    let (_, text, error) = run(stub, &[arguments, &["-o", "json"]].concat());
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{error}"));
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
fn w92_controllers_are_refused_without_the_webhooks_that_guard_them() {
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
        assert_eq!(check["remedy"], format!("--feature {guards},{controllers}"));
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
