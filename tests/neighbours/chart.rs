//! The Helm chart: Helm lints it, renders the objects that `capstan manifests` prints, and
//! installs, upgrades, and uninstalls them in a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use capstan_core::admission::Feature;
use capstan_sandbox::control_plane::{ControlPlane, Options};
use capstan_sandbox::neighbours::tools;
use serde_json::{Value, json};

const NAMESPACE: &str = "openshift-machine-api";

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/capstan")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs Helm with folders of its own, so that the configuration of the user has no effect.
fn helm(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(tools::helm().unwrap());
    command
        .args(arguments)
        .env_remove("KUBECONFIG")
        .env("HELM_DEBUG", "false");
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(variable, folder.join(variable));
    }
    command.output().unwrap()
}

/// An installation: features, and the other flags of `capstan manifests`.
#[derive(Clone, Copy, Debug, Default)]
struct Choice {
    features: &'static [Feature],
    certificates: &'static str,
    single_node: bool,
    network_policies: bool,
    secure_metrics: bool,
    static_webhooks: bool,
    warn: bool,
    namespace: &'static str,
    cluster_api: &'static str,
    sync: &'static [&'static str],
    autoscaler: &'static [&'static str],
    hook: &'static [&'static str],
}

const DEFAULT: Choice = Choice {
    features: &[],
    certificates: "self-managed",
    single_node: false,
    network_policies: false,
    secure_metrics: false,
    static_webhooks: false,
    warn: false,
    namespace: NAMESPACE,
    cluster_api: "openshift-cluster-api",
    sync: &[],
    autoscaler: &[],
    hook: &[],
};

impl Choice {
    fn flags(&self) -> Vec<String> {
        let mut flags = vec![
            format!("--certificates={}", self.certificates),
            format!("--enforcement={}", if self.warn { "warn" } else { "deny" }),
            format!("--namespace={}", self.namespace),
            format!("--cluster-api-namespace={}", self.cluster_api),
            "--feature=admission".to_owned(),
        ];
        flags.extend(
            self.features
                .iter()
                .map(|feature| format!("--feature={}", feature.name())),
        );
        flags.extend(self.single_node.then(|| "--single-node".to_owned()));
        flags.extend(self.network_policies.then(|| "--network-policies".to_owned()));
        flags.extend(self.static_webhooks.then(|| "--static-webhooks".to_owned()));
        flags.extend(self.secure_metrics.then(|| "--secure-metrics".to_owned()));
        flags.extend(self.sync.iter().map(|user| format!("--sync-identity={user}")));
        flags.extend(
            self.autoscaler
                .iter()
                .map(|user| format!("--autoscaler-identity={user}")),
        );
        flags.extend(self.hook.iter().map(|user| format!("--hook-identity={user}")));
        flags
    }

    fn values(&self) -> Value {
        let has = |feature| self.features.contains(&feature);
        json!({
            "features": {
                "controllers": has(Feature::Controllers),
                "mirroring": has(Feature::Mirroring),
                "mirroringControllers": has(Feature::MirroringControllers),
                "kubeadmControlPlane": has(Feature::KubeadmControlPlane),
                "controlPlane": has(Feature::ControlPlane),
                "kubeadmControlPlaneControllers": has(Feature::KubeadmControlPlaneControllers),
                "controlPlaneControllers": has(Feature::ControlPlaneControllers),
                "machinePools": has(Feature::MachinePools),
                "machinePoolControllers": has(Feature::MachinePoolControllers),
            },
            "certificates": self.certificates,
            "singleNode": self.single_node,
            "networkPolicies": self.network_policies,
            "secureMetrics": self.secure_metrics,
            "staticWebhooks": self.static_webhooks,
            "enforcement": if self.warn { "warn" } else { "deny" },
            "clusterApiNamespace": self.cluster_api,
            "syncIdentities": self.sync,
            "autoscalerIdentities": self.autoscaler,
            "hookIdentities": self.hook,
        })
    }
}

/// Objects by kind and name. The order of the flags of a container has no meaning.
fn by_name(manifests: &str) -> BTreeMap<String, Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(manifests).unwrap();
    let mut objects = BTreeMap::new();
    for mut object in documents.into_iter().filter(|document| !document.is_null()) {
        if let Some(arguments) = object.pointer_mut("/spec/template/spec/containers/0/args") {
            arguments.as_array_mut().unwrap().sort_by_key(Value::to_string);
        }
        let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
        assert!(objects.insert(name.clone(), object).is_none(), "{name} must occur once");
    }
    objects
}

/// The minor version of Kubernetes for which Helm renders without a cluster. Helm would use a
/// version that the chart refuses.
const RENDER: [&str; 3] = ["template", "capstan", "--kube-version=1.33.0"];

