//! A cluster with the CRDs of both APIs, and the shipped controllers of mirrored Machines with the
//! permissions of their Roles.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use capstan::controllers::mirroring::{self, MirroringConfiguration, MirroringMetrics};
use capstan::runtime::{Election, Metrics, Running};
use capstan_core::authority::pair::{FullObject, Part};
use capstan_core::authority::platforms::MirroredPlatforms;
use capstan_core::authority::spec::Api;
use capstan_sandbox::control_plane::{ControlPlane, Options, Proxy, wait_until};
use capstan_sandbox::neighbours::cluster_api::ClusterApi;
use capstan_sandbox::neighbours::openshift_api::{OpenShiftApi, Variant};
use capstan_sandbox::neighbours::provider_crds;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use crate::faults::Gate;

pub(crate) const SOON: Duration = Duration::from_secs(240);
pub(crate) const MACHINE_API: &str = "/apis/machine.openshift.io/v1beta1/namespaces/openshift-machine-api";
pub(crate) const CLUSTER_API: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/openshift-cluster-api";
pub(crate) const AWS: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/openshift-cluster-api";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/openshift-cluster-api/leases";
/// The user of the controllers, as in `manifests/components/mirroring-controllers/rbac.yaml`.
pub(crate) const MIRRORING: &str = "system:serviceaccount:openshift-machine-api:capstan-mirroring";

/// The cluster.
pub(crate) struct Cluster {
    /// The controllers of Cluster API, if they run. They stop before the API server does.
    pub(crate) neighbours: Option<ClusterApi>,
    pub(crate) plane: ControlPlane,
    pub(crate) client: kube::Client,
    /// What the controllers send to the API server.
    pub(crate) gate: Arc<Gate>,
    /// The way of the controllers to the API server.
    pub(crate) proxy: Proxy,
    starts: AtomicUsize,
}

/// The CRDs of the core of Cluster API.
const CORE: [&str; 4] = [
    "cluster.x-k8s.io_clusters.yaml",
    "cluster.x-k8s.io_machines.yaml",
    "cluster.x-k8s.io_machinesets.yaml",
    "cluster.x-k8s.io_machinehealthchecks.yaml",
];
/// The CRDs of the AWS provider.
const PROVIDER: [&str; 3] = [
    "infrastructure.cluster.x-k8s.io_awsclusters.yaml",
    "infrastructure.cluster.x-k8s.io_awsmachines.yaml",
    "infrastructure.cluster.x-k8s.io_awsmachinetemplates.yaml",
];

/// The CRDs that the tests need, without the webhooks that convert between their versions. The CRD
/// of MachineHealthChecks is the one of Capstan: that of OpenShift has no authority.
fn definitions(core: bool) -> Vec<Value> {
    let api = OpenShiftApi::locate().unwrap();
    let of_machine_api = |plural| api.crd("machine/v1beta1", plural, Variant::CustomNoUpgrade).unwrap();
    let mut all: Vec<Value> = ["machines", "machinesets"].into_iter().map(of_machine_api).collect();
    all.push(
        api.crd("machine/v1", "controlplanemachinesets", Variant::CustomNoUpgrade)
            .unwrap(),
    );
    for plural in ["infrastructures", "clusteroperators"] {
        all.push(api.crd("config/v1", plural, Variant::Default).unwrap());
    }
    let checks = include_str!("../../manifests/crds/machine.openshift.io_machinehealthchecks.yaml");
    all.push(serde_saphyr::from_str(checks).unwrap());
    let wanted: Vec<&str> = CORE.iter().filter(|_| core).chain(&PROVIDER).copied().collect();
    for folder in provider_crds::folders().unwrap() {
        for file in wanted
            .iter()
            .map(|name| folder.join(name))
            .filter(|file| file.is_file())
        {
            all.push(serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap());
        }
    }
    for definition in &mut all {
        definition["spec"]["conversion"] = json!({"strategy": "None"});
        definition.as_object_mut().unwrap().remove("status");
        if definition["spec"]["group"] == "infrastructure.cluster.x-k8s.io" {
            // Tells the core which version the provider implements, and of which contract.
            definition["metadata"]["labels"]["cluster.x-k8s.io/v1beta1"] = json!("v1beta2");
        }
    }
    assert_eq!(all.len(), 6 + wanted.len());
    all
}

pub(crate) fn provider_spec() -> Value {
    serde_json::from_str(include_str!("../../core/src/conversion/tests/aws.json")).unwrap()
}

impl Cluster {
    /// The cluster without controllers of Cluster API, which the tests play.
    pub(crate) async fn start() -> Self {
        Self::prepare(false).await
    }

    /// The cluster with the core controllers of Cluster API and their webhooks.
    pub(crate) async fn beside_core() -> Self {
        Self::prepare(true).await
    }

