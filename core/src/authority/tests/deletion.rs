//! The rows of the enhancement's table about deletion, in both directions.

use serde_json::json;

use super::world::{World, machine, set};
use crate::authority::PAUSED_BY_SYNC;
use crate::authority::migration::take_back;
use crate::authority::pair::{Decision, FullObject, Pair, Part, Verb};
use crate::authority::spec::{Api, Kind};

const ALL: [Part; 3] = [Part::MachineApi, Part::ClusterApi, Part::Infrastructure];

/// A settled pair.
fn pair(authority: Api, owned: bool) -> World {
    let mut world = World::default();
    let owner = set(Api::MachineApi);
    if owned {
        world.sets = [Some(owner.clone()), Some(set(Api::ClusterApi))];
    }
    world.create(
        Part::MachineApi,
        machine(Some(Api::MachineApi), owned.then_some(&owner)),
    );
    assert_eq!(world.settle(), Decision::Idle);
    if authority == Api::ClusterApi {
        world.request(authority);
        assert_eq!(world.settle(), Decision::Idle);
    }
    assert_eq!(world.status()["authoritativeAPI"], authority.as_str());
    assert!(world.instance.is_some());
    world
}

#[test]
fn the_deletion_of_an_owned_machine_deletes_both_and_the_instance() {
    for authority in [Api::MachineApi, Api::ClusterApi] {
        for deleted in [Part::MachineApi, Part::ClusterApi] {
            let mut world = pair(authority, true);
            world.delete(deleted);
            world.settle();
            assert_eq!(world.existing(), [], "{authority:?} {deleted:?} {:#?}", world.log);
            assert_eq!((world.instance.as_deref(), world.created), (None, 1));
        }
    }
}

/// A ControlPlaneMachineSet deletes Machines of the Machine API, and creates others in their place.
/// If the instance of a deleted one stayed, the control plane would grow.
#[test]
fn m1_the_deletion_of_a_machine_of_a_control_plane_machine_set_deletes_both_and_the_instance() {
    let owner = json!({"apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet",
        "metadata": {"name": "cluster", "uid": "control-plane-machine-set"}});
    for authority in [Api::MachineApi, Api::ClusterApi] {
        for deleted in [Part::MachineApi, Part::ClusterApi] {
            let mut world = pair(authority, false);
            let owned = machine(None, Some(&owner));
            world.change(Part::MachineApi, |machine| {
                machine["metadata"]["ownerReferences"] = owned["metadata"]["ownerReferences"].clone();
            });
            world.delete(deleted);
            world.settle();
            assert_eq!(world.existing(), [], "{authority:?} {deleted:?} {:#?}", world.log);
            assert_eq!((world.instance.as_deref(), world.created), (None, 1));
        }
    }
}

#[test]
fn a_machine_without_an_owner_that_is_deleted_in_the_machine_api_stays_in_cluster_api() {
    // The instance belongs to the authoritative Machine.
    for (authority, keeps_instance) in [(Api::MachineApi, false), (Api::ClusterApi, true)] {
        let mut world = pair(authority, false);
        world.delete(Part::MachineApi);
        assert_eq!(world.settle(), Decision::Idle);
        assert_eq!(
            world.existing(),
            [Part::ClusterApi, Part::Infrastructure],
            "{authority:?}"
        );
        assert_eq!(world.instance.is_some(), keeps_instance, "{authority:?}");
        assert_eq!(world.created, 1);
        for part in [Part::ClusterApi, Part::Infrastructure] {
            assert!(
                !world
                    .object(part)
                    .unwrap()
                    .has_finalizer("sync.machine.openshift.io/finalizer")
            );
        }
        // A mirror stays paused; the authoritative Machine continues alone.
        let paused = world.object(Part::ClusterApi).unwrap().member.is_paused();
        assert_eq!(paused, authority == Api::MachineApi);
        // Both can be deleted.
        world.change(Part::ClusterApi, |machine| {
            machine["metadata"]["annotations"] = json!({});
        });
        world.change(Part::Infrastructure, |machine| {
            machine["metadata"]["annotations"] = json!({});
        });
        world.delete(Part::ClusterApi);
        world.settle();
        assert_eq!(world.existing(), []);
    }
}

