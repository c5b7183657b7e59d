//! The Operator Lifecycle Manager installs the bundle, and removes all of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use capstan_core::schema::crd;
use capstan_sandbox::control_plane::{ControlPlane, Options, Process, free_port, wait_until};
use capstan_sandbox::installation::{Cluster, NAMESPACE, SERVICE_ACCOUNT, manifests_of};
use capstan_sandbox::neighbours::olm;
use serde_json::{Value, json};

const CAPSTAN: &str = env!("CARGO_BIN_EXE_capstan");
const SOON: Duration = Duration::from_secs(120);
const VERSION: &str = concat!("capstan.v", env!("CARGO_PKG_VERSION"));
const REGISTRATION: &str = "system:serviceaccount:openshift-machine-api:capstan-registration";
const GROUPS: [&str; 2] = ["system:serviceaccounts", "system:serviceaccounts:openshift-machine-api"];

async fn kubectl(plane: &ControlPlane, arguments: &[&str]) -> String {
    let output = plane.kubectl().args(arguments.iter().copied()).run().await.unwrap();
    output.checked().unwrap().stdout
}

async fn get(plane: &ControlPlane, arguments: &[&str]) -> Value {
    let text = kubectl(plane, &[&["get", "-o", "json"], arguments].concat()).await;
    serde_json::from_str(&text).unwrap()
}

/// The objects with a name of Capstan. Install plans and their copies of the names stay.
async fn of_capstan(plane: &ControlPlane) -> BTreeSet<String> {
    let kinds = kubectl(plane, &["api-resources", "--verbs=list", "-o", "name"]).await;
    let is_read = |kind: &&str| !kind.starts_with("events") && !kind.contains("operators.coreos.com");
    let kinds: Vec<&str> = kinds.lines().filter(is_read).collect();
    let names = kubectl(plane, &["get", &kinds.join(","), "--all-namespaces", "-o", "name"]).await;
    names
        .lines()
        .filter(|name| name.contains("capstan"))
        .map(str::to_owned)
        .collect()
}

/// The objects of the bundle.
fn bundle(folder: &Path) -> Vec<Value> {
    let output = Command::new(CAPSTAN)
        .args(["manifests", "bundle", "--out"])
        .arg(folder)
        .output()
        .unwrap();
    assert!(output.status.success());
    let files = std::fs::read_dir(folder.join("manifests")).unwrap();
    let texts = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    texts.map(|text| serde_saphyr::from_str(&text).unwrap()).collect()
}

/// A control plane with the kinds of OLM and of the Machine API, and a running OLM.
async fn cluster() -> (ControlPlane, Process) {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let cluster = Cluster::of(&plane).unwrap();
    kubectl(&plane, &["create", "namespace", NAMESPACE]).await;
    let mut definitions = manifests_of(Path::new(CAPSTAN), "crds", "admission").await.unwrap();
    for one in crd::foreign_crds() {
        definitions += &format!("\n---\n{one}");
    }
    cluster.apply(&definitions).await.unwrap();
    for file in std::fs::read_dir(olm::definitions().unwrap()).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            cluster.apply(&std::fs::read_to_string(path).unwrap()).await.unwrap();
        }
    }
    let process = olm::start(&plane, NAMESPACE).await.unwrap();
    (plane, process)
}

/// Creates the install plan that OLM makes for the bundle, approved.
async fn approve(plane: &ControlPlane, bundle: &[Value]) {
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "machine-api", "namespace": NAMESPACE}, "spec": {"targetNamespaces": [NAMESPACE]}});
    plane.apply_yaml(&group.to_string()).await.unwrap();
    let plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": "plan", "namespace": NAMESPACE},
        "spec": {"approval": "Automatic", "approved": true, "clusterServiceVersionNames": [VERSION]}});
    plane.apply_yaml(&plan.to_string()).await.unwrap();
    let status = json!({"phase": "Installing", "catalogSources": [], "plan": olm::plan(bundle, NAMESPACE).unwrap()});
    let flags = ["-n", NAMESPACE];
    plane
        .patch_status(["installplan", "plan"], &flags, &status)
        .await
        .unwrap();
}

