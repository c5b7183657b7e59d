//! The controller of ControlPlanes on a real API server, with the permissions of its Role. The test
//! plays the report of the etcd operator; the simulated provider hooks machines as that operator
//! does.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, ensure};
use capstan::controllers::Metrics;
use capstan::controllers::control_plane;
use capstan::runtime::{Election, Running};
use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::control_plane::{ControlPlane, FINALIZER};
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_sandbox::control_plane::{Call, Faults, Process};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use crate::platforms::Platform;
use crate::world::{NAMESPACE, Setup, World, instance_type_of, read};

/// The user of the controller, as in `manifests/components/control-plane-controllers/rbac.yaml`.
pub(crate) const USER: &str = "system:serviceaccount:openshift-machine-api:capstan-control-plane";
pub(crate) const GROUPS: &[&str] = &["system:serviceaccounts"];
pub(crate) const SETTLED: &str = "Progressing=False/AllReplicasUpdated";

/// A world with a ControlPlane in place of a set, and a report of etcd that follows the machines.
pub(crate) struct Plane {
    pub(crate) world: World,
    pub(crate) api: Api<DynamicObject>,
    reports: tokio::task::AbortHandle,
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.reports.abort();
    }
}

impl Plane {
    /// A cluster with this number of machines, as an installer leaves them.
    pub(crate) async fn new(replicas: usize) -> Self {
        Self::on(Platform::Aws, replicas).await
    }

    /// A cluster of a platform.
    pub(crate) async fn on(platform: Platform, replicas: usize) -> Self {
        let plane = Self::with(platform, replicas, true, false).await;
        plane.create(replicas).await;
        plane
    }

    /// A cluster without the etcd operator.
    pub(crate) async fn without_etcd_operator(replicas: usize) -> Self {
        let plane = Self::with(Platform::Aws, replicas, false, false).await;
        plane.create(replicas).await;
        plane
    }

    /// A cluster with an Active set, and without a ControlPlane.
    pub(crate) async fn of_set(replicas: usize) -> Self {
        Self::with(Platform::Aws, replicas, true, true).await
    }

    async fn with(platform: Platform, replicas: usize, etcd_operator: bool, set: bool) -> Self {
        let setup = Setup {
            platform,
            replicas,
            set,
            etcd_operator,
            ..Setup::default()
        };
        let world = World::new(setup).await.unwrap();
        let crd = read("manifests/crds-control-plane/machine.openshift.io_controlplanes.yaml").unwrap();
        world.plane.apply_yaml(&crd).await.unwrap();
        let checks = read("manifests/crds/machine.openshift.io_machinehealthchecks.yaml").unwrap();
        world.plane.apply_yaml(&checks).await.unwrap();
        let rbac = read("manifests/components/control-plane-controllers/rbac.yaml").unwrap();
        world.plane.apply_yaml(&rbac).await.unwrap();
        let resource = ApiResource {
            group: "machine.openshift.io".to_owned(),
            version: "v1alpha1".to_owned(),
            api_version: "machine.openshift.io/v1alpha1".to_owned(),
            kind: "ControlPlane".to_owned(),
            plural: "controlplanes".to_owned(),
        };
        let api = Api::namespaced_with(world.client.clone(), NAMESPACE, &resource);
        let reports = tokio::spawn(report(
            world.api("machines"),
            world.api("nodes"),
            world.api("clusteroperators"),
        ));
        Self {
            reports: reports.abort_handle(),
            world,
            api,
        }
    }

    /// Creates the ControlPlane with the template of the set of the platform.
    async fn create(&self, replicas: usize) {
        let set = self.world.platform.set().unwrap();
        let template = &set["spec"]["template"]["machines_v1beta1_machine_openshift_io"];
        let object = json!({"apiVersion": "machine.openshift.io/v1alpha1", "kind": "ControlPlane",
            "metadata": {"name": "cluster", "namespace": NAMESPACE},
            "spec": {"replicas": replicas, "providerSpec": template["spec"]["providerSpec"],
                "failureDomains": template["failureDomains"]}});
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.api.create(&PostParams::default(), &object).await.unwrap();
    }

    pub(crate) async fn edit(&self, patch: &Value) {
        let params = PatchParams::default();
        self.api.patch("cluster", &params, &Patch::Merge(patch)).await.unwrap();
    }

    async fn object(&self) -> Result<ControlPlane> {
        let object = self.api.get("cluster").await?;
        Ok(serde_json::from_value(serde_json::to_value(object)?)?)
    }

