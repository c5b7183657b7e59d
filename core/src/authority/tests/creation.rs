//! The rows of the enhancement's table about creation.

use serde_json::json;

use super::world::{World, machine, set};
use crate::authority::pair::{Decision, Part};
use crate::authority::spec::Api;

const ALL: [Part; 3] = [Part::MachineApi, Part::ClusterApi, Part::Infrastructure];

#[test]
fn a_machine_of_the_machine_api_gets_a_paused_mirror() {
    for authority in [Some(Api::MachineApi), None] {
        let mut world = World::default();
        world.create(Part::MachineApi, machine(authority, None));
        assert_eq!(world.settle(), Decision::Idle);
        assert_eq!(world.existing(), ALL);
        assert_eq!(world.status()["authoritativeAPI"], "MachineAPI");
        assert_eq!(world.created, 1);
        for part in [Part::ClusterApi, Part::Infrastructure] {
            let annotations = &world.get(part).unwrap()["metadata"]["annotations"];
            assert_eq!(annotations["cluster.x-k8s.io/paused"], "sync.machine.openshift.io");
        }
        let (status, message) = world.synchronized();
        assert_eq!(
            (status.as_str(), message.as_str()),
            ("True", "the Machine in the Machine API is copied to Cluster API")
        );
    }
}

#[test]
fn a_machine_that_is_created_for_cluster_api_is_copied_once_and_then_copied_back() {
    let mut world = World::default();
    world.create(Part::MachineApi, machine(Some(Api::ClusterApi), None));
    assert_eq!(world.settle(), Decision::Idle);
    assert_eq!(world.existing(), ALL);
    assert_eq!(
        (world.created, world.status()["authoritativeAPI"].as_str()),
        (1, Some("ClusterAPI"))
    );
    let copied = &world.get(Part::MachineApi).unwrap()["spec"]["providerID"];
    assert_eq!(*copied, json!(world.instance));
    assert_eq!(world.synchronized().0, "True");
}

#[test]
fn a_machine_of_cluster_api_alone_is_not_touched() {
    let mut world = World::default();
    let mut alone = World::default();
    alone.create(Part::MachineApi, machine(Some(Api::ClusterApi), None));
    alone.settle();
    for part in [Part::ClusterApi, Part::Infrastructure] {
        let mut object = alone.get(part).unwrap().clone();
        object["metadata"]["finalizers"] = json!([]);
        object["metadata"]["annotations"] = json!({});
        object["metadata"]["ownerReferences"] = json!([]);
        world.create(part, object);
    }
    assert_eq!(world.decide(), Decision::Idle);
    // A Machine in the Machine API is created for it, with Cluster API as the authority.
    world.create(Part::MachineApi, machine(Some(Api::ClusterApi), None));
    world.change(Part::MachineApi, |machine| machine["spec"]["providerSpec"] = json!({}));
    assert_eq!(world.settle(), Decision::Idle);
    assert_eq!(world.created, 0, "the instance is the one of Cluster API");
    let spec = &world.get(Part::MachineApi).unwrap()["spec"]["providerSpec"]["value"];
    assert_eq!(spec["kind"], "AWSMachineProviderConfig");
}

#[test]
fn a_machine_of_a_machine_set_of_both_apis_gets_a_mirror_in_the_machine_api() {
    let mut world = World::default();
    let mut source = World::default();
    source.create(Part::MachineApi, machine(Some(Api::ClusterApi), None));
    source.settle();
    world.sets = [Some(set(Api::MachineApi)), Some(set(Api::ClusterApi))];
    for part in [Part::ClusterApi, Part::Infrastructure] {
        let mut object = source.get(part).unwrap().clone();
        object["metadata"]["finalizers"] = json!([]);
        object["metadata"]["annotations"] = json!({});
        object["metadata"]["ownerReferences"] = json!([]);
        if part == Part::ClusterApi {
            let owned = machine(None, Some(&set(Api::ClusterApi)));
            object["metadata"]["ownerReferences"] = owned["metadata"]["ownerReferences"].clone();
        }
        world.create(part, object);
    }
    let mut without = world.clone();
    without.sets[0] = None;
    assert_eq!(
        without.decide(),
        Decision::Idle,
        "without a MachineSet in the Machine API"
    );
    assert_eq!(world.settle(), Decision::Idle);
    let mirror = world.get(Part::MachineApi).unwrap();
    assert_eq!(mirror["spec"]["authoritativeAPI"], "ClusterAPI");
    assert_eq!(mirror["metadata"]["ownerReferences"][0]["uid"], "set-MachineAPI");
    assert_eq!(world.synchronized().0, "True");
}

