//! What the simulation found in Capstan: each a story of its own, so that it stays when seeds become other schedules.

use capstan_sandbox::simulation::{Act, Mix, Orders, Outcome, Schedule, Sort, World};

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;

/// Plays a story: what happens, and after how many seconds.
fn play(acts: &[(i64, Act)]) -> Outcome {
    let schedule = Schedule {
        seed: 1,
        scenario: "story",
        replicas: 3,
        strategy: "RollingUpdate",
        state: "Active",
        mix: Mix::default(),
        lag: 400,
        acts: acts.iter().map(|(at, act)| (at * SECOND, act.clone())).collect(),
        calm: 4 * 60 * MINUTE,
    };
    let orders = Orders {
        trace: true,
        ..Orders::default()
    };
    World::new(schedule, orders).unwrap().run()
}

fn ends_well(acts: &[(i64, Act)]) {
    let outcome = play(acts);
    if let Some(violation) = &outcome.violation {
        panic!("{violation}\n{}", outcome.trace.join("\n"));
    }
    assert_eq!(outcome.rollouts, 1, "{}", outcome.trace.join("\n"));
}

#[test]
fn a_rollout_without_trouble_ends_well() {
    ends_well(&[(60, Act::EditTemplate)]);
}

/// Seeds 128, 669, 987, 1693: a second machine was made for an index while the first, which a user had taken the labels
/// off, was on its way (G1, C1, C7).
#[test]
fn a_machine_on_its_way_that_loses_its_labels_is_not_made_twice() {
    ends_well(&[(60, Act::EditTemplate), (90, Act::Deselect(3))]);
}

/// Seeds 315, 453, 724, 804, 1314, 1400: a machine was made or deleted while a node belonged to nobody, since the caches
/// did not show that node yet (C3).
#[test]
fn a_node_that_nobody_knows_stops_everything_before_the_caches_show_it() {
    ends_well(&[
        (30, Act::Freeze(0, Sort::Node, 10 * MINUTE)),
        (50, Act::Stranger(30 * MINUTE)),
        (60, Act::EditTemplate),
    ]);
}
