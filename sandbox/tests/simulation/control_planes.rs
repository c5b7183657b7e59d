//! The simulation of the controller of ControlPlanes: the first seed of each scenario. `make test`
//! also runs every single fault of a scenario and hunts the seeded bugs, with an optimized build.

use std::collections::BTreeSet;

use capstan_sandbox::simulation::control_planes::{BUGS, INVARIANTS, digest, scenarios, simulate};

#[test]
fn the_first_seed_of_each_scenario_of_control_planes_violates_nothing() {
    for scenario in scenarios() {
        let summary = simulate(0, 1, Some(scenario), 1).unwrap();
        let found: Vec<String> = summary
            .violations
            .iter()
            .map(|found| {
                format!(
                    "{scenario} {}: {}\n{}",
                    found.seed,
                    found.violation,
                    found.trace.join("\n")
                )
            })
            .collect();
        assert!(found.is_empty(), "{}", found.join("\n\n"));
    }
}

#[test]
fn a_seed_of_control_planes_gives_the_same_run_again() {
    let first = digest(3, Some("processes")).unwrap();
    assert_eq!(digest(3, Some("processes")).unwrap(), first);
}

#[test]
fn the_seeded_bugs_of_control_planes_name_known_scenarios_and_invariants() {
    let known: BTreeSet<&str> = INVARIANTS.iter().map(|one| one.id).collect();
    assert_eq!(known.len(), INVARIANTS.len());
    let mut ids = BTreeSet::new();
    for (_, id, wrong, scenario, fits) in BUGS {
        assert!(ids.insert(id) && !wrong.is_empty(), "{id}");
        assert!(scenarios().any(|name| name == *scenario), "{id}");
        let of_every = ["ESR", "G4", "G5", "G6", "G8"];
        let is_known = |one: &&str| known.contains(one) || of_every.contains(one);
        assert!(fits.iter().all(is_known), "{id}");
    }
    assert!(BUGS.len() >= 12);
}

#[test]
fn the_page_contains_every_invariant_of_control_planes() {
    let page = include_str!("../../../docs/simulation.md");
    for invariant in INVARIANTS {
        let row = format!("| {} | {} |", invariant.id, invariant.text);
        assert!(page.lines().any(|line| line == row), "{row}");
    }
}
