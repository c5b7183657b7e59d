//! Defects that the simulation found in Capstan. Each has a test of its own, which stays when seeds
//! become other schedules.

use capstan_core::model::Propagation;
use capstan_sandbox::simulation::{
    Act, ClusterFault, ClusterSchedule, Disruption, FaultRates, Incident, NODE, OPERATOR, Outcome, RunOptions, SET,
    Setup, UserAction, run,
};

const SECOND: i64 = 1000;
pub(super) const MINUTE: i64 = 60 * SECOND;

/// A schedule of incidents, each at a second, and without random faults.
pub(super) fn schedule(incidents: Vec<(i64, Incident<Act>)>) -> ClusterSchedule {
    ClusterSchedule {
        seed: 1,
        scenario: "test",
        setup: Setup::default(),
        rates: FaultRates::default(),
        lag: 400,
        incidents: incidents
            .into_iter()
            .map(|(at, incident)| (at * SECOND, incident))
            .collect(),
        triggers: Vec::new(),
        calm: 4 * 60 * MINUTE,
    }
}

pub(super) fn traced(schedule: ClusterSchedule) -> Outcome {
    let options = RunOptions {
        trace: true,
        ..RunOptions::default()
    };
    run(schedule, options).unwrap()
}

pub(super) fn assert_no_violation(outcome: &Outcome) {
    assert_eq!(outcome.violation, None, "{}", outcome.trace.join("\n"));
}

/// Runs a schedule that violates nothing, and in which admission refuses nothing.
fn assert_nothing_is_refused(schedule: ClusterSchedule) {
    let outcome = traced(schedule);
    assert_no_violation(&outcome);
    assert!(!has_line(&outcome, "refused, 422"), "{}", outcome.trace.join("\n"));
}

/// Runs a schedule that violates nothing, and in which one rollout ends.
fn assert_one_rollout_ends(incidents: Vec<(i64, Incident<Act>)>) {
    let outcome = traced(schedule(incidents));
    assert_no_violation(&outcome);
    assert_eq!(outcome.rollouts, 1, "{}", outcome.trace.join("\n"));
}

/// Whether a line of the trace contains a text.
fn has_line(outcome: &Outcome, text: &str) -> bool {
    outcome.trace.iter().any(|line| line.contains(text))
}

pub(super) fn assert_line(outcome: &Outcome, text: &str) {
    assert!(has_line(outcome, text), "no {text:?} in\n{}", outcome.trace.join("\n"));
}

/// While the finalizer of the set was refused, machines were adopted nevertheless, and the garbage
/// collector deleted them with the set (C6). Seeds 1385 and 1511 of the scenario `outages`.
#[test]
fn a_set_without_a_finalizer_owns_no_machine() {
    let outcome = traced(schedule(vec![
        (0, Disruption::Denied(SET, 30 * MINUTE).into()),
        (600, UserAction::DeleteSet(Propagation::Background).into()),
    ]));
    assert_no_violation(&outcome);
    assert_line(&outcome, "deletes set cluster: removed");
}

/// While a machine was being deleted, the generator repeatedly applied a set with one failure
/// domain less, which admission refuses (ESR). Seed 200242.
#[test]
fn a_missing_machine_removes_no_failure_domain_from_a_generated_set() {
    let mut schedule = schedule(vec![
        (600, UserAction::EditMachine(2).into()),
        (1200, UserAction::Delete(1, 1).into()),
        (4000, UserAction::Activate.into()),
    ]);
    (schedule.setup.state, schedule.setup.generates) = (None, true);
    assert_nothing_is_refused(schedule);
}

/// The generator described a machine that no set selects, and repeatedly applied what admission
/// refuses (ESR). Seed 200776.
#[test]
fn the_generator_ignores_a_machine_without_labels() {
    let mut schedule = schedule(vec![
        (100, UserAction::AddMachine(1).into()),
        (101, UserAction::Deselect(0).into()),
        (900, UserAction::DeleteSet(Propagation::Background).into()),
    ]);
    (schedule.setup.state, schedule.setup.generates) = (Some("Inactive"), true);
    assert_nothing_is_refused(schedule);
}

/// The second machine of an index counted as the machine that another index lacked. So a failure
/// domain was removed from a generated set, and admission refused that for ever (ESR). Seeds 9531,
/// 14481, 47266, 60121, 68988, 79625, 82453, 88119 and 93134.
#[test]
fn a_second_machine_of_an_index_does_not_count_for_an_empty_index() {
    let mut schedule = schedule(vec![
        (100, UserAction::AddMachine(1).into()),
        (900, UserAction::Delete(0, 1).into()),
    ]);
    (schedule.setup.state, schedule.setup.generates) = (None, true);
    assert_nothing_is_refused(schedule);
}

/// Three of five machines were left, in two failure domains, and the generator tried for ever to
/// remove the third failure domain from a set of three (ESR). Seed 79305.
#[test]
fn a_generated_set_keeps_the_failure_domains_of_its_machines() {
    let mut schedule = schedule(vec![
        (1200, UserAction::Delete(1, 2).into()),
        (1210, UserAction::DeleteSet(Propagation::Background).into()),
        (1800, UserAction::EditMachine(3).into()),
    ]);
    schedule.setup.replicas = 5;
    (schedule.setup.state, schedule.setup.generates) = (None, true);
    assert_nothing_is_refused(schedule);
}

