//! A cluster with a control plane of simulated machines, and the controllers with the permissions
//! of their Role.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use capstan::controllers::{self, Caches, Configuration, Metrics};
use capstan::runtime::{Election, Running as RunningControllers};
use capstan_core::admission::Options as AdmissionOptions;
use capstan_core::api::config_openshift_io::cluster_operator::ClusterOperator;
use capstan_core::api::config_openshift_io::infrastructure::Infrastructure;
use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::cpms::domains::inject;
use capstan_core::cpms::indexes;
use capstan_core::cpms::observed::Settings;
use capstan_core::cpms::spec::{ParseContext, parse};
use capstan_sandbox::control_plane::{AuditEvent, ControlPlane, Options, wait_until};
use capstan_sandbox::infrastructure::{self, Provider, Speeds};
use capstan_sandbox::neighbours::machine_webhook::{self, MachineWebhook};
use capstan_sandbox::neighbours::openshift_api::{OpenShiftApi, Variant};
use futures::StreamExt as _;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::platforms::{self, Platform};

pub const NAMESPACE: &str = "openshift-machine-api";
/// The user of the controllers, as in `manifests/components/controllers/rbac.yaml`.
pub const CONTROLLERS: &str = "system:serviceaccount:openshift-machine-api:capstan-controllers";
/// The deadline of each wait, also on a loaded machine. No test succeeds because it is reached.
pub const SOON: Duration = Duration::from_secs(240);

const CONFIGURATION_KINDS: &str = include_str!("configuration-kinds.yaml");

pub struct World {
    pub plane: ControlPlane,
    pub client: Client,
    pub replicas: usize,
    pub platform: Platform,
    webhook: Option<MachineWebhook>,
    provider: Option<Provider>,
    monitor: Monitor,
}

/// The options of a world.
#[derive(Clone)]
pub struct Setup {
    pub platform: Platform,
    pub crds: Crds,
    /// Whether the webhooks of the Machine API run, as on OpenShift.
    pub machine_webhook: bool,
    /// Changes the provider spec in the template of the set, after the machines are created.
    pub template: fn(&mut Value),
    /// Changes the Infrastructure object.
    pub infrastructure: fn(&mut Value),
    pub replicas: usize,
    pub strategy: &'static str,
    pub state: &'static str,
    /// Whether the set is created.
    pub set: bool,
    /// Whether the etcd operator hooks the machines.
    pub etcd_operator: bool,
    pub speeds: Speeds,
    /// Whether the garbage collector runs.
    pub garbage_collector: bool,
    /// Whether the configuration API of OpenShift is served.
    pub configuration: bool,
    pub fault: Arc<dyn Fn(&Machine) -> infrastructure::Fault + Send + Sync>,
}

impl Default for Setup {
    fn default() -> Self {
        let crds = Crds::from_environment();
        Self {
            platform: Platform::Aws,
            crds,
            machine_webhook: crds != Crds::Ours,
            template: |_| {},
            infrastructure: |_| {},
            replicas: 3,
            strategy: "RollingUpdate",
            state: "Active",
            set: true,
            etcd_operator: true,
            speeds: Speeds::FAST,
            garbage_collector: true,
            configuration: true,
            fault: Arc::new(|_| infrastructure::Fault::None),
        }
    }
}

impl Setup {
    fn infrastructure(&self) -> Value {
        let mut infrastructure = self.platform.infrastructure();
        (self.infrastructure)(&mut infrastructure);
        infrastructure
    }
}

/// The CRDs that a world serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crds {
    /// Those of Capstan, with loose CRDs for the configuration API.
    Ours,
    /// Those of OpenShift.
    OpenShift(Variant),
}

impl Crds {
    /// The CRDs of worlds that do not choose them: `CAPSTAN_ROLLOUT_CRDS` is `Default` or
    /// `CustomNoUpgrade` for those of OpenShift with the webhooks of the Machine API.
    fn from_environment() -> Self {
        match std::env::var("CAPSTAN_ROLLOUT_CRDS").as_deref() {
            Ok("Default") => Self::OpenShift(Variant::Default),
            Ok("CustomNoUpgrade") => Self::OpenShift(Variant::CustomNoUpgrade),
            Ok(other) => panic!("CAPSTAN_ROLLOUT_CRDS must be Default or CustomNoUpgrade; it is {other}"),
            Err(_) => Self::Ours,
        }
    }