    async fn prepare(core: bool) -> Self {
        let options = Options {
            audit: true,
            ..Options::default()
        };
        let plane = ControlPlane::start(options).await.unwrap();
        let kubectl = async |arguments: &[&str], input: String| {
            let output = plane.kubectl().args(arguments.iter().copied()).stdin(input).run().await;
            output.unwrap().checked().unwrap();
        };
        for definition in definitions(!core) {
            kubectl(&["create", "-f", "-"], definition.to_string()).await;
        }
        let neighbours = match core {
            true => Some(ClusterApi::start_core(&plane, false).await.unwrap()),
            false => None,
        };
        let wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
        kubectl(&wait, String::new()).await;
        for namespace in ["openshift-machine-api", "openshift-cluster-api"] {
            kubectl(&["create", "namespace", namespace], String::new()).await;
        }
        let client = plane.client().await.unwrap();
        let body = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "prod-x7k2p", "namespace": "openshift-cluster-api"},
            "spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSCluster",
                "name": "prod-x7k2p"}}});
        wait_until("the kinds are served", SOON, async || {
            Ok(send(&client, "POST", &format!("{CLUSTER_API}/clusters"), Some(&body))
                .await
                .ok())
        })
        .await
        .unwrap();
        let body = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster",
            "metadata": {"name": "prod-x7k2p"}, "spec": {"region": "us-east-1"}});
        send(&client, "POST", &format!("{AWS}/awsclusters"), Some(&body))
            .await
            .unwrap();
        let infrastructures = "/apis/config.openshift.io/v1/infrastructures";
        let body = json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure",
            "metadata": {"name": "cluster"}, "spec": {"platformSpec": {"type": "AWS"}}});
        send(&client, "POST", infrastructures, Some(&body)).await.unwrap();
        let status = json!({"status": {"infrastructureName": "prod-x7k2p", "platform": "AWS",
            "platformStatus": {"type": "AWS", "aws": {"region": "us-east-1"}}}});
        let path = format!("{infrastructures}/cluster/status");
        send(&client, "PATCH", &path, Some(&status)).await.unwrap();
        let roles = include_str!("../../manifests/components/mirroring-controllers/rbac.yaml");
        plane.apply_yaml(roles).await.unwrap();
        // Each start of the controllers has a Lease of its own, so that no test waits for the Lease
        // of controllers that ended without releasing it.
        let verbs = ["get", "list", "watch", "patch", "create"];
        plane
            .allow(MIRRORING, &verbs, "coordination.k8s.io", &["leases"])
            .await
            .unwrap();
        let gate = Arc::new(Gate::default());
        let faults: Arc<dyn capstan_sandbox::control_plane::Faults> = Arc::clone(&gate) as _;
        let groups = ["system:serviceaccounts"];
        let proxy = plane.proxy(MIRRORING, &groups, faults).await.unwrap();
        Self {
            neighbours,
            plane,
            client,
            gate,
            proxy,
            starts: AtomicUsize::new(0),
        }
    }

    /// Starts the controllers, as a new process would.
    pub(crate) async fn controllers(&self) -> Running {
        self.controllers_of(&MirroredPlatforms::default()).await
    }

    /// The same, for these platforms only.
    pub(crate) async fn controllers_of(&self, platforms: &MirroredPlatforms) -> Running {
        let client = self.proxy.client().await.unwrap();
        let configuration = MirroringConfiguration {
            machine_api_namespace: "openshift-machine-api".to_owned(),
            cluster_api_namespace: "openshift-cluster-api".to_owned(),
            platforms: platforms.clone(),
        };
        let start = self.starts.fetch_add(1, Ordering::Relaxed);
        let election = Election {
            namespace: "openshift-machine-api".to_owned(),
            name: format!("capstan-mirroring-{start}"),
            identity: format!("process-{start}"),
            duration: Duration::from_secs(15),
        };
        let mut registry = Registry::default();
        let runtime = Metrics::register(&mut registry);
        let metrics = MirroringMetrics::register(&mut registry, runtime);
        let caches = mirroring::caches(&client, &configuration);
        mirroring::start(&client, &caches, &configuration, election, metrics)
    }

    /// A successful call of kubectl.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.plane.kubectl().args(arguments.iter().copied()).run().await;
        output.unwrap().checked().unwrap().stdout
    }

    /// Writes the Lease of OpenShift's own sync controller, held or released.
    pub(crate) async fn other_controller(&self, holder: &str) {
        let name = "machine-api-migration-leader";
        let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 3,
            "renewTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string()});
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name}, "spec": spec});
        if self.find(&format!("{LEASES}/{name}")).await.is_none() {
            send(&self.client, "POST", LEASES, Some(&lease)).await.unwrap();
        } else {
            let path = format!("{LEASES}/{name}");
            send(&self.client, "PATCH", &path, Some(&json!({"spec": spec})))
                .await
                .unwrap();
        }
    }

    /// A MachineSet of the Machine API without replicas.
    pub(crate) fn set_body(name: &str, authority: Api) -> Value {
        let labels = json!({"set": name, "machine.openshift.io/cluster-api-cluster": "prod-x7k2p"});
        let template = json!({"metadata": {"labels": labels}, "spec": {"authoritativeAPI": authority.as_str(),
            "providerSpec": {"value": provider_spec()}}});
        json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
            "metadata": {"name": name}, "spec": {"authoritativeAPI": authority.as_str(), "replicas": 0,
                "selector": {"matchLabels": {"set": name}}, "template": template}})
    }

    /// Creates a MachineSet of the Machine API without replicas, and waits until the controllers
    /// have made its mirror. Returns the one of the Machine API.
    pub(crate) async fn sets(&self, name: &str, authority: Api) -> Value {
        let set = Self::set_body(name, authority);
        let path = format!("{MACHINE_API}/machinesets");
        send(&self.client, "POST", &path, Some(&set)).await.unwrap();
        let path = format!("{path}/{name}");
        wait_until("the MachineSet is mirrored", SOON, async || {
            let set = self.find(&path).await.map(FullObject::from);
            let set = set.filter(|set| set.condition("Synchronized") == Some("True"));
            Ok(set.map(|set| Value::clone(&set.value)))
        })
        .await
        .unwrap()
    }

    pub(crate) async fn delete_set(&self, api: Api, name: &str) {
        let namespace = if api == Api::MachineApi {
            MACHINE_API
        } else {
            CLUSTER_API
        };
        let path = format!("{namespace}/machinesets/{name}");
        send(&self.client, "DELETE", &path, None).await.unwrap();
    }

    /// A Machine of the Machine API without an owner.
    pub(crate) fn machine_body(name: &str, authority: Api) -> Value {
        json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "metadata": {"name": name, "labels": {
                "machine.openshift.io/cluster-api-cluster": "prod-x7k2p",
                "machine.openshift.io/cluster-api-machine-role": "worker",
                "machine.openshift.io/cluster-api-machine-type": "worker"}},
            "spec": {"authoritativeAPI": authority.as_str(), "providerSpec": {"value": provider_spec()}}})
    }

    /// Creates a Machine of the Machine API with this authority.
    pub(crate) async fn machine(&self, name: &str, authority: Api, owner: Option<&Value>) -> Machine<'_> {
        let mut body = Self::machine_body(name, authority);
        if let Some(owner) = owner {
            body["metadata"]["ownerReferences"] = json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"],
                "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": true,
                "blockOwnerDeletion": true}]);
        }
        self.create("openshift-machine-api", &body).await;
        self.known(name)
    }

    /// Creates an object as a user does.
    pub(crate) async fn create(&self, namespace: &str, body: &Value) {
        let create = ["create", "-n", namespace, "-f", "-"];
        let created = self.plane.kubectl().args(create).stdin(body.to_string()).run().await;
        created.unwrap().checked().unwrap();
    }

    /// A Machine that exists, without an instance.
    pub(crate) fn known(&self, name: &str) -> Machine<'_> {
        Machine {
            cluster: self,
            name: name.to_owned(),
            instance: None,
            instances: 0,
        }
    }

    pub(crate) async fn find(&self, path: &str) -> Option<Value> {
        match send(&self.client, "GET", path, None).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("reading {path}: {error}"),
        }
    }
}

