//! Beside the core controllers of Cluster API, which are built from their Go module: their Machine,
//! MachineSet, and MachineHealthCheck controllers act on the mirrors and on authoritative objects,
//! and their webhooks judge the writes of the sync controller.
//!
//! The test plays the Machine API, the AWS provider, and the cloud.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use capstan_core::authority::pair::FullObject;
use capstan_core::authority::spec::Api;
use capstan_sandbox::control_plane::wait_until;
use serde_json::{Value, json};

use crate::cluster::{AWS, CLUSTER_API, Cluster, MACHINE_API, send};
use crate::players::Players;

/// How long nothing may be written before the cluster counts as settled.
const QUIET: Duration = Duration::from_secs(2);
/// The deadline of a change that passes through several controllers.
const LATER: Duration = Duration::from_secs(120);

struct World {
    cluster: Cluster,
    players: Players,
}

impl World {
    async fn start() -> Self {
        let cluster = Cluster::beside_core().await;
        let kubeconfig = std::fs::read_to_string(cluster.plane.kubeconfig().unwrap()).unwrap();
        // As on OpenShift, the managed cluster is the cluster itself.
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": {"name": "prod-x7k2p-kubeconfig", "labels": {"cluster.x-k8s.io/cluster-name": "prod-x7k2p"}},
            "stringData": {"value": kubeconfig}});
        let path = "/api/v1/namespaces/openshift-cluster-api/secrets";
        send(&cluster.client, "POST", path, Some(&secret)).await.unwrap();
        let endpoint = json!({"spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}}});
        let path = format!("{AWS}/awsclusters/prod-x7k2p");
        send(&cluster.client, "PATCH", &path, Some(&endpoint)).await.unwrap();
        let ready = json!({"status": {"ready": true}});
        send(&cluster.client, "PATCH", &format!("{path}/status"), Some(&ready))
            .await
            .unwrap();
        initialize(&cluster).await;
        let players = Players::start(&cluster.client);
        Self { cluster, players }
    }

    async fn list(&self, path: &str) -> BTreeMap<String, FullObject> {
        let list = self.cluster.find(path).await.unwrap();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let named = |item: Value| {
            let object = FullObject::from(item);
            (object.text("/metadata/name").unwrap().to_owned(), object)
        };
        items.into_iter().map(named).collect()
    }

    /// The resource versions of all objects of both APIs.
    async fn versions(&self) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::new();
        for path in [
            format!("{MACHINE_API}/machines"),
            format!("{MACHINE_API}/machinesets"),
            format!("{CLUSTER_API}/machines"),
            format!("{CLUSTER_API}/machinesets"),
            format!("{AWS}/awsmachines"),
            format!("{AWS}/awsmachinetemplates"),
        ] {
            for (name, object) in self.list(&path).await {
                versions.insert(format!("{path}/{name}"), object.resource_version().to_owned());
            }
        }
        versions
    }

    fn writes(&self) -> Vec<String> {
        let events = self.cluster.plane.audit_events().unwrap();
        let of_machines = |group: &str| group.ends_with("cluster.x-k8s.io") || group == "machine.openshift.io";
        let writes = events.into_iter().filter(|event| {
            let object = event.object_ref.as_ref();
            event.is_write() && object.is_some_and(|object| of_machines(&object.api_group))
        });
        writes
            .map(|event| format!("{} {} by {}", event.verb, event.request_uri, event.user.username))
            .collect()
    }

    /// Waits until nothing is written any more. Fails if the controllers write without end.
    async fn settles(&self, after: &str) {
        let deadline = Instant::now() + LATER;
        let (mut before, mut since) = (self.versions().await, Instant::now());
        while since.elapsed() < QUIET {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let now = self.versions().await;
            if now != before {
                let writes = self.writes();
                let last = &writes[writes.len().saturating_sub(30)..];
                assert!(Instant::now() < deadline, "no end of writes after {after}: {last:#?}");
                (before, since) = (now, Instant::now());
            }
        }
        let writes = self.writes().len();
        tokio::time::sleep(QUIET).await;
        let new = self.writes().split_off(writes);
        assert_eq!(new, Vec::<String>::new(), "the steady state writes after {after}");
    }

    async fn until(&self, what: &str, holds: impl AsyncFn(&Self) -> bool) {
        let deadline = Instant::now() + LATER;
        while !holds(self).await {
            if Instant::now() >= deadline {
                self.report(what).await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn report(&self, what: &str) {
        let mut objects = Vec::new();
        for path in [
            format!("{MACHINE_API}/machines"),
            format!("{MACHINE_API}/machinesets"),
            format!("{CLUSTER_API}/machines"),
            format!("{CLUSTER_API}/machinesets"),
            format!("{AWS}/awsmachines"),
        ] {
            for (_, object) in self.list(&path).await {
                let mut object = Value::clone(&object.value);
                object["metadata"].as_object_mut().unwrap().remove("managedFields");
                objects.push(object);
            }
        }
        let log = self.cluster.neighbours.as_ref().unwrap().logs();
        let tail: Vec<&str> = log.lines().rev().take(15).collect();
        let writes = self.writes();
        let last = &writes[writes.len().saturating_sub(20)..];
        panic!(
            "{what}: {}\ncore: {tail:#?}\nwrites: {last:#?}",
            serde_json::to_string_pretty(&objects).unwrap()
        );
    }

    async fn machines(&self, api: Api) -> BTreeMap<String, FullObject> {
        let namespace = if api == Api::MachineApi {
            MACHINE_API
        } else {
            CLUSTER_API
        };
        self.list(&format!("{namespace}/machines")).await
    }

    async fn patch(&self, path: &str, patch: &Value) {
        send(&self.cluster.client, "PATCH", path, Some(patch)).await.unwrap();
    }

    /// Waits until this number of Machines runs in both APIs, with one instance each.
    async fn runs(&self, count: usize) {
        self.until(&format!("{count} machines run in both APIs"), async |world| {
            let machines = world.machines(Api::MachineApi).await;
            let mirrors = world.machines(Api::ClusterApi).await;
            let names: BTreeSet<String> = machines.keys().cloned().collect();
            let is_running = |machine: &FullObject| {
                machine.text("/status/phase") == Some("Running") && machine.condition("Synchronized") == Some("True")
            };
            let provisioned = |machine: &FullObject| machine.text("/status/phase") == Some("Running");
            names.len() == count
                && mirrors.keys().cloned().collect::<BTreeSet<_>>() == names
                && world.players.instances() == names
                && machines.values().all(is_running)
                && mirrors.values().all(provisioned)
        })
        .await;
    }

    /// Requests an authoritative API for an object as a user does, and waits for it.
    async fn migrate(&self, kind: &str, name: &str, api: Api) {
        let path = format!("{MACHINE_API}/{kind}/{name}");
        self.patch(&path, &json!({"spec": {"authoritativeAPI": api.as_str()}}))
            .await;
        self.until(&format!("{kind} {name} is migrated to {api:?}"), async |world| {
            let object = world.cluster.find(&path).await.map(FullObject::from);
            object.is_some_and(|object| {
                object.text("/status/authoritativeAPI") == Some(api.as_str())
                    && object.condition("Synchronized") == Some("True")
            })
        })
        .await;
    }

    /// Changes the template of the authoritative MachineSet, and replaces its Machines one by one.
    async fn rolls_out(&self, authority: Api, instance_type: &str, count: usize) {
        let old = self.machines(Api::MachineApi).await;
        self.change_template(authority, instance_type).await;
        for name in old.keys() {
            let path = match authority {
                Api::MachineApi => format!("{MACHINE_API}/machines/{name}"),
                Api::ClusterApi => format!("{CLUSTER_API}/machines/{name}"),
            };
            send(&self.cluster.client, "DELETE", &path, None).await.unwrap();
            self.until(&format!("{name} is replaced"), async |world| {
                let now = world.machines(Api::MachineApi).await;
                !now.contains_key(name) && !world.players.instances().contains(name) && now.len() == count
            })
            .await;
            self.runs(count).await;
        }
        let current = |machine: &FullObject| {
            machine.text("/spec/providerSpec/value/instanceType") == Some(instance_type)
                && machine.text("/status/authoritativeAPI") == Some(authority.as_str())
        };
        assert!(self.machines(Api::MachineApi).await.values().all(current));
        for machine in self.list(&format!("{AWS}/awsmachines")).await.values() {
            assert_eq!(machine.text("/spec/instanceType"), Some(instance_type));
        }
    }

    async fn change_template(&self, authority: Api, instance_type: &str) {
        if authority == Api::MachineApi {
            let edit = json!({"spec": {"template": {"spec": {"providerSpec": {"value":
                {"instanceType": instance_type}}}}}});
            return self.patch(&format!("{MACHINE_API}/machinesets/workers"), &edit).await;
        }
        let set = self.cluster.find(&format!("{CLUSTER_API}/machinesets/workers")).await;
        let used = set.unwrap()["spec"]["template"]["spec"]["infrastructureRef"]["name"].clone();
        let template = format!("{AWS}/awsmachinetemplates/{}", used.as_str().unwrap());
        let mut spec = self.cluster.find(&template).await.unwrap()["spec"].clone();
        spec["template"]["spec"]["instanceType"] = json!(instance_type);
        let name = format!("by-a-user-{}", instance_type.replace('.', "-"));
        let own = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachineTemplate",
            "metadata": {"name": name, "labels": {"cluster.x-k8s.io/cluster-name": "prod-x7k2p"}}, "spec": spec});
        let path = format!("{AWS}/awsmachinetemplates");
        send(&self.cluster.client, "POST", &path, Some(&own)).await.unwrap();
        let edit = json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": name}}}}});
        self.patch(&format!("{CLUSTER_API}/machinesets/workers"), &edit).await;
    }
}

