//! Policies and users that interfere with the steps of a control plane: annotations that are
//! dropped, deletions that are refused, and machines that are all deleted.

use serde_json::{Value, json};

use super::*;
use crate::kcp::outdated::REVISION;
use crate::kcp::pending::{self, Recorded, hold};
use crate::kcp::status::{STALLED, Status, status};
use crate::model::PENDING_CREATIONS;

fn reasons(plan: &Plan) -> Vec<&'static str> {
    plan.degraded.iter().map(|one| one.reason).collect()
}

fn computed(world: &World) -> Status {
    let state = world.state();
    status(&state, &plan(&state, now()), now())
}

/// The status, the reason and the message of the condition `Stalled`.
fn stalled(status: &Status) -> (&'static str, &'static str, &str) {
    let mut conditions = status.conditions.iter();
    let found = conditions.find(|one| one.type_ == STALLED).unwrap();
    (found.status, found.reason, found.message.as_str())
}

/// A rollout whose first new machine exists. A policy adds a field to its KubeadmConfig, and
/// another one drops the annotations of Capstan.
fn interfered() -> (World, String) {
    let mut world = World::new("abc");
    world.spec()["version"] = json!("v1.31.0");
    let state = world.state();
    let plan = planned(&world);
    let step = plan.disruptive().unwrap();
    let record = pending::creation(step, "one", now()).unwrap();
    let patch = pending::record(&state.control_plane.metadata, &record).unwrap();
    world.control_plane["metadata"]["annotations"] = patch["metadata"]["annotations"].clone();
    let Action::Create { machine, config, .. } = &step.action else {
        panic!("{step:?}");
    };
    let name = machine.metadata.name().to_owned();
    let mut machine = serde_json::to_value(machine).unwrap();
    let (node, id) = (format!("n-{name}"), format!("dev://{name}"));
    machine["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(REVISION);
    machine["metadata"]["creationTimestamp"] = json!("2026-06-01T11:59:00Z");
    machine["metadata"]["uid"] = json!("new-uid");
    machine["spec"]["providerID"] = json!(id);
    machine["status"] = world.machines[0]["status"].clone();
    machine["status"]["nodeRef"] = json!({"name": node});
    world.machines.push(machine);
    let mut config = serde_json::to_value(config).unwrap();
    config["metadata"]["annotations"] = json!({});
    config["spec"]["ntp"] = json!({"enabled": true});
    world.others.push(config);
    let mut known = world.others.iter();
    let mut of_node = known.find(|other| other["kind"] == "Node").cloned().unwrap();
    of_node["metadata"]["name"] = json!(node);
    of_node["spec"]["providerID"] = json!(id);
    world.others.push(of_node);
    let members = world.etcd.as_mut().unwrap()["members"].as_array_mut().unwrap();
    members.push(json!({"name": node}));
    (world, name)
}

#[test]
fn v170_a_machine_that_lost_its_annotations_is_not_replaced_because_a_policy_changes_new_machines() {
    let (mut world, name) = interfered();
    let plan = planned(&world);
    assert_eq!(reasons(&plan), ["TemplateNotStored"], "{:?}", plan.steps);
    assert!(plan.disruptive().is_none(), "{:?}", plan.steps);
    let status = computed(&world);
    let (is_stalled, reason, message) = stalled(&status);
    assert_eq!((is_stalled, reason), ("True", "TemplateNotStored"));
    assert!(message.contains("ntp") && message.contains(&name), "{message}");
    // Without the record, the new machine would be outdated, and would be deleted for the next one.
    world.control_plane["metadata"]["annotations"] = json!({});
    assert!(next(&world).starts_with("delete "), "{}", next(&world));
}

#[test]
fn v170_the_record_of_a_creation_stays_while_the_machine_does_not_tell_its_revision() {
    let (world, name) = interfered();
    let over = |world: &World| {
        let state = world.state();
        let recorded = pending::recorded(&state.control_plane.metadata).unwrap();
        let recorded: Vec<Recorded> = recorded
            .into_iter()
            .map(|creation| Recorded { creation, until: None })
            .collect();
        let mut plan = Plan::default();
        hold(&state, &Ok(recorded), &mut plan);
        plan.steps
    };
    assert!(over(&world).is_empty(), "{:?}", over(&world));
    let mut told = world.clone();
    told.machines[3]["metadata"]["annotations"][REVISION] = json!("any");
    let Some(Action::PatchControlPlane(patch)) = over(&told).pop().map(|step| step.action) else {
        panic!("the record is kept");
    };
    assert_eq!(patch["metadata"]["annotations"][PENDING_CREATIONS], json!(null));
    let mut gone = world;
    gone.machines
        .retain(|machine| machine["metadata"]["name"] != name.as_str());
    assert_eq!(over(&gone).len(), 1, "the machine is gone");
}

/// Three machines, of which the second one has lost its hook and its etcd member.
fn without_member() -> World {
    let mut world = World::new("abc");
    world.machines[1]["metadata"]["annotations"] = json!({});
    let members = world.etcd.as_mut().unwrap()["members"].as_array_mut().unwrap();
    members.remove(1);
    world
}

#[test]
fn v171_a_machine_whose_member_was_removed_before_a_refused_deletion_is_reported() {
    let world = without_member();
    let plan = planned(&world);
    assert_eq!(reasons(&plan), ["MemberMissing"]);
    let status = computed(&world);
    let (is_stalled, reason, message) = stalled(&status);
    assert_eq!((is_stalled, reason), ("True", "MemberMissing"));
    assert!(message.contains("m-1") && !message.contains("m-0"), "{message}");
    let mut joining = world.clone();
    joining.created(1, "2026-06-01T11:45:00Z");
    assert_eq!(reasons(&planned(&joining)), [""; 0], "it may still join");
    let mut learner = world;
    let members = learner.etcd.as_mut().unwrap()["members"].as_array_mut().unwrap();
    members.push(json!({"name": "", "learner": true}));
    assert_eq!(reasons(&planned(&learner)), [""; 0], "it joins");
}

#[test]
fn v171_a_deletion_that_is_repeated_does_not_remove_the_member_again() {
    let member = |world: &World| {
        let state = world.state();
        let machine = state.machine("m-1").unwrap();
        match scale::delete(&state, machine, String::new()).action {
            Action::Delete { member, .. } => member,
            other => panic!("{other:?}"),
        }
    };
    let mut world = without_member();
    assert_eq!(member(&world), None);
    world.members();
    assert_eq!(member(&world).as_deref(), Some("n-1"));
    world.etcd = None;
    assert_eq!(member(&world).as_deref(), Some("n-1"), "the members are unknown");
}

/// Machines that a user deleted. Their pods count as not healthy.
fn deleted(domains: &str) -> World {
    let mut world = World::new(domains);
    for machine in 0..domains.len() {
        world.delete(machine);
        for type_ in [
            condition::API_SERVER,
            condition::CONTROLLER_MANAGER,
            condition::SCHEDULER,
            condition::ETCD_POD,
        ] {
            world.set(machine, type_, "False");
        }
        let conditions = world.machines[machine]["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"}));
    }
    world
}