#[test]
fn helm_renders_the_objects_that_the_command_prints() {
    let features = &[
        Feature::Controllers,
        Feature::Mirroring,
        Feature::MirroringControllers,
        Feature::KubeadmControlPlane,
        Feature::ControlPlane,
        Feature::KubeadmControlPlaneControllers,
        Feature::ControlPlaneControllers,
        Feature::MachinePools,
        Feature::MachinePoolControllers,
    ];
    let users = &["system:serviceaccount:a:b", "jane.doe@example.com"];
    let choices = [
        DEFAULT,
        Choice {
            features: &[Feature::Controllers],
            ..DEFAULT
        },
        Choice {
            features: &[Feature::Mirroring],
            certificates: "service-ca",
            static_webhooks: true,
            ..DEFAULT
        },
        Choice {
            features,
            static_webhooks: true,
            warn: true,
            certificates: "cert-manager",
            ..DEFAULT
        },
        Choice {
            features,
            single_node: true,
            network_policies: true,
            secure_metrics: true,
            namespace: "control-planes",
            ..DEFAULT
        },
        Choice {
            features,
            warn: true,
            cluster_api: "capi",
            sync: users,
            ..DEFAULT
        },
        Choice {
            features,
            certificates: "cert-manager",
            secure_metrics: true,
            namespace: "home",
            autoscaler: users,
            hook: users,
            ..DEFAULT
        },
    ];
    let folder = tempfile::tempdir().unwrap();
    let chart = chart().display().to_string();
    for choice in choices {
        let printed = Command::new(env!("CARGO_BIN_EXE_capstan"))
            .args(["manifests", "all"])
            .args(choice.flags())
            .output()
            .unwrap();
        assert!(printed.status.success(), "{}", text(&printed.stderr));
        let values = folder.path().join("values.json");
        std::fs::write(&values, choice.values().to_string()).unwrap();
        let values = format!("--values={}", values.display());
        let namespace = format!("--namespace={}", choice.namespace);
        let rendered = helm(folder.path(), &[&RENDER[..], &[&chart, &values, &namespace]].concat());
        assert!(rendered.status.success(), "{choice:?}: {}", text(&rendered.stderr));
        let (printed, rendered) = (by_name(&text(&printed.stdout)), by_name(&text(&rendered.stdout)));
        let names = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&rendered), names(&printed), "{choice:?}");
        for (name, object) in &printed {
            assert!(
                object == &rendered[name],
                "{choice:?} {name}\n{object}\n{}",
                rendered[name]
            );
        }
    }
}

#[test]
fn helm_lints_the_chart_and_refuses_values_that_the_schema_does_not_allow() {
    let folder = tempfile::tempdir().unwrap();
    let chart = chart().display().to_string();
    let lint = helm(folder.path(), &["lint", "--strict", &chart]);
    assert!(lint.status.success(), "{}{}", text(&lint.stdout), text(&lint.stderr));
    for (value, reason) in [
        ("certificates=vault", "/certificates"),
        ("features.mirrorring=true", "mirrorring"),
        ("enforcement=off", "/enforcement"),
        ("syncIdentities={a'b}", "/syncIdentities/0"),
        ("clusterApiNamespace=A", "/clusterApiNamespace"),
        ("replicas=3", "replicas"),
    ] {
        let output = helm(folder.path(), &[&RENDER[..], &[&chart, "--set", value]].concat());
        let errors = text(&output.stderr);
        assert!(!output.status.success() && errors.contains(reason), "{value}: {errors}");
    }
}

/// The names of all objects, except those that the cluster itself creates and renews.
async fn objects(plane: &ControlPlane) -> BTreeSet<String> {
    let kubectl = async |arguments: &[&str]| {
        let output = plane.kubectl().args(arguments.iter().copied()).run().await.unwrap();
        output.checked().unwrap().stdout
    };
    let kinds = kubectl(&["api-resources", "--verbs=list", "-o", "name"]).await;
    let kinds: Vec<&str> = kinds.lines().filter(|kind| !kind.starts_with("events")).collect();
    let names = kubectl(&["get", &kinds.join(","), "--all-namespaces", "-o", "name"]).await;
    names.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn helm_installs_upgrades_and_uninstalls_in_a_restricted_namespace() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE,
        "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    plane.apply_yaml(&namespace.to_string()).await.unwrap();
    let before = objects(&plane).await;
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = plane.kubeconfig().unwrap().display().to_string();
    let chart = chart().display().to_string();
    let helm = |arguments: &[&str]| {
        let cluster = ["--kubeconfig", &kubeconfig, "--namespace", NAMESPACE];
        let output = helm(folder.path(), &[arguments, &cluster].concat());
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {stdout}{stderr}");
        assert!(!stderr.contains("Warning"), "{arguments:?}: {stderr}");
        stdout
    };
    let installed = helm(&["install", "capstan", &chart]);
    assert!(
        installed.contains("rollout status deployment capstan-webhook"),
        "{installed}"
    );
    let webhooks = "mutatingwebhookconfiguration.admissionregistration.k8s.io/capstan";
    let admission = objects(&plane).await;
    assert!(admission.contains(webhooks), "{admission:?}");

    let all = "features.controllers=true,features.mirroring=true,singleNode=true,networkPolicies=true";
    helm(&["upgrade", "capstan", &chart, "--set", all]);
    let upgraded = objects(&plane).await;
    for added in ["deployment.apps/capstan-controllers", &format!("{webhooks}-mirroring")] {
        assert!(
            upgraded.contains(added) && !admission.contains(added),
            "{added}: {upgraded:?}"
        );
    }
    helm(&["rollback", "capstan", "1"]);
    let is_release = |name: &&String| !name.contains("sh.helm.release");
    let of_capstan = |names: &BTreeSet<String>| names.iter().filter(is_release).cloned().collect::<Vec<_>>();
    assert_eq!(of_capstan(&objects(&plane).await), of_capstan(&admission));

    helm(&["uninstall", "capstan"]);
    assert_eq!(objects(&plane).await, before);
}
