//! Each invariant is tested by some schedule: a state occurs in which a wrong controller would
//! violate it. Each exemption occurs, too.

use std::collections::BTreeSet;

use capstan_sandbox::simulation::{EXEMPTIONS, invariants, simulate};

/// Scenarios, and the numbers of their first seeds that are run.
const RUNS: [(&str, u64); 12] = [
    ("rollout", 2),
    ("pauses", 12),
    ("on-delete", 4),
    ("inactive", 2),
    ("etcd", 4),
    ("edits", 40),
    ("set-deleted", 4),
    ("generator", 4),
    ("stale", 4),
    ("neighbours", 40),
    ("melee", 12),
    ("corners", 12),
];

/// In 100,000 schedules, `make simulate` counts this exemption.
const RARE: [&str; 1] = ["born-late"];

#[test]
fn every_invariant_is_tested_and_every_exemption_applies() {
    let mut tested: BTreeSet<&str> = BTreeSet::new();
    let mut exemptions: BTreeSet<&str> = BTreeSet::new();
    for (scenario, seeds) in RUNS {
        let sum = simulate(0, seeds, Some(scenario), 2).unwrap();
        assert!(sum.violations.is_empty(), "{scenario}: {:#?}", sum.violations);
        tested.extend(sum.tested.keys());
        exemptions.extend(sum.exemptions.keys());
    }
    let listed: BTreeSet<&str> = invariants().map(|invariant| invariant.id).collect();
    let missing: Vec<&&str> = listed.difference(&tested).collect();
    assert!(missing.is_empty(), "no schedule tests {missing:?}");
    let listed: BTreeSet<&str> = EXEMPTIONS.iter().map(|exemption| exemption.id).collect();
    let unlisted: Vec<&&str> = exemptions.difference(&listed).collect();
    assert!(unlisted.is_empty(), "not in the list: {unlisted:?}");
    let frequent: BTreeSet<&str> = listed.difference(&RARE.into()).copied().collect();
    let missing: Vec<&&str> = frequent.difference(&exemptions).collect();
    assert!(missing.is_empty(), "no schedule needs {missing:?}");
}
