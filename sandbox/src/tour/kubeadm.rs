//! `make run TOUR=kubeadm`: a KubeadmControlPlane is created and upgraded beside the controllers of
//! Cluster API: core, the kubeadm bootstrap provider, and the infrastructure provider with machines
//! in memory.
//!
//! Capstan's controller runs in this process with the permissions of its manifest: the machines in
//! memory serve etcd at the address of the API server, which no flag of `capstan serve` selects.
//! Every line that looks like output of kubectl or of capstan is that output.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use capstan::controllers::kubeadm_control_plane;
use capstan::runtime::{Election, Metrics, Running};
use capstan::workload::{Connections, EtcdRoute, Settings};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::screen::Screen;
use crate::control_plane::{ControlPlane, Options, wait_until};
use crate::environment::workspace;
use crate::installation::Cluster;
use crate::neighbours::cluster_api::{ClusterApi, NAMESPACE, cluster_objects};

/// The user of the controller, as in `manifests/components/kubeadm-control-plane-controllers`.
const USER: &str = "system:serviceaccount:openshift-machine-api:capstan-kubeadm-control-plane";
const NAME: &str = "demo";
const FIRST: &str = "v1.34.0";
const SECOND: &str = "v1.35.0";
/// The deadline of three machines, also on a loaded machine.
const DEADLINE: Duration = Duration::from_secs(240);
const ALL: &[&str] = &["get", "kubeadmcontrolplanes,machines.cluster.x-k8s.io"];

/// A management cluster with Capstan and its neighbours. It stops when it is dropped.
pub struct Neighbourhood {
    // Fields are dropped in this order.
    _running: Running,
    _neighbours: ClusterApi,
    capstan: PathBuf,
    cluster: Cluster,
    plane: ControlPlane,
}

impl Neighbourhood {
    /// Starts the cluster, and reports progress on the screen.
    ///
    /// # Errors
    /// A component does not start, or the API server refuses an object.
    pub async fn start(capstan: &Path, screen: &mut Screen) -> Result<Self> {
        screen.step("Starting etcd, kube-apiserver and kube-controller-manager on 127.0.0.1");
        let plane = ControlPlane::start(Options::default()).await?;
        let cluster = Cluster::of(&plane)?;
        prepare(&cluster).await?;
        screen.step("Starting the controllers of Cluster API; the first start builds them with Go, in minutes");
        let neighbours = ClusterApi::start(&plane).await?;
        screen.step("Starting Capstan's controller of KubeadmControlPlanes");
        let running = controller(&plane).await?;
        Ok(Self {
            _running: running,
            _neighbours: neighbours,
            capstan: capstan.to_owned(),
            cluster,
            plane,
        })
    }

    /// Creates a control plane, and upgrades it.
    ///
    /// # Errors
    /// A command fails, or the machines are not complete in time.
    pub async fn play(&self, screen: &mut Screen) -> Result<()> {
        screen.step("Creating a Cluster and a KubeadmControlPlane of three machines");
        let objects = cluster_objects(NAME, 3, FIRST);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.cluster.apply(&list.to_string()).await?;
        self.follow(screen, FIRST).await?;
        self.show(screen, "Three machines with three etcd members.", ALL)
            .await?;
        let pause = ["annotate", "kcp", NAME, "capstan.dev/paused-rollout=true"];
        self.show(screen, "The rollout is paused, and nothing else.", &pause)
            .await?;
        let patch = json!({"spec": {"version": SECOND}}).to_string();
        let upgrade = ["patch", "kcp", NAME, "--type=merge", "-p", &patch];
        self.show(screen, "A new version replaces the machines one by one.", &upgrade)
            .await?;
        let target = format!("{NAMESPACE}/{NAME}");
        self.capstan(
            screen,
            "What happens next, and why.",
            &["plan", "--kubeadm-control-plane", &target],
        )
        .await?;
        let resume = ["annotate", "kcp", NAME, "capstan.dev/paused-rollout-"];
        self.show(screen, "The rollout begins.", &resume).await?;
        self.follow(screen, SECOND).await?;
        self.show(screen, "All machines have the new version.", ALL).await
    }

    /// Shows commands to try next.
    ///
    /// # Errors
    /// The kubeconfig cannot be written.
    pub fn show_next_steps(&self, screen: &mut Screen) -> Result<()> {
        screen.blank();
        screen.plain("The cluster keeps running. In another terminal:");
        screen.blank();
        screen.plain(&format!("  export KUBECONFIG={}", self.plane.kubeconfig()?.display()));
        screen.plain(&format!("  kubectl scale kcp {NAME} --replicas=5"));
        screen.plain("  kubectl get kcp,machines.cluster.x-k8s.io --watch");
        screen.plain(&format!("  kubectl delete clusters.cluster.x-k8s.io {NAME}"));
        screen.blank();
        screen.plain("Ctrl-C stops everything and leaves nothing behind.");
        Ok(())
    }