    /// The CRDs of the Machine API.
    fn machine_api(self) -> Result<Vec<String>> {
        let resources = [
            ("machine/v1", "controlplanemachinesets"),
            ("machine/v1beta1", "machines"),
            ("machine/v1beta1", "machinesets"),
        ];
        match self {
            Self::Ours => resources
                .iter()
                .map(|(_, plural)| read(&format!("manifests/crds/machine.openshift.io_{plural}.yaml")))
                .collect(),
            Self::OpenShift(variant) => of_openshift(&resources, variant),
        }
    }

    /// The CRDs of the configuration API.
    fn configuration(self) -> Result<Vec<String>> {
        let resources = [
            ("config/v1", "clusteroperators"),
            ("config/v1", "infrastructures"),
            ("config/v1", "featuregates"),
        ];
        match self {
            Self::Ours => Ok(vec![CONFIGURATION_KINDS.to_owned()]),
            Self::OpenShift(variant) => of_openshift(&resources, variant),
        }
    }
}

fn of_openshift(resources: &[(&str, &str)], variant: Variant) -> Result<Vec<String>> {
    let api = OpenShiftApi::locate()?;
    resources
        .iter()
        .map(|(version, plural)| Ok(api.crd(version, plural, variant)?.to_string()))
        .collect()
}

