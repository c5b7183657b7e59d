use serde_json::json;

use super::*;
use crate::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use crate::cpms::simulation::{NEW, OLD, World};
use crate::model::PENDING_CREATIONS;

const ZERO: &str = "2026-01-01T01:00:00Z";

fn pending(index: u32, machine: &str, by: &str, at: &str) -> PendingCreation {
    PendingCreation {
        index,
        machine: machine.to_owned(),
        requested_by: by.to_owned(),
        requested_at: at.parse().unwrap(),
        revision: None,
    }
}

fn set() -> ControlPlaneMachineSet {
    serde_json::from_value(
        json!({"metadata": {"name": "cluster", "uid": "u", "resourceVersion": "7",
        "annotations": {"theirs": "stays"}}}),
    )
    .unwrap()
}

/// Records a creation, as an API server would store it.
fn write(set: &mut ControlPlaneMachineSet, new: &PendingCreation, superseded: &PendingCreation) {
    let patch = record(&set.metadata, new, |there| there == superseded).unwrap();
    assert_eq!(patch["metadata"]["uid"], "u");
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    let mut stored = serde_json::to_value(&*set).unwrap();
    json_patch::merge(&mut stored, &patch);
    *set = serde_json::from_value(stored).unwrap();
}

/// Writes the annotation of a world's set.
fn put(world: &mut World, creations: &[PendingCreation]) {
    world.annotate(PENDING_CREATIONS, &serde_json::to_string(creations).unwrap());
}

#[test]
fn a_new_record_replaces_only_the_records_that_it_supersedes() {
    let mut set = set();
    assert_eq!(recorded(&set.metadata), Ok(Vec::new()));
    let (first, second) = (pending(0, "a-0", "one", ZERO), pending(0, "a-0", "two", ZERO));
    let none = pending(9, "", "", ZERO);
    write(&mut set, &first, &none);
    assert_eq!(recorded(&set.metadata), Ok(vec![first.clone()]));
    write(&mut set, &second, &none);
    assert_eq!(
        recorded(&set.metadata),
        Ok(vec![first.clone(), second.clone()]),
        "each process records its own request"
    );
    write(&mut set, &first, &none);
    assert_eq!(
        recorded(&set.metadata),
        Ok(vec![second.clone(), first.clone()]),
        "a record is kept once"
    );
    let later = pending(0, "a-0", "one", "2026-01-01T01:02:00Z");
    write(&mut set, &later, &first);
    assert_eq!(recorded(&set.metadata), Ok(vec![second, later]));
    assert_eq!(set.metadata.annotations["theirs"], "stays");
}

#[test]
fn a_record_that_cannot_be_decoded_is_not_overwritten() {
    let mut set = set();
    let annotations = &mut set.metadata.annotations;
    annotations.insert(PENDING_CREATIONS.to_owned(), "machine a-0 for index 0".to_owned());
    assert!(record(&set.metadata, &pending(1, "a-1", "one", ZERO), |_| true).is_err());
}

#[test]
fn no_machine_is_created_or_deleted_while_the_record_cannot_be_decoded() {
    for prepare in [
        (|world: &mut World| world.want(NEW)) as fn(&mut World),
        |world| world.delete("ocp-x7k2p-master-1"),
        |world| world.add("ocp-x7k2p-master-new-1", "b", OLD),
    ] {
        let mut world = World::new("a b c", OLD);
        prepare(&mut world);
        assert!(world.plan().disruptive().is_some());
        world.annotate(PENDING_CREATIONS, "machine a-0 for index 0");
        let plan = world.plan();
        assert_eq!(plan.steps, [], "not even the annotation is removed");
        assert_eq!(plan.degraded[0].reason, "UnreadablePendingCreations");
        let message = &plan.degraded[0].message;
        for part in [PENDING_CREATIONS, "Wait five minutes, then remove the annotation"] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(condition(&world.spec(), None, &world.state(), &plan, world.now), None);
        world.annotate(PENDING_CREATIONS, "[]");
        assert!(world.plan().disruptive().is_some(), "readable again");
    }
}

#[test]
fn a_record_is_removed_if_there_is_no_other_step() {
    let mut world = World::new("a b c", NEW);
    let over = pending(7, "gone-7", "one", ZERO);
    put(&mut world, std::slice::from_ref(&over));
    let plan = world.plan();
    assert_eq!(plan.steps.len(), 1, "{plan:?}");
    assert!(plan.disruptive().is_some(), "the rollout comes first");
    // The new request is recorded together with the record that is over.
    let creation = creation(&plan.steps[0], "one", world.now).unwrap();
    put(&mut world, &[over, creation.clone()]);
    let stored = condition(&world.spec(), None, &world.state(), &plan, world.now).unwrap();
    assert!(stored.status);
    assert_eq!(
        stored.message,
        creation.to_string(),
        "the message does not name a creation that is over"
    );
    world.apply(&plan.steps[0]);
    // The creation was answered, so that it is over as well.
    let plan = world.plan();
    let [step] = plan.steps.as_slice() else {
        panic!("{plan:?}")
    };
    assert_eq!(step.machine(), None);
    let because = format!("the creation of gone-7, {} is over", creation.machine);
    assert_eq!(step.because, because);
    world.apply(step);
    assert!(world.set["metadata"]["annotations"].get(PENDING_CREATIONS).is_none());
    assert_eq!(world.plan().steps, []);
}

#[test]
fn a_creation_that_may_still_take_effect_keeps_its_record() {
    let mut world = World::new("a b c", OLD);
    let (mine, theirs) = (pending(0, "a-0", "one", ZERO), pending(0, "a-0", "two", ZERO));
    put(&mut world, &[mine, theirs.clone()]);
    let until = world.ago(-60);
    world.observed.pending = vec![PendingCreate {
        creation: theirs.clone(),
        until,
    }];
    let plan = world.plan();
    assert_eq!(plan.reconcile_at, Some(until));
    let [step] = plan.steps.as_slice() else {
        panic!("{plan:?}")
    };
    world.apply(step);
    assert_eq!(world.spec().pending_creations, Ok(vec![theirs]));
    assert_eq!(world.plan().steps, []);
    world.pass(60);
    let step = world.plan().steps.pop().expect("the creation is over");
    world.apply(&step);
    assert_eq!(world.spec().pending_creations, Ok(Vec::new()));
}