    /// Runs kubectl, and shows its output.
    async fn show(&self, screen: &mut Screen, title: &str, command: &[&str]) -> Result<()> {
        screen.scene(title, None, &[], command);
        let output = self.cluster.run(command, "").await?;
        screen.answer(&output);
        output.checked().map(|_| ())
    }

    /// Runs capstan, and shows its output.
    async fn capstan(&self, screen: &mut Screen, title: &str, arguments: &[&str]) -> Result<()> {
        screen.command(title, &format!("capstan {}", arguments.join(" ")));
        let mut command = tokio::process::Command::new(&self.capstan);
        command.args(arguments).args(self.cluster.flags()).kill_on_drop(true);
        let output = command.output().await.context("running capstan")?;
        screen.plain(String::from_utf8_lossy(&output.stdout).trim_end());
        Ok(())
    }

    /// Shows each change of the machines until all have a version.
    async fn follow(&self, screen: &mut Screen, version: &str) -> Result<()> {
        let (began, mut shown) = (Instant::now(), String::new());
        let waiting = wait_until("three machines of the version", DEADLINE, async || {
            let machines = self.objects("machines.cluster.x-k8s.io").await?;
            let line = machines.iter().map(machine_text).collect::<Vec<String>>().join("   ");
            if line != shown {
                screen.plain(&format!("  {:>4} s  {line}", began.elapsed().as_secs()));
                shown = line;
            }
            let control_planes = self.objects("kubeadmcontrolplanes").await?;
            let is_complete = control_planes.first().is_some_and(|one| is_complete(one, version));
            Ok(is_complete.then_some(()))
        });
        waiting.await
    }

    async fn objects(&self, kind: &str) -> Result<Vec<Value>> {
        let output = self.cluster.run(&["get", kind, "-o", "json"], "").await?.checked()?;
        let found: Value = serde_json::from_str(&output.stdout).context("reading the output of kubectl")?;
        Ok(found
            .get("items")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default())
    }
}

/// Creates the namespaces, and the permissions of the controller.
pub(crate) async fn prepare(cluster: &Cluster) -> Result<()> {
    let namespaces = ["openshift-machine-api", NAMESPACE].map(|name| {
        json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
        })
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": namespaces});
    cluster.apply(&list.to_string()).await?;
    let current = ["config", "set-context", "--current", "--namespace", NAMESPACE];
    cluster.run(&current, "").await?.checked()?;
    let permissions = workspace().join("manifests/components/kubeadm-control-plane-controllers/rbac.yaml");
    let permissions =
        std::fs::read_to_string(&permissions).with_context(|| format!("reading {}", permissions.display()))?;
    cluster.apply(&permissions).await
}

/// Starts the controller with its own permissions.
pub(crate) async fn controller(plane: &ControlPlane) -> Result<Running> {
    let client = plane.client_for(USER, &["system:serviceaccounts"]).await?;
    let caches = kubeadm_control_plane::caches(&client);
    let election = Election {
        namespace: String::from("openshift-machine-api"),
        name: kubeadm_control_plane::LEASE.to_owned(),
        identity: String::from("tour"),
        duration: Duration::from_secs(3),
    };
    let settings = Settings {
        etcd_route: EtcdRoute::ApiServer,
        ..kubeadm_control_plane::settings()
    };
    let metrics = Metrics::register(&mut Registry::default());
    let managed = Connections::new(&client, settings);
    Ok(kubeadm_control_plane::start(
        &client, &caches, managed, election, metrics,
    ))
}

/// A machine in a few words.
fn machine_text(machine: &Value) -> String {
    let text = |pointer: &str| machine.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let name = text("/metadata/name").trim_start_matches(NAME).trim_start_matches('-');
    format!("{name} {} {}", text("/spec/version"), text("/status/phase"))
}

fn is_complete(control_plane: &Value, version: &str) -> bool {
    let number = |field: &str| {
        control_plane
            .pointer(&format!("/status/{field}"))
            .and_then(Value::as_u64)
    };
    let conditions = control_plane.pointer("/status/conditions").and_then(Value::as_array);
    let is = |type_: &str, status: &str| {
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|one| one.get("type") == Some(&json!(type_)) && one.get("status") == Some(&json!(status)))
    };
    let is_observed =
        control_plane.pointer("/status/observedGeneration") == control_plane.pointer("/metadata/generation");
    let is_of_version = control_plane.pointer("/status/versions/0/version") == Some(&json!(version));
    let counts = ["replicas", "readyReplicas", "upToDateReplicas"];
    let all = counts.iter().all(|field| number(field) == Some(3));
    all && is_observed && is_of_version && is("Available", "True") && is("RollingOut", "False")
}