    /// The conditions of the status, if it is about the last edit.
    pub(crate) async fn conditions(&self) -> Result<Vec<String>> {
        let object = self.object().await?;
        let status = object.status.unwrap_or_default();
        ensure!(
            status.observed_generation == object.metadata.generation,
            "the last edit is not observed"
        );
        let conditions = status.conditions.iter();
        Ok(conditions
            .map(|one| format!("{}={}/{}: {}", one.type_, one.status, one.reason, one.message))
            .collect())
    }

    pub(crate) async fn wait_for(&self, condition: &str) {
        self.world
            .wait_for(condition, async |_| {
                let conditions = self.conditions().await?;
                let is_there = conditions.iter().any(|one| one.starts_with(condition));
                ensure!(is_there, "the conditions are {conditions:#?}");
                Ok(Some(()))
            })
            .await
            .unwrap();
    }

    /// The machines, if the ControlPlane is settled with this number of machines of this type.
    pub(crate) async fn machines_if_settled(&self, replicas: usize, instance_type: &str) -> Result<Vec<Machine>> {
        let conditions = self.conditions().await?;
        let machines = self.world.machines().await?;
        let is_settled = conditions.iter().any(|one| one.starts_with(SETTLED));
        let fits = |machine: &Machine| instance_type_of(machine) == Some(instance_type);
        ensure!(
            is_settled && machines.len() == replicas && machines.iter().all(fits),
            "the conditions are {conditions:#?}"
        );
        Ok(machines)
    }

    /// Waits until the ControlPlane is settled with this number of machines of this type.
    pub(crate) async fn wait_until_settled(&self, replicas: usize, instance_type: &str) -> Vec<Machine> {
        let what = format!("{replicas} machines of type {instance_type}");
        let machines = self
            .world
            .wait_for(&what, async |_| {
                Ok(Some(self.machines_if_settled(replicas, instance_type).await?))
            })
            .await
            .unwrap();
        let mut zones: BTreeMap<String, usize> = BTreeMap::new();
        for machine in &machines {
            let provider_spec = machine.spec.provider_spec.value.as_ref().unwrap();
            *zones.entry(provider_spec["placement"].to_string()).or_default() += 1;
            let owner = machine.metadata.controller().unwrap();
            assert_eq!(owner.kind, "ControlPlane");
        }
        assert!(zones.values().all(|count| *count <= replicas.div_ceil(3)), "{zones:?}");
        machines
    }

    /// The writes of the controller as `create machines name`, without Leases and Events.
    fn writes(&self) -> Vec<String> {
        let events = self.world.plane.audit_events().unwrap();
        let own = events
            .iter()
            .filter(|event| event.is_write() && event.user.username == USER);
        let shown = own.filter_map(|event| {
            let object = event.object_ref.clone().unwrap_or_default();
            (!matches!(object.resource.as_str(), "leases" | "events")).then(|| {
                format!(
                    "{} {}/{} {}",
                    event.verb, object.resource, object.subresource, object.name
                )
            })
        });
        shown.collect()
    }

    /// The number of machines that were created and deleted after these writes.
    pub(crate) fn changes_after(&self, writes: usize) -> (usize, usize) {
        let writes = self.writes().split_off(writes);
        let count = |what: &str| writes.iter().filter(|write| write.starts_with(what)).count();
        (count("create machines/"), count("delete machines/"))
    }

    /// The number of writes, once there are no more.
    pub(crate) async fn writes_when_idle(&self) -> usize {
        let mut last = self.writes().len();
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let now = self.writes().len();
            if now == last {
                return now;
            }
            last = now;
        }
    }

    pub(crate) async fn start(&self, identity: &str) -> Running {
        let client: Client = self.world.plane.client_for(USER, GROUPS).await.unwrap();
        let caches = control_plane::caches(&client, NAMESPACE);
        let election = Election {
            namespace: NAMESPACE.to_owned(),
            name: "capstan-control-plane".to_owned(),
            identity: identity.to_owned(),
            duration: Duration::from_secs(3),
        };
        let metrics = Metrics::register(&mut Registry::default());
        control_plane::start(
            &client,
            &caches,
            control_plane::Configuration::default(),
            election,
            metrics,
        )
    }
}

