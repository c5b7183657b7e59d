//! Tests of conditions: their content, their transition times, and their reasons.

use super::*;
use crate::api::meta::Condition;
use crate::cpms::simulation::{NEW, OLD, World};
use crate::cpms::{degraded, plan};

fn of(world: &World, previous: Option<&ControlPlaneMachineSetStatus>) -> ControlPlaneMachineSetStatus {
    let (spec, state) = (world.spec(), world.state());
    let plan = plan::plan(&spec, &state, world.now);
    status(&spec, &state, &plan, previous, None, world.now)
}

fn shown(status: &ControlPlaneMachineSetStatus) -> Vec<String> {
    status
        .conditions
        .iter()
        .map(|condition| format!("{}={}/{}", condition.type_, condition.status, condition.reason))
        .collect()
}

fn operator(world: &World) -> Vec<String> {
    cluster_operator(Some(&of(world, None)), true, &[], world.now)
        .iter()
        .map(|condition| {
            format!(
                "{}={}/{}",
                condition.type_,
                condition.status,
                condition.reason.as_deref().unwrap()
            )
        })
        .collect()
}

#[test]
fn a_healthy_control_plane_is_available() {
    let world = World::new("a b c", OLD);
    let status = of(&world, None);
    assert_eq!(
        shown(&status),
        [
            "Available=True/AllReplicasAvailable",
            "Degraded=False/AsExpected",
            "Error=False/AsExpected",
            "Progressing=False/AllReplicasUpdated",
            "Ready=True/AsExpected",
            "Reconciling=False/AsExpected",
            "Stalled=False/AsExpected"
        ]
    );
    let numbers = [
        status.replicas,
        status.ready_replicas,
        status.updated_replicas,
        status.unavailable_replicas,
    ];
    assert_eq!(numbers, [Some(3), Some(3), Some(3), Some(0)]);
    assert_eq!(
        status.selector.as_deref().unwrap().split(',').next(),
        Some("machine.openshift.io/cluster-api-cluster=ocp-x7k2p")
    );
}

#[test]
fn b8_the_time_of_a_transition_moves_only_with_the_status() {
    let mut world = World::new("a b c", OLD);
    world.node_down("ocp-x7k2p-master-1");
    world.add("ocp-x7k2p-master-9", "a", OLD);
    let first = of(&world, None);
    world.pass(600);
    let second = of(&world, Some(&first));
    assert_eq!(first, second, "nothing changed, so nothing is written");
    world.observed.machines.pop();
    world.observed.nodes.pop();
    let third = of(&world, Some(&second));
    let time = |status: &ControlPlaneMachineSetStatus, type_: &str| {
        status
            .conditions
            .iter()
            .find(|condition| condition.type_ == type_)
            .unwrap()
            .last_transition_time
    };
    assert_eq!(time(&third, "Degraded"), world.now);
    assert_eq!(time(&third, "Error"), time(&first, "Error"));
}

#[test]
fn b24_the_status_has_the_progress_of_each_machine() {
    let mut world = World::new("a b c", NEW);
    let step = world.plan().steps.pop().unwrap();
    world.apply(&step);
    let status = of(&world, None);
    let shown: Vec<String> = status
        .machines
        .iter()
        .map(|machine| {
            let marks = [
                (machine.ready, "ready"),
                (machine.updated, "updated"),
                (machine.deleting, "deleting"),
            ];
            let marks: Vec<&str> = marks.iter().filter(|(on, _)| *on).map(|(_, text)| *text).collect();
            let waits = machine.waits_for.as_deref().unwrap_or("nothing");
            format!("{} {} waits for {waits}", machine.index, marks.join(" "))
        })
        .collect();
    assert_eq!(
        shown,
        [
            "0 ready waits for nothing",
            "0 updated waits for MachineReady",
            "1 ready waits for SurgeFree",
            "2 ready waits for OtherIndex"
        ]
    );
    assert!(
        status.machines[1]
            .message
            .as_deref()
            .unwrap()
            .contains("has no node yet")
    );
}

#[test]
fn a_restarting_node_raises_no_alert_and_a_lost_node_does() {
    let mut world = World::new("a b c", OLD);
    world.node_down("ocp-x7k2p-master-1");
    assert_eq!(of(&world, None).unavailable_replicas, Some(0));
    world.pass(20 * 60);
    let status = of(&world, None);
    assert_eq!(status.unavailable_replicas, Some(1));
    assert!(shown(&status).contains(&"Available=False/UnavailableReplicas".to_owned()));
    assert!(status.conditions[0].message.contains("ocp-x7k2p-master-1"));
}

