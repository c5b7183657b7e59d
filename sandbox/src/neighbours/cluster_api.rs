//! Controllers of Cluster API beside the control plane: core, the kubeadm bootstrap provider, and
//! the infrastructure provider with machines in memory.
//!
//! The infrastructure provider serves the API servers and the etcd members of its clusters on the
//! ports from 20000. It also listens on port 19000, so only one can run on a machine. These ports
//! are open on all addresses of the machine; nothing connects to another address.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::programs;
use crate::control_plane::{CertificateFiles, ControlPlane, Process, free_port};
use crate::environment::workspace;
use crate::go;

/// The Go module with the programs.
const MODULE: &str = "cluster-api";

/// One controller manager.
struct Manager {
    name: &'static str,
    package: &'static str,
    /// The Go module with its manifests, and the folder of its `config` there.
    module: &'static str,
    config: &'static str,
}

/// The feature gates of every manager.
const GATES: &str = "ReconcilerRateLimiting=false";

static MANAGERS: [Manager; 3] = [
    Manager {
        name: "core",
        package: "sigs.k8s.io/cluster-api/core",
        module: "sigs.k8s.io/cluster-api",
        config: "core/config",
    },
    Manager {
        name: "bootstrap",
        package: "sigs.k8s.io/cluster-api/bootstrap/kubeadm",
        module: "sigs.k8s.io/cluster-api",
        config: "bootstrap/kubeadm/config",
    },
    Manager {
        name: "infrastructure",
        package: "sigs.k8s.io/cluster-api/test/infrastructure/docker",
        module: "sigs.k8s.io/cluster-api/test",
        config: "infrastructure/docker/config",
    },
];

/// The controller of KubeadmControlPlanes of Cluster API. It never runs beside Capstan's for the
/// same objects, and its webhooks are not registered: Capstan's CRDs are in place.
const KUBEADM_CONTROL_PLANE: Manager = Manager {
    name: "kubeadm-control-plane",
    package: "sigs.k8s.io/cluster-api/controlplane/kubeadm",
    module: "sigs.k8s.io/cluster-api",
    config: "controlplane/kubeadm/config",
};

/// The namespace of [`cluster_objects`].
pub const NAMESPACE: &str = "clusters";

/// A Cluster with a KubeadmControlPlane of this size, whose machines are in memory and start in
/// seconds: the Cluster, its infrastructure, the template of machines, and the control plane.
pub fn cluster_objects(name: &str, replicas: usize, version: &str) -> [Value; 4] {
    let infrastructure = "infrastructure.cluster.x-k8s.io";
    let metadata = json!({"name": name, "namespace": NAMESPACE});
    let quick = json!({"provisioning": {"startupDuration": "1s", "startupJitter": "0.2"}});
    let machine = json!({"vm": quick, "node": quick, "apiServer": quick, "etcd": quick});
    [
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata,
            "spec": {
                "clusterNetwork": {"pods": {"cidrBlocks": ["192.168.0.0/16"]}},
                "controlPlaneRef": {
                    "apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": name,
                },
                "infrastructureRef": {"apiGroup": infrastructure, "kind": "DevCluster", "name": name},
            },
        }),
        json!({
            "apiVersion": format!("{infrastructure}/v1beta2"), "kind": "DevCluster",
            // The provider panics if the object has no annotation.
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {"a": "b"}},
            "spec": {"backend": {"inMemory": {}}},
        }),
        json!({
            "apiVersion": format!("{infrastructure}/v1beta2"), "kind": "DevMachineTemplate", "metadata": metadata,
            "spec": {"template": {"spec": {"backend": {"inMemory": machine}}}},
        }),
        json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": metadata,
            "spec": {
                "replicas": replicas, "version": version,
                "kubeadmConfigSpec": {"clusterConfiguration": {"apiServer": {"certSANs": ["127.0.0.1"]}}},
                "machineTemplate": {"spec": {"infrastructureRef": {
                    "apiGroup": infrastructure, "kind": "DevMachineTemplate", "name": name,
                }}},
                "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
            },
        }),
    ]
}