impl World {
    pub async fn new(setup: Setup) -> Result<Self> {
        let plane = ControlPlane::start(Options {
            audit: true,
            no_controllers: !setup.garbage_collector,
            ..Options::default()
        })
        .await?;
        let mut manifests = vec![format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: {NAMESPACE}}}}}"
        )];
        manifests.extend(setup.crds.machine_api()?);
        if setup.configuration {
            manifests.extend(setup.crds.configuration()?);
        }
        plane.apply_yaml(&manifests.join("\n---\n")).await?;
        plane
            .apply_yaml(&read("manifests/components/controllers/rbac.yaml")?)
            .await?;
        let client = plane.client().await?;
        let mut world = Self {
            monitor: Monitor::start(client.clone(), setup.replicas),
            client,
            plane,
            replicas: setup.replicas,
            platform: setup.platform,
            webhook: None,
            provider: None,
        };
        if setup.configuration {
            world
                .etcd(true, "EtcdMembersAvailable: 3 members are available")
                .await?;
        }
        if setup.configuration && setup.crds != Crds::Ours {
            world.create_infrastructure(&setup).await?;
        }
        if setup.machine_webhook {
            let cluster = machine_webhook::Cluster {
                platform: setup.platform.name().to_owned(),
                infrastructure_name: platforms::CLUSTER.to_owned(),
                region: "us-east-1".to_owned(),
                public_zone: false,
            };
            world.webhook = Some(MachineWebhook::start(&world.plane, &cluster).await?);
        }
        world.seed(&setup).await?;
        let mut options = infrastructure::Options::new(
            NAMESPACE,
            setup.speeds,
            if setup.etcd_operator { setup.replicas } else { 0 },
        );
        options.fault = setup.fault;
        world.provider = Some(Provider::start(world.client.clone(), options));
        // The world is ready when all machines have their finalizer and their hook.
        let wanted = usize::from(setup.etcd_operator);
        world
            .wait_for("the first machines to be hooked", async |world| {
                let machines = world.machines().await?;
                let hooked = |machine: &Machine| {
                    let hooks = machine.spec.lifecycle_hooks.as_ref();
                    hooks.map_or(0, |hooks| hooks.pre_drain.len()) == wanted && machine.metadata.finalizers.len() == 1
                };
                Ok(machines.iter().all(hooked).then_some(()))
            })
            .await?;
        Ok(world)
    }

    /// Creates the machines as an installer does, and the set that manages them.
    async fn seed(&self, setup: &Setup) -> Result<()> {
        let mut set = setup.platform.set()?;
        // A set has three or five machines. A world without one may have another number.
        if setup.set {
            set["spec"]["replicas"] = json!(setup.replicas);
        }
        set["spec"]["strategy"]["type"] = json!(setup.strategy);
        set["spec"]["state"] = json!(setup.state);
        let infrastructure: Infrastructure = serde_json::from_value(setup.infrastructure())?;
        let context = ParseContext {
            infrastructure: Some(&infrastructure),
            ..ParseContext::default()
        };
        let parsed = parse(&serde_json::from_value(set.clone())?, &context);
        let spec = parsed.map_err(|violations| anyhow::anyhow!("{violations:?}"))?;
        for index in 0..setup.replicas {
            let name = format!("prod-x7k2p-master-{index}");
            let mut provider_spec = spec.template.provider_spec.clone();
            if !spec.failure_domains.is_empty() {
                let domain = &spec.failure_domains[index % spec.failure_domains.len()];
                provider_spec = inject(&provider_spec, domain, Some(&infrastructure))?;
            }
            let machine = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
                "metadata": {"name": name, "namespace": NAMESPACE, "labels": spec.template.labels},
                "spec": {"providerSpec": {"value": provider_spec}, "providerID": format!("simulated:///{index}")}});
            create(&self.api("machines"), &machine).await?;
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name,
                "labels": {"node-role.kubernetes.io/master": "", "node-role.kubernetes.io/control-plane": ""}}});
            create(&self.api("nodes"), &node).await?;
            self.node_ready(&name, true).await?;
            let status = json!({"status": {"phase": "Running", "nodeRef": {"kind": "Node", "name": name}}});
            let machines = self.api("machines");
            machines
                .patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
                .await?;
        }
        if setup.set {
            let template = &mut set["spec"]["template"]["machines_v1beta1_machine_openshift_io"];
            (setup.template)(&mut template["spec"]["providerSpec"]["value"]);
            create(&self.api("controlplanemachinesets"), &set).await?;
        }
        Ok(())
    }

    async fn create_infrastructure(&self, setup: &Setup) -> Result<()> {
        let infrastructure = setup.infrastructure();
        create(&self.api("infrastructures"), &infrastructure).await?;
        let status = Patch::Merge(json!({"status": infrastructure["status"]}));
        let infrastructures = self.api("infrastructures");
        infrastructures
            .patch_status("cluster", &PatchParams::default(), &status)
            .await?;
        Ok(())
    }

    pub async fn node_ready(&self, name: &str, ready: bool) -> Result<()> {
        // An old time, so that the node has been ready for long enough.
        let since = if ready {
            "2026-01-01T00:00:00Z".to_owned()
        } else {
            jiff::Timestamp::now().to_string()
        };
        let patch = json!({"status": {"conditions": [
            {"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": since}]}});
        let nodes = self.api("nodes");
        nodes
            .patch_status(name, &PatchParams::default(), &Patch::Strategic(patch))
            .await?;
        Ok(())
    }

    /// Serves the configuration API, with a healthy etcd.
    pub async fn configure(&self) -> Result<()> {
        self.plane.apply_yaml(CONFIGURATION_KINDS).await?;
        self.etcd(true, "EtcdMembersAvailable: 3 members are available").await
    }

    /// Sets the conditions of the ClusterOperator `etcd`.
    pub async fn etcd(&self, available: bool, message: &str) -> Result<()> {
        let operators = self.api("clusteroperators");
        if operators.get_opt("etcd").await?.is_none() {
            let operator = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
                "metadata": {"name": "etcd"}, "spec": {}});
            create(&operators, &operator).await?;
        }
        let condition = |type_: &str, status: bool| {
            json!({"type": type_, "status": if status { "True" } else { "False" }, "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let status =
            json!({"status": {"conditions": [condition("Available", available), condition("Degraded", false)]}});
        operators
            .patch_status("etcd", &PatchParams::default(), &Patch::Merge(status))
            .await?;
        Ok(())
    }

    /// The API of a kind, by its plural name.
    pub fn api(&self, plural: &str) -> Api<DynamicObject> {
        let (group, version, kind) = match plural {
            "machines" => ("machine.openshift.io", "v1beta1", "Machine"),
            "machinehealthchecks" => ("machine.openshift.io", "v1beta1", "MachineHealthCheck"),
            "controlplanemachinesets" => ("machine.openshift.io", "v1", "ControlPlaneMachineSet"),
            "clusteroperators" => ("config.openshift.io", "v1", "ClusterOperator"),
            "infrastructures" => ("config.openshift.io", "v1", "Infrastructure"),
            "events" => ("", "v1", "Event"),
            _ => ("", "v1", "Node"),
        };
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: if group.is_empty() {
                version.to_owned()
            } else {
                format!("{group}/{version}")
            },
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        if matches!(plural, "nodes" | "clusteroperators" | "infrastructures") {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
        }
    }

    pub async fn list<T: DeserializeOwned>(&self, plural: &str) -> Result<Vec<T>> {
        let objects = self.api(plural).list(&ListParams::default()).await?;
        objects
            .items
            .into_iter()
            .map(|object| Ok(serde_json::from_value(serde_json::to_value(object)?)?))
            .collect()
    }

    pub async fn machines(&self) -> Result<Vec<Machine>> {
        self.list("machines").await
    }

    pub async fn set(&self) -> Result<ControlPlaneMachineSet> {
        let set = self.api("controlplanemachinesets").get("cluster").await?;
        Ok(serde_json::from_value(serde_json::to_value(set)?)?)
    }

    pub async fn operator(&self) -> Result<ClusterOperator> {
        let operator = self.api("clusteroperators").get("control-plane-machine-set").await?;
        Ok(serde_json::from_value(serde_json::to_value(operator)?)?)
    }

    /// Changes the set as an administrator.
    pub async fn edit(&self, patch: &Value) -> Result<()> {
        let sets = self.api("controlplanemachinesets");
        sets.patch("cluster", &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Changes the instance type in the template of the set.
    pub async fn set_instance_type(&self, instance_type: &str) -> Result<()> {
        self.set_size(&json!(instance_type)).await
    }

    /// Changes the size of the machines in the template of the set.
    pub async fn set_size(&self, size: &Value) -> Result<()> {
        let value = json!({self.platform.size_field(): size});
        self.edit(
            &json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": {"spec": {"providerSpec":
            {"value": value}}}}}}),
        )
        .await
    }

    /// Whether the control plane has the right number of machines, and all are ready and have this
    /// instance type.
    pub async fn is_rolled_out(&self, instance_type: &str) -> Result<bool> {
        self.has_size(&json!(instance_type)).await
    }

    /// Whether the control plane has the right number of machines, and all are ready and have this
    /// size.
    pub async fn has_size(&self, size: &Value) -> Result<bool> {
        let machines = self.machines().await?;
        let nodes: Vec<Node> = self.list("nodes").await?;
        let ready: BTreeSet<&str> = nodes
            .iter()
            .filter(|node| node.is_ready())
            .map(|node| node.metadata.name())
            .collect();
        Ok(machines.len() == self.replicas
            && machines.iter().all(|machine| {
                !machine.metadata.is_deleting()
                    && provider_spec_field(machine, self.platform.size_field()) == Some(size)
                    && machine.node_name().is_some_and(|node| ready.contains(node))
            }))
    }

    /// Waits until [`World::is_rolled_out`].
    pub async fn wait_for_rollout(&self, instance_type: &str) -> Result<()> {
        let what = format!("{} machines of type {instance_type}", self.replicas);
        self.wait_for(&what, async |world| {
            Ok(world.is_rolled_out(instance_type).await?.then_some(()))
        })
        .await
    }

    /// Waits until the set has a condition, such as `Progressing=False/AllReplicasUpdated`.
    pub async fn wait_for_condition(&self, expected: &str) -> Result<()> {
        self.wait_for(&format!("the condition {expected}"), async |world| {
            let conditions = world.conditions().await?;
            ensure!(
                conditions.iter().any(|condition| condition == expected),
                "the conditions are {conditions:?}"
            );
            Ok(Some(()))
        })
        .await
    }

    pub async fn conditions(&self) -> Result<Vec<String>> {
        let status = self.set().await?.status.unwrap_or_default();
        let conditions = status.conditions.iter();
        Ok(conditions
            .map(|condition| format!("{}={}/{}", condition.type_, condition.status, condition.reason))
            .collect())
    }

    /// Waits until `check` returns a value. The error of a failed wait describes the state of the
    /// cluster.
    pub async fn wait_for<T>(&self, what: &str, check: impl AsyncFn(&Self) -> Result<Option<T>>) -> Result<T> {
        match wait_until(what, SOON, async || check(self).await).await {
            Ok(found) => Ok(found),
            Err(error) => Err(error.context(self.describe().await)),
        }
    }

    /// The state of the cluster, for the message of a failed test.
    async fn describe(&self) -> String {
        let machines: Vec<String> = self.machines().await.unwrap_or_default().iter().map(show).collect();
        let status = self.set().await.ok().and_then(|set| set.status).unwrap_or_default();
        let conditions: Vec<String> = status
            .conditions
            .iter()
            .map(|one| format!("{}={} {}: {}", one.type_, one.status, one.reason, one.message))
            .collect();
        let writes = self.writes().unwrap_or_default();
        let last = writes.len().saturating_sub(12);
        format!(
            "machines: {machines:#?}\nconditions: {conditions:#?}\nlast writes: {:#?}",
            &writes[last..]
        )
    }

    /// A cluster of the default setup whose controllers run and have nothing left to do.
    pub async fn settled() -> Result<(Self, Running)> {
        let world = Self::new(Setup::default()).await?;
        let running = world.start_controllers("one").await?;
        world.wait_for_condition("Progressing=False/AllReplicasUpdated").await?;
        Ok((world, running))
    }

    /// Starts the controllers in this process, with the permissions of their Role.
    pub async fn start_controllers(&self, identity: &str) -> Result<Running> {
        self.start_controllers_with_lease(identity, "capstan").await
    }

    /// Starts the controllers with a Lease of this name. Their Role allows only the Lease
    /// `capstan`.
    pub async fn start_controllers_with_lease(&self, identity: &str, lease: &str) -> Result<Running> {
        self.start_controllers_for(identity, lease, 3).await
    }

    /// Starts the controllers with a feature gate enabled.
    pub async fn start_controllers_with_gate(&self, gate: &str) -> Result<Running> {
        let client = self.plane.client_for(CONTROLLERS, &["system:serviceaccounts"]).await?;
        let options = AdmissionOptions {
            feature_gates: BTreeMap::from([(gate.to_owned(), true)]),
            ..AdmissionOptions::default()
        };
        Ok(start_controllers_with(&client, "gated", "capstan", 3, options))
    }

    /// Changes the schema in the CRD of the set, and removes the CEL rules from it. The change
    /// takes effect a moment later.
    pub async fn redefine(&self, change: impl FnOnce(&mut Value)) -> Result<()> {
        let text = read("manifests/crds/machine.openshift.io_controlplanemachinesets.yaml")?;
        let mut definition: Value = serde_saphyr::from_str(&text)?;
        let schema = definition
            .pointer_mut("/spec/versions/0/schema/openAPIV3Schema")
            .context("the CRD must have a schema")?;
        drop_rules(schema);
        change(schema);
        self.plane.apply_yaml(&definition.to_string()).await?;
        Ok(())
    }

    /// Starts the controllers with a Lease of this name and duration.
    pub async fn start_controllers_for(&self, identity: &str, lease: &str, seconds: u64) -> Result<Running> {
        let client = self.plane.client_for(CONTROLLERS, &["system:serviceaccounts"]).await?;
        if lease != "capstan" {
            let verbs = ["get", "patch", "create"];
            self.plane
                .allow(CONTROLLERS, &verbs, "coordination.k8s.io", &["leases"])
                .await?;
        }
        Ok(start_controllers(&client, identity, lease, seconds))
    }

    /// Waits until the garbage collector has deleted a dependant of a set of this uid. It has then
    /// processed every dependant of that set.
    pub async fn wait_for_garbage_collector(&self, uid: &str) -> Result<()> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let orphan: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "orphan", "ownerReferences": [{
            "apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet", "name": "cluster", "uid": uid}]}}))?;
        api.create(&PostParams::default(), &orphan).await?;
        self.wait_for("the garbage collector", async |_| {
            Ok(api.get_opt("orphan").await?.is_none().then_some(()))
        })
        .await
    }

    /// The writes of the controllers so far as `create machines name`, without Leases and Events.
    pub fn writes(&self) -> Result<Vec<String>> {
        let events = self.plane.audit_events()?;
        Ok(events.iter().filter(|event| is_counted(event)).map(describe).collect())
    }

    /// The writes of the controllers after the last edit of the set by another user.
    pub fn writes_since_edit(&self) -> Result<Vec<String>> {
        let events = self.plane.audit_events()?;
        let edit = events.iter().rposition(|event| {
            let object = event.object_ref.clone().unwrap_or_default();
            let set = object.resource == "controlplanemachinesets" && object.subresource.is_empty();
            event.is_write() && event.user.username != CONTROLLERS && set
        });
        let after = events
            .iter()
            .skip(edit.context("no other user has edited the set")? + 1);
        Ok(after.filter(|event| is_counted(event)).map(describe).collect())
    }

    /// Checks the invariants: at no time were there too many or too few machines.
    pub fn check_invariants(self) -> Result<()> {
        let seen = self.monitor.violations();
        ensure!(seen.is_empty(), "{}", seen.join("\n"));
        Ok(())
    }

    /// Allows this number of missing machines, for tests in which a user deletes machines.
    pub fn allow_missing(&self, missing: usize) {
        self.monitor.shared.lock().unwrap().missing = missing;
    }
}

