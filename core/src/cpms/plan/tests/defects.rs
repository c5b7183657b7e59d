//! Defects that other components and unusual machines showed. The name of a test begins with the
//! id of the defect.

use serde_json::json;

use crate::cpms::plan::{Action, Plan, Step};
use crate::cpms::simulation::{Event, NEW, OLD, World};

const M0: &str = "ocp-x7k2p-master-0";

/// The verb and the machine of each step that writes to a machine.
fn writes(plan: &Plan) -> Vec<String> {
    let steps = plan.steps.iter().filter(|step| step.machine().is_some());
    steps
        .map(|step| format!("{} {}", step.verb(), step.machine().unwrap()))
        .collect()
}

/// The machines that are ready and not being deleted.
fn ready(world: &World) -> usize {
    let machines = world.observed.machines.iter();
    let ready = machines.filter(|machine| !machine.metadata.is_deleting() && world.is_ready(machine));
    ready.count()
}

/// Executes plans and lets machines become ready, until nothing more happens. Returns the steps.
fn run(world: &mut World, mut check: impl FnMut(&World, &Step)) -> Vec<Step> {
    let mut all = Vec::new();
    for _ in 0..300 {
        let plan = world.plan();
        for step in &plan.steps {
            world.apply(step);
            check(world, step);
        }
        let idle = plan.steps.is_empty();
        all.extend(plan.steps);
        if !idle {
            world.pass(1);
        } else if let Some(event) = world.events().first().cloned() {
            world.pass(60);
            world.happen(&event);
        } else {
            match plan.reconcile_at {
                Some(until) if world.now < until => world.now = until,
                _ => return all,
            }
        }
    }
    panic!("no end: {all:?}");
}

// S8

#[test]
fn s8_no_machine_is_deleted_while_an_etcd_member_has_not_started() {
    let mut world = World::new("a b c", NEW);
    for event in [Event::Provisioned, Event::Joined, Event::Ready] {
        if world.observed.machines.len() == 3 {
            let step = world.plan().disruptive().cloned().unwrap();
            world.apply(&step);
        }
        let replacement = world.observed.machines.last().unwrap().metadata.name().to_owned();
        world.happen(&event(replacement));
    }
    world.pass(600);
    world.etcd(
        "True",
        "EtcdMembersAvailable: 3 of 4 members are available, ip-10-0-3-7 has not started",
    );
    assert_eq!(world.plan().disruptive(), None);
    world.etcd("True", "EtcdMembersAvailable: 4 members are available");
    assert_eq!(writes(&world.plan()), [format!("delete {M0}")]);
}

// S4

const SAME_INDEX: [&str; 3] = ["ocp-10-0-0-10", "ocp-10-0-16-10", "ocp-10-0-32-10"];

fn same_index(instance_type: &str) -> World {
    let mut world = World::new("a b c", NEW);
    world.observed.machines.clear();
    world.observed.nodes.clear();
    for (name, zone) in SAME_INDEX.into_iter().zip(["a", "b", "c"]) {
        world.add(name, zone, instance_type);
    }
    world
}

#[test]
fn s4_machines_of_one_index_are_deleted_only_once_other_machines_are_ready() {
    for instance_type in [NEW, OLD] {
        let mut world = same_index(instance_type);
        run(&mut world, |world, step| {
            if matches!(step.action, Action::Delete { .. }) {
                let state = world.state();
                let empty = state
                    .indexes
                    .iter()
                    .any(|index| state.of_index(*index).next().is_none());
                assert!(!empty || ready(world) >= 3, "{instance_type}: {step:?}");
            }
        });
        let state = world.state();
        let indexes: Vec<u32> = state.machines.iter().map(|machine| machine.index).collect();
        assert_eq!(indexes, [0, 1, 10], "{instance_type}");
        assert!(state.machines.iter().all(|machine| machine.is_current()));
    }
}

#[test]
fn s4_a_machine_of_the_template_in_a_shared_index_replaces_no_other_machine() {
    let mut world = same_index(OLD);
    world.machine(SAME_INDEX[2]).spec.provider_spec.value.as_mut().unwrap()["instanceType"] = json!(NEW);
    let plan = world.plan();
    let creates = plan
        .disruptive()
        .is_some_and(|step| matches!(step.action, Action::Create { .. }));
    assert!(creates, "{plan:?}");
}
