//! The mapping vectors of the operator that OpenShift ships, and properties of every result.
//!
//! Letters are zones, `0:a` is a machine of index 0 in zone a, `!` marks a machine that is being
//! deleted, `new-` the newer machine of an index, and `0a` in a result is index 0 in zone a.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::cpms::domains::Platform;
use crate::cpms::indexes::{Member, assign};

fn zone(letter: &str) -> FailureDomain {
    FailureDomain::new(Platform::Gcp, json!({ "zone": letter }))
}

fn zones(letters: &str) -> Vec<FailureDomain> {
    letters.split_whitespace().map(zone).collect()
}

fn show(placement: &Placement) -> String {
    let parts: Vec<String> = placement
        .iter()
        .map(|(index, domain)| format!("{index}{domain}"))
        .collect();
    parts.join(" ")
}

fn placement(text: &str) -> Placement {
    text.split_whitespace()
        .map(|part| {
            let (index, letter) = part.split_at(part.len() - 1);
            (index.parse().unwrap(), zone(letter))
        })
        .collect()
}

struct Sample {
    name: String,
    zone: FailureDomain,
    young: bool,
    deleting: bool,
}

fn samples(text: &str) -> Vec<Sample> {
    text.split_whitespace()
        .map(|part| {
            let (name, letter) = part.split_once(':').unwrap();
            Sample {
                name: format!("master-{}", name.trim_end_matches('!')),
                zone: zone(letter),
                young: name.starts_with("new-"),
                deleting: name.ends_with('!'),
            }
        })
        .collect()
}

