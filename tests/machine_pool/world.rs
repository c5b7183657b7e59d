//! A management cluster with the core manager of Cluster API, and one Cluster in it. The cluster
//! that is managed is the management cluster itself.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use capstan::controllers::machine_pool::{self, MachinePoolMetrics};
use capstan::runtime::{Election, Metrics, Running};
use capstan::workload::Connections;
use capstan_core::pool::Mode;
use capstan_sandbox::control_plane::{ControlPlane, Options, wait_until};
use capstan_sandbox::infrastructure::groups::{Cloud, GroupProvider, GroupSpeeds, definitions};
use capstan_sandbox::neighbours::cluster_api::ClusterApi;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

/// The user of the controller, as in `manifests/components/machine-pool-controllers`.
const USER: &str = "system:serviceaccount:openshift-machine-api:capstan-machine-pool";
const GROUPS: &[&str] = &["system:serviceaccounts"];
/// The same, for a process.
pub(crate) const USER_KUBECONFIG: (&str, &[&str]) = (USER, GROUPS);
/// The deadline of every change.
pub(crate) const DEADLINE: Duration = Duration::from_secs(240);
/// The namespace of the pools.
pub(crate) const NAMESPACE: &str = "pools";

pub(crate) struct World {
    // Fields are dropped in this order.
    _provider: GroupProvider,
    neighbours: ClusterApi,
    pub(crate) plane: ControlPlane,
    pub(crate) cloud: Cloud,
}

/// The running controller with its metrics.
pub(crate) struct Controller {
    pub(crate) running: Running,
    registry: Registry,
}

impl Controller {
    /// The metrics as text.
    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// The number of reconciles so far.
    pub(crate) fn reconciles(&self) -> f64 {
        let text = self.metrics();
        let counts = text
            .lines()
            .filter(|line| line.starts_with("capstan_reconcile_duration_seconds_count"));
        counts
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }
}