/// Two of five machines had lost their labels when a set was generated. The set had three replicas
/// for ever, and was activated (ESR). Seed 78060.
#[test]
fn no_set_is_generated_for_a_part_of_the_control_plane() {
    let mut schedule = schedule(vec![
        (10, UserAction::Deselect(2).into()),
        (780, UserAction::Deselect(0).into()),
        (840, UserAction::DeleteSet(Propagation::Orphan).into()),
        (860, UserAction::Activate.into()),
    ]);
    schedule.setup.replicas = 5;
    (schedule.setup.state, schedule.setup.generates) = (Some("Inactive"), true);
    let outcome = traced(schedule);
    assert_no_violation(&outcome);
    // A set is generated once the labels are restored.
    assert_line(&outcome, "generator-0 writes");
}

/// Under OnDelete an index had three machines, all outdated because the template had changed again.
/// They counted as one too many, and the index whose machine the user deleted stayed empty (ESR).
/// Seed 34984.
#[test]
fn outdated_machines_under_on_delete_do_not_block_a_replacement() {
    let mut schedule = schedule(vec![
        (60, UserAction::AddMachine(0).into()),
        (600, UserAction::EditTemplate.into()),
        (620, UserAction::AddMachine(0).into()),
        (1200, UserAction::EditTemplate.into()),
        (1260, UserAction::Delete(1, 1).into()),
    ]);
    schedule.setup.strategy = "OnDelete";
    let outcome = traced(schedule);
    assert_no_violation(&outcome);
    assert_line(&outcome, "capstan-0 creates machine");
}

/// A creation arrived after its machine had been created by a second request and deleted again. By
/// then another index had the machine beyond the number of replicas (C13). Seed 70292.
#[test]
fn a_late_creation_does_not_exceed_the_number_of_machines() {
    for seed in [13, 33, 43, 49, 66, 96, 101] {
        let mut schedule = schedule(vec![
            (60, UserAction::EditTemplate.into()),
            (430, UserAction::EditTemplate.into()),
        ]);
        schedule.seed = seed;
        schedule.rates.late = 150;
        let outcome = traced(schedule);
        assert_eq!(outcome.violation, None, "{seed}: {}", outcome.trace.join("\n"));
    }
}

/// The generator took over a set that a user had created while its caches did not show it (C11).
/// Seeds 150 and 269 of the scenario `generator`.
#[test]
fn the_generator_does_not_write_to_a_set_that_its_caches_do_not_show() {
    let mut with_set = schedule(vec![
        (49, Disruption::Lead(false, false).into()),
        (50, UserAction::DeleteSet(Propagation::Background).into()),
        (60, UserAction::CreateSet.into()),
        (65, Disruption::Relist(0, SET, 10 * SECOND).into()),
        (65, Disruption::Lead(true, false).into()),
    ]);
    (with_set.setup.state, with_set.setup.generates) = (Some("Inactive"), true);
    let outcome = traced(with_set);
    assert_no_violation(&outcome);
    assert!(
        !has_line(&outcome, "generator-0 writes"),
        "{}",
        outcome.trace.join("\n")
    );
    let mut without_set = schedule(vec![(50, UserAction::DeleteSet(Propagation::Background).into())]);
    (without_set.setup.state, without_set.setup.generates) = (Some("Inactive"), true);
    assert_line(&traced(without_set), "generator-0 writes");
}

#[test]
fn a_rollout_without_faults_ends() {
    assert_one_rollout_ends(vec![(60, UserAction::EditTemplate.into())]);
}

/// Seeds 128, 669, 987, 1693: a second machine was created for an index while the first one, from
/// which a user had removed the labels, was still starting (G1, C1, C7).
#[test]
fn a_starting_machine_that_loses_its_labels_is_not_created_twice() {
    assert_one_rollout_ends(vec![
        (60, UserAction::EditTemplate.into()),
        (90, UserAction::Deselect(3).into()),
    ]);
}

/// Seeds 315, 453, 724, 804, 1314, 1400: a machine was created or deleted while there was a node
/// without a machine, because the caches did not show that node yet (C3).
#[test]
fn an_unmanaged_node_stops_the_rollout_before_the_caches_show_it() {
    assert_one_rollout_ends(vec![
        (30, Disruption::Freeze(0, NODE, 10 * MINUTE).into()),
        (50, ClusterFault::Stranger(30 * MINUTE).into()),
        (60, UserAction::EditTemplate.into()),
    ]);
}

/// Seed 5182: the status of our ClusterOperator was written again every five seconds while the
/// caches did not show it.
#[test]
fn a_status_is_not_written_again_while_the_caches_do_not_show_it() {
    let mut incidents: Vec<(i64, Incident<Act>)> = Vec::new();
    for minute in 0..6 {
        incidents.push((60 + minute * 600, Disruption::Freeze(0, OPERATOR, 9 * MINUTE).into()));
        incidents.push((61 + minute * 600, UserAction::EditTemplate.into()));
    }
    let outcome = traced(schedule(incidents));
    assert_no_violation(&outcome);
    let write = "writes status of operator control-plane-machine-set";
    let writes: Vec<&String> = outcome.trace.iter().filter(|line| line.contains(write)).collect();
    assert!(writes.len() > 6, "{writes:#?}");
    let repeated: Vec<_> = writes.iter().filter(|line| line.ends_with("no change")).collect();
    assert!(repeated.is_empty(), "{writes:#?}");
}
