//! Machines that are lost or relabelled while their etcd members work, and machines that are stored
//! with other values than they were created with.

use serde_json::{Value, json};

use super::*;
use crate::api::controlplane_cluster_x_k8s_io::annotation::REMEDIATION_IN_PROGRESS;
use crate::kcp::create::create;
use crate::kcp::desired::Bootstrap;
use crate::kcp::outdated::REVISION;

fn degraded(world: &World) -> Vec<&'static str> {
    let plan = planned(world);
    assert!(plan.disruptive().is_none(), "{plan:?}");
    plan.degraded.iter().map(|reason| reason.reason).collect()
}

#[test]
fn v94_working_members_without_machines_are_kept_after_a_restore() {
    let mut world = World::new("abc");
    world.machines.truncate(1);
    assert_eq!(degraded(&world), ["MachinesMissing"], "their Nodes are ready");
    // Without Nodes, the members that answer count.
    world.others.retain(|other| other["kind"] != "Node");
    for member in world.etcd.as_mut().unwrap()["members"].as_array_mut().unwrap() {
        member["healthy"] = json!(true);
    }
    assert_eq!(degraded(&world), ["MachinesMissing"]);
    // A member that does not answer, on a Node that is not ready, is removed.
    world.etcd.as_mut().unwrap()["members"][1]["healthy"] = json!(false);
    world.etcd.as_mut().unwrap()["members"]
        .as_array_mut()
        .unwrap()
        .remove(2);
    assert_eq!(next(&world), "remove-member n-1");
}

/// A Machine is lost, and another machine has not joined. The Node of the lost machine has another
/// provider ID than the one that has not joined.
#[test]
fn v310_the_member_of_a_lost_machine_is_not_that_of_a_machine_with_another_provider_id() {
    let mut world = World::new("abcd");
    world
        .others
        .retain(|other| other["kind"] != "Node" || other["metadata"]["name"] != "n-3");
    world.etcd.as_mut().unwrap()["members"].as_array_mut().unwrap().pop();
    world.machines[3]["status"]["nodeRef"] = json!({});
    world.machines.remove(1);
    world.spec()["replicas"] = json!(3);
    assert_eq!(degraded(&world), ["MachinesMissing"]);
    world.delete(2);
    world.machines[2]["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"}));
    assert_eq!(degraded(&world), ["MachinesMissing"]);
    // A member of unknown health, on a Node that is not ready, may be that of the machine: the IDs
    // can be misspelled, and its instance must not go before its member.
    let is_node = |other: &&mut Value| other["kind"] == "Node" && other["metadata"]["name"] == "n-1";
    let node = world.others.iter_mut().find(is_node).unwrap();
    node["status"]["conditions"][0]["status"] = json!("False");
    assert_eq!(next(&world), "remove-hook m-3 n-1");
}

#[test]
fn v312_missing_machines_beside_another_provider_id_name_both_ids() {
    let mut world = World::new("abc");
    world.machines[1]["status"]["nodeRef"] = json!({});
    world.machines[1]["spec"]["providerID"] = json!("dev://misspelled");
    assert_eq!(degraded(&world), ["MachinesMissing"]);
    let message = planned(&world).degraded.remove(0).message;
    let both = "Node n-1 has dev://m-1, machine m-1 has dev://misspelled; if these are one instance, delete the Node";
    assert!(message.contains(both), "{message}");
    // Without the Node, the member may be that of the machine.
    world
        .others
        .retain(|other| other["kind"] != "Node" || other["metadata"]["name"] != "n-1");
    assert!(degraded(&world).is_empty());
}

#[test]
fn v94_the_last_known_machine_keeps_its_hook_beside_another_member() {
    let mut world = World::new("ab");
    world.machines.truncate(1);
    world.delete(0);
    world.machines[0]["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"}));
    assert_eq!(degraded(&world), ["MachinesMissing"]);
    world.etcd.as_mut().unwrap()["members"]
        .as_array_mut()
        .unwrap()
        .remove(1);
    assert_eq!(next(&world), "create b join");
}

#[test]
fn v94_a_machine_that_lost_its_label_or_its_owner_keeps_its_member() {
    let mut world = World::new("abc");
    world.others.retain(|other| other["kind"] != "Node");
    let metadata = &mut world.machines[1]["metadata"];
    metadata["labels"]
        .as_object_mut()
        .unwrap()
        .remove("cluster.x-k8s.io/control-plane");
    metadata["ownerReferences"] = json!([]);
    assert_eq!(degraded(&world), ["MachinesMissing"]);
    world.machines[1]["metadata"]["labels"] = json!({});
    assert_eq!(degraded(&world), ["MachinesMissing"]);
}