/// The running controller of KubeadmControlPlanes of Cluster API. It stops when this is dropped.
#[derive(Debug)]
pub struct KubeadmControlPlanes {
    _process: Process,
}

impl KubeadmControlPlanes {
    /// Starts the controller.
    ///
    /// # Errors
    /// The program cannot be built or started.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let build = || {
            let manager = &KUBEADM_CONTROL_PLANE;
            programs::program_in(MODULE, manager.name, manager.package)
        };
        let built = tokio::task::spawn_blocking(build).await;
        let program = built.context("building the controller of Cluster API")??;
        let (process, _, _) = launch(plane, KUBEADM_CONTROL_PLANE.name, &program, GATES).await?;
        Ok(Self { _process: process })
    }
}

/// The running controllers. They stop when this is dropped; the CRDs and webhooks stay.
#[derive(Debug)]
pub struct ClusterApi {
    processes: Vec<Process>,
}

impl ClusterApi {
    /// Installs the CRDs, those of KubeadmControlPlanes from this repository, and starts the
    /// controllers with their webhooks.
    ///
    /// # Errors
    /// A program cannot be built or started, or the API server refuses a manifest.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let own = definitions(&workspace().join("manifests/crds-kubeadm-control-plane"))?;
        Self::start_managers(plane, &MANAGERS, own, GATES).await
    }

    /// Installs the CRDs of core, and starts the core manager alone with its webhooks. It manages
    /// MachinePools if `machine_pools`; without them, its webhooks of MachinePools are not
    /// registered either.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_core(plane: &ControlPlane, machine_pools: bool) -> Result<Self> {
        let gates = format!("{GATES},MachinePool={machine_pools}");
        let core = MANAGERS.get(..1).unwrap_or_default();
        Self::start_managers(plane, core, Vec::new(), &gates).await
    }

    async fn start_managers(
        plane: &ControlPlane,
        managers: &'static [Manager],
        mut definitions: Vec<Value>,
        gates: &str,
    ) -> Result<Self> {
        let folders = tokio::task::spawn_blocking(|| built(managers))
            .await
            .context("building Cluster API")??;
        for (_, _, config) in &folders {
            definitions.extend(self::definitions(&config.join("crd/bases"))?);
        }
        plane.apply_yaml(&list(&definitions)).await?;
        let mut processes = Vec::new();
        for (name, program, config) in folders {
            processes.push(start(plane, name, &program, &config, gates).await?);
        }
        Ok(Self { processes })
    }

    /// The output of the controllers so far.
    pub fn logs(&self) -> String {
        let logs: Vec<String> = self.processes.iter().map(Process::log).collect();
        logs.join("\n")
    }
}

/// Builds the controllers that are missing.
pub(super) fn build() -> Result<()> {
    built(&MANAGERS)?;
    let manager = &KUBEADM_CONTROL_PLANE;
    programs::program_in(MODULE, manager.name, manager.package).map(drop)
}

/// The name, the program, and the folder of the manifests of each manager.
fn built(managers: &[Manager]) -> Result<Vec<(&'static str, PathBuf, PathBuf)>> {
    let go = go::locate("Cluster API")?;
    managers
        .iter()
        .map(|manager| {
            let program = programs::program_in(MODULE, manager.name, manager.package)?;
            let folder = go::dependency(&go, &programs::module(MODULE), manager.module)?;
            Ok((manager.name, program, folder.join(manager.config)))
        })
        .collect()
}

/// The CRDs of a folder, with the version `v1beta2` alone, and without a conversion webhook.
fn definitions(folder: &Path) -> Result<Vec<Value>> {
    let files = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut definitions = Vec::new();
    for file in files {
        let path = file.with_context(|| format!("reading {}", folder.display()))?.path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).with_context(|| format!("parsing {}", path.display()))?;
        definitions.extend(documents.into_iter().filter_map(served));
    }
    Ok(definitions)
}