/// Initializes the control plane of the Cluster, as OpenShift's operator does: nothing in Cluster
/// API makes the control plane of this cluster. The core may overwrite the condition once.
async fn initialize(cluster: &Cluster) {
    let path = format!("{CLUSTER_API}/clusters/prod-x7k2p");
    wait_until("the Cluster is initialized", LATER, async || {
        let stored = cluster.find(&path).await.unwrap();
        let conditions = stored["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let done = |condition: &Value| condition["type"] == "ControlPlaneInitialized" && condition["status"] == "True";
        if stored["status"]["initialization"]["infrastructureProvisioned"] != json!(true) {
            return Ok(None);
        }
        if conditions.iter().any(done) {
            return Ok(Some(()));
        }
        let mut conditions = conditions;
        conditions.retain(|condition| condition["type"] != "ControlPlaneInitialized");
        conditions.push(
            json!({"type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}),
        );
        let patch = json!({"metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]},
            "status": {"conditions": conditions, "initialization": {"controlPlaneInitialized": true}}});
        send(&cluster.client, "PATCH", &format!("{path}/status"), Some(&patch))
            .await
            .ok();
        Ok(None)
    })
    .await
    .unwrap();
}

/// A MachineHealthCheck of the Machine API is mirrored and migrated. Then the core remediates a
/// Machine.
async fn unhealthy_machines_are_replaced_once(world: &World) {
    let check = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": {"name": "workers"}, "spec": {"authoritativeAPI": "MachineAPI", "maxUnhealthy": "100%",
            "selector": {"matchLabels": {"set": "workers"}},
            "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "1s"}]}});
    let path = format!("{MACHINE_API}/machinehealthchecks");
    send(&world.cluster.client, "POST", &path, Some(&check)).await.unwrap();
    let paused = async |world: &World| {
        let checks = world.list(&format!("{CLUSTER_API}/machinehealthchecks")).await;
        checks
            .get("workers")
            .and_then(|check| check.condition("Paused").map(str::to_owned))
    };
    world
        .until("the core acknowledges the pause of the check", async |world| {
            paused(world).await.as_deref() == Some("True")
        })
        .await;
    let machines = world.machines(Api::MachineApi).await;
    let victim = machines.keys().next().unwrap().clone();
    let created = world.players.created();
    world.migrate("machinehealthchecks", "workers", Api::ClusterApi).await;
    world.settles("the MachineHealthCheck is migrated").await;
    initialize(&world.cluster).await;
    world.players.break_node(&victim);
    world
        .until("the core replaces the unhealthy machine", async |world| {
            !world.machines(Api::MachineApi).await.contains_key(&victim)
        })
        .await;
    world.runs(machines.len()).await;
    world.settles("the remediation").await;
    assert_eq!(world.players.created(), created + 1, "one machine is replaced once");
    world.migrate("machinehealthchecks", "workers", Api::MachineApi).await;
    assert_eq!(paused(world).await.as_deref(), Some("True"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_core_of_cluster_api_acts_on_authoritative_objects_and_leaves_mirrors_alone() {
    let world = World::start().await;
    let running = world.cluster.controllers().await;
    world.cluster.sets("workers", Api::MachineApi).await;
    let set = format!("{MACHINE_API}/machinesets/workers");
    world.patch(&set, &json!({"spec": {"replicas": 2}})).await;
    world.runs(2).await;
    world.settles("the mirrors are made").await;
    world.rolls_out(Api::MachineApi, "m6i.2xlarge", 2).await;
    world.settles("the rollout under the Machine API").await;
    let created = world.players.created();
    // The Machines stay with the Machine API, and the core propagates the template of the set.
    world.migrate("machinesets", "workers", Api::ClusterApi).await;
    world.settles("the MachineSet is migrated").await;
    let labels = json!({"spec": {"template": {"metadata": {"labels": {"team": "blue"}}}}});
    world
        .patch(&format!("{CLUSTER_API}/machinesets/workers"), &labels)
        .await;
    world
        .settles("a label of the template of the MachineSet in Cluster API")
        .await;
    for name in world.machines(Api::MachineApi).await.keys() {
        world.migrate("machines", name, Api::ClusterApi).await;
    }
    world.runs(2).await;
    world.settles("the Machines are migrated").await;
    assert_eq!(world.players.created(), created, "a migration makes no instance");
    unhealthy_machines_are_replaced_once(&world).await;
    // The core scales and rolls out.
    let cluster_api_set = format!("{CLUSTER_API}/machinesets/workers");
    world.patch(&cluster_api_set, &json!({"spec": {"replicas": 3}})).await;
    world.runs(3).await;
    world.patch(&cluster_api_set, &json!({"spec": {"replicas": 2}})).await;
    world.runs(2).await;
    world.rolls_out(Api::ClusterApi, "m6i.4xlarge", 2).await;
    world.settles("the rollout under Cluster API").await;
    let created = world.players.created();
    world.migrate("machinesets", "workers", Api::MachineApi).await;
    for name in world.machines(Api::MachineApi).await.keys() {
        world.migrate("machines", name, Api::MachineApi).await;
    }
    world.runs(2).await;
    world.settles("everything is migrated back").await;
    assert_eq!(world.players.created(), created, "a migration makes no instance");
    world.patch(&set, &json!({"spec": {"replicas": 1}})).await;
    world.runs(1).await;
    world.cluster.delete_set(Api::MachineApi, "workers").await;
    world
        .until("nothing is left", async |world| {
            let left = world.versions().await;
            let left = left.keys().filter(|path| !path.contains("/by-a-user-"));
            left.count() == 0 && world.players.instances().is_empty()
        })
        .await;
    let World { cluster, players } = world;
    players.stop().await;
    running.stop().await;
    drop(cluster);
}