/// A restore gives the control plane a new UID, and loses the statuses and the Nodes.
#[test]
fn v313_a_machine_of_a_former_control_plane_without_its_label_prevents_a_first_machine() {
    let mut world = World::new("a");
    world.etcd = None;
    world.others.retain(|other| other["kind"] != "Node");
    let metadata = &mut world.machines[0]["metadata"];
    metadata["ownerReferences"][0]["uid"] = json!("former");
    let labels = metadata["labels"].as_object_mut().unwrap();
    labels.remove("cluster.x-k8s.io/control-plane");
    let mut message = planned(&world).degraded.remove(0).message;
    assert!(message.contains("no owner that exists: m-0"), "{message}");
    world.machines[0]["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:00:00Z");
    message = planned(&world).degraded.remove(0).message;
    assert!(message.contains("no owner that exists: m-0"), "{message}");
}

#[test]
fn v320_a_machine_that_lost_its_label_prevents_a_creation_while_etcd_does_not_respond() {
    let mut world = World::new("abc");
    let metadata = &mut world.machines[1]["metadata"];
    metadata["ownerReferences"] = json!([]);
    let labels = metadata["labels"].as_object_mut().unwrap();
    labels.remove("cluster.x-k8s.io/control-plane");
    world.etcd = None;
    assert_eq!(degraded(&world), ["MachinesMissing"]);
    let message = planned(&world).degraded.remove(0).message;
    assert!(message.contains("no owner that exists: m-1"), "{message}");
}

#[test]
fn v321_a_member_that_etcd_needs_does_not_keep_another_one() {
    let mut world = World::new("a");
    world.etcd.as_mut().unwrap()["members"] = json!([
        {"name": "n-0"}, {"name": "x", "healthy": true}, {"name": "y", "healthy": false},
    ]);
    world.machines[0]["status"]["nodeRef"]["name"] = json!("n-0");
    // x is in use, so that nothing is done at all.
    assert_eq!(degraded(&world), ["MachinesMissing"]);
    world.etcd.as_mut().unwrap()["members"][1] = json!({"name": "x"});
    assert_eq!(next(&world), "remove-member y");
}

#[test]
fn v314_the_member_of_a_machine_whose_node_has_another_provider_id_stays() {
    let mut world = World::new("abc");
    world.delete(0);
    let drained = json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"});
    let conditions = &mut world.machines[0]["status"]["conditions"];
    conditions.as_array_mut().unwrap().push(drained);
    assert_eq!(next(&world), "remove-hook m-0 n-0");
    // Other capital letters are not another instance.
    world.machines[0]["spec"]["providerID"] = json!("dev://M-0");
    assert_eq!(next(&world), "remove-hook m-0 n-0");
    for machine in [0, 1] {
        world.machines[machine]["spec"]["providerID"] = json!(format!("dev://m-{}", 1 - machine));
    }
    let waits = |world: &World| {
        let plan = planned(world);
        assert!(plan.disruptive().is_none(), "{plan:?}");
        plan.waits[0].message.clone()
    };
    let message = waits(&world);
    assert!(
        message.contains("and its Node n-0 has that of machine m-1"),
        "{message}"
    );
    // The Node of the other machine still shows it.
    world
        .others
        .retain(|other| other["kind"] != "Node" || other["metadata"]["name"] != "n-0");
    let message = waits(&world);
    assert!(
        message.contains("so has the Node n-1, although the machine names the Node n-0"),
        "{message}"
    );
}

