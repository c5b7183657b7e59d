//! Migrations: there and back, cancelled, interrupted at every write, and stopped.

use serde_json::json;

use super::world::{World, machine};
use crate::authority::migration::not_ready;
use crate::authority::pair::{Decision, FullObject, Pair, Part, Verb};
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

/// Seed 6636: the release of a mirror took 47 seconds. The Machine that it owned migrated
/// meanwhile, and the garbage collector deleted its instance.
#[test]
fn v239_a_migration_does_not_begin_while_a_machine_set_of_the_machine_is_being_deleted() {
    for source in [Api::MachineApi, Api::ClusterApi] {
        let world = settled(source);
        let set = |deleted: Option<&str>| {
            let set = json!({"kind": "MachineSet", "metadata": {"name": "s", "uid": "s", "resourceVersion": "1",
                "deletionTimestamp": deleted}});
            Some(FullObject::from(set))
        };
        for (machine_api, cluster_api, ready) in [
            (None, None, true),
            (set(Some("2026-01-01T00:00:00Z")), set(None), false),
            (set(None), set(Some("2026-01-01T00:00:00Z")), false),
        ] {
            let pair = Pair {
                machine_api_set: machine_api,
                cluster_api_set: cluster_api,
                ..world.pair()
            };
            let reason = not_ready(&pair, source);
            assert_eq!(reason.is_none(), ready, "{reason:?}");
        }
    }
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

/// A migration without a recorded source stops, and locks both objects for ever.
#[test]
fn v210_a_migration_does_not_begin_if_the_crd_drops_what_it_needs_to_come_back() {
    for field in ["synchronizedAPI", "synchronizedGeneration"] {
        for source in [Api::MachineApi, Api::ClusterApi] {
            let mut world = World {
                drops_status: Some(field),
                ..World::default()
            };
            world.create(Part::MachineApi, machine(Some(source), None));
            assert_eq!(world.settle(), Decision::Idle, "{field} {source:?}");
            world.request(source.other());
            let Decision::Wait(why) = world.settle() else {
                panic!("{field} {source:?}: {:#?}", world.log)
            };
            assert!(why.contains(&format!("does not store status.{field}")), "{why}");
            assert_eq!(world.status()["authoritativeAPI"], source.as_str());
            assert_eq!(world.synchronized(), (String::from("False"), why));
            // Nothing is written again, and the request can be taken back.
            let writes = world.log.len();
            assert!(matches!(world.settle(), Decision::Wait(_)));
            assert_eq!(world.log.len(), writes);
            world.request(source);
            assert_eq!(world.settle(), Decision::Idle);
            assert_eq!(world.synchronized().0, "True");
            // A corrected CRD is found by the next request.
            world.drops_status = None;
            world.request(source.other());
            assert_eq!(world.settle(), Decision::Idle, "{:#?}", world.log);
            assert_eq!(world.status()["authoritativeAPI"], source.other().as_str());
        }
    }
}

#[test]
fn v210_a_migration_that_lost_its_source_is_taken_back_by_the_request_for_the_source() {
    for source in [Api::MachineApi, Api::ClusterApi] {
        for pauses in [false, true] {
            let mut world = settled(source);
            world.drops_status = Some("synchronizedAPI");
            world.request(source.other());
            world.set_status(Part::MachineApi, &json!({"status": {"authoritativeAPI": "Migrating"}}));
            if pauses {
                world.change(Part::ClusterApi, |machine| {
                    machine["metadata"]["annotations"]["cluster.x-k8s.io/paused"] = json!("sync.machine.openshift.io");
                });
            }
            let Decision::Wait(why) = world.settle() else { panic!() };
            assert!(
                why.contains(&format!("set spec.authoritativeAPI to {}", source.as_str())),
                "{why}"
            );
            assert_eq!(world.status()["authoritativeAPI"], "Migrating");
            world.request(source);
            assert_eq!(world.settle(), Decision::Idle, "{source:?}: {:#?}", world.log);
            assert_eq!(world.status()["authoritativeAPI"], source.as_str());
            assert_eq!((world.instance.is_some(), world.created), (true, 1));
        }
        // A deletion ends, too.
        let mut world = settled(source);
        world.drops_status = Some("synchronizedAPI");
        world.request(source.other());
        world.set_status(Part::MachineApi, &json!({"status": {"authoritativeAPI": "Migrating"}}));
        world.delete(Part::of(source));
        world.delete(Part::of(source.other()));
        world.settle();
        assert_eq!(
            (world.existing(), world.instance.as_deref()),
            (vec![], None),
            "{source:?}"
        );
    }
}

/// A record of Capstan that stays is an annotation that the object did not have before.
#[test]
fn v145_a_machine_that_is_authoritative_again_has_no_record_of_a_mirror() {
    const RECORD: &str = "capstan.dev/mirrored";
    let record = |world: &World, part| world.get(part).unwrap()["metadata"]["annotations"][RECORD].is_string();
    let mut world = settled(Api::MachineApi);
    for (api, in_machine_api) in [
        (Api::MachineApi, false),
        (Api::ClusterApi, true),
        (Api::MachineApi, false),
        (Api::ClusterApi, true),
    ] {
        world.request(api);
        assert_eq!(world.settle(), Decision::Idle);
        assert_eq!(
            record(&world, Part::MachineApi),
            in_machine_api,
            "{api:?} {:#?}",
            world.log
        );
        for part in [Part::ClusterApi, Part::Infrastructure] {
            assert_eq!(
                record(&world, part),
                !in_machine_api,
                "{api:?} {part:?} {:#?}",
                world.log
            );
        }
    }
}

#[test]
fn v146_the_reference_to_the_node_is_the_same_after_a_migration_there_and_back() {
    let mut world = settled(Api::MachineApi);
    let node = json!({"kind": "Node", "name": "node-a", "uid": "uid-of-the-node"});
    world.set_status(Part::MachineApi, &json!({"status": {"nodeRef": node}}));
    for api in [Api::ClusterApi, Api::MachineApi] {
        world.request(api);
        assert_eq!(world.settle(), Decision::Idle);
        assert_eq!(world.status()["nodeRef"], node, "{api:?}");
    }
}

/// A ControlPlaneMachineSet compares a Machine with what it created. It stops a rollout if a field
/// is missing.
#[test]
fn v147_a_mirror_keeps_the_words_of_its_creator_when_another_field_is_copied() {
    let mut world = World::default();
    let mut created = machine(Some(Api::ClusterApi), None);
    created["spec"]["providerSpec"]["value"]["blockDevices"][0]["ebs"]["iops"] = json!(0);
    let before = created["spec"]["providerSpec"].clone();
    world.create(Part::MachineApi, created);
    assert_eq!(world.settle(), Decision::Idle);
    let spec = &world.get(Part::MachineApi).unwrap()["spec"];
    // The id of the instance was copied.
    assert_eq!(spec["providerID"], json!(world.instance));
    assert_eq!(spec["providerSpec"], before);
    assert_eq!(world.synchronized().0, "True");
}

/// The normal form adds the region of the cluster. The Machine API does not.
#[test]
fn v149_a_mirror_without_the_region_of_the_cluster_gets_it_again() {
    let mut world = settled(Api::ClusterApi);
    let region = |world: &World| {
        let machine = world.get(Part::MachineApi).unwrap();
        machine["spec"]["providerSpec"]["value"]["placement"]["region"].clone()
    };
    assert_eq!(region(&world), json!("us-east-1"));
    world.change(Part::MachineApi, |machine| {
        let placement = machine.pointer_mut("/spec/providerSpec/value/placement");
        placement.unwrap().as_object_mut().unwrap().remove("region");
    });
    assert_eq!(world.settle(), Decision::Idle);
    assert_eq!(region(&world), json!("us-east-1"), "{:#?}", world.log);
    world.request(Api::MachineApi);
    assert_eq!(world.settle(), Decision::Idle);
    assert_eq!(world.synchronized().0, "True", "{:?}", world.synchronized());
}

/// The etcd operator writes to the Machine API only. While Cluster API is authoritative, its
/// controllers wait for the hooks of their own Machine.
#[test]
fn v144_the_hook_of_the_etcd_operator_on_a_mirror_is_the_one_of_the_authoritative_machine() {
    const KEY: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io/EtcdQuorumOperator";
    let hooks = json!({"preDrain": [{"name": "EtcdQuorumOperator", "owner": "clusteroperator/etcd"}]});
    let owner = json!({"apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet",
        "metadata": {"name": "cluster", "uid": "control-plane-machine-set"}});
    let mut world = settled(Api::ClusterApi);
    let owned = machine(None, Some(&owner));
    world.change(Part::MachineApi, |machine| {
        machine["metadata"]["ownerReferences"] = owned["metadata"]["ownerReferences"].clone();
    });
    assert_eq!(world.status()["authoritativeAPI"], "ClusterAPI", "{:#?}", world.log);
    let hook = |world: &World| world.get(Part::ClusterApi).unwrap()["metadata"]["annotations"][KEY].clone();
    world.change(Part::MachineApi, |machine| {
        machine["spec"]["lifecycleHooks"] = hooks.clone();
    });
    assert_eq!(world.settle(), Decision::Idle);
    assert_eq!(hook(&world), json!("clusteroperator/etcd"), "{:#?}", world.log);
    assert_eq!(world.get(Part::MachineApi).unwrap()["spec"]["lifecycleHooks"], hooks);
    // A hook that a user removes from the mirror is copied again.
    world.change(Part::MachineApi, |machine| {
        machine["spec"]["lifecycleHooks"] = json!({});
    });
    assert_eq!(world.settle(), Decision::Idle);
    assert_eq!(world.get(Part::MachineApi).unwrap()["spec"]["lifecycleHooks"], hooks);
    // The etcd operator removes it from a Machine that is being deleted.
    for part in [Part::ClusterApi, Part::MachineApi] {
        world.delete(part);
    }
    let removes = |world: &World| match world.decide() {
        Decision::Write(write) => match write.verb {
            Verb::Patch(patch) => {
                let annotations = patch
                    .pointer("/metadata/annotations")
                    .and_then(|known| known.as_object());
                annotations.is_some_and(|known| known.get(KEY) == Some(&serde_json::Value::Null))
            }
            _ => false,
        },
        _ => false,
    };
    assert!(!removes(&world), "{:?}", world.decide());
    world.change(Part::MachineApi, |machine| {
        machine["spec"]["lifecycleHooks"] = json!({});
    });
    assert!(removes(&world), "{:?}", world.decide());
    world.settle();
    assert_eq!((world.existing(), world.instance.as_deref()), (vec![], None));
}
