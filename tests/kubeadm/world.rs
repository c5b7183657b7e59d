//! A management cluster with the controllers of Cluster API, and one Cluster in it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use capstan::controllers::kubeadm_control_plane;
use capstan::runtime::{Election, Metrics, Running as RunningControllers};
use capstan::workload::{Connections, EtcdRoute, Settings};
use capstan_sandbox::control_plane::{AuditEvent, ControlPlane, Faults, Options, Proxy, wait_until};
use capstan_sandbox::neighbours::cluster_api::{ClusterApi, cluster_objects};
use kube::Client;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

/// The user of the controller, as in `manifests/components/kubeadm-control-plane-controllers`.
pub(crate) const USER: &str = "system:serviceaccount:openshift-machine-api:capstan-kubeadm-control-plane";
const GROUPS: &[&str] = &["system:serviceaccounts"];
/// The deadline of every change. A fake machine starts in seconds.
const DEADLINE: Duration = Duration::from_secs(300);

/// Only one infrastructure provider can run on a machine.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

pub(crate) struct World {
    // Fields are dropped in this order.
    _neighbours: ClusterApi,
    pub(crate) plane: ControlPlane,
    _alone: tokio::sync::MutexGuard<'static, ()>,
}

/// The running controller, and the number of its reconciles.
pub(crate) struct Running {
    pub(crate) controllers: RunningControllers,
    registry: Registry,
}

