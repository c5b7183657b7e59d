//! Defects that other components and unusual machines showed. The name of a test begins with the
//! id of the defect.

use crate::cpms::plan::Plan;
use crate::cpms::simulation::{Event, NEW, World};

const M0: &str = "ocp-x7k2p-master-0";

/// The verb and the machine of each step that writes to a machine.
fn writes(plan: &Plan) -> Vec<String> {
    let steps = plan.steps.iter().filter(|step| step.machine().is_some());
    steps
        .map(|step| format!("{} {}", step.verb(), step.machine().unwrap()))
        .collect()
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