/// The annotation with a rolling strategy.
pub(crate) fn rolling(max_unavailable: usize) -> Value {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": max_unavailable}});
    json!({"capstan.dev/rollout": json!({ "strategy": strategy }).to_string()})
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

impl World {
    /// With a core manager that manages MachinePools, or leaves them to Capstan.
    pub(crate) async fn new(core_manages_pools: bool) -> Self {
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
        let namespaces = ["openshift-machine-api", NAMESPACE]
            .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        plane.apply_yaml(&list(&namespaces)).await.unwrap();
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/manifests/components/machine-pool-controllers/rbac.yaml"
        );
        plane.apply_yaml(&std::fs::read_to_string(path).unwrap()).await.unwrap();
        plane.apply_yaml(&list(&definitions())).await.unwrap();
        let neighbours = ClusterApi::start_core(&plane, core_manages_pools).await.unwrap();
        let cloud = Cloud::default();
        let client = plane.client().await.unwrap();
        let provider = GroupProvider::start(client, NAMESPACE, cloud.clone(), GroupSpeeds::default());
        let world = Self {
            _provider: provider,
            neighbours,
            plane,
            cloud,
        };
        world.create_cluster().await;
        world
    }

    /// Starts the controller with the permissions of its manifest.
    pub(crate) async fn start(&self, mode: Mode) -> Controller {
        let client = self.plane.client_for(USER, GROUPS).await.unwrap();
        let caches = machine_pool::caches(&client);
        let election = Election {
            namespace: String::from("openshift-machine-api"),
            name: String::from("capstan-machine-pool"),
            identity: String::from("test"),
            duration: Duration::from_secs(3),
        };
        let managed = Connections::new(&client, machine_pool::settings());
        let mut registry = Registry::default();
        let runtime = Metrics::register(&mut registry);
        let metrics = MachinePoolMetrics::register(&mut registry, runtime);
        Controller {
            running: machine_pool::start(&client, &caches, managed, mode, election, metrics),
            registry,
        }
    }

    /// A Cluster whose control plane is managed elsewhere.
    async fn create_cluster(&self) {
        let kubeconfig = std::fs::read_to_string(self.plane.kubeconfig().unwrap()).unwrap();
        let url: Vec<&str> = self.plane.url().trim_start_matches("https://").split(':').collect();
        let metadata = |name: &str| json!({"name": name, "namespace": NAMESPACE, "labels": {"cluster.x-k8s.io/cluster-name": "c"}});
        let objects = [
            json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "SimulatedCluster",
                "metadata": metadata("c"), "spec": {},
            }),
            json!({
                "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "SimulatedControlPlane",
                "metadata": metadata("c"), "spec": {"version": "v1.36.0"},
            }),
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
                "metadata": metadata("c-kubeconfig"), "stringData": {"value": kubeconfig},
            }),
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
                "metadata": metadata("boot"), "stringData": {"value": "#cloud-config"},
            }),
            json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata("c"),
                "spec": {
                    "clusterNetwork": {"pods": {"cidrBlocks": ["192.168.0.0/16"]}},
                    "controlPlaneEndpoint": {"host": url[0], "port": url[1].parse::<u16>().unwrap()},
                    "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "SimulatedControlPlane",
                        "name": "c"},
                    "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "SimulatedCluster",
                        "name": "c"},
                },
            }),
        ];
        self.plane.apply_yaml(&list(&objects)).await.unwrap();
        let control_plane = json!({"status": {"externalManagedControlPlane": true,
            "initialization": {"controlPlaneInitialized": true}}});
        let infrastructure = json!({"status": {"initialization": {"provisioned": true}}});
        for (kind, status) in [
            ("simulatedcontrolplanes.controlplane.cluster.x-k8s.io", control_plane),
            ("simulatedclusters.infrastructure.cluster.x-k8s.io", infrastructure),
        ] {
            let text = status.to_string();
            let flags = ["--type=merge", "--subresource=status", "-p", &text];
            let arguments = [&["patch", kind, "c", "-n", NAMESPACE], &flags[..]].concat();
            self.kubectl(&arguments).await;
        }
    }

    /// Creates a pool, with fields of its own in the template and in the group.
    pub(crate) async fn create_pool(&self, name: &str, replicas: usize, annotations: &Value, group: &Value) {
        let infrastructure = "infrastructure.cluster.x-k8s.io";
        let objects = [
            json!({
                "apiVersion": format!("{infrastructure}/v1beta2"), "kind": "SimulatedMachinePool",
                "metadata": {"name": name, "namespace": NAMESPACE}, "spec": group,
            }),
            json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
                "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
                "spec": {
                    "clusterName": "c", "replicas": replicas,
                    "template": {
                        "metadata": {"labels": {"team": "blue"}},
                        "spec": {
                            "clusterName": "c", "version": "v1.35.0", "bootstrap": {"dataSecretName": "boot"},
                            "deletion": {"nodeDrainTimeoutSeconds": 30, "nodeVolumeDetachTimeoutSeconds": 30},
                            "infrastructureRef": {"apiGroup": infrastructure, "kind": "SimulatedMachinePool",
                                "name": name},
                        },
                    },
                },
            }),
        ];
        self.apply(&objects).await;
    }

    pub(crate) async fn apply(&self, objects: &[Value]) {
        self.plane.apply_yaml(&list(objects)).await.unwrap();
    }

    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.plane.kubectl().args(arguments.to_vec()).run().await.unwrap();
        output.checked().unwrap().stdout
    }

    /// Changes a pool with a merge patch.
    pub(crate) async fn edit(&self, name: &str, patch: &Value) {
        let text = patch.to_string();
        self.kubectl(&[
            "patch",
            "machinepool",
            name,
            "-n",
            NAMESPACE,
            "--type=merge",
            "-p",
            &text,
        ])
        .await;
    }

    /// The objects of a kind in the namespace.
    pub(crate) async fn objects(&self, kind: &str) -> Result<Vec<Value>> {
        let arguments = ["get", kind, "-n", NAMESPACE, "-o", "json"];
        let output = self.plane.kubectl().args(arguments).run().await?.checked()?;
        let found: Value = serde_json::from_str(&output.stdout)?;
        Ok(found["items"].as_array().cloned().unwrap_or_default())
    }

    pub(crate) async fn pool(&self, name: &str) -> Result<Value> {
        let pools = self.objects("machinepools").await?;
        let pool = pools.into_iter().find(|pool| pool["metadata"]["name"] == name);
        pool.context("the pool does not exist")
    }

    /// Waits until the pool has exactly so many Machines, each available with this version.
    pub(crate) async fn wait_until_settled(&self, name: &str, replicas: usize, version: &str) -> Vec<Value> {
        let what = format!("{replicas} available machines of version {version}");
        self.wait_for(&what, async || {
            let machines = self.objects("machines.cluster.x-k8s.io").await?;
            let pool = self.pool(name).await?;
            let is_settled = |machine: &Value| {
                machine["status"]["nodeInfo"]["kubeletVersion"] == version
                    && condition(machine, "Available") == "True"
                    && machine["metadata"].get("deletionTimestamp").is_none()
            };
            ensure!(
                machines.len() == replicas
                    && machines.iter().all(is_settled)
                    && condition(&pool, "MachinesReady") == "True"
                    && condition(&pool, "MachinesUpToDate") == "True"
                    && condition(&pool, "ScalingUp") == "False"
                    && condition(&pool, "ScalingDown") == "False",
                "{}",
                summary(&pool, &machines)
            );
            Ok(Some(machines))
        })
        .await
    }

    pub(crate) async fn wait_for<T>(&self, what: &str, check: impl AsyncFnMut() -> Result<Option<T>>) -> T {
        self.wait_within(DEADLINE, what, check).await
    }

    /// The same with another deadline.
    pub(crate) async fn wait_within<T>(
        &self,
        deadline: Duration,
        what: &str,
        check: impl AsyncFnMut() -> Result<Option<T>>,
    ) -> T {
        match wait_until(what, deadline, check).await {
            Ok(value) => value,
            Err(error) => {
                let logs = self.neighbours.logs();
                let lines: Vec<&str> = logs.lines().filter(|line| line.starts_with('E')).collect();
                let last = lines
                    .iter()
                    .rev()
                    .take(15)
                    .rev()
                    .copied()
                    .collect::<Vec<&str>>()
                    .join("\n");
                panic!("{error:?}\nerrors of the core manager:\n{last}");
            }
        }
    }

    /// The writes of the controller as `patch machines/ name`, without Leases and Events.
    pub(crate) fn writes(&self) -> Vec<String> {
        let events = self.plane.audit_events().unwrap();
        let own = events
            .iter()
            .filter(|event| event.is_write() && event.user.username == USER);
        let shown = own.filter_map(|event| {
            let object = event.object_ref.clone().unwrap_or_default();
            let (verb, resource) = (&event.verb, &object.resource);
            let is_shown = !matches!(resource.as_str(), "leases" | "events");
            is_shown.then(|| format!("{verb} {resource}/{} {}", object.subresource, object.name))
        });
        shown.collect()
    }
}

