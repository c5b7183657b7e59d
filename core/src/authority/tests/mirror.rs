//! What a mirror keeps, and when nothing is written.

use serde_json::{Value, json};

use super::world::{World, machine};
use crate::authority::pair::{Decision, Part};
use crate::authority::spec::Api;

fn settled() -> World {
    let mut world = World::default();
    world.create(Part::MachineApi, machine(Some(Api::MachineApi), None));
    assert_eq!(world.settle(), Decision::Idle);
    world
}

#[test]
fn a_label_follows_the_authoritative_machine_and_a_label_of_a_user_stays() {
    let mut world = settled();
    world.change(Part::ClusterApi, |mirror| {
        mirror["metadata"]["labels"]["of-a-user"] = json!("1");
    });
    world.change(Part::MachineApi, |machine| {
        machine["metadata"]["labels"]["team"] = json!("blue");
    });
    world.settle();
    let labels = |world: &World| world.get(Part::ClusterApi).unwrap()["metadata"]["labels"].clone();
    assert_eq!(
        (&labels(&world)["team"], &labels(&world)["of-a-user"]),
        (&json!("blue"), &json!("1"))
    );
    world.change(Part::MachineApi, |machine| {
        machine["metadata"]["labels"].as_object_mut().unwrap().remove("team");
    });
    world.settle();
    assert_eq!(
        (&labels(&world)["team"], &labels(&world)["of-a-user"]),
        (&Value::Null, &json!("1"))
    );
}

#[test]
fn an_edit_of_the_mirror_is_overwritten() {
    let mut world = settled();
    world.change(Part::ClusterApi, |mirror| {
        mirror["spec"]["failureDomain"] = json!("elsewhere");
        mirror["spec"]["minReadySeconds"] = json!(7);
    });
    world.settle();
    let spec = &world.get(Part::ClusterApi).unwrap()["spec"];
    assert_ne!(spec["failureDomain"], "elsewhere");
    assert_eq!(spec["minReadySeconds"], Value::Null);
}

#[test]
fn defaults_of_the_api_server_cause_no_endless_writes() {
    for authority in [Api::MachineApi, Api::ClusterApi] {
        let mut world = World {
            defaults: true,
            ..World::default()
        };
        world.create(Part::MachineApi, machine(Some(authority), None));
        world.settle();
        let writes = world.log.len();
        world.settle();
        assert_eq!(world.log.len(), writes, "{authority:?}");
    }
}

#[test]
fn a_value_that_is_not_stored_is_reported_with_its_field() {
    let mut world = World {
        drops: Some("instanceType"),
        ..World::default()
    };
    world.create(Part::MachineApi, machine(Some(Api::MachineApi), None));
    world.settle();
    let (status, message) = world.synchronized();
    assert_eq!(status, "False");
    let expected =
        "spec.instanceType: AWSMachine openshift-cluster-api/a accepted the write and does not store the value";
    assert_eq!(message, expected);
}

#[test]
fn infrastructure_that_cannot_be_changed_in_place_is_made_again_without_an_instance() {
    let mut world = settled();
    let uid = |world: &World| world.get(Part::Infrastructure).unwrap()["metadata"]["uid"].clone();
    let before = uid(&world);
    world.change(Part::MachineApi, |machine| {
        machine["spec"]["providerSpec"]["value"]["instanceType"] = json!("m6i.4xlarge");
    });
    assert_eq!(world.settle(), Decision::Idle);
    assert_ne!(uid(&world), before);
    assert_eq!(
        world.get(Part::Infrastructure).unwrap()["spec"]["instanceType"],
        "m6i.4xlarge"
    );
    assert_eq!((world.instance.is_some(), world.created), (true, 1));
}

#[test]
fn a_field_without_a_counterpart_is_reported_and_the_report_ends_with_the_field() {
    let mut world = settled();
    world.change(Part::MachineApi, |machine| {
        machine["spec"]["providerSpec"]["value"]["fieldOfTomorrow"] = json!(1);
    });
    world.settle();
    let (status, message) = world.synchronized();
    assert_eq!(status, "False");
    assert!(
        message.starts_with("spec.providerSpec.value.fieldOfTomorrow: "),
        "{message}"
    );
    let since = |world: &World| world.status()["conditions"].to_string();
    let reported = since(&world);
    world.settle();
    assert_eq!(since(&world), reported);
    world.change(Part::MachineApi, |machine| {
        machine["spec"]["providerSpec"]["value"]
            .as_object_mut()
            .unwrap()
            .remove("fieldOfTomorrow");
    });
    world.settle();
    assert_eq!(world.synchronized().0, "True");
}

#[test]
fn the_status_follows_and_the_conditions_of_the_mirror_stay() {
    let world = settled();
    let mirror = world.get(Part::ClusterApi).unwrap();
    assert_eq!(mirror["status"]["phase"], "Running");
    assert_eq!(mirror["status"]["initialization"]["infrastructureProvisioned"], true);
    assert_eq!(
        world.object(Part::ClusterApi).unwrap().condition("Paused"),
        Some("True")
    );
}
