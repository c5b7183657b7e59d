//! Machines move until the spread over the failure domains is even; an attempt that fails is not
//! repeated.

use super::*;
use crate::control_plane::plan::rebalance::REBALANCING;
use crate::control_plane::preview::preview;
use crate::control_plane::status::status;

/// Lists these zones.
pub(super) fn list(world: &mut World, zones: &[&str]) {
    let entry = |zone: &&str| json!({"placement": {"availabilityZone": format!("us-east-1{zone}")}});
    world.object["spec"]["failureDomains"]["aws"] = zones.iter().map(entry).collect();
}

fn zones(world: &World) -> String {
    let last = |zone: &&str| zone.chars().last().unwrap();
    world.zones().iter().map(last).collect()
}

/// A settled control plane whose machines are in these zones.
fn placed(zones: &str) -> World {
    let mut world = World::settled(i64::try_from(zones.len()).unwrap());
    let names: Vec<String> = world.hosts.iter().map(|one| one.name().to_owned()).collect();
    for (name, zone) in names.iter().zip(zones.chars()) {
        put(&mut world, name, &zone.to_string());
    }
    world
}

/// A machine is stored in this zone.
fn store(world: &mut World, name: &str, zone: &str) {
    let machine = &mut world.named(name).machine;
    machine["spec"]["providerSpec"]["value"]["placement"]["availabilityZone"] = json!(format!("us-east-1{zone}"));
}