/// Reports the members of etcd: one for each machine with the hook of the operator, and healthy if
/// its node is ready.
async fn report(machines: Api<DynamicObject>, nodes: Api<DynamicObject>, operators: Api<DynamicObject>) {
    let mut reported = String::new();
    loop {
        let now = message(&machines, &nodes).await.unwrap_or_else(|_| reported.clone());
        if now != reported {
            let condition = |type_: &str, status: &str| {
                json!({"type": type_, "status": status, "message": now, "reason": "EtcdMembers",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"})
            };
            let status =
                json!({"status": {"conditions": [condition("Available", "True"), condition("Degraded", "False")]}});
            let params = PatchParams::default();
            let written = operators.patch_status("etcd", &params, &Patch::Merge(status)).await;
            if written.is_ok() {
                reported = now;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn message(machines: &Api<DynamicObject>, nodes: &Api<DynamicObject>) -> Result<String> {
    let nodes = nodes.list(&kube::api::ListParams::default()).await?;
    let mut ready = BTreeSet::new();
    for node in nodes {
        let node: Node = serde_json::from_value(serde_json::to_value(node)?)?;
        if node.is_ready() {
            ready.insert(node.metadata.name().to_owned());
        }
    }
    let (mut all, mut healthy, mut lost) = (0, 0, String::new());
    for machine in machines.list(&kube::api::ListParams::default()).await? {
        let machine: Machine = serde_json::from_value(serde_json::to_value(machine)?)?;
        let hooks = machine.spec.lifecycle_hooks.as_ref();
        if hooks.is_none_or(|hooks| hooks.pre_drain.is_empty()) {
            continue;
        }
        all += 1;
        if machine.node_name().is_some_and(|node| ready.contains(node)) {
            healthy += 1;
        } else {
            lost += &format!(", {} is unhealthy", machine.metadata.name());
        }
    }
    if healthy == all {
        return Ok(format!("EtcdMembersAvailable: {all} members are available"));
    }
    Ok(format!(
        "EtcdMembersAvailable: {healthy} of {all} members are available{lost}"
    ))
}

pub(crate) fn size(replicas: usize) -> Value {
    json!({"spec": {"replicas": replicas}})
}

pub(crate) fn shape(instance_type: &str) -> Value {
    json!({"spec": {"providerSpec": {"value": {"instanceType": instance_type}}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_is_scaled_reshaped_and_repaired_and_then_nothing_is_written() {
    let plane = Plane::new(1).await;
    let running = plane.start("one").await;
    let first = plane.wait_until_settled(1, "m6i.xlarge").await;
    assert_eq!(plane.changes_after(0), (0, 0), "the first machine is adopted");
    let object = plane.object().await.unwrap();
    assert!(object.metadata.finalizers.contains(&FINALIZER.to_owned()));
    for (replicas, changes) in [(3, (2, 0)), (5, (2, 0)), (3, (0, 2))] {
        let before = plane.writes_when_idle().await;
        plane.edit(&size(replicas)).await;
        plane.wait_until_settled(replicas, "m6i.xlarge").await;
        assert_eq!(plane.changes_after(before), changes, "{replicas}");
    }
    // An edit of the shape replaces each machine.
    let before = plane.writes_when_idle().await;
    plane.edit(&shape("m6i.2xlarge")).await;
    let machines = plane.wait_until_settled(3, "m6i.2xlarge").await;
    assert_eq!(plane.changes_after(before), (3, 3));
    let names = |machines: &[Machine]| -> BTreeSet<String> {
        machines
            .iter()
            .map(|machine| machine.metadata.name().to_owned())
            .collect()
    };
    assert!(names(&first).is_disjoint(&names(&machines)));
    // A node that becomes unready stops every step. Its machine is replaced once it is deleted.
    let broken = machines[0].metadata.name();
    plane
        .world
        .node_ready(machines[0].node_name().unwrap(), false)
        .await
        .unwrap();
    plane.wait_for("Available=False/UnavailableReplicas").await;
    let api = plane.world.api("machines");
    let before = plane.writes().len();
    api.delete(broken, &DeleteParams::default()).await.unwrap();
    let repaired = plane.wait_until_settled(3, "m6i.2xlarge").await;
    assert!(!names(&repaired).contains(broken));
    assert_eq!(plane.changes_after(before), (1, 0));
    // Both changes in one edit, and back to one machine.
    let before = plane.writes_when_idle().await;
    let mut both = shape("m6i.4xlarge");
    json_patch::merge(&mut both, &size(1));
    plane.edit(&both).await;
    plane.wait_for("Progressing=False/WaitingForAcknowledgement").await;
    assert_eq!(plane.changes_after(before), (0, 2), "the only machine waits for a user");
    let accepted = json!({"metadata": {"annotations":
        {"capstan.dev/replace-single-machine": "etcd-has-two-members-meanwhile"}}});
    plane.edit(&accepted).await;
    plane.wait_until_settled(1, "m6i.4xlarge").await;
    assert_eq!(plane.changes_after(before), (1, 3));
    // A steady state: other clients write, and a new process starts.
    let before = plane.writes_when_idle().await;
    let name = plane.world.machines().await.unwrap()[0].metadata.name().to_owned();
    for round in 0..10 {
        let beat = Patch::Merge(json!({"metadata": {"annotations": {"beat": round.to_string()}}}));
        api.patch(&name, &PatchParams::default(), &beat).await.unwrap();
    }
    running.stop().await;
    let again = plane.start("two").await;
    assert_eq!(
        plane.writes_when_idle().await,
        before,
        "{:?}",
        plane.writes().split_off(before)
    );
    again.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_beside_an_active_set_is_left_alone_and_a_deleted_one_keeps_its_machines() {
    let plane = Plane::new(3).await;
    let set: DynamicObject = serde_json::from_value(plane.world.platform.set().unwrap()).unwrap();
    let sets = plane.world.api("controlplanemachinesets");
    sets.create(&PostParams::default(), &set).await.unwrap();
    let operators = plane.world.api("clusteroperators");
    let operator = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": {"name": "control-plane-machine-set"}});
    let operator: DynamicObject = serde_json::from_value(operator).unwrap();
    operators.create(&PostParams::default(), &operator).await.unwrap();
    let running = plane.start("one").await;
    plane.wait_for("Degraded=True/ActiveControlPlaneMachineSet").await;
    plane.wait_for_operator("True/ActiveControlPlaneMachineSet").await;
    plane.edit(&size(5)).await;
    plane.wait_for("Degraded=True/ActiveControlPlaneMachineSet").await;
    let writes = plane.writes();
    assert!(
        writes
            .iter()
            .all(|write| write.contains("controlplanes/status") || write.contains("clusteroperators/status")),
        "{writes:?}"
    );
    sets.delete("cluster", &DeleteParams::default()).await.unwrap();
    plane.wait_until_settled(5, "m6i.xlarge").await;
    plane.wait_for_operator("False/AsExpected").await;
    // The machines stay, and the garbage collector deletes none.
    plane.api.delete("cluster", &DeleteParams::default()).await.unwrap();
    plane
        .world
        .wait_for("the ControlPlane to be deleted", async |_| {
            Ok(plane.api.get_opt("cluster").await?.is_none().then_some(()))
        })
        .await
        .unwrap();
    let machines = plane.world.machines().await.unwrap();
    assert_eq!(machines.len(), 5);
    let free = |machine: &Machine| machine.metadata.owner_references.is_empty() && !machine.metadata.is_deleting();
    assert!(machines.iter().all(free));
    running.stop().await;
}

/// The limit of the health check; `None` if there is no health check.
async fn max_unhealthy(plane: &Plane) -> Option<Value> {
    let check = plane
        .world
        .api("machinehealthchecks")
        .get_opt("cluster-control-plane")
        .await;
    Some(check.unwrap()?.data["spec"]["maxUnhealthy"].clone())
}

impl Plane {
    /// Waits until the ClusterOperator reports this about the ControlPlane.
    async fn wait_for_operator(&self, wanted: &str) {
        self.world
            .wait_for(
                &format!("the condition {wanted} of the ClusterOperator"),
                async |world| {
                    let operator = world.operator().await?;
                    let mut conditions = operator.status.conditions.iter();
                    let found = conditions.find(|one| one.type_ == "ControlPlaneDegraded");
                    let found =
                        found.map(|one| format!("{}/{}", one.status, one.reason.as_deref().unwrap_or_default()));
                    ensure!(found.as_deref() == Some(wanted), "the condition is {found:?}");
                    Ok(Some(()))
                },
            )
            .await
            .unwrap();
    }

    async fn wait_for_limit(&self, limit: Option<u64>) {
        self.world
            .wait_for(&format!("a health check with the limit {limit:?}"), async |_| {
                let found = max_unhealthy(self).await;
                ensure!(found == limit.map(|limit| json!(limit)), "the limit is {found:?}");
                Ok(Some(()))
            })
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_health_check_follows_the_size_and_cannot_be_weakened() {
    let plane = Plane::new(1).await;
    let running = plane.start("one").await;
    plane.wait_until_settled(1, "m6i.xlarge").await;
    plane.wait_for_limit(Some(0)).await;
    plane.wait_for("SelfHealing=True/HealthCheckExists").await;
    plane.edit(&size(3)).await;
    plane.wait_until_settled(3, "m6i.xlarge").await;
    plane.wait_for_limit(Some(1)).await;
    let checks = plane.world.api("machinehealthchecks");
    let params = PatchParams::default();
    let weaker = Patch::Merge(json!({"spec": {"maxUnhealthy": "100%"}}));
    checks.patch("cluster-control-plane", &params, &weaker).await.unwrap();
    plane.wait_for_limit(Some(1)).await;
    // The garbage collector deletes it with its owner, and the controller makes it again while the
    // owner exists.
    checks
        .delete("cluster-control-plane", &DeleteParams::default())
        .await
        .unwrap();
    plane.wait_for_limit(Some(1)).await;
    plane.edit(&json!({"spec": {"enableautorepair": false}})).await;
    plane.wait_for_limit(None).await;
    plane.wait_for("SelfHealing=False/Disabled").await;
    // A health check of a user under the same name stays as it is.
    let own = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": {"name": "cluster-control-plane", "namespace": NAMESPACE},
        "spec": {"selector": {}, "maxUnhealthy": 5,
            "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "60s"}]}});
    let own: DynamicObject = serde_json::from_value(own).unwrap();
    checks.create(&PostParams::default(), &own).await.unwrap();
    plane.edit(&json!({"spec": {"enableautorepair": true}})).await;
    plane.wait_for("SelfHealing=False/ForeignHealthCheck").await;
    plane.wait_for_limit(Some(5)).await;
    let before = plane.writes_when_idle().await;
    assert_eq!(plane.writes_when_idle().await, before);
    running.stop().await;
}

/// Kills a process after the API server has stored its write, and before the process receives the
/// answer.
#[derive(Default)]
struct Killer {
    victim: Mutex<Option<Process>>,
    kills: Mutex<Vec<String>>,
}

impl Faults for Killer {
    fn before(&self, call: &Call) -> bool {
        call.write.is_none() || self.victim.lock().unwrap().is_some()
    }

    fn after(&self, call: &Call, code: u16) -> bool {
        if call.write.is_none() || !(200..300).contains(&code) {
            return true;
        }
        // Dropping the process sends SIGKILL and waits for the exit.
        drop(self.victim.lock().unwrap().take());
        let kill = format!("{} {}", call.method, call.path);
        self.kills.lock().unwrap().push(kill);
        false
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn killing_the_controller_after_every_write_makes_no_machine_twice() {
    let plane = Plane::new(1).await;
    let first = plane.start("settle").await;
    plane.wait_until_settled(1, "m6i.xlarge").await;
    first.stop().await;
    // Each process uses a Lease of its own, so that the test does not wait for the Lease of the
    // killed process to expire.
    let verbs = ["get", "patch", "create"];
    let lease = ("coordination.k8s.io", ["leases"]);
    plane.world.plane.allow(USER, &verbs, lease.0, &lease.1).await.unwrap();
    let killer = Arc::new(Killer::default());
    let faults: Arc<dyn Faults> = Arc::clone(&killer) as Arc<dyn Faults>;
    let proxy = plane.world.plane.proxy(USER, GROUPS, faults).await.unwrap();
    let before = plane.writes_when_idle().await;
    let mut both = shape("m6i.2xlarge");
    json_patch::merge(&mut both, &size(3));
    plane.edit(&both).await;
    let mut lives = 0;
    let log = plane.world.plane.folder().join("capstan.log");
    loop {
        let dead = killer.victim.lock().unwrap().is_none();
        if dead {
            let conditions = plane.conditions().await.unwrap_or_default();
            if conditions.iter().any(|one| one.starts_with(SETTLED)) {
                break;
            }
            lives += 1;
            let kills = killer.kills.lock().unwrap().clone();
            assert!(lives < 100, "the change must end within 100 processes: {kills:?}");
            let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
            command
                .args([
                    "serve",
                    "--control-plane-controllers",
                    "--controllers-only",
                    "--lease-duration=3s",
                ])
                .args(["--listen=127.0.0.1:0", "--health-addr=127.0.0.1:0"])
                .args(["--dev-certificate=memory", "--dns-name=localhost"])
                .arg(format!("--control-plane-lease=life-{lives}"))
                // A restarted container keeps the identity of its pod.
                .arg("--identity=capstan")
                .arg(format!("--kubeconfig={}", proxy.kubeconfig().display()));
            *killer.victim.lock().unwrap() = Some(Process::spawn("capstan", command, &log).unwrap());
        }
        if let Some(process) = killer.victim.lock().unwrap().as_mut() {
            process.still_runs().unwrap();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    plane.wait_until_settled(3, "m6i.2xlarge").await;
    assert_eq!(
        plane.changes_after(before),
        (3, 1),
        "{:?}",
        plane.writes().split_off(before)
    );
    let kills = killer.kills.lock().unwrap().clone();
    assert_eq!(kills.len(), lives, "every process was killed at its first write");
    assert_eq!(
        kills.iter().filter(|kill| kill.contains("/machines")).count(),
        5,
        "{kills:?}"
    );
}