/// Otherwise the sync controller could meet the mirror without its Machine, and would make the
/// Machine, and its instance, again.
#[test]
fn m4_a_machine_of_a_set_of_cluster_api_is_held_before_its_mirror_exists() {
    let mut world = pair(Api::ClusterApi, true);
    // Only the objects of Cluster API exist, and the sync controller has not seen them.
    world.objects[0] = None;
    for part in [Part::ClusterApi, Part::Infrastructure] {
        world.change(part, |object| {
            let finalizers = object["metadata"]["finalizers"].as_array_mut().unwrap();
            finalizers.retain(|name| name != "sync.machine.openshift.io/finalizer");
            object["metadata"]["annotations"] = json!({});
        });
    }
    let decision = world.decide();
    let Decision::Write(write) = &decision else {
        panic!("{decision:?}");
    };
    assert_eq!(write.part, Part::ClusterApi, "{write:?}");
    let patch = match &write.verb {
        crate::authority::pair::Verb::Patch(patch) => patch.pointer("/metadata/finalizers").cloned(),
        _ => None,
    };
    let added = patch.and_then(|list| list.as_array()?.last().cloned());
    assert_eq!(added, Some(json!("sync.machine.openshift.io/finalizer")));
}

#[test]
fn m3_an_authoritative_machine_is_not_left_paused_when_its_mirror_is_deleted() {
    let mut world = World::default();
    world.create(Part::MachineApi, machine(Some(Api::ClusterApi), None));
    // The first copy is made, and no controller has acted on it.
    while world.get(Part::Infrastructure).is_none() {
        let Decision::Write(write) = world.decide() else {
            panic!("{:#?}", world.log);
        };
        assert!(world.write(&write), "{write:?}");
    }
    assert!(world.object(Part::ClusterApi).unwrap().member.is_paused());
    world.delete(Part::MachineApi);
    world.settle();
    assert_eq!(world.existing(), [Part::ClusterApi, Part::Infrastructure]);
    assert!(!world.object(Part::ClusterApi).unwrap().member.is_paused());
    assert_eq!((world.instance.is_some(), world.created), (true, 1));
}

/// A Machine that was created for Cluster API, of which only the Machine is copied yet.
fn half_copied() -> World {
    let mut world = World::default();
    world.create(Part::MachineApi, machine(Some(Api::ClusterApi), None));
    while world.get(Part::ClusterApi).is_none() {
        let Decision::Write(write) = world.decide() else {
            panic!("{:#?}", world.log);
        };
        assert!(world.write(&write), "{write:?}");
    }
    assert_eq!(world.existing(), [Part::MachineApi, Part::ClusterApi]);
    world
}

/// Otherwise a Machine without an infrastructure machine stays in Cluster API.
#[test]
fn v140_a_machine_that_is_deleted_before_its_copy_has_ended_leaves_nothing() {
    let mut world = half_copied();
    world.delete(Part::MachineApi);
    world.settle();
    assert_eq!(world.existing(), [], "{:#?}", world.log);
    assert_eq!((world.instance.is_some(), world.created), (false, 0));
}

