//! The controller of MachinePools in simulated clusters, and seeded bugs of it.

use capstan_core::pool::Mode;
use capstan_sandbox::simulation::Simulation;
use capstan_sandbox::simulation::machine_pool::{MODES, bugs, controller, simulate, special};
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

/// Repeats schedules that violated an invariant before a correction.
fn holds_at(mode: Mode, seeds: &[u64]) {
    for seed in seeds {
        let summary = simulate(mode, *seed, 1, 1).unwrap();
        assert!(summary.violations.is_empty(), "{}", show::declared(&summary));
    }
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
    holds_at(Mode::Own, &[102]);
}

/// A record lost a label while the caches did not show it yet, and its name was noted nowhere.
#[test]
fn v231_a_record_that_lost_a_label_before_the_caches_showed_it_is_deleted() {
    holds_at(Mode::Own, &[1681]);
}

/// The first reconcile of a process released the pool, and a record without its label stayed with
/// the finalizer of the Machine controller.
#[test]
fn v232_a_pool_is_not_released_before_a_record_that_lost_its_label_is_gone() {
    holds_at(Mode::Own, &[3859]);
}

/// The caches showed a Machine that a health check reports, and the live list with the labels did
/// not. It did not count as a remediation in flight.
#[test]
fn v256_a_machine_that_lost_a_label_since_the_caches_showed_it_counts_as_a_remediation_in_flight() {
    holds_at(Mode::Own, &[35641, 39999]);
}

/// The caches showed that the provider deletes single instances, and a live read showed a pool that
/// was not paused. The provider reported the kind of its machines again after the pool was paused.
#[test]
fn v262_what_was_read_before_and_after_a_change_of_the_pool_does_not_decide_together() {
    holds_at(Mode::Own, &[53544]);
}

/// A process that was paused believed that it led, and did not know a Machine of the other leader
/// that lost a label and was being deleted.
#[test]
fn v266_a_paused_process_counts_the_remediation_of_another_leader() {
    holds_at(Mode::Own, &[82932]);
}

#[test]
fn v263_a_record_that_is_created_after_its_pool_is_gone_does_not_stay_in_deletion() {
    for (mode, _) in MODES {
        holds_in(|| special::late_record(mode, move || controller(mode)).unwrap());
    }
    holds_at(Mode::Extend, &[51398]);
}

/// In 32567, the write of the finalizer failed beside the creation of a record. In the others, a
/// call of a killed process arrived after the world had changed, and the next process was blamed.
#[test]
fn a_call_of_a_killed_process_is_judged_by_what_was_true_when_it_was_sent() {
    holds_at(Mode::Extend, &[32567, 32858, 39507]);
}

/// Runs two schedules of a situation. A violation is not shrunk: there are no faults.
fn holds_in(situation: impl Fn() -> Simulation) {
    for seed in 0..2 {
        let outcome = situation().trace(seed).unwrap();
        assert!(outcome.violation.is_none(), "seed {seed}: {:?}", outcome.violation);
    }
}

#[test]
fn v190_a_machine_that_others_delete_at_once_is_created_less_and_less_often() {
    holds_in(|| special::fight(Mode::Own, || controller(Mode::Own)).unwrap());
}

#[test]
fn v191_a_status_of_which_the_crd_drops_fields_is_not_written_again_and_again() {
    for (mode, _) in MODES {
        holds_in(|| special::few_fields(mode, move || controller(mode)).unwrap());
    }
}

#[test]
fn a_provider_that_surges_replaces_all_machines_while_none_is_missing() {
    for (mode, _) in MODES {
        holds_in(|| special::surge(mode, move || controller(mode)).unwrap());
    }
}

#[test]
fn the_catalogue_has_each_bug_once_and_at_least_eight() {
    let mut known: Vec<String> = bugs::BUGS.iter().map(|(bug, ..)| format!("{bug:?}")).collect();
    known.sort_unstable();
    known.dedup();
    assert_eq!(known.len(), bugs::BUGS.len());
    assert!(known.len() >= 8);
}