/// A machine is stored in this zone, and without the record of its creation.
fn put(world: &mut World, name: &str, zone: &str) {
    store(world, name, zone);
    let machine = &mut world.named(name).machine;
    machine["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(CREATED_FROM);
}

/// Runs the controller and the cluster for long enough, and calls this for each new machine with
/// its zone. Returns how many machines were created.
pub(super) fn run(world: &mut World, mut born: impl FnMut(&mut World, &str, &str)) -> usize {
    let mut created = 0;
    for _ in 0..400 {
        let next = world.plan();
        world.execute(&next);
        if let Some(Step {
            action: Action::Create { machine, .. },
            ..
        }) = next.disruptive()
        {
            created += 1;
            let zone = machine.spec.provider_spec.value.as_ref().unwrap()["placement"]["availabilityZone"].clone();
            let zone = zone.as_str().unwrap().trim_start_matches("us-east-1").to_owned();
            // The controller observes the machine before anything happens to it.
            let next = world.plan();
            world.execute(&next);
            born(world, machine.metadata.name(), &zone);
        }
        let _moved = (0..world.hosts.len()).any(|position| world.progress(position));
        assert!(world.has_quorum(), "{world:?}");
    }
    created
}

fn reason(world: &World) -> String {
    let (spec, state) = (world.spec(), world.state());
    let plan = plan(&spec, &state);
    let status = status(&spec, &state, &plan, None, (None, None), Timestamp::UNIX_EPOCH);
    let mut conditions = status.conditions.into_iter();
    conditions.find(|one| one.type_ == "Progressing").unwrap().reason
}

#[test]
fn an_uneven_spread_becomes_even_and_leaves_no_record() {
    for (before, after, moved) in [
        ("aab", "abc", 1),
        ("aaa", "abc", 2),
        ("aaaab", "aabbc", 2),
        ("abd", "abc", 1),
    ] {
        let mut world = placed(before);
        let created = run(&mut world, |_, _, _| ());
        assert_eq!((zones(&world).as_str(), created), (after, moved), "{before}");
        assert!(world.plan().steps.is_empty() && world.plan().waits.is_empty());
        assert!(world.object["metadata"]["annotations"].get(REBALANCING).is_none());
        assert_eq!(reason(&world), "AllReplicasUpdated");
    }
}

#[test]
fn an_even_spread_is_left_alone() {
    for before in ["abc", "aabbc", "aabbccc", "abbcc"] {
        let mut world = placed(before);
        assert_eq!(world.settle(), [""; 0], "{before}");
    }
}

#[test]
fn an_edit_of_the_failure_domains_moves_machines_and_the_preview_shows_it() {
    let mut world = World::settled(3);
    list(&mut world, &["a", "b", "d"]);
    let ahead = preview(&world.spec(), &world.state());
    let verbs: Vec<&str> = ahead.steps.iter().map(Step::verb).collect();
    assert_eq!(verbs, ["create", "delete"]);
    assert!(ahead.end.steps.is_empty(), "{:?}", ahead.end);
    assert_eq!(reason(&world), "Rebalancing");
    assert_eq!(run(&mut world, |_, _, _| ()), 1);
    assert_eq!(zones(&world), "abd");
    list(&mut world, &["a", "b"]);
    assert_eq!(run(&mut world, |_, _, _| ()), 1);
    assert_eq!(zones(&world), "aab");
}

/// The health check deletes the machine that never becomes a node.
#[test]
fn a_failure_domain_without_capacity_is_tried_once() {
    let mut world = placed("aaa");
    let mut asked = Vec::new();
    let fails = |asked: &mut Vec<String>, zone: &str| {
        asked.push(zone.to_owned());
        zone == "b"
    };
    let lose = |world: &mut World, name: &str| world.hosts.retain(|one| one.name() != name);
    run(&mut world, |world, name, zone| {
        if fails(&mut asked, zone) {
            lose(world, name);
        }
    });
    assert_eq!((zones(&world).as_str(), asked.join(" ").as_str()), ("aac", "b c b"));
    assert_eq!(reason(&world), "SpreadUneven");
    assert!(world.plan().notes[0].contains(REBALANCING), "{:?}", world.plan().notes);
    // The failure domain has capacity now, and a user removes the annotation.
    world.object["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(REBALANCING);
    assert_eq!(run(&mut world, |_, _, _| ()), 1);
    assert_eq!(zones(&world), "abc");
}

/// A webhook may also remove the record in the machine, so that only the ControlPlane remembers.
#[test]
fn machines_that_are_stored_in_another_failure_domain_end_the_attempts() {
    for (before, stored) in [("aaa", "a"), ("aab", "a"), ("aab", "b"), ("abd", "d"), ("aaaab", "b")] {
        let mut world = placed(before);
        let created = run(&mut world, |world, name, _| put(world, name, stored));
        assert!(created <= 8, "{before}: {created}");
        assert_eq!(
            run(&mut world, |world, name, _| put(world, name, stored)),
            0,
            "{before}"
        );
    }
    let mut turn = 0;
    let mut world = placed("aab");
    let mut any = |world: &mut World, name: &str, _: &str| {
        turn += 1;
        put(world, name, ["a", "b", "d"][turn % 3]);
    };
    run(&mut world, &mut any);
    assert_eq!(run(&mut world, &mut any), 0, "a webhook that changes its mind");
}

/// The record in the machine names the failure domain that was sent, and not where the machine is.
#[test]
fn v225_a_machine_that_is_stored_in_another_zone_is_in_that_zone() {
    for (before, stored, after) in [("aab", "a", "aab"), ("abd", "a", "aab"), ("abd", "e", "abe")] {
        let mut world = placed(before);
        let created = run(&mut world, |world, name, _| store(world, name, stored));
        assert!((1..=8).contains(&created), "{before}: {created}");
        assert_eq!(zones(&world), after, "{before}");
        assert_eq!(reason(&world), "SpreadUneven", "{before}");
        let again = run(&mut world, |world, name, _| store(world, name, stored));
        assert_eq!(again, 0, "{before}");
        let state = world.state();
        let domain = |machine: &MachineState| machine.domain.as_ref().map(FailureDomain::place);
        let known: Vec<Option<String>> = state.machines.iter().map(domain).collect();
        let end = format!("us-east-1{stored}");
        assert!(known.contains(&Some(end)), "{before}: {known:?}");
    }
}

/// A process may be killed between the record of an attempt and the creation.
#[test]
fn an_attempt_that_was_only_recorded_is_made() {
    let mut world = placed("aab");
    let next = world.plan();
    assert!(matches!(next.steps[0].action, Action::PatchSet(_)), "{next:?}");
    assert!(next.disruptive().is_none());
    world.execute(&next);
    let next = world.plan();
    assert!(next.disruptive().is_some(), "{next:?}");
    assert_eq!(world.plan(), next, "also by the next process");
}

#[test]
fn nothing_moves_while_something_is_not_healthy() {
    let mut world = placed("aab");
    world.hosts[0].member = Member::Unhealthy;
    let next = world.plan();
    assert!(next.steps.is_empty(), "{next:?}");
    assert_eq!(next.waits[0].reason, WaitReason::EtcdHealthy);
    let mut world = placed("aab");
    world.hosts[1].ready = false;
    assert!(world.plan().steps.is_empty());
    let mut world = placed("aab");
    let name = world.hosts[2].name().to_owned();
    world.delete(&name);
    assert_eq!(verbs(&world.settle())[0], "create", "the replacement comes first");
    assert_eq!(zones(&world), "abc");
}

#[test]
fn an_unknown_failure_domain_and_records_that_cannot_be_read_move_nothing() {
    let mut world = placed("aab");
    let placement = &mut world.hosts[2].machine["spec"]["providerSpec"]["value"];
    placement.as_object_mut().unwrap().remove("placement");
    assert!(world.plan().disruptive().is_none());
    let mut world = placed("aab");
    world.object["metadata"]["annotations"] = json!({(REBALANCING): "{"});
    let next = world.plan();
    assert!(next.steps.is_empty(), "{next:?}");
    assert_eq!(reason(&world), "SpreadUneven");
}

#[test]
fn the_only_machine_moves_only_after_an_acknowledgement() {
    let mut world = World::settled(1);
    list(&mut world, &["b"]);
    assert_eq!(world.settle(), [""; 0]);
    assert_eq!(reason(&world), "AllReplicasUpdated");
    world.object["metadata"]["annotations"] = json!({(ACKNOWLEDGED): RISK});
    assert_eq!(run(&mut world, |_, _, _| ()), 1);
    assert_eq!(zones(&world), "b");
}