/// The controllers that run in this process.
pub struct Running {
    pub controllers: RunningControllers,
    pub caches: Arc<Caches>,
}

fn drop_rules(node: &mut Value) {
    match node {
        Value::Object(map) => {
            map.remove("x-kubernetes-validations");
            map.values_mut().for_each(drop_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_rules),
        _ => {}
    }
}

/// Starts the controllers with a client of the caller.
pub fn start_controllers(client: &Client, identity: &str, lease: &str, seconds: u64) -> Running {
    start_controllers_with(client, identity, lease, seconds, AdmissionOptions::default())
}

fn start_controllers_with(
    client: &Client,
    identity: &str,
    lease: &str,
    seconds: u64,
    options: AdmissionOptions,
) -> Running {
    let caches = Caches::start(client, NAMESPACE);
    let configuration = Configuration {
        options,
        settings: Settings {
            min_ready: SignedDuration::ZERO,
        },
        identity: identity.to_owned(),
    };
    let election = Election {
        namespace: NAMESPACE.to_owned(),
        name: lease.to_owned(),
        identity: identity.to_owned(),
        duration: Duration::from_secs(seconds),
    };
    let metrics = Metrics::register(&mut Registry::default());
    let controllers = controllers::start(client, &caches, configuration, election, metrics);
    Running { controllers, caches }
}

fn provider_spec_field<'m>(machine: &'m Machine, field: &str) -> Option<&'m Value> {
    machine.spec.provider_spec.value.as_ref()?.get(field)
}