/// Cluster API is authoritative from the first copy on, so admission accepts the edit.
#[test]
fn v141_an_edit_of_cluster_api_stays_although_the_first_copy_has_not_ended() {
    let mut world = half_copied();
    world.change(Part::ClusterApi, |machine| {
        machine["metadata"]["labels"]["edit"] = json!("by-a-user");
        machine["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] = json!("prod-x7k2p");
    });
    world.change(Part::MachineApi, |machine| {
        machine["metadata"]["labels"]["edit"] = json!("old");
    });
    assert_eq!(world.settle(), Decision::Idle, "{:?}", world.synchronized());
    assert_eq!(world.existing(), ALL, "{:#?}", world.log);
    assert_eq!(world.synchronized().0, "True", "{:?}", world.synchronized());
    for part in [Part::ClusterApi, Part::MachineApi] {
        let label = &world.get(part).unwrap()["metadata"]["labels"]["edit"];
        assert_eq!(*label, json!("by-a-user"), "{part:?} {:#?}", world.log);
    }
}

/// A MachineSet does not replace a replica that it still counts (decision 89).
#[test]
fn v143_a_mirror_that_a_machine_set_counts_is_deleted_with_its_machine() {
    for authority in [Api::MachineApi, Api::ClusterApi] {
        for deletes_mirror in [false, true] {
            let mut world = pair(authority, true);
            let lost = match authority {
                Api::MachineApi => 0,
                Api::ClusterApi => 1,
            };
            world.sets[lost] = None;
            world.change(Part::of(authority), |machine| {
                machine["metadata"]["ownerReferences"] = json!([]);
            });
            world.settle();
            let mirror = Part::of(authority.other());
            let owner = world.object(mirror).unwrap().member.owner().cloned();
            assert_eq!(
                owner.map(|owner| owner.kind).as_deref(),
                Some("MachineSet"),
                "{authority:?}"
            );
            world.delete(if deletes_mirror { mirror } else { Part::of(authority) });
            world.settle();
            let (existing, has_instance) = (world.existing(), world.instance.is_some());
            match (deletes_mirror, authority) {
                (false, _) => assert_eq!(
                    (existing, has_instance),
                    (vec![], false),
                    "{authority:?} {:#?}",
                    world.log
                ),
                (true, Api::MachineApi) => assert_eq!((existing.as_slice(), has_instance), (&ALL[..], true)),
                (true, Api::ClusterApi) => assert_eq!((existing.as_slice(), has_instance), (&ALL[1..], true)),
            }
            assert_eq!(world.created, 1);
        }
    }
}

#[test]
fn a_machine_without_an_owner_that_is_deleted_in_cluster_api_is_made_again() {
    for (authority, keeps_instance) in [(Api::MachineApi, true), (Api::ClusterApi, false)] {
        let mut world = pair(authority, false);
        let before = world.get(Part::ClusterApi).unwrap()["metadata"]["uid"].clone();
        world.delete(Part::ClusterApi);
        world.settle();
        assert_eq!(world.existing(), ALL, "{authority:?}");
        assert_ne!(world.get(Part::ClusterApi).unwrap()["metadata"]["uid"], before);
        assert_eq!(world.instance.is_some(), keeps_instance, "{authority:?}");
        assert_eq!(world.created, 1, "no second instance is made silently");
    }
}

#[test]
fn the_deletion_of_a_mirrored_parent_reaches_no_instance() {
    for authority in [Api::MachineApi, Api::ClusterApi] {
        let mut world = pair(authority, true);
        // The mirror of the MachineSet is deleted, and the garbage collector follows.
        let (at, mirror) = match authority {
            Api::MachineApi => (1, Part::ClusterApi),
            Api::ClusterApi => (0, Part::MachineApi),
        };
        world.sets[at] = None;
        world.act(3);
        assert!(world.object(mirror).unwrap().member.deleting);
        world.settle();
        assert_eq!(
            (world.instance.is_some(), world.created),
            (true, 1),
            "{authority:?} {:#?}",
            world.log
        );
        assert!(world.get(Part::of(authority)).is_some(), "{authority:?}");
        assert!(
            !world.object(Part::of(authority)).unwrap().member.deleting,
            "{authority:?}"
        );
    }
}

#[test]
fn the_deletion_of_an_authoritative_parent_deletes_both_machines() {
    for authority in [Api::MachineApi, Api::ClusterApi] {
        let mut world = pair(authority, true);
        world.sets = [None, None];
        world.settle();
        assert_eq!(
            (world.existing(), world.instance.as_deref()),
            (vec![], None),
            "{authority:?}"
        );
    }
}

#[test]
fn a_deletion_in_the_middle_of_a_migration_goes_back_to_the_source() {
    for authority in [Api::MachineApi, Api::ClusterApi] {
        for deleted in [Part::MachineApi, Part::ClusterApi] {
            let mut world = pair(authority, true);
            world.request(authority.other());
            while world.status()["authoritativeAPI"] != "Migrating" {
                let Decision::Write(write) = world.decide() else {
                    panic!("{:?}", world.decide())
                };
                world.write(&write);
            }
            world.delete(deleted);
            world.settle();
            assert_eq!(world.existing(), [], "{authority:?} {deleted:?}");
            assert_eq!((world.instance.as_deref(), world.created), (None, 1));
        }
    }
}

/// The write that ends a migration is guarded by the Machine of the Machine API. A user deletes the
/// mirror in Cluster API after the decision and before the write.
#[test]
fn v261_a_mirror_that_is_deleted_before_its_migration_ends_leaves_the_instance() {
    for owned in [false, true] {
        let mut world = pair(Api::MachineApi, owned);
        world.request(Api::ClusterApi);
        while world.status()["authoritativeAPI"] != "ClusterAPI" {
            for actor in 0..4 {
                world.act(actor);
            }
            let Decision::Write(write) = world.decide() else {
                continue;
            };
            if write.because.contains("is complete") {
                world.delete(Part::ClusterApi);
            }
            assert!(world.write(&write), "{write:?}");
        }
        let decision = world.settle();
        if owned {
            assert_eq!((world.existing(), world.instance.as_deref()), (vec![], None));
            continue;
        }
        assert_eq!(world.existing(), ALL, "{decision:?} {:#?}", world.log);
        assert_eq!((world.instance.is_some(), world.created), (true, 1), "{:#?}", world.log);
        // The request still stands, so the migration begins again with the new mirror.
        assert_eq!(world.status()["authoritativeAPI"], "ClusterAPI");
        // A deletion while Cluster API acts is that of the authoritative Machine.
        world.delete(Part::ClusterApi);
        world.settle();
        assert_eq!(world.instance, None);
    }
}

#[test]
fn v261_a_machine_set_whose_mirror_was_deleted_before_its_migration_ended_goes_back() {
    let machine_api = |authority: &str, reason: &str| {
        let condition = json!({"type": "Synchronized", "status": "Unknown", "reason": reason});
        json!({"kind": "MachineSet", "metadata": {"name": "s", "uid": "1", "resourceVersion": "1"},
            "spec": {"authoritativeAPI": "ClusterAPI"},
            "status": {"authoritativeAPI": authority, "synchronizedAPI": "ClusterAPI", "conditions": [condition]}})
    };
    let mirror = |pause: Option<&str>| {
        json!({"kind": "MachineSet", "metadata": {"name": "s", "uid": "2", "resourceVersion": "1",
            "deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": {"cluster.x-k8s.io/paused": pause}}})
    };
    let returns = |machine_api: serde_json::Value, mirror: serde_json::Value| {
        let machine_api = FullObject::from(machine_api);
        let pair = Pair {
            kind: Kind::MachineSet,
            machine_api: Some(machine_api.clone()),
            cluster_api: Some(mirror.into()),
            ..Pair::default()
        };
        take_back(&pair, &machine_api).map(|write| write.verb)
    };
    let changed = "AuthoritativeAPIChanged";
    let paused = || mirror(Some(PAUSED_BY_SYNC));
    let Some(Verb::PatchStatus(patch)) = returns(machine_api("ClusterAPI", changed), paused()) else {
        panic!("the migration is not taken back");
    };
    let status = json!({"authoritativeAPI": "Migrating", "synchronizedAPI": "MachineAPI"});
    assert_eq!(patch["status"], status);
    for (machine_api, mirror) in [
        (machine_api("ClusterAPI", "ResourceSynchronized"), paused()),
        (machine_api("MachineAPI", changed), paused()),
        (machine_api("ClusterAPI", changed), mirror(None)),
        (machine_api("ClusterAPI", changed), mirror(Some(""))),
    ] {
        assert_eq!(returns(machine_api, mirror), None);
    }
}

#[test]
fn a_machine_that_never_had_a_mirror_is_deleted() {
    let mut world = World::default();
    world.sets[0] = Some(set(Api::MachineApi));
    world.create(Part::MachineApi, machine(None, Some(&set(Api::MachineApi))));
    world.settle();
    assert_eq!(world.existing(), [Part::MachineApi]);
    world.delete(Part::MachineApi);
    world.settle();
    assert_eq!((world.existing(), world.instance.as_deref()), (vec![], None));
}

#[test]
fn a_finalizer_of_another_component_is_awaited_and_kept() {
    let mut world = pair(Api::MachineApi, true);
    world.change(Part::ClusterApi, |machine| {
        let list = machine["metadata"]["finalizers"].as_array_mut().unwrap();
        list.push(json!("backup.example.com/hold"));
    });
    world.delete(Part::MachineApi);
    let last = world.settle();
    assert_eq!(world.existing(), [Part::ClusterApi]);
    assert_eq!(last, Decision::Idle);
    let finalizers = &world.get(Part::ClusterApi).unwrap()["metadata"]["finalizers"];
    assert_eq!(*finalizers, json!(["backup.example.com/hold"]));
}

#[test]
fn the_garbage_collector_reaches_no_instance_after_the_mirror_of_a_machine_set_was_made_again() {
    let mut world = pair(Api::MachineApi, true);
    // The mirror of the Machine still names the MachineSet that was deleted.
    world.sets[1].as_mut().unwrap()["metadata"]["uid"] = json!("another");
    world.delete(Part::ClusterApi);
    world.settle();
    assert_eq!(world.existing(), ALL, "{:#?}", world.log);
    assert!(world.instance.is_some() && world.created == 1);
}

/// The mirror of the MachineSet was deleted and created again, and the garbage collector deleted
/// the mirror of a Machine. Then the MachineSets migrated, and the mirror of the MachineSet in the
/// other API is deleted.
#[test]
fn v253_the_deletion_of_two_mirrors_of_a_machine_set_reaches_no_instance() {
    for authority in [Api::MachineApi, Api::ClusterApi] {
        let (of_machine, of_set) = match authority {
            Api::MachineApi => (1, 0),
            Api::ClusterApi => (0, 1),
        };
        for gone in [false, true] {
            let mut world = pair(authority, true);
            let owner = set(Api::MachineApi)["metadata"].clone();
            world.change(Part::of(authority), |machine| {
                machine["metadata"]["ownerReferences"] = json!([{"apiVersion": "x/v1", "kind": "MachineSet",
                    "name": owner["name"], "uid": format!("set-{}", authority.as_str())}]);
            });
            world.sets[of_machine].as_mut().unwrap()["metadata"]["uid"] = json!("another");
            world.sets[0].as_mut().unwrap()["status"] = json!({"authoritativeAPI": authority.other().as_str()});
            world.sets[of_set].as_mut().unwrap()["metadata"]["deletionTimestamp"] = json!("2026-02-01T00:00:00Z");
            if gone && of_set == 0 {
                world.sets[0] = None;
            }
            world.delete(Part::of(authority.other()));
            for _ in 0..12 {
                let Decision::Write(write) = world.decide() else { break };
                assert!(world.write(&write), "{write:?}");
            }
            let machine = world.object(Part::of(authority)).unwrap();
            assert!(!machine.member.deleting, "{authority:?} {gone} {:#?}", world.log);
            assert!(world.instance.is_some() && world.created == 1);
        }
    }
}

/// The controllers of Cluster API delete a MachineSet, and the garbage collector what it owns.
#[test]
fn v254_a_machine_for_cluster_api_waits_while_the_mirror_of_its_set_is_being_deleted() {
    let mut world = World::default();
    let owner = set(Api::MachineApi);
    world.sets = [Some(owner.clone()), Some(set(Api::ClusterApi))];
    world.sets[1].as_mut().unwrap()["metadata"]["deletionTimestamp"] = json!("2026-02-01T00:00:00Z");
    world.create(Part::MachineApi, machine(Some(Api::ClusterApi), Some(&owner)));
    world.settle();
    assert_eq!(world.existing(), [Part::MachineApi], "{:#?}", world.log);
    let (status, message) = world.synchronized();
    assert!(status == "False" && message.contains("is being deleted"), "{message}");
    world.sets[1] = Some(set(Api::ClusterApi));
    assert_eq!(world.settle(), Decision::Idle);
    assert_eq!((world.existing(), world.created), (ALL.to_vec(), 1));
}

/// The mirror of the MachineSet was released before the Machine was created with that owner, or
/// before the Machine became authoritative.
#[test]
fn v254_a_machine_loses_the_mirror_of_its_set_that_is_deleted_before_its_controllers_act() {
    for gone in [false, true] {
        let mut world = World::default();
        let owner = set(Api::MachineApi);
        world.sets = [Some(owner.clone()), Some(set(Api::ClusterApi))];
        world.create(Part::MachineApi, machine(Some(Api::ClusterApi), Some(&owner)));
        while world.get(Part::ClusterApi).is_none() {
            let Decision::Write(write) = world.decide() else {
                panic!("{:#?}", world.log);
            };
            assert!(world.write(&write), "{write:?}");
        }
        match gone {
            true => world.sets[1] = None,
            false => {
                world.sets[1].as_mut().unwrap()["metadata"]["deletionTimestamp"] = json!("2026-02-01T00:00:00Z");
            }
        }
        while world.created == 0 {
            if let Decision::Write(write) = world.decide() {
                assert!(world.write(&write), "{write:?}");
            }
            if world.object(Part::ClusterApi).unwrap().member.owner().is_none() {
                let mut new = set(Api::ClusterApi);
                new["metadata"]["uid"] = json!("another");
                world.sets[1] = Some(new);
            }
            for actor in 0..3 {
                world.act(actor);
            }
        }
        assert_eq!(
            world.object(Part::ClusterApi).unwrap().member.owner(),
            None,
            "{:#?}",
            world.log
        );
        world.sets[1] = None;
        world.settle();
        assert_eq!((world.existing(), world.created), (ALL.to_vec(), 1), "{:#?}", world.log);
    }
}

/// A user deletes a MachineSet and creates it again. The garbage collector deletes its Machines.
#[test]
fn v254_a_machine_keeps_an_authoritative_owner_that_was_deleted() {
    for authority in [Api::MachineApi, Api::ClusterApi] {
        let mut world = pair(authority, true);
        for set in world.sets.iter_mut().flatten() {
            set["metadata"]["uid"] = json!(format!("another-{}", set["metadata"]["uid"]));
        }
        world.settle();
        assert_eq!(
            (world.existing(), world.instance.as_deref()),
            (vec![], None),
            "{authority:?} {:#?}",
            world.log
        );
    }
}

/// The creation of a mirror arrives after its Machine was deleted.
#[test]
fn v255_an_unfinished_copy_of_a_machine_of_a_set_that_is_gone_is_deleted() {
    for authority in [Api::MachineApi, Api::ClusterApi] {
        for owned in [true, false] {
            let mut world = World::default();
            let owner = set(Api::MachineApi);
            world.sets = [Some(owner.clone()), Some(set(Api::ClusterApi))];
            world.create(Part::MachineApi, machine(Some(authority), owned.then_some(&owner)));
            while world.get(Part::ClusterApi).is_none() {
                let Decision::Write(write) = world.decide() else {
                    panic!("{:#?}", world.log);
                };
                assert!(world.write(&write), "{write:?}");
                if authority == Api::MachineApi {
                    world.machine_api_controller();
                }
            }
            world.objects[0] = None;
            world.instance = None;
            world.settle();
            let left = if owned { vec![] } else { vec![Part::ClusterApi] };
            assert_eq!(world.existing(), left, "{authority:?} {:#?}", world.log);
        }
    }
}

/// The creation of a mirror in the Machine API arrives after its Machine was deleted. A mirror that
/// was seen beside its Machine, and is restored without it, becomes a Machine again.
#[test]
fn v259_a_mirror_that_is_created_after_its_machine_was_deleted_is_deleted() {
    for is_seen in [false, true] {
        let mut world = pair(Api::ClusterApi, true);
        world.objects[0] = None;
        while world.get(Part::MachineApi).is_none() {
            let Decision::Write(write) = world.decide() else {
                panic!("{:#?}", world.log);
            };
            assert!(world.write(&write), "{write:?}");
        }
        if is_seen {
            assert_eq!(world.settle(), Decision::Idle);
        }
        world.objects[1] = None;
        world.objects[2] = None;
        world.instance = None;
        let decision = world.settle();
        match is_seen {
            false => assert_eq!(world.existing(), [], "{:#?}", world.log),
            true => assert_eq!(world.existing(), ALL, "{decision:?} {:#?}", world.log),
        }
    }
}

/// The authoritative Machine was deleted without an owner, so its mirror stayed, paused. A user
/// deletes it later.
#[test]
fn a_mirror_that_was_left_alone_does_not_stay_in_deletion() {
    let mut world = World::default();
    world.create(Part::MachineApi, machine(Some(Api::MachineApi), None));
    world.settle();
    world.delete(Part::MachineApi);
    world.settle();
    assert_eq!(world.existing(), vec![Part::ClusterApi, Part::Infrastructure]);
    assert!(world.object(Part::ClusterApi).unwrap().member.is_paused_by_sync());
    world.delete(Part::ClusterApi);
    world.settle();
    assert_eq!(world.existing(), vec![]);
    assert_eq!((world.instance.as_deref(), world.created), (None, 1));
}

/// Mirroring was switched off for the platform. The finalizer of the sync controller must not hold
/// what is deleted afterwards, and nothing is made again.
#[test]
fn v211_deletions_continue_and_nothing_else_happens_while_mirroring_is_switched_off() {
    for authority in [Api::MachineApi, Api::ClusterApi] {
        for owned in [false, true] {
            let mut world = pair(authority, owned);
            world.switched_off = true;
            world.change(Part::of(authority), |machine| {
                machine["metadata"]["labels"]["team"] = json!("red");
            });
            world.request(authority.other());
            let writes = world.log.len();
            assert_eq!(world.settle(), Decision::Idle);
            assert_eq!(world.log.len(), writes, "{authority:?}: {:#?}", world.log);
            if !owned {
                // The mirror goes, and is not made again. The instance stays.
                let mirror = Part::of(authority.other());
                world.delete(mirror);
                world.settle();
                assert!(world.get(mirror).is_none(), "{authority:?}: {:#?}", world.log);
                assert!(world.get(Part::of(authority)).is_some() && world.instance.is_some());
            }
            world.delete(Part::of(authority));
            world.settle();
            assert_eq!(world.existing(), [], "{authority:?} {owned}: {:#?}", world.log);
            assert_eq!((world.instance.as_deref(), world.created), (None, 1));
        }
    }
}

#[test]
fn v211_an_infrastructure_machine_that_is_deleted_alone_does_not_stay_while_mirroring_is_switched_off() {
    let mut world = pair(Api::MachineApi, false);
    world.switched_off = true;
    world.delete(Part::Infrastructure);
    assert_eq!(world.settle(), Decision::Idle);
    assert_eq!(
        world.existing(),
        [Part::MachineApi, Part::ClusterApi],
        "{:#?}",
        world.log
    );
    assert!(world.instance.is_some());
}