#[test]
fn v315_a_machine_of_another_cluster_is_not_adopted() {
    let mut world = World::new("abcd");
    world.machines[3]["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(world.state().adoptable.len(), 1);
    world.machines[3]["spec"]["clusterName"] = json!("other");
    assert!(world.state().adoptable.is_empty());
    // The labels may be right, and the name wrong: nothing happens beside it, and no first machine
    // is created.
    assert_eq!(degraded(&world), ["MachinesAlreadyOwned"]);
}

/// The member of a machine that is gone prevents a new machine from joining, and the new machine
/// could have that member.
#[test]
fn v297_a_member_that_does_not_answer_is_removed_when_its_possible_machine_is_given_up() {
    let mut world = World::new("abc");
    for index in [0, 1] {
        world.delete(index);
        let drained = json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"});
        let conditions = &mut world.machines[index]["status"]["conditions"];
        conditions.as_array_mut().unwrap().push(drained);
        world.set(index, condition::API_SERVER, "False");
    }
    world.without_node(2);
    world.others.retain(|other| other["metadata"]["name"] != "n-2");
    let member = |world: &mut World, field: &str, value: serde_json::Value| {
        world.etcd.as_mut().unwrap()["members"][2][field] = value;
    };
    member(&mut world, "name", json!("n-gone"));
    member(&mut world, "healthy", json!(false));
    assert!(!next(&world).starts_with("remove-member"), "its machine may still join");
    world.unhealthy(2);
    assert_eq!(next(&world), "remove-member n-gone");
    let mut lost = world.clone();
    lost.without_node(1);
    lost.unhealthy(1);
    lost.machines[1]["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("deletionTimestamp");
    lost.etcd.as_mut().unwrap()["members"][1]["healthy"] = json!(true);
    assert!(
        !next(&lost).starts_with("remove-member"),
        "n-1 works, and its machine is not known"
    );
    member(&mut world, "healthy", json!(true));
    assert!(!next(&world).starts_with("remove-member"), "it works");
    member(&mut world, "name", json!(""));
    assert!(!next(&world).starts_with("remove-member"), "it has not started");
}

/// A world whose machines are stored with another verbosity than they were created with.
fn mutated() -> World {
    let mut world = World::new("abc");
    let created = create(&world.state(), None, Bootstrap::Join, String::new()).unwrap();
    let Action::Create { machine, .. } = created.action else {
        panic!()
    };
    for index in 0..3 {
        world.annotate(index, REVISION, &machine.metadata.annotations[REVISION]);
    }
    for other in &mut world.others {
        if other["kind"] == "KubeadmConfig" {
            other["spec"]["verbosity"] = json!(2);
        }
    }
    world
}

#[test]
fn v95_a_machine_that_is_stored_with_other_values_is_not_replaced() {
    let mut world = mutated();
    assert_eq!(degraded(&world), ["TemplateNotStored"]);
    let message = planned(&world).degraded[0].message.clone();
    assert!(message.contains("verbosity") && message.contains("m-0"), "{message}");
    // An edit makes them outdated, and no replacement follows while the new machines deviate, too.
    world.spec()["kubeadmConfigSpec"]["preKubeadmCommands"] = json!(["true"]);
    assert!(next(&world).starts_with("create "), "{}", next(&world));
    // The numbers are still kept.
    let mut world = mutated();
    world.machines.remove(2);
    world.members();
    world.others.retain(|other| other["metadata"]["name"] != "n-2");
    assert!(next(&world).starts_with("create "), "{}", next(&world));
    // A spec that has the stored value settles.
    let mut world = mutated();
    world.spec()["kubeadmConfigSpec"]["verbosity"] = json!(2);
    assert_eq!(degraded(&world), [""; 0]);
}

#[test]
fn v151_a_new_machine_has_no_name_of_an_old_node_or_etcd_member() {
    let name = |world: &World| {
        let step = create(&world.state(), None, Bootstrap::Join, String::new()).unwrap();
        step.subject.name
    };
    let mut world = World::new("abc");
    let first = name(&world);
    assert_eq!(name(&world), first, "a lost request is repeated with the same name");
    let members = world.etcd.as_mut().unwrap()["members"].as_array_mut().unwrap();
    members.push(json!({"name": first}));
    let second = name(&world);
    assert_ne!(second, first);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": second}});
    world.others.push(node);
    let third = name(&world);
    assert!(third != first && third != second, "{third}");
}

/// A user deleted the first machine while its instance was booting, and the machine is drained.
fn booting(domains: &str, created: &str) -> World {
    let mut world = World::new(domains);
    world.without_node(0);
    world.delete(0);
    world.created(0, created);
    world.machines[0]["spec"]["providerID"] = json!("dev://m-0");
    world.machines[0]["status"]["conditions"] =
        json!([{"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"}]);
    world.etcd.as_mut().unwrap()["members"]
        .as_array_mut()
        .unwrap()
        .remove(0);
    world
}

#[test]
fn v242_a_deleted_machine_that_may_still_join_keeps_its_hook_if_etcd_would_lose_its_quorum_with_it() {
    let world = booting("ab", "2026-06-01T11:50:00Z");
    assert_eq!(next(&world), "waits MachineRemoved");
    let plan = planned(&world);
    assert_eq!(plan.reconcile_at, "2026-06-01T12:10:00Z".parse().ok());
    let message = &plan.waits[0].message;
    assert!(message.starts_with("machine m-0 has no etcd member yet"), "{message}");
    // kubeadm adds a learner, and then etcd starts there.
    let member = |name: &str| {
        let mut world = world.clone();
        let members = world.etcd.as_mut().unwrap()["members"].as_array_mut().unwrap();
        members.push(json!({"name": name, "learner": true}));
        next(&world)
    };
    assert_eq!(member(""), "waits MachineRemoved");
    assert_eq!(member("n-0"), "remove-hook m-0 n-0");
    let mut without_instance = world.clone();
    without_instance.machines[0]["spec"]["providerID"] = json!("");
    assert_eq!(next(&without_instance), "remove-hook m-0 -");
    let old = booting("ab", "2026-06-01T11:40:00Z");
    assert_eq!(next(&old), "remove-hook m-0 -", "it never joins");
    let three = booting("abc", "2026-06-01T11:50:00Z");
    assert_eq!(next(&three), "remove-hook m-0 -", "two of three members remain");
}

/// The clock of one of two processes was an hour ahead.
#[test]
fn v257_a_clock_that_is_ahead_does_not_release_a_deleted_machine_that_may_still_join() {
    let mut world = booting("ab", "2026-06-01T10:00:00Z");
    world.machines[0]["metadata"]["deletionTimestamp"] = json!("2026-06-01T10:05:00Z");
    assert_eq!(next(&world), "remove-hook m-0 -", "without a second clock");
    let uid = world.machines[0]["metadata"]["uid"].as_str().unwrap().to_owned();
    let seen_for = |minutes: i64| {
        let mut observed = world.observed();
        let age = jiff::SignedDuration::from_mins(minutes);
        observed.leaving.insert(uid.clone(), age);
        let state = State::observe(&observed, now());
        plan(&state, now())
    };
    let waits = seen_for(5);
    assert_eq!(waits.disruptive().map(shown), None);
    assert_eq!(waits.reconcile_at, "2026-06-01T12:10:00Z".parse().ok());
    assert_eq!(seen_for(15).disruptive().map(shown).unwrap(), "remove-hook m-0 -");
}

#[test]
fn v242_a_machine_whose_member_was_removed_does_not_keep_its_hook() {
    let mut world = World::new("ab");
    world.delete(0);
    world.created(0, "2026-06-01T11:50:00Z");
    world.machines[0]["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"}));
    assert_eq!(next(&world), "remove-hook m-0 n-0");
    world.etcd.as_mut().unwrap()["members"]
        .as_array_mut()
        .unwrap()
        .remove(0);
    assert_eq!(
        next(&world),
        "remove-hook m-0 n-0",
        "the answer to the removal was lost"
    );
    // The kubelet registers the Node before kubeadm adds the member and labels the Node.
    world.others.retain(|other| other["metadata"]["name"] != "n-0");
    assert_eq!(next(&world), "waits MachineRemoved");
}

