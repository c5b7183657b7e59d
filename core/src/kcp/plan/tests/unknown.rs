//! Machines whose Node or labels are lost, and etcd members whose machines are unknown.

use serde_json::json;

use super::*;
use crate::kcp::state::condition;

/// A label that the machine needs is removed by hand.
fn strip(world: &mut World, machine: usize) {
    let labels = world.machines[machine]["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove("cluster.x-k8s.io/control-plane");
}

/// A restore dropped the status of the machine and its Node.
fn restored_without_status(world: &mut World, machine: usize) {
    let conditions = world.machines[machine]["status"]["conditions"].clone();
    world.without_node(machine);
    world.machines[machine]["status"]["conditions"] = conditions;
}

#[test]
fn v83_the_member_of_an_owned_machine_without_its_label_stays() {
    let mut world = World::new("abc");
    strip(&mut world, 2);
    let plan = planned(&world);
    assert!(plan.steps.is_empty(), "{:?}", plan.steps);
    assert_eq!(plan.degraded[0].reason, "StrayedMachines");
    assert!(plan.degraded[0].message.contains("m-2"), "{:?}", plan.degraded);
}

/// Only Capstan removes the hook of a machine.
#[test]
fn v275_a_deleted_machine_without_its_label_is_released_as_the_advice_says() {
    let mut world = World::new("abc");
    strip(&mut world, 2);
    let plan = planned(&world);
    let advice = "put the labels back. A single machine with the annotation";
    assert!(plan.degraded[0].message.contains(advice), "{:?}", plan.degraded);
    world.delete(2);
    assert_eq!(next(&world), "waits MachineRemoved");
    let conditions = world.machines[2]["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"}));
    assert_eq!(next(&world), "remove-hook m-2 n-2");
    world.set(1, condition::ETCD_MEMBER, "False");
    assert_eq!(next(&world), "waits EtcdHealthy", "its member counts");
}

/// The controller of the Cluster takes such a machine for a worker, and deletes it first.
#[test]
fn v277_a_deleted_control_plane_does_not_wait_for_its_own_machine_without_a_label() {
    let mut world = World::new("abc");
    strip(&mut world, 2);
    world.control_plane["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:00:00Z");
    for _ in 0..2 {
        let steps = planned(&world).steps;
        assert!(
            steps.iter().any(|step| step.machine_of_control_plane() == Some("m-2")),
            "{steps:?}"
        );
        world.delete(2);
    }
}

#[test]
fn v84_a_machine_without_a_node_is_not_remediated_if_its_member_may_be_needed() {
    let mut world = World::new("abc");
    restored_without_status(&mut world, 2);
    world.unhealthy(2);
    assert_eq!(next(&world), "delete m-2", "the members of the others keep the quorum");
    world.set(1, condition::ETCD_MEMBER, "False");
    assert_eq!(next(&world), "waits CannotBeRemediated");
}

#[test]
fn v84_the_hook_of_a_machine_without_a_node_stays_while_its_member_may_be_needed() {
    let mut world = World::new("abc");
    restored_without_status(&mut world, 2);
    world.delete(2);
    let conditions = world.machines[2]["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"}));
    assert_eq!(next(&world), "remove-hook m-2 n-2");
    world.set(1, condition::ETCD_MEMBER, "False");
    assert_eq!(next(&world), "waits EtcdHealthy");
}

#[test]
fn v117_the_possible_members_of_two_machines_without_nodes_keep_their_hooks() {
    let mut world = World::new("abcab");
    for machine in [3, 4] {
        restored_without_status(&mut world, machine);
    }
    world.delete(4);
    let conditions = world.machines[4]["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"}));
    assert_eq!(next(&world), "waits MachineRemoved");
}

#[test]
fn v282_no_first_machine_is_created_beside_control_plane_nodes_that_are_ready() {
    let mut world = World::new("abc");
    world.machines.clear();
    world.etcd = None;
    let plan = planned(&world);
    assert!(plan.steps.is_empty(), "{:?}", plan.steps);
    assert!(
        plan.degraded[0].message.contains("n-0, n-1, n-2"),
        "{:?}",
        plan.degraded
    );
    world.others.retain(|object| object["kind"] != "Node");
    assert_eq!(next(&world), "create a init", "nothing answers");
}

#[test]
fn v281_no_first_machine_is_created_beside_machines_that_lost_their_label_and_owner() {
    let mut world = World::new("abc");
    for machine in 0..3 {
        strip(&mut world, machine);
        world.machines[machine]["metadata"]["ownerReferences"] = json!([]);
    }
    world.etcd = None;
    let plan = planned(&world);
    assert!(plan.steps.is_empty(), "{:?}", plan.steps);
    assert_eq!(plan.degraded[0].reason, "MachinesMissing");
    assert!(
        plan.degraded[0].message.contains("m-0, m-1, m-2"),
        "{:?}",
        plan.degraded
    );
}

#[test]
fn v85_no_first_machine_is_created_beside_etcd_members_without_machines() {
    let mut world = World::new("abc");
    world.machines.clear();
    let plan = planned(&world);
    assert!(plan.steps.is_empty(), "{:?}", plan.steps);
    assert_eq!(plan.degraded[0].reason, "MachinesMissing");
    world.etcd = None;
    world.others.retain(|object| object["kind"] != "Node");
    assert_eq!(next(&world), "create a init", "no member is known");
}

#[test]
fn v289_the_deletion_of_a_cluster_releases_machines_that_lost_their_label_without_a_quorum() {
    let mut world = World::new("abc");
    for machine in 0..2 {
        strip(&mut world, machine);
        world.machines[machine]["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:00:00Z");
    }
    world.machines[1]["metadata"]["ownerReferences"] = json!([]);
    world.etcd = None;
    let released = |world: &World| {
        let plan = planned(world);
        let hooks = plan.steps.iter().filter(|step| match &step.action {
            Action::Patch(patch) => patch["metadata"]["annotations"].get(PRE_TERMINATE_HOOK) == Some(&Value::Null),
            _ => false,
        });
        hooks.map(|step| step.subject.name.clone()).collect::<Vec<String>>()
    };
    assert_eq!(released(&world), [""; 0], "the Cluster stays");
    world.cluster["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:00:00Z");
    assert_eq!(released(&world), ["m-0", "m-1"]);
    world.control_plane["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:00:00Z");
    assert_eq!(
        released(&world),
        ["m-1"],
        "workers go before the machines of the control plane"
    );
}