fn all_deleted() -> World {
    deleted("abc")
}

#[test]
fn v198_a_machine_that_never_joined_is_replaced_while_the_only_working_one_is_being_deleted() {
    let mut world = deleted("a");
    let mut broken = World::new("ab");
    broken.without_node(1);
    broken.unhealthy(1);
    world.machines.push(broken.machines.remove(1));
    world.spec()["replicas"] = json!(3);
    assert_eq!(next(&world), "delete m-1");
    // A learner serves nothing.
    let members = |learner: bool| json!([{"name": "n-0"}, {"name": "n-1", "learner": learner}]);
    world.etcd.as_mut().unwrap()["members"] = members(true);
    assert_eq!(next(&world), "delete m-1");
    // The voting member may be that of the machine, and the other machine does not serve.
    world.etcd.as_mut().unwrap()["members"] = members(false);
    assert_eq!(next(&world), "waits MachineRemoved CannotBeRemediated");
}

#[test]
fn v198_a_machine_whose_etcd_member_is_lost_is_replaced_while_the_others_are_being_deleted() {
    let mut world = World::new("abc");
    world.machines.splice(0..2, deleted("ab").machines);
    world.unhealthy(2);
    for type_ in [condition::API_SERVER, condition::ETCD_POD] {
        world.set(2, type_, "Unknown");
    }
    world.set(2, condition::ETCD_MEMBER, "Unknown");
    assert_eq!(
        next(&world),
        "waits MachineRemoved CannotBeRemediated",
        "it may serve the API"
    );
    world.set(2, condition::ETCD_MEMBER, "False");
    assert_eq!(next(&world), "delete m-2");
    let mut gone = deleted("ab");
    gone.spec()["replicas"] = json!(3);
    assert_eq!(next(&gone), "create c join");
}

