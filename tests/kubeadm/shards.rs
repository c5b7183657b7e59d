//! Control planes that two processes share. The test plays the sharder, by its documents.

use std::time::Duration;

use anyhow::ensure;
use capstan::controllers::kubeadm_control_plane;
use capstan::runtime::{Election, Metrics, Running, Shard};
use capstan::workload::Connections;
use capstan_sandbox::control_plane::{ControlPlane, Options, wait_until};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::world::list;

const RING: &str = "capstan";
const SHARD: &str = "shard.alpha.sharding.timebertt.dev/capstan";
const DRAIN: &str = "drain.alpha.sharding.timebertt.dev/capstan";
const DEADLINE: Duration = Duration::from_secs(60);

/// A CRD that accepts every object.
fn crd(group: &str, kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{
                "name": "v1beta2", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}},
            }]},
    })
}

fn control_plane(name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"replicas": 1, "version": "v1.33.0", "kubeadmConfigSpec": {}, "machineTemplate": {"spec": {
            "infrastructureRef": {"apiGroup": "example.org", "kind": "FooMachineTemplate", "name": "t"},
        }}},
    })
}

struct World(ControlPlane);

impl World {
    async fn new() -> Self {
        let options = Options {
            audit: true,
            ..Options::default()
        };
        let plane = ControlPlane::start(options).await.unwrap();
        let core = "cluster.x-k8s.io";
        let kinds = [
            (core, "Cluster"),
            (core, "Machine"),
            (core, "MachinePool"),
            ("bootstrap.cluster.x-k8s.io", "KubeadmConfig"),
            ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane"),
        ];
        let definitions = kinds.map(|(group, kind)| crd(group, kind));
        plane.apply_yaml(&list(&definitions)).await.unwrap();
        Self(plane)
    }

    /// Starts a process of this name, with a user of this name.
    async fn start(&self, name: &str) -> Running {
        let client = self.0.client_for(name, &["system:masters"]).await.unwrap();
        let shard = Shard::new(RING, name).unwrap();
        let caches = kubeadm_control_plane::caches_of_shard(&client, &shard);
        let managed = Connections::new(&client, kubeadm_control_plane::settings());
        let election = Election {
            namespace: String::from("default"),
            name: String::from("unused"),
            identity: String::from("unused"),
            duration: Duration::from_secs(3),
        };
        let metrics = Metrics::register(&mut Registry::default());
        kubeadm_control_plane::start_shard(&client, &caches, managed, election, &shard, metrics)
    }

    async fn get(&self, kind: &str, name: &str) -> anyhow::Result<Value> {
        let output = self.0.kubectl().args(["get", kind, name, "-o", "json"]).run().await?;
        Ok(serde_json::from_str(&output.checked()?.stdout)?)
    }

    async fn patch(&self, name: &str, patch: &Value) {
        let text = patch.to_string();
        let arguments = ["patch", "kubeadmcontrolplane", name, "--type=merge", "-p", &text];
        self.0.kubectl().args(arguments).run().await.unwrap().checked().unwrap();
    }

    async fn wait_until(&self, kind: &str, name: &str, what: &str, is: impl Fn(&Value) -> bool) {
        let waiting = wait_until(what, DEADLINE, async || {
            let object = self.get(kind, name).await?;
            ensure!(is(&object), "{object:#}");
            Ok(Some(()))
        });
        waiting.await.unwrap();
    }

    /// The users that wrote a control plane, in order, without repetitions.
    fn writers(&self, name: &str) -> Vec<String> {
        let events = self.0.audit_events().unwrap();
        let own = events.iter().filter(|event| {
            let object = event.object_ref.clone().unwrap_or_default();
            event.is_write() && object.name == name && object.resource == "kubeadmcontrolplanes"
        });
        let own = own.filter(|event| event.user.username.starts_with("shard-"));
        let mut writers: Vec<String> = own.map(|event| event.user.username.clone()).collect();
        writers.dedup();
        writers
    }
}

fn is_reported(object: &Value) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
}

fn has_no_shard(object: &Value) -> bool {
    let labels = &object["metadata"]["labels"];
    labels.get(SHARD).is_none() && labels.get(DRAIN).is_none()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_share_the_control_planes_as_the_sharder_assigns_them() {
    let world = World::new().await;
    let objects = [
        control_plane("one", &json!({(SHARD): "shard-a"})),
        control_plane("two", &json!({(SHARD): "shard-b"})),
        control_plane("none", &json!({})),
    ];
    world.0.apply_yaml(&list(&objects)).await.unwrap();
    let first = world.start("shard-a").await;
    let second = world.start("shard-b").await;
    for name in ["shard-a", "shard-b"] {
        let is_held = |lease: &Value| {
            lease["spec"]["holderIdentity"] == name
                && lease["metadata"]["labels"]["alpha.sharding.timebertt.dev/controllerring"] == RING
        };
        world.wait_until("lease", name, "the Lease of the shard", is_held).await;
    }
    for name in ["one", "two"] {
        world
            .wait_until("kubeadmcontrolplane", name, "the status", is_reported)
            .await;
    }
    assert_eq!(world.writers("one"), ["shard-a"]);
    assert_eq!(world.writers("two"), ["shard-b"]);

    // The sharder moves the first one: it asks for the release, and assigns it again.
    world
        .patch(
            "one",
            &json!({"metadata": {"labels": {(DRAIN): "true"}}, "spec": {"replicas": 3}}),
        )
        .await;
    world
        .wait_until("kubeadmcontrolplane", "one", "the release", has_no_shard)
        .await;
    world
        .patch(
            "one",
            &json!({"metadata": {"labels": {(SHARD): "shard-b"}}, "spec": {"replicas": 5}}),
        )
        .await;
    world
        .wait_until("kubeadmcontrolplane", "one", "the status", is_reported)
        .await;
    assert_eq!(world.writers("one"), ["shard-a", "shard-b"]);

    // A process that stops releases its Lease. The sharder assigns its objects without asking.
    second.stop().await;
    let is_free = |lease: &Value| lease["spec"]["holderIdentity"].as_str().unwrap_or_default().is_empty();
    world
        .wait_until("lease", "shard-b", "the release of the Lease", is_free)
        .await;
    world
        .patch(
            "two",
            &json!({"metadata": {"labels": {(SHARD): "shard-a"}}, "spec": {"replicas": 3}}),
        )
        .await;
    world
        .wait_until("kubeadmcontrolplane", "two", "the status", is_reported)
        .await;
    assert_eq!(world.writers("two"), ["shard-b", "shard-a"]);
    first.stop().await;
    assert_eq!(world.writers("none"), [""; 0]);
}
