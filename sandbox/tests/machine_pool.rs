//! The controller of MachinePools in simulated clusters, and seeded bugs of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

use capstan_core::pool::Mode;
use capstan_sandbox::simulation::machine_pool::{bugs, simulate};
use capstan_sandbox::simulation::show;

/// How many schedules run in each mode; `CAPSTAN_POOL_SEEDS` sets another number.
fn seeds() -> u64 {
    let text = std::env::var("CAPSTAN_POOL_SEEDS").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(20)
}

fn holds(mode: Mode) {
    let summary = simulate(mode, 0, seeds(), 2).unwrap();
    assert!(summary.violations.is_empty(), "{}", show::declared(&summary));
    assert!(summary.faults > seeds(), "{} faults", summary.faults);
}

#[test]
fn a_pool_keeps_its_promises_while_groups_lag_lie_and_vanish() {
    holds(Mode::Extend);
}

#[test]
fn a_pool_of_capstan_alone_keeps_its_promises_while_groups_lag_lie_and_vanish() {
    holds(Mode::Own);
}

/// The next leader knew no Machine of its predecessor, and one of them lost a label.
#[test]
fn v121_a_machine_that_lost_a_label_under_another_leader_is_found() {
    let summary = simulate(Mode::Own, 102, 1, 1).unwrap();
    assert!(summary.violations.is_empty(), "{}", show::declared(&summary));
}

#[test]
fn the_catalogue_has_each_bug_once_and_at_least_eight() {
    let mut known: Vec<String> = bugs::BUGS.iter().map(|(bug, ..)| format!("{bug:?}")).collect();
    known.sort_unstable();
    known.dedup();
    assert_eq!(known.len(), bugs::BUGS.len());
    assert!(known.len() >= 8);
}
