//! Specs that the webhook refuses, and that were stored while it was down.

use serde_json::{Value, json};

use super::*;

fn reasons(world: &World) -> Vec<&'static str> {
    planned(world).degraded.iter().map(|one| one.reason).collect()
}

fn external() -> Value {
    json!({"external": {"endpoints": ["https://e:2379"], "caFile": "a", "certFile": "b", "keyFile": "c"}})
}

fn etcd(world: &mut World) -> &mut Value {
    &mut world.spec()["kubeadmConfigSpec"]["clusterConfiguration"]["etcd"]
}

fn is_refused(world: &World) {
    let plan = planned(world);
    assert!(plan.steps.is_empty(), "{:?}", plan.steps);
    assert_eq!(reasons(world), ["EtcdMoved"]);
}

#[test]
fn v306_machines_that_run_etcd_are_not_replaced_by_machines_with_an_external_etcd() {
    let mut world = World::new("abc");
    *etcd(&mut world) = external();
    is_refused(&world);
    let members = |world: &World| world.state().members().map(|members| members.len());
    assert_eq!(members(&world), Some(3), "the machines still run etcd");
    // Without KubeadmConfigs, the conditions of the machines say it.
    world.others.retain(|other| other["kind"] != "KubeadmConfig");
    is_refused(&world);
    world.delete(0);
    is_refused(&world);
}

#[test]
fn v306_machines_with_an_external_etcd_are_not_replaced_by_machines_that_run_etcd() {
    let mut world = World::new("abc").external();
    assert!(reasons(&world).is_empty());
    *etcd(&mut world) = json!({});
    is_refused(&world);
    assert_eq!(world.state().members(), None);
}

/// A rollout began before the spec was restored.
#[test]
fn v306_a_machine_with_an_external_etcd_is_outdated_beside_machines_that_run_etcd() {
    let mut world = World::new("abca");
    world.spec()["replicas"] = json!(3);
    let is_config = |other: &&mut Value| other["kind"] == "KubeadmConfig" && other["metadata"]["name"] == "m-3";
    let config = world.others.iter_mut().find(is_config).unwrap();
    config["spec"]["clusterConfiguration"]["etcd"] = external();
    world.etcd.as_mut().unwrap()["members"].as_array_mut().unwrap().pop();
    assert_eq!(next(&world), "delete m-3");
    *etcd(&mut world) = external();
    is_refused(&world);
    let message = &planned(&world).degraded[0].message;
    assert!(message.contains("themselves: m-0, m-1, m-2."), "{message}");
}

#[test]
fn v306_an_etcd_member_of_its_node_proves_that_a_machine_runs_etcd() {
    let mut world = World::new("abc");
    *etcd(&mut world) = external();
    world.others.retain(|other| other["kind"] != "KubeadmConfig");
    for machine in &mut world.machines {
        machine["status"]["conditions"] = json!([]);
    }
    is_refused(&world);
    world.etcd = None;
    assert!(reasons(&world).is_empty());
}

#[test]
fn v306_a_configuration_without_the_part_for_the_cluster_says_nothing_about_etcd() {
    let mut world = World::new("abc").external();
    for other in &mut world.others {
        if other["kind"] == "KubeadmConfig" {
            other["spec"].as_object_mut().unwrap().remove("clusterConfiguration");
            other["spec"]["joinConfiguration"]["controlPlane"] = json!({"localAPIEndpoint": {"bindPort": 6443}});
        }
    }
    for machine in &mut world.machines {
        let conditions = machine["status"]["conditions"].as_array_mut().unwrap();
        conditions.retain(|known| !known["type"].as_str().unwrap().starts_with("Etcd"));
    }
    assert_eq!(world.state().with_another_etcd(), Vec::<&str>::new());
    assert!(!world.state().is_etcd_managed());
}

#[test]
fn v307_no_machine_is_replaced_by_one_of_a_lower_version() {
    let mut world = World::new("abc");
    world.spec()["version"] = json!("v1.29.5");
    assert_eq!(reasons(&world), ["VersionLowered"]);
    world.unhealthy(1);
    let plan = planned(&world);
    assert!(plan.disruptive().is_none(), "{:?}", plan.steps);
    assert!(
        plan.degraded[0].message.contains("m-0, m-1, m-2"),
        "{:?}",
        plan.degraded
    );
    world.spec()["version"] = json!("v1.30.0");
    assert!(reasons(&world).is_empty());
}