#[test]
fn v199_a_machine_joins_before_the_only_machine_goes() {
    let world = deleted("a");
    assert_eq!(next(&world), "create b join");
    let mut without_quorum = deleted("a");
    without_quorum.set(0, condition::ETCD_MEMBER, "False");
    assert_eq!(next(&without_quorum), "waits MachineRemoved EtcdHealthy");
    assert_eq!(stalled(&computed(&without_quorum)).1, "AllMachinesDeleting");
    let mut joined = World::new("aa");
    joined.machines[0] = world.machines[0].clone();
    joined.spec()["replicas"] = json!(1);
    assert_eq!(next(&joined), "remove-hook m-0 n-0");
    // A control plane that never started has nothing to lose.
    let mut young = deleted("a");
    young.control_plane["status"]["initialization"] = json!({});
    let conditions = young.machines[0]["status"]["conditions"].clone();
    young.without_node(0);
    young.machines[0]["status"]["conditions"] = conditions;
    young.etcd = None;
    young.set(0, condition::ETCD_MEMBER, "Unknown");
    assert_eq!(next(&young), "remove-hook m-0 -");
}

#[test]
fn v172_a_machine_joins_before_the_last_of_machines_that_are_all_deleted_may_go() {
    let mut world = all_deleted();
    assert_eq!(next(&world), "create a join");
    assert_eq!(stalled(&computed(&world)).0, "False");
    // Without a quorum for the new member, nothing is created, and a condition says why.
    world.set(0, condition::ETCD_MEMBER, "False");
    assert_eq!(next(&world), "remove-hook m-0 n-0", "its member does not work");
    world.set(1, condition::ETCD_MEMBER, "False");
    assert_eq!(next(&world), "waits EtcdHealthy");
    let status = computed(&world);
    let (is_stalled, reason, message) = stalled(&status);
    assert_eq!((is_stalled, reason), ("True", "AllMachinesDeleting"));
    assert!(
        message.contains("all machines are being deleted: m-0, m-1, m-2."),
        "{message}"
    );
    let mut unknown = all_deleted();
    unknown.etcd = None;
    assert_eq!(next(&unknown), "waits MachineRemoved EtcdHealthy");
    assert_eq!(stalled(&computed(&unknown)).1, "AllMachinesDeleting");
    // A machine whose hook is gone is waited for.
    let mut going = all_deleted();
    going.machines[0]["metadata"]["annotations"] = json!({});
    assert_eq!(next(&going), "waits MachineRemoved");
}

#[test]
fn v180_with_external_etcd_a_machine_joins_before_machines_that_are_all_deleted_may_go() {
    let mut world = all_deleted().external();
    world.etcd = None;
    assert_eq!(next(&world), "create a join");
    assert_eq!(stalled(&computed(&world)).0, "False");
}

#[test]
fn v172_after_the_new_machine_joined_the_deleted_ones_go_one_by_one() {
    let mut world = World::new("abca");
    let deleted = all_deleted();
    world.machines.splice(0..3, deleted.machines);
    world.spec()["replicas"] = json!(3);
    assert_eq!(next(&world), "remove-hook m-0 n-0");
}

#[test]
fn v173_a_step_that_fails_for_a_while_is_a_condition() {
    let mut status = computed(&World::new("abc"));
    assert_eq!(stalled(&status), ("False", "NotStalled", ""));
    status.report_failing("patching KubeadmControlPlane cp: the record is not stored");
    let (is_stalled, reason, message) = stalled(&status);
    assert_eq!((is_stalled, reason), ("True", "StepFails"));
    assert!(message.ends_with("the record is not stored"), "{message}");
    let mut both = computed(&without_member());
    both.report_failing("deleting Machine m-1: forbidden");
    let (_, reason, message) = stalled(&both);
    assert_eq!(reason, "MemberMissing");
    assert!(message.contains("m-1") && message.ends_with("forbidden"), "{message}");
}