#[test]
fn b19_an_unready_machine_is_not_progress() {
    let mut world = World::new("a b c", OLD);
    world.node_down("ocp-x7k2p-master-1");
    world.pass(3600);
    assert!(shown(&of(&world, None)).contains(&"Progressing=False/AllReplicasUpdated".to_owned()));
}

#[test]
fn on_delete_waits_for_its_user_without_progress() {
    let mut world = World::new("a b c", NEW);
    world.strategy("OnDelete");
    assert!(shown(&of(&world, None)).contains(&"Progressing=False/WaitingForDelete".to_owned()));
}

#[test]
fn b7_upgrades_are_blocked_while_degraded_with_the_true_reason() {
    let mut world = World::new("a b c", OLD);
    world.add("ocp-x7k2p-master-9", "a", OLD);
    assert_eq!(
        operator(&world),
        [
            "Available=True/AllReplicasAvailable",
            "Degraded=True/ExcessIndexes",
            "Progressing=False/OperatorDegraded",
            "Upgradeable=False/ExcessIndexes"
        ]
    );
}

#[test]
fn upgrades_are_blocked_past_the_deadline() {
    let mut world = World::new("a b c", NEW);
    world.annotate("capstan.dev/progress-deadline", "30m");
    let step = world.plan().steps.pop().unwrap();
    world.apply(&step);
    world.pass(29 * 60);
    assert!(operator(&world).contains(&"Upgradeable=True/AsExpected".to_owned()));
    assert_eq!(
        world.plan().reconcile_at,
        Some(world.now + jiff::SignedDuration::from_mins(1))
    );
    world.pass(60);
    assert!(operator(&world).contains(&"Upgradeable=False/ProgressDeadlineExceeded".to_owned()));
    assert!(
        world
            .plan()
            .notes
            .iter()
            .any(|note| note.contains("longer than the deadline"))
    );
}

#[test]
fn without_managed_machines_the_cluster_operator_reports_no_problem() {
    let world = World::new("a b c", OLD);
    for (set, active) in [(None, true), (Some(of(&world, None)), false)] {
        let conditions = cluster_operator(set.as_ref(), active, &[], world.now);
        let texts: Vec<String> = conditions
            .iter()
            .map(|condition| format!("{}={}", condition.type_, condition.status))
            .collect();
        assert_eq!(
            texts,
            [
                "Available=True",
                "Degraded=False",
                "Progressing=False",
                "Upgradeable=True"
            ]
        );
    }
}

#[test]
fn conditions_of_other_controllers_stay() {
    let world = World::new("a b c", OLD);
    let mut before = of(&world, None);
    before.conditions.push(Condition {
        type_: "Paused".to_owned(),
        ..before.conditions[0].clone()
    });
    assert_eq!(of(&world, Some(&before)).conditions.len(), 8);
}

#[test]
fn a_set_that_does_not_parse_is_degraded_and_keeps_its_counts() {
    let world = World::new("a b c", OLD);
    let mut set: ControlPlaneMachineSet = serde_json::from_value(world.set.clone()).unwrap();
    set.status = Some(of(&world, None));
    set.spec.replicas = Some(4);
    let violations = crate::cpms::spec::parse(&set, &crate::cpms::spec::ParseContext::default()).unwrap_err();
    let status = stopped_status(&set, &degraded::invalid(&violations), None, world.now);
    assert_eq!(status.replicas, Some(3));
    assert_eq!(
        shown(&status),
        [
            "Available=True/AllReplicasAvailable",
            "Degraded=True/InvalidSpec",
            "Error=False/AsExpected",
            "Progressing=False/OperatorDegraded",
            "Ready=False/InvalidSpec",
            "Reconciling=False/AsExpected",
            "Stalled=True/InvalidSpec"
        ]
    );
    set.spec.replicas = Some(3);
    set.spec.strategy = serde_json::from_value(serde_json::json!({"type": "Recreate"})).unwrap();
    let violations = crate::cpms::spec::parse(&set, &crate::cpms::spec::ParseContext::default()).unwrap_err();
    assert!(
        shown(&stopped_status(&set, &degraded::invalid(&violations), None, world.now))
            .contains(&"Degraded=True/InvalidStrategy".to_owned())
    );
}

#[test]
fn an_error_of_the_controller_is_shown_and_blocks_upgrades() {
    let world = World::new("a b c", OLD);
    let (spec, state) = (world.spec(), world.state());
    let plan = plan::plan(&spec, &state, world.now);
    let status = status(&spec, &state, &plan, None, Some("machines cannot be listed"), world.now);
    assert!(shown(&status).contains(&"Error=True/ContinuousErrors".to_owned()));
    let conditions = cluster_operator(Some(&status), true, &[], world.now);
    assert_eq!(conditions[3].reason.as_deref(), Some("ContinuousErrors"));
}