/// Waits until the ClusterServiceVersion has a phase. Its Deployments become ready by hand, because
/// no kubelet runs their pods.
async fn reaches(plane: &ControlPlane, olm: &mut Process, phase: &str) {
    wait_until("the ClusterServiceVersion is installed", SOON, async || {
        olm.still_runs()?;
        let list = get(plane, &["deployments", "-n", NAMESPACE]).await;
        for deployment in list["items"].as_array().unwrap() {
            let replicas = &deployment["spec"]["replicas"];
            let status = json!({"observedGeneration": deployment["metadata"]["generation"],
                "replicas": replicas, "readyReplicas": replicas, "updatedReplicas": replicas,
                "availableReplicas": replicas, "conditions": [
                    {"type": "Available", "status": "True", "reason": "Test"},
                    {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]});
            let name = deployment["metadata"]["name"].as_str().unwrap();
            let flags = ["-n", NAMESPACE];
            plane.patch_status(["deployment", name], &flags, &status).await?;
        }
        let plan = get(plane, &["installplan", "plan", "-n", NAMESPACE]).await;
        let found = get(plane, &["clusterserviceversions", "-n", NAMESPACE]).await;
        let status = &found["items"][0]["status"];
        anyhow::ensure!(
            status["phase"] == phase,
            "{}: {}\n{}",
            status["phase"],
            status["message"],
            plan["status"]["message"]
        );
        Ok(Some(()))
    })
    .await
    .unwrap_or_else(|error| panic!("{error:#}\n{}", olm.log()));
}

/// The folder of the certificate of the webhook server.
fn serving(plane: &ControlPlane) -> PathBuf {
    plane.folder().join("serving")
}

/// A webhook server with the permissions that OLM granted, and its port. The test issues the
/// certificate in place of the service CA.
async fn serve(plane: &ControlPlane) -> (Process, u16) {
    let kubeconfig = plane.kubeconfig_for(SERVICE_ACCOUNT, &GROUPS).unwrap();
    let (port, health) = (free_port().unwrap(), free_port().unwrap());
    // Another folder than that of the control plane, which has a ca.crt of its own.
    std::fs::create_dir_all(serving(plane)).unwrap();
    let mut command = Command::new(CAPSTAN);
    command
        .args(["serve", "--dns-name=127.0.0.1", "--shutdown-delay=0s"])
        .arg(format!("--dev-certificate={}", serving(plane).display()))
        .arg(format!("--listen=127.0.0.1:{port}"))
        .arg(format!("--health-addr=127.0.0.1:{health}"))
        .arg(format!("--kubeconfig={}", kubeconfig.display()));
    let mut process = Process::spawn("capstan", command, &plane.folder().join("capstan.log")).unwrap();
    process
        .ready(&format!("http://127.0.0.1:{health}/readyz"), SOON)
        .await
        .unwrap();
    (process, port)
}

/// Runs `capstan register` with the permissions that OLM granted, while the test writes the
/// `caBundle` in place of the service CA.
async fn register(plane: &ControlPlane, bundle: &[Value], port: u16) {
    let access = plane.kubeconfig_for(REGISTRATION, &GROUPS).unwrap();
    let version = bundle.iter().find(|object| object["kind"] == "ClusterServiceVersion");
    let deployments = version.unwrap()["spec"]["install"]["spec"]["deployments"]
        .as_array()
        .unwrap();
    let own = deployments
        .iter()
        .find(|one| one["name"] == "capstan-registration")
        .unwrap();
    let flags = own["spec"]["template"]["spec"]["containers"][0]["args"]
        .as_array()
        .unwrap();
    let flags = flags
        .iter()
        .map(|flag| flag.as_str().unwrap().replace("$(POD_NAMESPACE)", NAMESPACE));
    let mut child = Command::new(CAPSTAN)
        .args(flags)
        .args(["--once", &format!("--webhook-url=https://127.0.0.1:{port}")])
        .arg(format!("--kubeconfig={}", access.display()))
        .spawn()
        .unwrap();
    let authority = std::fs::read(serving(plane).join("ca.crt")).unwrap();
    let authority = base64(&authority);
    wait_until("the webhooks are registered", SOON, async || {
        for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
            let patch = json!([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": authority}]);
            let patch = ["patch", kind, "capstan", "--type=json", "-p", &patch.to_string()];
            plane.kubectl().args(patch).run().await?;
        }
        match child.try_wait()? {
            Some(status) => {
                anyhow::ensure!(status.success(), "{status}");
                Ok(Some(()))
            }
            None => Ok(None),
        }
    })
    .await
    .unwrap();
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn w75_olm_installs_the_bundle_and_leaves_nothing_when_it_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = bundle(folder.path());
    let (plane, mut olm) = cluster().await;
    let before = of_capstan(&plane).await;
    approve(&plane, &bundle).await;
    reaches(&plane, &mut olm, "Succeeded").await;

    // OLM creates what the bundle says.
    for object in bundle.iter().filter(|object| object["kind"] != "ClusterServiceVersion") {
        let kind = object["kind"].as_str().unwrap();
        let stored = get(
            &plane,
            &[kind, object["metadata"]["name"].as_str().unwrap(), "-n", NAMESPACE],
        )
        .await;
        for (field, value) in object.as_object().unwrap() {
            if !["metadata", "spec"].contains(&field.as_str()) {
                assert_eq!(stored[field], *value, "{kind} {field}");
            }
        }
    }
    let version = bundle
        .iter()
        .find(|object| object["kind"] == "ClusterServiceVersion")
        .unwrap();
    let install = &version["spec"]["install"]["spec"];
    for wanted in install["deployments"].as_array().unwrap() {
        let stored = get(
            &plane,
            &["deployment", wanted["name"].as_str().unwrap(), "-n", NAMESPACE],
        )
        .await;
        let (stored, wanted) = (&stored["spec"]["template"]["spec"], &wanted["spec"]["template"]["spec"]);
        assert_eq!(stored["serviceAccountName"], wanted["serviceAccountName"]);
        for field in ["args", "image", "securityContext", "volumeMounts"] {
            assert_eq!(
                stored["containers"][0][field], wanted["containers"][0][field],
                "{field}"
            );
        }
    }
    for (account, verb, resource, answer) in [
        ("capstan-webhook", "list", "machines.machine.openshift.io", "yes"),
        ("capstan-webhook", "list", "secrets", "no"),
        (
            "capstan-registration",
            "create",
            "validatingadmissionpolicies.admissionregistration.k8s.io",
            "yes",
        ),
        (
            "capstan-registration",
            "patch",
            "mutatingwebhookconfigurations.admissionregistration.k8s.io/capstan",
            "yes",
        ),
        (
            "capstan-registration",
            "patch",
            "mutatingwebhookconfigurations.admissionregistration.k8s.io/other",
            "no",
        ),
    ] {
        let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
        let can_i = ["auth", "can-i", verb, resource, "-n", NAMESPACE, "--as", &user];
        let output = plane.kubectl().args(can_i).run().await.unwrap();
        assert_eq!(output.stdout.trim(), answer, "{account} {verb} {resource}");
    }

    // With these permissions, the webhooks come into force.
    let (server, port) = serve(&plane).await;
    register(&plane, &bundle, port).await;
    let webhooks = get(&plane, &["validatingwebhookconfiguration", "capstan"]).await;
    assert_eq!(webhooks["webhooks"][0]["failurePolicy"], "Fail");
    let output = Command::new(CAPSTAN)
        .args([
            "verify",
            "--feature=admission",
            "--certificates=service-ca",
            "-o",
            "json",
        ])
        .arg(format!("--kubeconfig={}", plane.kubeconfig().unwrap().display()))
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let failed: Vec<String> = report["checks"]
        .as_array()
        .unwrap_or_else(|| panic!("{report}"))
        .iter()
        .filter(|row| row["result"] == "failed")
        .map(|row| format!("{}: {}", row["check"], row["found"]))
        .collect();
    // OLM gives the roles other names, and the service accounts no labels. The test has no Secret,
    // because it plays the service CA.
    let expected = [
        "ServiceAccount ",
        "Role ",
        "RoleBinding ",
        "ClusterRole ",
        "ClusterRoleBinding ",
        "the Secret ",
    ];
    let others = failed.iter().filter(|row| {
        let check = row.trim_start_matches('"');
        !expected.iter().any(|beginning| check.starts_with(beginning))
    });
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&String>::new());
    server.stop(SOON).await.unwrap();

    // Without the server, webhooks that stay would refuse every edit.
    kubectl(&plane, &["delete", "clusterserviceversion", VERSION, "-n", NAMESPACE]).await;
    wait_until("nothing of Capstan is left", SOON, async || {
        let left = of_capstan(&plane).await;
        anyhow::ensure!(left == before, "{:?}", left.difference(&before).collect::<Vec<_>>());
        Ok(Some(()))
    })
    .await
    .unwrap_or_else(|error| panic!("{error:#}\n{}", olm.log()));
}