#[test]
fn v242_a_broken_machine_is_repaired_while_a_deleted_machine_may_still_join() {
    let mut world = booting("abca", "2026-06-01T11:50:00Z");
    assert_eq!(next(&world), "remove-hook m-0 -");
    world.unhealthy(1);
    world.set(1, condition::ETCD_MEMBER, "False");
    assert_eq!(planned(&world).disruptive().map(shown).unwrap(), "delete m-1");
}

/// A machine is being deleted, and drained.
fn drained(world: &mut World, machine: usize) {
    world.delete(machine);
    world.machines[machine]["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"}));
}

#[test]
fn v244_a_machine_that_never_joins_is_replaced_beside_a_member_that_lost_its_machine() {
    for learner in ["", "y"] {
        let mut world = World::new("abc");
        world.without_node(2);
        world.unhealthy(2);
        // A user removed the hook of a machine, so that its member stayed.
        world.etcd.as_mut().unwrap()["members"] = json!([
            {"name": "n-0"}, {"name": "n-1"}, {"name": "x", "healthy": false}, {"name": learner, "learner": true},
        ]);
        assert_eq!(planned(&world).disruptive().map(shown).unwrap(), "delete m-2");
        drained(&mut world, 2);
        let own = if learner.is_empty() { "-" } else { learner };
        assert_eq!(next(&world), format!("remove-hook m-2 {own}"));
        let members = world.etcd.as_mut().unwrap()["members"].as_array_mut().unwrap();
        members.pop();
        world.machines.pop();
        assert_eq!(next(&world), "remove-member x");
    }
}