/// Machines with their indexes, as the state computes them.
fn with_machines<T>(text: &str, use_them: impl FnOnce(&[PlacedMachine<'_>]) -> T) -> T {
    let samples = samples(text);
    let none = BTreeMap::new();
    let members: Vec<Member<'_>> = samples
        .iter()
        .map(|sample| Member {
            name: &sample.name,
            uid: &sample.name,
            annotations: &none,
            domain: Some(&sample.zone),
        })
        .collect();
    let current: Vec<PlacedMachine<'_>> = samples
        .iter()
        .zip(assign(&members))
        .map(|(sample, index)| PlacedMachine {
            index: index.value,
            domain: Some(&sample.zone),
            created: Some(Timestamp::from_second(i64::from(sample.young)).unwrap()),
            name: &sample.name,
            deleting: sample.deleting,
        })
        .collect();
    use_them(&current)
}

#[test]
fn the_full_mapping_follows_the_vectors() {
    let vectors = [
        (3, "", "0:a 1:b 2:c", ""),
        (3, "a b c", "0:a 1:b 2:c", "0a 1b 2c"),
        (3, "a b c", "0:b 1:a 2:c", "0b 1a 2c"),
        (5, "a b c", "0:b 1:c 2:a 3:c 4:b", "0b 1c 2a 3c 4b"),
        (3, "a b", "0:a 1:b 2:c", "0a 1b 2a"),
        (3, "a", "0:a 1:b 2:c", "0a 1a 2a"),
        (3, "a a b c", "0:a 1:b 2:c", "0a 1b 2c"),
        (3, "a b b c", "0:a 1:b 2:c", "0a 1b 2c"),
        (3, "a b c", "0!:a 1:a 2:a", "0b 1a 2c"),
        (3, "a b c", "a:b 1:c 2:a", "0b 1c 2a"),
        (3, "a b c", "3:a 4:b 5:c", "3a 4b 5c"),
        (3, "a b c", "1:b 4:a 6:b 9:c", "1b 4a 6b 9c"),
        (3, "a b c", "3:a new-3:a 4:b new-4:b 5:c", "3a 4b 5c"),
        (3, "a b c d", "0:b 1:c 2:d", "0b 1c 2d"),
    ];
    for (replicas, domains, machines, expected) in vectors {
        let found = with_machines(machines, |machines| place(replicas, &zones(domains), machines));
        assert_eq!(show(&found), expected, "R{replicas} [{domains}] [{machines}]");
    }
}

/// The vector whose first domain has a subnet only: the zone of the template completes it.
#[test]
fn the_full_mapping_completes_a_domain_before_it_maps() {
    let mut world = crate::cpms::simulation::World::new("a b c", crate::cpms::simulation::OLD);
    let subnet = json!({"type": "ID", "id": "subnet-a"});
    let value = &mut world.template()["spec"]["providerSpec"]["value"];
    value["placement"]["availabilityZone"] = json!("us-east-1a");
    world.template()["failureDomains"]["aws"][0] = json!({ "subnet": subnet });
    let first = world.machine("ocp-x7k2p-master-0");
    first.spec.provider_spec.value.as_mut().unwrap()["subnet"] = json!({"id": "subnet-a"});
    let state = world.state();
    let zones: Vec<&str> = state
        .placement
        .values()
        .map(|domain| domain.full()["placement"]["availabilityZone"].as_str().unwrap())
        .collect();
    assert_eq!(zones, ["us-east-1a", "us-east-1b", "us-east-1c"]);
    assert_eq!(
        world.plan().steps,
        [],
        "0a 1b 2c: every machine is in its failure domain"
    );
}

#[test]
fn the_base_map_follows_the_vectors() {
    let vectors = [
        (0, "a b c", "", ""),
        (3, "b c a", "0b 1c 2a", "0a 1b 2c"),
        (3, "a", "0a 1a 2a", "0a 1a 2a"),
        (3, "b a", "0b 1a 2b", "0a 1b 2a"),
        (5, "b c a", "0a 1a 2b 3b 4c", "0a 1b 2c 3a 4b"),
        (5, "b a", "0a 1a 2b 3b 4a", "0a 1b 2a 3b 4a"),
        (4, "a b c", "0a 1b", "0a 1b 2c 3a"),
        (3, "a b c", "0b", "0b 1a 2c"),
        (5, "a b c d e", "0d 1c 2b", "0b 1c 2d 3a 4e"),
    ];
    for (replicas, domains, current, expected) in vectors {
        let found = base(replicas, &zones(domains), &placement(current));
        assert_eq!(show(&found), expected, "R{replicas} [{domains}] [{current}]");
    }
}

#[test]
fn the_machine_map_follows_the_vectors() {
    let vectors = [
        ("0:a 1:b 2:c", "0a 1b 2c", ""),
        // OpenShift's operator omits machines without numbers. Here, every machine has an index.
        ("a:a 1:b c:c", "0a 1b 2c", ""),
        ("0:a new-0:a 2:c", "0a 2c", ""),
        ("new-0:b 0:a 2:c", "0b 2c", ""),
        ("3:a 4:b 5:c", "3a 4b 5c", ""),
        ("0!:a 1:b 2:c", "0a 1b 2c", "0"),
        ("0!:a new-0:a 1:b 2:c", "0a 1b 2c", ""),
    ];
    for (machines, expected, expected_deleted) in vectors {
        with_machines(machines, |placed| {
            assert_eq!(show(&current(placed)), expected, "[{machines}]");
            let deleted: Vec<String> = deleted(placed).iter().map(u32::to_string).collect();
            assert_eq!(deleted.join(" "), expected_deleted, "[{machines}]");
        });
    }
}

#[test]
fn reconciling_follows_the_vectors() {
    let vectors = [
        ("0a 1b 2c", "0a 1b 2c", "", "0a 1b 2c"),
        ("0a 1b 2c", "0b 1c 2a", "", "0b 1c 2a"),
        ("0a 1b 2c 3a 4b", "0b 1a 2a 3c 4b", "", "0b 1a 2a 3c 4b"),
        ("0a 1b 2c", "0b 1a 2a", "", "0b 1a 2c"),
        ("0a 1b 2c", "0b 1a 2a", "2", "0b 1a 2c"),
        ("0a 1b 2a", "0b 1a 2b", "", "0b 1a 2b"),
        ("0a 1b 2c 3a", "0b 1a 2c 3c", "", "0b 1a 2c 3c"),
        ("0a 1b 2c", "0b 2a 4c", "", "0b 2a 4c"),
        ("0a 1b 2c 3a", "0b 2b 4a 6c", "", "0b 2b 4a 6c"),
    ];
    for (base, current, deleted, expected) in vectors {
        let deleted = deleted.split_whitespace().map(|index| index.parse().unwrap()).collect();
        let (base_map, current_map) = (placement(base), placement(current));
        let wanted = indexes(base_map.len(), current_map.keys().copied());
        let found = reconcile(&base_map, &current_map, &deleted, &wanted);
        assert_eq!(show(&found), expected, "base[{base}] machines[{current}]");
    }
}

#[test]
fn rekeying_follows_the_vectors() {
    for (wanted, expected) in [("0 1 2", "0a 1b 2c"), ("0", "0a 1b 2c"), ("0 2 3", "0a 2c 3b")] {
        let indexes = wanted.split_whitespace().map(|index| index.parse().unwrap()).collect();
        assert_eq!(show(&rekey(&placement("0a 1b 2c"), &indexes)), expected, "[{wanted}]");
    }
}

#[test]
fn a_new_domain_that_sorts_first_does_not_change_an_even_spread() {
    let found = with_machines("0:b 1:c 2:d", |machines| place(3, &zones("a b c d"), machines));
    assert_eq!(show(&found), "0b 1c 2d");
    let found = with_machines("0:b 1:c 2:b", |machines| place(3, &zones("a b c"), machines));
    assert_eq!(
        show(&found),
        "0b 1c 2a",
        "b has one machine too many, and the spread improves"
    );
}

#[test]
fn a_domain_of_a_machine_that_is_being_deleted_is_assigned_once() {
    // OpenShift's operator returns 1a 2b 3b and leaves c empty.
    let found = with_machines("1:a 2!:b 3:d", |machines| place(3, &zones("a b c"), machines));
    assert_eq!(show(&found), "1a 2b 3c");
}

#[test]
fn gaps_are_filled_with_the_lowest_free_indexes() {
    let filled = |machines: &[u32]| indexes(3, machines.iter().copied()).into_iter().collect::<Vec<u32>>();
    assert_eq!(filled(&[0, 1, 3]), [0, 1, 3]);
    assert_eq!(filled(&[1, 1, 1]), [0, 1, 2]);
    assert_eq!(filled(&[4, 5]), [0, 4, 5]);
    // OpenShift's operator places index 2 here, and creates index 0 without a failure domain.
    let found = with_machines("4:a 5:b", |machines| place(3, &zones("a b c"), machines));
    assert_eq!(show(&found), "0c 4a 5b");
}

fn any_machines() -> impl Strategy<Value = String> {
    let machine = (
        0..7_u32,
        prop::sample::select(vec!["a", "b", "c", "d"]),
        any::<bool>(),
        any::<bool>(),
    );
    prop::collection::vec(machine, 0..8).prop_map(|machines| {
        let parts: Vec<String> = machines
            .iter()
            .enumerate()
            .map(|(at, (index, zone, young, deleting))| {
                let young = if *young { "new-" } else { "" };
                let deleting = if *deleting { "!" } else { "" };
                format!("{young}n{at}-{index}{deleting}:{zone}")
            })
            .collect();
        parts.join(" ")
    })
}

proptest! {
    #[test]
    fn the_order_of_machines_and_domains_never_matters(machines in any_machines(), swap in any::<bool>()) {
        let reversed: Vec<&str> = machines.split_whitespace().rev().collect();
        let (there, back) = if swap { ("a b c", "c b a") } else { ("a b c", "b c a a") };
        let found = with_machines(&machines, |machines| place(3, &zones(there), machines));
        let again = with_machines(&reversed.join(" "), |machines| place(3, &zones(back), machines));
        prop_assert_eq!(show(&found), show(&again));
    }

    #[test]
    fn a_placement_is_stable_after_its_machines_moved(machines in any_machines()) {
        let first = with_machines(&machines, |machines| place(3, &zones("a b c"), machines));
        let settled: Vec<String> = first.iter().map(|(index, domain)| format!("{index}:{domain}")).collect();
        let second = with_machines(&settled.join(" "), |machines| place(3, &zones("a b c"), machines));
        prop_assert_eq!(show(&first), show(&second));
    }

    #[test]
    fn every_machine_is_placed_in_a_listed_domain_and_none_holds_more_than_its_share(machines in any_machines()) {
        let found = with_machines(&machines, |machines| place(3, &zones("a b c"), machines));
        prop_assert!(found.len() >= 3);
        let share = found.len().div_ceil(3);
        for letter in ["a", "b", "c"] {
            let holds = found.values().filter(|domain| **domain == zone(letter)).count();
            prop_assert!(holds <= share, "{letter} holds {holds} of {}", show(&found));
        }
        prop_assert!(found.values().all(|domain| *domain != zone("d")));
    }
}