impl Running {
    /// The number of reconciles so far.
    pub(crate) fn reconciles(&self) -> f64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let counts = text
            .lines()
            .filter(|line| line.contains("reconcile") && line.contains("_count{"));
        counts
            .filter_map(|line| line.split(' ').nth(1)?.parse::<f64>().ok())
            .sum()
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        let alone = ALONE.lock().await;
        let filter = std::env::var("CAPSTAN_LOG").unwrap_or_else(|_| String::from("off"));
        let _installed = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .try_init();
        let options = Options {
            audit: true,
            ..Options::default()
        };
        let plane = ControlPlane::start(options).await.unwrap();
        let namespaces = ["openshift-machine-api", "clusters"].map(|name| {
            json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
            })
        });
        plane.apply_yaml(&list(&namespaces)).await.unwrap();
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/manifests/components/kubeadm-control-plane-controllers/rbac.yaml"
        );
        plane.apply_yaml(&std::fs::read_to_string(path).unwrap()).await.unwrap();
        let neighbours = ClusterApi::start(&plane).await.unwrap();
        Self {
            _neighbours: neighbours,
            plane,
            _alone: alone,
        }
    }

    /// Starts the controller with the permissions of its manifest.
    pub(crate) async fn start(&self, identity: &str) -> Running {
        let client = self.plane.client_for(USER, GROUPS).await.unwrap();
        Self::start_with(&client, identity)
    }

    /// A proxy for the user of the controller.
    pub(crate) async fn proxy(&self, faults: Arc<dyn Faults>) -> Proxy {
        self.plane.proxy(USER, GROUPS, faults).await.unwrap()
    }

    pub(crate) fn start_with(client: &Client, identity: &str) -> Running {
        let caches = kubeadm_control_plane::caches(client);
        let election = Election {
            namespace: String::from("openshift-machine-api"),
            name: String::from("capstan-kubeadm-control-plane"),
            identity: identity.to_owned(),
            duration: Duration::from_secs(3),
        };
        let settings = Settings {
            etcd_route: EtcdRoute::ApiServer,
            ..kubeadm_control_plane::settings()
        };
        let managed = Connections::new(client, settings);
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        Running {
            controllers: kubeadm_control_plane::start(client, &caches, managed, election, metrics),
            registry,
        }
    }

    /// Creates a Cluster with a control plane of this size.
    pub(crate) async fn create(&self, name: &str, replicas: usize, version: &str) {
        let objects = cluster_objects(name, replicas, version);
        self.plane.apply_yaml(&list(&objects)).await.unwrap();
    }

    /// Changes a control plane with a merge patch.
    pub(crate) async fn edit(&self, name: &str, patch: &Value) {
        let kind = "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io";
        let text = patch.to_string();
        let arguments = ["patch", kind, name, "-n", "clusters", "--type=merge", "-p", &text];
        self.kubectl(&arguments).await;
    }

    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.plane.kubectl().args(arguments.to_vec()).run().await.unwrap();
        output.checked().unwrap().stdout
    }

    /// The objects of a kind in the namespace.
    pub(crate) async fn objects(&self, kind: &str) -> Result<Vec<Value>> {
        let arguments = ["get", kind, "-n", "clusters", "-o", "json"];
        let output = self.plane.kubectl().args(arguments).run().await?.checked()?;
        let found: Value = serde_json::from_str(&output.stdout)?;
        Ok(found["items"].as_array().cloned().unwrap_or_default())
    }

    /// Waits until the control plane has this many machines of this version, all healthy.
    pub(crate) async fn wait_until_settled(&self, name: &str, replicas: usize, version: &str) -> Vec<String> {
        let what = format!("{replicas} healthy machines of version {version}");
        let waiting = wait_until(&what, DEADLINE, async || {
            let all = self.objects("kubeadmcontrolplanes").await?;
            let own = all.iter().find(|one| one["metadata"]["name"] == name);
            let status = own.map(|own| own["status"].clone()).unwrap_or_default();
            let generation = own.map(|own| own["metadata"]["generation"].clone());
            let mut machines = self.objects("machines.cluster.x-k8s.io").await?;
            machines.retain(|machine| is_of_control_plane(machine) && machine["spec"]["clusterName"] == name);
            let is = |type_: &str, wanted: &str| {
                let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
                conditions
                    .iter()
                    .any(|one| one["type"] == type_ && one["status"] == wanted)
            };
            let summary = summary(&status, &machines);
            ensure!(
                generation.as_ref() == Some(&status["observedGeneration"])
                    && status["readyReplicas"] == replicas
                    && status["upToDateReplicas"] == replicas
                    && machines.len() == replicas
                    && machines.iter().all(|machine| machine["spec"]["version"] == version)
                    && is("Available", "True")
                    && is("EtcdClusterHealthy", "True")
                    && is("ControlPlaneComponentsHealthy", "True")
                    && is("RollingOut", "False"),
                "{summary}"
            );
            let names = machines
                .iter()
                .map(|one| one["metadata"]["name"].as_str().unwrap().to_owned());
            Ok(Some(names.collect()))
        });
        waiting.await.unwrap()
    }

    /// Waits until no object of a kind is left.
    pub(crate) async fn wait_until_gone(&self, kind: &str) {
        let what = format!("all {kind} to be gone");
        let waiting = wait_until(&what, DEADLINE, async || {
            let left = self.objects(kind).await?;
            ensure!(left.is_empty(), "{left:#?}");
            Ok(Some(()))
        });
        waiting.await.unwrap();
    }

    /// The machines that the controller created. Each name must be created once.
    pub(crate) fn created(&self) -> BTreeSet<String> {
        let writes = self.writes();
        let creations = writes
            .iter()
            .filter_map(|write| write.strip_prefix("create machines/ "));
        let names: Vec<String> = creations.map(str::to_owned).collect();
        let different: BTreeSet<String> = names.iter().cloned().collect();
        assert_eq!(different.len(), names.len(), "{names:?}");
        different
    }

    /// The writes of the controller as `create machines/ name`, without Leases and Events.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.writes_of(|event| event.user.username == USER)
    }

    /// The writes of the controller of Cluster API.
    pub(crate) fn writes_of_cluster_api(&self) -> Vec<String> {
        self.writes_of(|event| event.user_agent.contains("kubeadm-control-plane-manager"))
    }

    fn writes_of(&self, is_own: impl Fn(&AuditEvent) -> bool) -> Vec<String> {
        let events = self.plane.audit_events().unwrap();
        let own = events.iter().filter(|event| event.is_write() && is_own(event));
        let shown = own.filter_map(|event| {
            let object = event.object_ref.clone().unwrap_or_default();
            let (verb, resource) = (&event.verb, &object.resource);
            let is_shown = !matches!(resource.as_str(), "leases" | "events");
            is_shown.then(|| format!("{verb} {resource}/{} {}", object.subresource, object.name))
        });
        shown.collect()
    }
}

fn is_of_control_plane(machine: &Value) -> bool {
    machine["metadata"]["labels"]
        .get("cluster.x-k8s.io/control-plane")
        .is_some()
}

pub(crate) fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// The conditions that are not as they should be, for a failure.
fn summary(status: &Value, machines: &[Value]) -> String {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let own = conditions.iter().map(|one| {
        format!(
            "{}={}/{}: {}",
            one["type"], one["status"], one["reason"], one["message"]
        )
    });
    let machines = machines.iter().map(|machine| {
        let conditions = machine["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let bad = conditions.iter().filter(|one| one["status"] != "True");
        let bad: Vec<String> = bad
            .map(|one| format!("  {}={}: {}", one["type"], one["status"], one["message"]))
            .collect();
        let (name, version) = (&machine["metadata"]["name"], &machine["spec"]["version"]);
        format!("{name} {version} {}\n{}", machine["status"]["phase"], bad.join("\n"))
    });
    let lines: Vec<String> = own.chain(machines).collect();
    format!("replicas {}\n{}", status["replicas"], lines.join("\n"))
}
