//! A ControlPlaneMachineSet rolls out machines that exist in both APIs, under either authority.
//! Both features run: the controllers of ControlPlaneMachineSets, and those of mirrored objects.
//! The test plays the controllers of both APIs, and the cloud.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use capstan_core::authority::pair::FullObject;
use capstan_core::authority::spec::Api;
use capstan_sandbox::control_plane::Process;
use serde_json::{Value, json};

use crate::cluster::{AWS, CLUSTER_API, Cluster, MACHINE_API, send};
use crate::players::Players;

const SETS: &str = "/apis/machine.openshift.io/v1/namespaces/openshift-machine-api/controlplanemachinesets";
/// The deadline of a rollout of three machines.
const LATER: Duration = Duration::from_secs(180);

fn labels() -> Value {
    json!({"machine.openshift.io/cluster-api-cluster": "prod-x7k2p",
        "machine.openshift.io/cluster-api-machine-role": "master",
        "machine.openshift.io/cluster-api-machine-type": "master"})
}

/// The provider spec of a control plane machine, which names the load balancer of the cluster.
fn provider_spec() -> Value {
    let mut spec = crate::cluster::provider_spec();
    spec["loadBalancers"] = json!([{"name": "prod-x7k2p-int", "type": "network"}]);
    spec
}

fn set() -> Value {
    json!({"apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet", "metadata": {"name": "cluster"},
        "spec": {"replicas": 3, "state": "Active", "strategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": labels()},
            "template": {"machineType": "machines_v1beta1_machine_openshift_io",
                "machines_v1beta1_machine_openshift_io": {"metadata": {"labels": labels()},
                    "spec": {"authoritativeAPI": "MachineAPI", "providerSpec": {"value": provider_spec()}}}}}})
}

/// A change of the template.
fn template(spec: &Value) -> Value {
    json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": {"spec": spec}}}})
}

/// The controllers of ControlPlaneMachineSets.
fn controllers(cluster: &Cluster) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command
        .args(["serve", "--controllers", "--controllers-only", "--min-ready=0s"])
        .args(["--listen=127.0.0.1:0", "--health-addr=127.0.0.1:0"])
        .args(["--dev-certificate=memory", "--dns-name=localhost"])
        .arg(format!(
            "--kubeconfig={}",
            cluster.plane.kubeconfig().unwrap().display()
        ));
    let log = cluster.plane.folder().join("control-plane.log");
    Process::spawn("control-plane", command, &log).unwrap()
}

struct World {
    cluster: Cluster,
    players: Players,
}

impl World {
    async fn machines(&self, root: &str) -> Vec<FullObject> {
        let list = self.cluster.find(&format!("{root}/machines")).await.unwrap();
        let items = list["items"].as_array().unwrap().iter().cloned();
        items.map(FullObject::from).collect()
    }

    /// Waits until three machines have an instance type and an authority, in both APIs, and nothing
    /// else is left. There are never fewer than three instances, and never more than four.
    async fn runs(&self, instance_type: &str, authority: Api) {
        let deadline = Instant::now() + LATER;
        loop {
            let instances = self.players.instances();
            assert!((3..=4).contains(&instances.len()), "{instances:?}");
            let (here, there) = (self.machines(MACHINE_API).await, self.machines(CLUSTER_API).await);
            let done = |machine: &&FullObject| {
                machine.text("/spec/providerSpec/value/instanceType") == Some(instance_type)
                    && machine.text("/status/authoritativeAPI") == Some(authority.as_str())
                    && machine.condition("Synchronized") == Some("True")
                    && machine.member.owner().is_some_and(|owner| owner.name == "cluster")
            };
            let names = |machines: &[FullObject]| -> BTreeSet<String> {
                machines.iter().map(|machine| machine.member.name.clone()).collect()
            };
            let all = here.len() == 3 && here.iter().filter(done).count() == 3;
            if all && names(&here) == names(&there) && names(&here) == instances {
                return;
            }
            if Instant::now() >= deadline {
                let shown = |machines: &[FullObject]| -> Vec<String> {
                    let text = |machine: &FullObject| format!("{:#}", machine.value);
                    machines.iter().map(text).collect()
                };
                let set = self.cluster.find(&format!("{SETS}/cluster")).await;
                panic!("{set:#?}\n{:#?}\n{:#?}\n{instances:?}", shown(&here), shown(&there));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn patch(&self, path: &str, patch: &Value) {
        send(&self.cluster.client, "PATCH", path, Some(patch)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_machine_set_rolls_out_mirrored_machines_under_either_authority() {
    let cluster = Cluster::start().await;
    let balancer = json!({"spec": {"controlPlaneLoadBalancer": {"name": "prod-x7k2p-int", "loadBalancerType": "nlb"}}});
    send(
        &cluster.client,
        "PATCH",
        &format!("{AWS}/awsclusters/prod-x7k2p"),
        Some(&balancer),
    )
    .await
    .unwrap();
    let players = Players::with_core(&cluster.client);
    let running = cluster.controllers().await;
    for index in 0..3 {
        let mut body = Cluster::machine_body(&format!("prod-x7k2p-master-{index}"), Api::MachineApi);
        body["metadata"]["labels"] = labels();
        body["spec"]["providerSpec"]["value"] = provider_spec();
        cluster.create("openshift-machine-api", &body).await;
    }
    let world = World { cluster, players };
    let deadline = Instant::now() + LATER;
    while world.players.instances().len() < 3 {
        assert!(Instant::now() < deadline, "the instances do not run");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.cluster.create("openshift-machine-api", &set()).await;
    let controllers = controllers(&world.cluster);
    let first = provider_spec()["instanceType"].as_str().unwrap().to_owned();
    world.runs(&first, Api::MachineApi).await;

    let path = format!("{SETS}/cluster");
    let larger = json!({"providerSpec": {"value": {"instanceType": "m6i.2xlarge"}}});
    world.patch(&path, &template(&larger)).await;
    world.runs("m6i.2xlarge", Api::MachineApi).await;

    // Cluster API becomes authoritative for the machines, and for those of the next rollout.
    for machine in world.machines(MACHINE_API).await {
        let machine = format!("{MACHINE_API}/machines/{}", machine.member.name);
        let request = json!({"spec": {"authoritativeAPI": "ClusterAPI"}});
        world.patch(&machine, &request).await;
    }
    world
        .patch(&path, &template(&json!({"authoritativeAPI": "ClusterAPI"})))
        .await;
    world.runs("m6i.2xlarge", Api::ClusterApi).await;
    assert_eq!(world.players.created(), 6, "a migration replaces no machine");
    let largest = json!({"providerSpec": {"value": {"instanceType": "m6i.4xlarge"}}});
    world.patch(&path, &template(&largest)).await;
    world.runs("m6i.4xlarge", Api::ClusterApi).await;
    assert_eq!(world.players.created(), 9);
    let left = world.cluster.find(&format!("{AWS}/awsmachines")).await.unwrap();
    assert_eq!(left["items"].as_array().unwrap().len(), 3);

    drop(controllers);
    running.stop().await;
    world.players.stop().await;
}