#[test]
fn v245_two_machines_that_never_joined_are_both_replaced_if_a_member_may_be_that_of_either() {
    let mut world = World::new("abca");
    for machine in [2, 3] {
        world.without_node(machine);
    }
    world.etcd.as_mut().unwrap()["members"] = json!([
        {"name": "n-0"}, {"name": "n-1"}, {"name": "y", "learner": true},
    ]);
    drained(&mut world, 2);
    assert_eq!(next(&world), "waits MachineRemoved", "the other one may join");
    world.unhealthy(3);
    assert_eq!(planned(&world).disruptive().map(shown).unwrap(), "delete m-3");
    drained(&mut world, 3);
    assert_eq!(next(&world), "remove-hook m-2 y");
}

/// The record of a remediation waits for the replacement, the replacement waits for the deletion of
/// the last machine that works, and that deletion waits for another machine.
#[test]
fn v265_a_machine_that_never_joins_is_replaced_while_the_last_one_that_works_is_being_deleted() {
    let mut world = World::new("ab");
    world.spec()["replicas"] = json!(3);
    world.without_node(1);
    world.etcd.as_mut().unwrap()["members"] = json!([{"name": "n-0"}]);
    drained(&mut world, 0);
    let record = json!({"machine": "gone", "timestamp": "2026-06-01T11:00:00Z", "retryCount": 0});
    world.control_plane["metadata"]["annotations"] = json!({(REMEDIATION_IN_PROGRESS): record.to_string()});
    let plan = planned(&world);
    assert!(plan.disruptive().is_none(), "it may still join: {plan:?}");
    world.unhealthy(1);
    assert_eq!(planned(&world).disruptive().map(shown).unwrap(), "delete m-1");
    world.machines.pop();
    let record = json!({"machine": "m-1", "timestamp": "2026-06-01T11:30:00Z", "retryCount": 0});
    world.control_plane["metadata"]["annotations"] = json!({(REMEDIATION_IN_PROGRESS): record.to_string()});
    assert_eq!(planned(&world).disruptive().map(shown).unwrap(), "create b join");
}

#[test]
fn v251_no_member_is_removed_while_two_machines_have_one_node() {
    let mut world = World::new("abc");
    drained(&mut world, 0);
    assert_eq!(next(&world), "remove-hook m-0 n-0");
    world.machines[0]["status"]["nodeRef"]["name"] = json!("n-1");
    world.etcd.as_mut().unwrap()["members"][1]["healthy"] = json!(false);
    let plan = planned(&world);
    assert!(plan.steps.is_empty(), "{plan:?}");
    let text = "1 etcd member(s) work and have no machine of the control plane: n-0";
    assert!(plan.degraded.iter().any(|one| one.message.contains(text)), "{plan:?}");
}

#[test]
fn v252_a_deleted_machine_keeps_its_hook_while_etcd_has_two_members_of_its_name() {
    let mut world = World::new("abc");
    drained(&mut world, 0);
    let members = world.etcd.as_mut().unwrap()["members"].as_array_mut().unwrap();
    members.push(json!({"name": "n-0"}));
    let plan = planned(&world);
    assert!(plan.disruptive().is_none(), "{plan:?}");
    let text = "etcd has 2 members named n-0";
    assert!(plan.waits.iter().any(|wait| wait.message.contains(text)), "{plan:?}");
}

#[test]
fn v247_a_member_without_a_machine_is_removed_beside_a_deleted_machine_that_only_its_node_refers_to() {
    // A user removed the hook of the machine m-1, so that its member stayed.
    let mut world = World::new("abc");
    drained(&mut world, 2);
    world.machines[2]["status"]["nodeRef"] = json!({});
    world.machines.remove(1);
    world.others.retain(|other| other["metadata"]["name"] != "n-1");
    world.etcd.as_mut().unwrap()["members"][1]["healthy"] = json!(false);
    assert_eq!(next(&world), "remove-member n-1");
    let mut unknown = world.clone();
    unknown.others.retain(|other| other["metadata"]["name"] != "n-2");
    assert_eq!(
        next(&unknown),
        "waits MachineRemoved EtcdHealthy",
        "n-1 may be that of m-2"
    );
    world.etcd.as_mut().unwrap()["members"]
        .as_array_mut()
        .unwrap()
        .remove(1);
    assert_eq!(next(&world), "remove-hook m-2 n-2");
}
