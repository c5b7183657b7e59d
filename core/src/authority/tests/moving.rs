//! Migrations: there and back, cancelled, interrupted at every write, and stopped.

use serde_json::json;

use super::world::{World, machine};
use crate::authority::pair::{Decision, Part};
use crate::authority::spec::Api;

fn settled(authority: Api) -> World {
    let mut world = World::default();
    world.create(Part::MachineApi, machine(Some(Api::MachineApi), None));
    assert_eq!(world.settle(), Decision::Idle);
    if authority == Api::ClusterApi {
        world.request(authority);
        assert_eq!(world.settle(), Decision::Idle);
    }
    world
}

#[test]
fn a_machine_is_migrated_there_and_back_with_the_same_instance_and_spec() {
    let mut world = settled(Api::MachineApi);
    let before = world.get(Part::MachineApi).unwrap().clone();
    for api in [Api::ClusterApi, Api::MachineApi, Api::ClusterApi, Api::MachineApi] {
        world.request(api);
        assert_eq!(world.settle(), Decision::Idle, "{api:?}");
        assert_eq!(world.status()["authoritativeAPI"], api.as_str());
        assert_eq!(world.status()["synchronizedAPI"], api.as_str());
        assert_eq!(world.synchronized().0, "True");
        assert_eq!(world.created, 1);
    }
    let after = world.get(Part::MachineApi).unwrap();
    assert_eq!(after["spec"], before["spec"]);
    for (label, value) in before["metadata"]["labels"].as_object().unwrap() {
        assert_eq!(after["metadata"]["labels"][label], *value);
    }
}

#[test]
fn a_migration_that_is_cancelled_after_any_write_returns_to_the_source() {
    for source in [Api::MachineApi, Api::ClusterApi] {
        for writes in 0..24 {
            let mut world = settled(source);
            world.request(source.other());
            let begun = world.log.len();
            while world.log.len() < begun + writes {
                for actor in 0..3 {
                    world.act(actor);
                }
                let Decision::Write(write) = world.decide() else { break };
                world.write(&write);
            }
            world.request(source);
            assert_eq!(world.settle(), Decision::Idle, "{source:?} after {writes} writes");
            assert_eq!(world.status()["authoritativeAPI"], source.as_str());
            assert_eq!((world.instance.is_some(), world.created), (true, 1));
        }
    }
}

#[test]
fn a_migration_waits_for_the_acknowledgement_and_says_so() {
    for source in [Api::MachineApi, Api::ClusterApi] {
        let mut world = settled(source);
        world.request(source.other());
        // The controllers are down.
        for _ in 0..40 {
            if let Decision::Write(write) = world.decide() {
                world.write(&write);
            }
        }
        assert_eq!(world.status()["authoritativeAPI"], "Migrating");
        let Decision::Wait(reason) = world.decide() else {
            panic!("{:?}", world.decide())
        };
        assert!(
            reason.ends_with("have not acknowledged the pause of this migration"),
            "{reason}"
        );
        assert_eq!(world.settle(), Decision::Idle);
        assert_eq!(world.status()["authoritativeAPI"], source.other().as_str());
    }
}

#[test]
fn a_migration_does_not_begin_while_the_conversion_is_blocked() {
    let mut world = settled(Api::MachineApi);
    world.change(Part::MachineApi, |machine| {
        machine["spec"]["providerSpec"]["value"]["fieldOfTomorrow"] = json!(1);
    });
    world.request(Api::ClusterApi);
    let last = world.settle();
    assert!(matches!(last, Decision::Wait(_)), "{last:?}");
    assert_eq!(world.status()["authoritativeAPI"], "MachineAPI");
    assert!(
        world
            .synchronized()
            .1
            .starts_with("spec.providerSpec.value.fieldOfTomorrow")
    );
}

#[test]
fn a_migration_does_not_begin_while_a_user_pauses_the_source() {
    let mut world = settled(Api::ClusterApi);
    world.change(Part::ClusterApi, |machine| {
        machine["metadata"]["annotations"]["cluster.x-k8s.io/paused"] = json!("for maintenance");
    });
    world.request(Api::MachineApi);
    let Decision::Wait(reason) = world.settle() else {
        panic!()
    };
    assert_eq!(
        reason,
        "the migration has not begun: Machine openshift-cluster-api/a has the annotation cluster.x-k8s.io/paused"
    );
    assert_eq!(world.status()["authoritativeAPI"], "ClusterAPI");
}

#[test]
fn the_last_change_before_the_pause_is_copied() {
    for source in [Api::MachineApi, Api::ClusterApi] {
        let mut world = settled(source);
        world.request(source.other());
        while world.status()["authoritativeAPI"] != "Migrating" {
            let Decision::Write(write) = world.decide() else {
                panic!("{:?}", world.decide())
            };
            world.write(&write);
        }
        // The controller of the source stores what it did before it saw the pause.
        world.change(Part::of(source), |machine| {
            machine["metadata"]["labels"]["late"] = json!("1");
        });
        assert_eq!(world.settle(), Decision::Idle);
        assert_eq!(world.status()["authoritativeAPI"], source.other().as_str());
        let labels = &world.get(Part::of(source.other())).unwrap()["metadata"]["labels"];
        assert_eq!(labels["late"], "1", "{source:?}");
    }
}

#[test]
fn a_migration_that_does_not_record_its_source_stops_with_a_condition() {
    let mut world = settled(Api::MachineApi);
    world.change(Part::MachineApi, |machine| {
        machine["spec"]["authoritativeAPI"] = json!("ClusterAPI");
    });
    let status = json!({"status": {"authoritativeAPI": "Migrating", "synchronizedAPI": null}});
    world.set_status(Part::MachineApi, &status);
    let last = world.settle();
    assert!(matches!(last, Decision::Wait(_)), "{last:?}");
    assert_eq!(world.status()["authoritativeAPI"], "Migrating");
    let (status, message) = world.synchronized();
    assert!(
        status == "False" && message.contains("status.synchronizedAPI is empty"),
        "{message}"
    );
    // An administrator states the source.
    world.set_status(Part::MachineApi, &json!({"status": {"synchronizedAPI": "MachineAPI"}}));
    assert_eq!(world.settle(), Decision::Idle);
    assert_eq!(world.status()["authoritativeAPI"], "ClusterAPI");
}
