//! Random interleavings of users, controllers, and sync controllers that read a state of the past.

use proptest::prelude::*;
use serde_json::json;

use super::world::{World, machine, set};
use crate::authority::pair::{Decision, Pair, Part};
use crate::authority::reconcile;
use crate::authority::spec::Api;

/// One event of a run.
#[derive(Clone, Debug)]
enum Event {
    /// A controller takes a step.
    Act(usize),
    /// The sync controller decides and writes.
    Sync,
    /// A second sync controller writes what it decided for a state of some steps ago.
    StaleSync(usize),
    /// A user requests an API.
    Request(Api),
    /// A user edits the authoritative Machine.
    Edit(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0_usize..3).prop_map(Event::Act),
        6 => Just(Event::Sync),
        4 => (1_usize..8).prop_map(Event::StaleSync),
        2 => prop_oneof![Just(Api::MachineApi), Just(Api::ClusterApi)].prop_map(Event::Request),
        1 => any::<u8>().prop_map(Event::Edit),
    ]
}

/// Whether admission stores a request for an API.
fn is_admitted(world: &World, api: Api) -> bool {
    let status = world.status();
    let text = |field: &str| {
        status
            .get(field)
            .and_then(|value| value.as_str())
            .unwrap_or_default()
            .to_owned()
    };
    let source = match text("authoritativeAPI").as_str() {
        "Migrating" => text("synchronizedAPI"),
        stable => stable.to_owned(),
    };
    let deleting = [Part::MachineApi, Part::ClusterApi]
        .iter()
        .any(|part| world.object(*part).is_some_and(|object| object.member.deleting));
    source == api.as_str() || (!source.is_empty() && !deleting)
}

fn run(world: &mut World, events: &[Event]) {
    let mut past: Vec<Pair> = Vec::new();
    for event in events {
        past.push(world.pair());
        match event {
            Event::Act(actor) => {
                world.act(*actor);
            }
            Event::Sync => {
                if let Decision::Write(write) = world.decide() {
                    prop_assert_stored(world.write(&write));
                }
            }
            Event::StaleSync(age) => {
                let then = &past[past.len().saturating_sub(*age)];
                if let Decision::Write(write) = reconcile::next(then, super::world::time()) {
                    world.write(&write);
                }
            }
            Event::Request(api) if is_admitted(world, *api) => world.request(*api),
            Event::Request(_) => {}
            Event::Edit(value) => {
                let part = match world.status().get("authoritativeAPI").and_then(|api| api.as_str()) {
                    Some("MachineAPI") => Part::MachineApi,
                    Some("ClusterAPI") => Part::ClusterApi,
                    _ => continue,
                };
                world.change(part, |machine| {
                    let edit = json!(value.to_string());
                    // A label of the node wins over one of the machine in Cluster API.
                    if part == Part::MachineApi {
                        machine["spec"]["metadata"]["labels"]["edit"] = edit.clone();
                    }
                    machine["metadata"]["labels"]["edit"] = edit;
                });
            }
        }
    }
}

fn prop_assert_stored(stored: bool) {
    assert!(stored, "a write that was decided for the present must be stored");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_pair_converges_and_then_nothing_is_written(
        first in prop_oneof![Just(None), Just(Some(Api::MachineApi)), Just(Some(Api::ClusterApi))],
        owned in any::<bool>(),
        defaults in any::<bool>(),
        events in prop::collection::vec(event(), 0..120),
    ) {
        let mut world = World { defaults, ..World::default() };
        let owner = set(Api::MachineApi);
        if owned {
            world.sets = [Some(owner.clone()), Some(set(Api::ClusterApi))];
        }
        world.create(Part::MachineApi, machine(first, owned.then_some(&owner)));
        run(&mut world, &events);
        let last = world.settle();
        prop_assert_eq!(&last, &Decision::Idle);
        let requested = world.get(Part::MachineApi).unwrap()["spec"]["authoritativeAPI"].clone();
        if !requested.is_null() {
            prop_assert_eq!(&world.status()["authoritativeAPI"], &requested);
        }
        prop_assert_eq!(world.created, 1);
        prop_assert_eq!(world.synchronized().0, "True");
        let edit = |part| world.get(part).unwrap()["metadata"]["labels"]["edit"].clone();
        prop_assert_eq!(edit(Part::MachineApi), edit(Part::ClusterApi));
        let writes = world.log.len();
        world.settle();
        prop_assert_eq!(world.log.len(), writes);
    }

    #[test]
    fn a_deletion_at_any_time_ends_by_the_table(
        owned in any::<bool>(),
        deleted in prop_oneof![Just(Part::MachineApi), Just(Part::ClusterApi)],
        before in prop::collection::vec(event(), 0..80),
        after in prop::collection::vec(event(), 0..40),
    ) {
        let mut world = World::default();
        let owner = set(Api::MachineApi);
        if owned {
            world.sets = [Some(owner.clone()), Some(set(Api::ClusterApi))];
        }
        world.create(Part::MachineApi, machine(Some(Api::MachineApi), owned.then_some(&owner)));
        run(&mut world, &before);
        world.delete(deleted);
        let deletes = world.object(deleted).is_some();
        run(&mut world, &after);
        world.settle();
        for part in world.existing() {
            prop_assert!(!world.object(part).unwrap().member.deleting, "{:?} stays in deletion", part);
        }
        if owned && deletes {
            prop_assert_eq!(world.existing(), vec![]);
            prop_assert_eq!(world.instance, None);
        }
    }
}