pub fn instance_type_of(machine: &Machine) -> Option<&str> {
    machine.spec.provider_spec.value.as_ref()?.get("instanceType")?.as_str()
}

pub fn read(path: &str) -> Result<String> {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))
}

async fn create(api: &Api<DynamicObject>, object: &Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

fn is_counted(event: &AuditEvent) -> bool {
    let resource = event.object_ref.as_ref().map_or("", |object| object.resource.as_str());
    event.is_write() && event.user.username == CONTROLLERS && !matches!(resource, "leases" | "events")
}

fn describe(event: &AuditEvent) -> String {
    let object = event.object_ref.clone().unwrap_or_default();
    let resource = match object.subresource.as_str() {
        "" => object.resource,
        subresource => format!("{}/{subresource}", object.resource),
    };
    format!("{} {resource} {}", event.verb, object.name)
}

/// Watches the machines, and records every violation of an invariant.
struct Monitor {
    shared: Arc<Mutex<Shared>>,
    task: tokio::task::AbortHandle,
}

struct Shared {
    replicas: usize,
    /// How many machines may be missing because a user deleted them.
    missing: usize,
    seeded: bool,
    machines: BTreeMap<String, Machine>,
    violations: Vec<String>,
}

impl Monitor {
    fn start(client: Client, replicas: usize) -> Self {
        let shared = Arc::new(Mutex::new(Shared {
            replicas,
            missing: 0,
            seeded: false,
            machines: BTreeMap::new(),
            violations: Vec::new(),
        }));
        let recorder = Arc::clone(&shared);
        let resource = ApiResource {
            group: "machine.openshift.io".to_owned(),
            version: "v1beta1".to_owned(),
            api_version: "machine.openshift.io/v1beta1".to_owned(),
            kind: "Machine".to_owned(),
            plural: "machines".to_owned(),
        };
        let machines: Api<DynamicObject> = Api::namespaced_with(client, NAMESPACE, &resource);
        let task = tokio::spawn(async move {
            let mut events = Box::pin(watcher::watcher(machines, watcher::Config::default()));
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => recorder.lock().unwrap().record(event),
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        });
        Self {
            shared,
            task: task.abort_handle(),
        }
    }

    fn violations(&self) -> Vec<String> {
        self.shared.lock().unwrap().violations.clone()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn record(&mut self, event: Event<DynamicObject>) {
        match event {
            Event::Apply(object) | Event::InitApply(object) => {
                let name = object.metadata.name.clone().unwrap();
                let machine = serde_json::from_value(serde_json::to_value(object).unwrap()).unwrap();
                self.machines.insert(name, machine);
            }
            Event::Delete(object) => {
                self.machines.remove(object.metadata.name.as_deref().unwrap());
            }
            Event::Init => self.machines.clear(),
            Event::InitDone => {}
        }
        let running = self
            .machines
            .values()
            .filter(|machine| !machine.metadata.is_deleting() && machine.phase() == Some("Running"))
            .count();
        self.seeded |= running == self.replicas;
        if !self.seeded {
            return;
        }
        let names: Vec<String> = self.machines.values().map(show).collect();
        if running + self.missing < self.replicas {
            self.violations.push(format!(
                "only {running} machines are Running and not being deleted: {names:?}"
            ));
        }
        if self.machines.len() > self.replicas + 1 + self.missing {
            self.violations
                .push(format!("there is more than one surplus machine: {names:?}"));
        }
        // B15: one machine at a time, even if several are missing.
        let starting = |machine: &&Machine| {
            let is_new = matches!(machine.phase(), None | Some("Provisioning" | "Provisioned"));
            is_new && !machine.metadata.is_deleting()
        };
        if self.machines.values().filter(starting).count() > 1 {
            self.violations.push(format!("two machines start at once: {names:?}"));
        }
        let mut by_index: BTreeMap<u32, usize> = BTreeMap::new();
        for machine in self.machines.values().filter(|machine| !machine.metadata.is_deleting()) {
            *by_index
                .entry(indexes::of_name(machine.metadata.name()).unwrap())
                .or_default() += 1;
        }
        if by_index.values().any(|count| *count > 2) {
            self.violations.push(format!("an index has three machines: {names:?}"));
        }
    }
}

fn show(machine: &Machine) -> String {
    let deleting = if machine.metadata.is_deleting() {
        " (deleting)"
    } else {
        ""
    };
    format!(
        "{} {}{deleting}",
        machine.metadata.name(),
        machine.phase().unwrap_or("new")
    )
}