/// The status of a condition, or an empty text.
pub(crate) fn condition(object: &Value, type_: &str) -> String {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|one| one["type"] == type_);
    found.map_or_else(String::new, |one| one["status"].as_str().unwrap().to_owned())
}

/// The message of a condition, or an empty text.
pub(crate) fn message(object: &Value, type_: &str) -> String {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|one| one["type"] == type_);
    found.map_or_else(String::new, |one| {
        one["message"].as_str().unwrap_or_default().to_owned()
    })
}

pub(crate) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// What is not as it should be, for a failure.
fn summary(pool: &Value, machines: &[Value]) -> String {
    let conditions = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let lines = conditions.iter().map(|one| {
            format!(
                "  {}={}/{}: {}",
                one["type"], one["status"], one["reason"], one["message"]
            )
        });
        lines.collect::<Vec<String>>().join("\n")
    };
    let machines = machines.iter().map(|machine| {
        let (name, phase) = (name(machine), &machine["status"]["phase"]);
        let bad = conditions(machine);
        let bad: Vec<&str> = bad.lines().filter(|line| !line.contains("=\"True\"")).collect();
        format!("{name} {phase}\n{}", bad.join("\n"))
    });
    let all: Vec<String> = [conditions(pool)].into_iter().chain(machines).collect();
    all.join("\n")
}
