use super::*;
use crate::cpms::simulation::{OLD, World};

fn deleted() -> World {
    let mut world = World::new("a b c", OLD);
    world.set["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
    world
}

fn steps_of(world: &World) -> Plan {
    steps(
        &serde_json::from_value(world.set.clone()).unwrap(),
        &world.observed.machines,
    )
}

#[test]
fn b3_the_finalizer_is_removed_after_no_machine_refers_to_the_set() {
    let mut world = deleted();
    world.machine("ocp-x7k2p-master-1").metadata.labels.clear();
    let plan = steps_of(&world);
    let machines: Vec<&str> = plan.steps.iter().map(|step| step.machine().unwrap()).collect();
    assert_eq!(
        machines,
        ["ocp-x7k2p-master-0", "ocp-x7k2p-master-1", "ocp-x7k2p-master-2"]
    );
    assert_eq!(plan, world.plan(), "a set that parses is removed in the same way");
    world.apply(&plan.steps[0]);
    world.apply(&plan.steps[2]);
    assert_eq!(steps_of(&world).steps.len(), 1, "one machine still names the set");
    world.apply(&plan.steps[1]);
    let last = steps_of(&world);
    assert!(matches!(
        last.steps.as_slice(),
        [Step {
            action: Action::PatchSet(_),
            ..
        }]
    ));
    world.apply(&last.steps[0]);
    assert_eq!(world.set["metadata"]["finalizers"], json!([]));
    assert!(steps_of(&world).steps.is_empty());
}

#[test]
fn a_pending_adoption_is_refused_and_no_other_is_started() {
    let mut world = World::new("a b c", OLD);
    world.machine("ocp-x7k2p-master-1").metadata.owner_references.clear();
    let adoption = world.plan().steps;
    assert_eq!(adoption.len(), 1);
    let seen_before = world.set.clone();
    world.set["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
    let plan = steps_of(&world);
    assert_eq!(plan.steps.len(), 3, "{plan:?}");
    for step in &plan.steps {
        world.apply(step);
    }
    assert!(
        !world.try_apply(&adoption[0]),
        "it has the version from before the mark"
    );
    // A process with an old snapshot of the set sees the mark.
    let deleted = std::mem::replace(&mut world.set, seen_before);
    let late = world.plan();
    let adopts = |step: &&Step| step.machine() == Some("ocp-x7k2p-master-1");
    assert_eq!(late.steps.iter().find(adopts), None);
    world.set = deleted;
    let last = steps_of(&world).steps;
    assert!(
        matches!(
            last.as_slice(),
            [Step {
                action: Action::PatchSet(_),
                ..
            }]
        ),
        "{last:?}"
    );
    // Another set adopts the machine, and the mark is removed.
    world.set["metadata"] = json!({"name": "cluster", "namespace": "openshift-machine-api", "uid": "next",
        "resourceVersion": "1", "finalizers": [FINALIZER]});
    for step in world.plan().steps {
        world.apply(&step);
    }
    let meta = &world.machine("ocp-x7k2p-master-1").metadata;
    assert_eq!(meta.owner_references[0].uid, "next");
    assert!(meta.annotations.is_empty(), "{:?}", meta.annotations);
}

#[test]
fn an_inactive_set_changes_no_machine_when_it_is_deleted() {
    let mut world = deleted();
    world.set["spec"]["state"] = json!("Inactive");
    for name in ["ocp-x7k2p-master-0", "ocp-x7k2p-master-1", "ocp-x7k2p-master-2"] {
        world.machine(name).metadata.owner_references.clear();
    }
    let steps = steps_of(&world).steps;
    assert!(
        matches!(
            steps.as_slice(),
            [Step {
                action: Action::PatchSet(_),
                ..
            }]
        ),
        "{steps:?}"
    );
}

#[test]
fn the_whole_removal_ends_with_the_finalizer() {
    let mut world = deleted();
    let set = |world: &World| serde_json::from_value(world.set.clone()).unwrap();
    let foreseen = whole(&set(&world), &world.observed);
    assert_eq!(foreseen.len(), 4);
    assert!(matches!(foreseen[3].action, Action::PatchSet(_)));
    for step in steps_of(&world).steps {
        world.apply(&step);
    }
    assert_eq!(whole(&set(&world), &world.observed), foreseen[3..]);
    world.set["metadata"]["finalizers"] = json!([]);
    assert!(whole(&set(&world), &world.observed).is_empty());
}

#[test]
fn other_owner_references_and_finalizers_stay() {
    let mut world = deleted();
    world.set["metadata"]["finalizers"] = json!(["other/finalizer", FINALIZER]);
    let other = serde_json::from_value(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "n", "uid": "u"}));
    world
        .machine("ocp-x7k2p-master-0")
        .metadata
        .owner_references
        .push(other.unwrap());
    for step in steps_of(&world).steps {
        world.apply(&step);
    }
    assert_eq!(world.machine("ocp-x7k2p-master-0").metadata.owner_references.len(), 1);
    for step in steps_of(&world).steps {
        world.apply(&step);
    }
    assert_eq!(world.set["metadata"]["finalizers"], json!(["other/finalizer"]));
}

#[test]
fn a_set_that_does_not_parse_releases_its_machines_too() {
    let mut world = deleted();
    world.set["spec"] = json!({"replicas": 4});
    assert_eq!(steps_of(&world).steps.len(), 3);
}

#[test]
fn a_set_that_is_not_being_deleted_keeps_its_machines() {
    assert_eq!(steps_of(&World::new("a b c", OLD)), Plan::default());
}

#[test]
fn the_finalizer_stays_while_a_machine_cannot_be_decoded() {
    let mut world = deleted();
    let set: ControlPlaneMachineSet = serde_json::from_value(world.set.clone()).unwrap();
    world.observed.unparsable.push(crate::cpms::observed::Unparsable {
        kind: "Machine".to_owned(),
        name: "broken".to_owned(),
        message: "why".to_owned(),
    });
    let plan = leave(&set, &world.observed);
    assert_eq!((plan.steps.len(), plan.degraded[0].reason), (3, "UnparsableObjects"));
    assert_eq!(whole(&set, &world.observed), plan.steps);
    world.observed.machines.clear();
    assert_eq!(leave(&set, &world.observed).steps, []);
}

#[test]
fn v316_machines_of_a_former_set_are_released_before_the_finalizer() {
    let mut world = deleted();
    for name in ["ocp-x7k2p-master-0", "ocp-x7k2p-master-1"] {
        world.machine(name).metadata.owner_references[0].uid = String::from("former");
    }
    let other = OwnerReference {
        uid: String::from("other"),
        kind: String::from("MachineSet"),
        ..world.machine("ocp-x7k2p-master-0").metadata.owner_references[0].clone()
    };
    world
        .machine("ocp-x7k2p-master-0")
        .metadata
        .owner_references
        .push(other.clone());
    let plan = steps_of(&world);
    assert_eq!(plan.steps.len(), 3, "{plan:?}");
    for step in &plan.steps {
        assert!(step.machine().is_some());
        world.apply(step);
    }
    let owners = |world: &mut World, name: &str| world.machine(name).metadata.owner_references.clone();
    assert_eq!(owners(&mut world, "ocp-x7k2p-master-0"), [other]);
    assert!(owners(&mut world, "ocp-x7k2p-master-1").is_empty());
}