/// Sends a request. A patch is a JSON merge patch.
pub(crate) async fn send(client: &kube::Client, method: &str, path: &str, body: Option<&Value>) -> kube::Result<Value> {
    let content = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("Content-Type", content)
        .body(body.map(|body| body.to_string().into_bytes()).unwrap_or_default())
        .unwrap();
    client.request(request).await
}

/// A Machine of both APIs, and its instance.
pub(crate) struct Machine<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) name: String,
    /// The instance, by its id.
    pub(crate) instance: Option<String>,
    /// How many instances were created.
    pub(crate) instances: u32,
}

impl Machine<'_> {
    fn path(&self, part: Part) -> String {
        let name = &self.name;
        match part {
            Part::MachineApi => format!("{MACHINE_API}/machines/{name}"),
            Part::ClusterApi => format!("{CLUSTER_API}/machines/{name}"),
            Part::Infrastructure => format!("{AWS}/awsmachines/{name}"),
            Part::Template(_) | Part::Member(_) => panic!("a Machine has no such object"),
        }
    }

    pub(crate) async fn get(&self, part: Part) -> Option<Value> {
        self.cluster.find(&self.path(part)).await
    }

    pub(crate) async fn object(&self, part: Part) -> Option<FullObject> {
        self.get(part).await.map(FullObject::from)
    }

    pub(crate) async fn patch(&self, part: Part, patch: &Value) {
        let path = self.path(part);
        send(&self.cluster.client, "PATCH", &path, Some(patch)).await.unwrap();
    }

    pub(crate) async fn patch_status(&self, part: Part, status: &Value) {
        let path = format!("{}/status", self.path(part));
        let patch = json!({"status": status});
        send(&self.cluster.client, "PATCH", &path, Some(&patch)).await.unwrap();
    }

    /// Deletes a Machine as a user does.
    pub(crate) async fn delete(&self, part: Part) {
        let (resource, namespace) = match part {
            Part::MachineApi => ("machines.machine.openshift.io", "openshift-machine-api"),
            Part::ClusterApi => ("machines.cluster.x-k8s.io", "openshift-cluster-api"),
            Part::Infrastructure => ("awsmachines.infrastructure.cluster.x-k8s.io", "openshift-cluster-api"),
            Part::Template(_) | Part::Member(_) => panic!("a Machine has no such object"),
        };
        let delete = ["delete", resource, &self.name, "-n", namespace, "--wait=false"];
        self.cluster.kubectl(&delete).await;
    }

    /// Requests a migration as a user does.
    pub(crate) async fn request(&self, api: Api) {
        let patch = json!({"spec": {"authoritativeAPI": api.as_str()}}).to_string();
        let machine = ["patch", "machines.machine.openshift.io", &self.name];
        let options = ["-n", "openshift-machine-api", "--type=merge", "-p", &patch];
        self.cluster.kubectl(&[&machine[..], &options].concat()).await;
    }

    pub(crate) async fn authority(&self) -> String {
        let machine = self.get(Part::MachineApi).await.unwrap_or_default();
        machine["status"]["authoritativeAPI"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub(crate) async fn condition(&self, kind: &str) -> String {
        let machine = self.object(Part::MachineApi).await;
        let status = machine.and_then(|machine| machine.condition(kind).map(str::to_owned));
        status.unwrap_or_default()
    }

    /// The resource versions of the three objects.
    pub(crate) async fn versions(&self) -> Vec<Value> {
        let mut versions = Vec::new();
        for part in [Part::MachineApi, Part::ClusterApi, Part::Infrastructure] {
            let object = self.get(part).await.unwrap_or_default();
            versions.push(object["metadata"]["resourceVersion"].clone());
        }
        versions
    }

    /// Lets the controllers of both APIs act until something holds.
    pub(crate) async fn until(&mut self, what: &str, holds: impl AsyncFn(&Self) -> bool) {
        let deadline = std::time::Instant::now() + SOON;
        loop {
            let acted = self.controllers().await;
            if holds(self).await {
                return;
            }
            let state = async || {
                let mut state = Vec::new();
                for part in [Part::MachineApi, Part::ClusterApi, Part::Infrastructure] {
                    state.push(self.get(part).await.unwrap_or_default());
                }
                serde_json::to_string_pretty(&state).unwrap()
            };
            assert!(
                std::time::Instant::now() < deadline,
                "{}: {what}: {}\nwrites: {:#?}",
                self.name,
                state().await,
                self.cluster.gate.writes()
            );
            if !acted {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// Waits until the mirror agrees with this authoritative Machine, and nothing changes.
    pub(crate) async fn synchronized(&mut self, api: Api) {
        self.agrees(api).await;
        self.settle().await;
    }

    /// Waits until the mirror agrees with this authoritative Machine.
    pub(crate) async fn agrees(&mut self, api: Api) {
        self.until("the Machine is synchronized", async |machine| {
            machine.authority().await == api.as_str() && machine.condition("Synchronized").await == "True"
        })
        .await;
    }

    /// Lets everything run until nothing has changed for a while.
    pub(crate) async fn settle(&mut self) {
        let mut quiet = 0;
        let mut before = self.versions().await;
        let deadline = std::time::Instant::now() + SOON;
        while quiet < 12 {
            assert!(
                std::time::Instant::now() < deadline,
                "{} does not settle: {:#?}",
                self.name,
                self.cluster.gate.writes()
            );
            let acted = self.controllers().await;
            tokio::time::sleep(Duration::from_millis(25)).await;
            let now = self.versions().await;
            quiet = if acted || now != before { 0 } else { quiet + 1 };
            before = now;
        }
    }

    /// Waits until none of the three objects exists.
    pub(crate) async fn gone(&mut self) {
        self.until("all objects are deleted", async |machine| {
            machine.versions().await.iter().all(Value::is_null)
        })
        .await;
    }
}
