//! Etcd that loses its quorum through users and the cloud. Without a quorum there is no API server,
//! so users can write nothing before an administrator restores etcd.

use capstan_sandbox::simulation::{ClusterFault, Disruption, UserAction};

use super::found::{MINUTE, assert_line, assert_no_violation, schedule, traced};

/// The trace lines that a lost quorum leaves, in order.
const LOST_AND_RESTORED: [&str; 3] = [
    "etcd lost its quorum",
    "no API server answers the user",
    "an administrator restores etcd on machine",
];

#[test]
fn users_write_nothing_while_etcd_has_no_quorum() {
    let outcome = traced(schedule(vec![
        (60, ClusterFault::InstanceGone(0).into()),
        (120, ClusterFault::InstanceGone(1).into()),
        (180, UserAction::Delete(0, 2).into()),
        (2 * 3600, UserAction::Delete(0, 2).into()),
    ]));
    assert_no_violation(&outcome);
    for line in LOST_AND_RESTORED {
        assert_line(&outcome, line);
    }
    assert!(outcome.marks.exemptions.contains("vanished"));
}

/// Without the rule, users deleted the last machines after the last voters were gone, and the hook
/// of one machine stayed for ever (G8). Seed 22861 of the scenario `melee`.
#[test]
fn a_learner_does_not_leave_while_the_voters_are_gone() {
    let outcome = traced(schedule(vec![
        (802, UserAction::ForceDelete(0).into()),
        (960, ClusterFault::Unpromoted(32 * MINUTE).into()),
        (960, UserAction::Delete(0, 2).into()),
        (1140, Disruption::Lead(false, false).into()),
        (1680, ClusterFault::InstanceGone(1).into()),
        (1700, ClusterFault::InstanceGone(4).into()),
        (1710, UserAction::Delete(2, 2).into()),
        (2 * 3600, Disruption::Lead(true, false).into()),
    ]));
    assert_no_violation(&outcome);
    for line in LOST_AND_RESTORED {
        assert_line(&outcome, line);
    }
}