#[test]
fn a_machine_of_a_machine_set_without_a_mirror_is_blocked_with_the_field() {
    let mut world = World::default();
    world.sets[0] = Some(set(Api::MachineApi));
    world.create(Part::MachineApi, machine(None, Some(&set(Api::MachineApi))));
    world.settle();
    assert_eq!(
        world.synchronized(),
        (
            String::from("False"),
            String::from("metadata.ownerReferences: MachineSet s has no mirror in Cluster API")
        )
    );
    assert_eq!(world.existing(), [Part::MachineApi]);
    world.sets[1] = Some(set(Api::ClusterApi));
    assert_eq!(world.settle(), Decision::Idle);
    assert_eq!(world.synchronized().0, "True");
    let labels = &world.get(Part::ClusterApi).unwrap()["metadata"]["labels"];
    assert_eq!(labels["cluster.x-k8s.io/set-name"], "s");
}

/// The Machine of Cluster API and its infrastructure as a user of Cluster API makes them.
fn made_in_cluster_api(instance: &str) -> [(Part, serde_json::Value); 2] {
    let mut source = World::default();
    source.create(Part::MachineApi, machine(Some(Api::ClusterApi), None));
    source.settle();
    [Part::ClusterApi, Part::Infrastructure].map(|part| {
        let mut object = source.get(part).unwrap().clone();
        object["metadata"]["finalizers"] = json!([]);
        object["metadata"]["annotations"] = json!({});
        object["spec"]["providerID"] = json!(instance);
        (part, object)
    })
}

#[test]
fn v86_a_machine_of_cluster_api_that_is_no_mirror_is_not_taken_over() {
    let foreign = "aws:///us-east-1b/i-foreign";
    let mut world = World {
        foreign: true,
        ..World::default()
    };
    for (part, object) in made_in_cluster_api(foreign) {
        world.create(part, object);
    }
    world.create(Part::MachineApi, machine(Some(Api::MachineApi), None));
    let before = [Part::ClusterApi, Part::Infrastructure].map(|part| world.get(part).cloned());
    for _ in 0..20 {
        let Decision::Write(write) = world.decide() else { break };
        assert_eq!(write.part, Part::MachineApi, "{write:?}");
        assert!(world.write(&write));
    }
    let after = [Part::ClusterApi, Part::Infrastructure].map(|part| world.get(part).cloned());
    assert_eq!(before, after);
    let (status, message) = world.synchronized();
    assert_eq!(status, "False");
    assert!(
        message.contains("is not the mirror") && message.contains(foreign),
        "{message}"
    );
    // Without its namesake, the mirror is made.
    world.foreign = false;
    for part in [Part::ClusterApi, Part::Infrastructure] {
        world.objects[if part == Part::ClusterApi { 1 } else { 2 }] = None;
    }
    assert_eq!(world.settle(), Decision::Idle);
    assert_eq!(world.synchronized().0, "True");
}

#[test]
fn v86_an_infrastructure_machine_of_another_machine_is_not_taken_over() {
    let mut world = World {
        foreign: true,
        ..World::default()
    };
    let [_, (part, mut object)] = made_in_cluster_api("aws:///us-east-1b/i-foreign");
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "name": "zz", "uid": "zz", "controller": true}]);
    world.create(part, object);
    world.create(Part::MachineApi, machine(Some(Api::MachineApi), None));
    let before = world.get(part).cloned();
    for _ in 0..20 {
        let Decision::Write(write) = world.decide() else { break };
        assert_eq!(write.part, Part::MachineApi, "{write:?}");
        assert!(world.write(&write));
    }
    assert_eq!(world.get(part).cloned(), before);
    assert!(
        world.synchronized().1.contains("Machine zz owns it"),
        "{:?}",
        world.synchronized()
    );
}

#[test]
fn a_paused_machine_without_another_instance_becomes_the_mirror() {
    let mut world = World::default();
    world.create(Part::MachineApi, machine(Some(Api::MachineApi), None));
    let [(part, mut object), _] = made_in_cluster_api("");
    object["metadata"]["annotations"] = json!({"cluster.x-k8s.io/paused": "sync.machine.openshift.io"});
    world.create(part, object);
    assert_eq!(world.settle(), Decision::Idle);
    assert_eq!(world.synchronized().0, "True");
}