#[test]
fn v301_a_machine_whose_member_has_another_name_is_not_to_be_deleted() {
    let mut world = World::new("abcd");
    world.without_node(3);
    let members = world.etcd.as_mut().unwrap()["members"].as_array_mut().unwrap();
    members.truncate(3);
    members[1]["name"] = json!("renamed");
    members[1]["healthy"] = json!(true);
    let status = computed(&world);
    let (_, reason, message) = stalled(&status);
    assert_eq!(reason, "MemberMissing");
    assert!(
        message.contains("m-1. The etcd members renamed belong to no machine"),
        "{message}"
    );
    assert!(message.ends_with("do not delete the machines before"), "{message}");
    // A member that is reported to fail is removed, so nothing is to be found out about it.
    world.etcd.as_mut().unwrap()["members"][1]["healthy"] = json!(false);
    let status = computed(&world);
    let (_, _, message) = stalled(&status);
    assert!(message.ends_with("delete them, and they are replaced"), "{message}");
}

/// A restore loses the reference to the Node.
#[test]
fn v302_a_member_without_a_health_of_its_own_is_judged_by_the_machine_of_its_node() {
    let mut world = World::new("abc");
    world.set(2, condition::ETCD_MEMBER, "False");
    world.machines[2]["status"].as_object_mut().unwrap().remove("nodeRef");
    let healthy = |world: &World| world.state().members().unwrap()[2].is_healthy;
    assert!(!healthy(&world));
    world.etcd.as_mut().unwrap()["members"][2]["healthy"] = json!(true);
    assert!(healthy(&world), "an observed member needs no condition");
}

#[test]
fn v303_a_member_that_may_be_that_of_a_machine_is_removed_only_if_it_is_known_to_fail() {
    let mut world = World::new("abc");
    let set = |world: &mut World, field: &str, value: Value| {
        world.etcd.as_mut().unwrap()["members"][1][field] = value;
    };
    set(&mut world, "name", json!("renamed"));
    assert!(!next(&world).starts_with("remove-member"), "{}", next(&world));
    set(&mut world, "healthy", json!(false));
    assert_eq!(next(&world), "remove-member renamed");
    let mut other = world;
    let members = other.etcd.as_mut().unwrap()["members"].as_array_mut().unwrap();
    members.push(json!({"name": "a-unknown"}));
    assert_eq!(
        reasons(&planned(&other)),
        ["MachinesMissing"],
        "the other one may be it"
    );
}

/// The leader does not answer Capstan, and its machine is being deleted. The other machine has
/// joined, and the Machine controller has not stored the reference to its Node yet.
#[test]
fn v264_leadership_moves_to_a_machine_that_only_its_node_refers_to() {
    let mut world = World::new("ab");
    world.etcd.as_mut().unwrap()["leader"] = json!("n-0");
    world.delete(0);
    world.set(0, condition::DELETING, "True");
    world.machines[0]["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .filter(|known| known["type"] == condition::DELETING)
        .for_each(|known| known["reason"] = json!("WaitingForPreTerminateHook"));
    world.machines[1]["status"]["nodeRef"] = json!({});
    let plan = planned(&world);
    let Some(Action::RemoveHook {
        member, move_leader_to, ..
    }) = plan.disruptive().map(|step| &step.action)
    else {
        panic!("{plan:?}");
    };
    assert_eq!(
        (member.as_deref(), move_leader_to.join(" ")),
        (Some("n-0"), String::from("m-1"))
    );
}

#[test]
fn v243_leadership_moves_to_a_machine_that_is_being_deleted_if_no_other_one_is_left() {
    let moved = |world: &World| match &planned(world).disruptive().unwrap().action {
        Action::RemoveHook { move_leader_to, .. } => move_leader_to.join(" "),
        action => panic!("{action:?}"),
    };
    let mut world = World::new("abc");
    world.etcd.as_mut().unwrap()["leader"] = json!("n-0");
    for machine in [0, 2] {
        world.delete(machine);
    }
    world.machines[0]["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"}));
    assert_eq!(moved(&world), "m-1 m-2", "a machine that stays is first");
    world.delete(1);
    assert_eq!(moved(&world), "m-2 m-1");
}

#[test]
fn v309_leadership_moves_to_a_member_that_is_reported_to_fail_only_if_no_other_one_is_left() {
    let mut world = World::new("abc");
    world.etcd.as_mut().unwrap()["leader"] = json!("n-0");
    let order = |world: &World| {
        let state = world.state();
        membership::leaders_after(&state, state.machine("m-0").unwrap()).join(" ")
    };
    for fails in [1, 2] {
        for member in [1, 2] {
            world.etcd.as_mut().unwrap()["members"][member]["healthy"] = json!(member != fails);
        }
        assert_eq!(order(&world), format!("m-{} m-{fails}", 3 - fails));
    }
}