fn served(mut definition: Value) -> Option<Value> {
    if definition.get("kind")? != "CustomResourceDefinition" {
        return None;
    }
    let labels = json!({"cluster.x-k8s.io/v1beta2": "v1beta2"});
    definition
        .get_mut("metadata")?
        .as_object_mut()?
        .insert("labels".to_owned(), labels);
    let spec = definition.get_mut("spec")?.as_object_mut()?;
    spec.remove("conversion");
    let versions = spec.get_mut("versions")?.as_array_mut()?;
    versions.retain(|version| version.get("name") == Some(&json!("v1beta2")));
    for version in versions.iter_mut().filter_map(Value::as_object_mut) {
        version.insert("served".to_owned(), json!(true));
        version.insert("storage".to_owned(), json!(true));
    }
    (!versions.is_empty()).then_some(definition)
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// Starts a manager. Returns its certificate and the port of its webhooks too.
async fn launch(
    plane: &ControlPlane,
    name: &str,
    program: &Path,
    gates: &str,
) -> Result<(Process, CertificateFiles, u16)> {
    let files = plane.serving_certificate(&format!("webhooks-{name}"))?;
    let certificates = plane.folder().join(format!("webhooks-{name}"));
    fs::create_dir_all(&certificates).with_context(|| format!("creating {}", certificates.display()))?;
    for (from, to) in [(&files.certificate, "tls.crt"), (&files.key, "tls.key")] {
        fs::copy(from, certificates.join(to)).with_context(|| format!("copying {}", from.display()))?;
    }
    let [health, diagnostics, webhooks] = [free_port()?, free_port()?, free_port()?];
    let mut command = Command::new(program);
    command
        .env("POD_IP", "127.0.0.1")
        .arg(format!("--kubeconfig={}", plane.kubeconfig()?.display()))
        .args(["--leader-elect=false", "--insecure-diagnostics"])
        .arg(format!("--feature-gates={gates}"))
        .arg(format!("--health-addr=127.0.0.1:{health}"))
        .arg(format!("--diagnostics-address=127.0.0.1:{diagnostics}"))
        .arg(format!("--webhook-port={webhooks}"))
        .arg(format!("--webhook-cert-dir={}", certificates.display()));
    let ready = format!("http://127.0.0.1:{health}/readyz");
    let process = plane
        .start_server(&format!("cluster-api-{name}"), command, &ready)
        .await?;
    Ok((process, files, webhooks))
}

/// Starts a manager, and registers its webhooks.
async fn start(plane: &ControlPlane, name: &str, program: &Path, config: &Path, gates: &str) -> Result<Process> {
    let (process, files, webhooks) = launch(plane, name, program, gates).await?;
    let path = config.join("webhook/manifests.yaml");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| format!("parsing {}", path.display()))?;
    let manifests: Vec<String> = documents
        .into_iter()
        .map(|document| without_pools(named(document, name), gates).to_string())
        .collect();
    plane
        .register_webhooks(&manifests.join("\n---\n"), webhooks, &files.authority)
        .await?;
    Ok(process)
}

/// Without the webhooks of MachinePools if the manager does not manage them: it would refuse every
/// MachinePool.
fn without_pools(mut configuration: Value, gates: &str) -> Value {
    let webhooks = configuration.get_mut("webhooks").and_then(Value::as_array_mut);
    if let (Some(webhooks), true) = (webhooks, gates.contains("MachinePool=false")) {
        let is_of_pools = |webhook: &Value| {
            let name = webhook.get("name").and_then(Value::as_str);
            name.is_some_and(|name| name.contains("machinepool"))
        };
        webhooks.retain(|webhook| !is_of_pools(webhook));
    }
    configuration
}

/// The configurations of all managers have the same names.
fn named(mut configuration: Value, manager: &str) -> Value {
    let kind = configuration.get("kind").and_then(Value::as_str).unwrap_or_default();
    let name = format!("cluster-api-{manager}-{}", kind.to_lowercase());
    if let Some(metadata) = configuration.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("name".to_owned(), json!(name));
    }
    configuration
}
