//! The etcd members that Capstan manages: the hook, and the removal of a member before its machine.

use super::*;
use crate::control_plane::hook::HOOK;
use crate::control_plane::lost_members::{is_concerned, several_clusters};
use crate::control_plane::members::{assumed, is_release, removed_by, successors};
use crate::control_plane::removal::leave;
use crate::control_plane::status::stopped_status;
use crate::model::{EtcdMember, UnknownMembers};

fn member(host: &Host) -> Option<EtcdMember> {
    let name = match host.member {
        Member::None => return None,
        Member::Unstarted => String::new(),
        Member::Healthy | Member::Unhealthy => host.name().to_owned(),
    };
    Some(EtcdMember {
        name,
        is_learner: false,
        is_healthy: host.member == Member::Healthy,
    })
}

/// The cluster as Capstan reads it, which asks the members itself.
fn managed(world: &World) -> Observed {
    let lost = world.lost.iter().map(|name| EtcdMember {
        name: name.clone(),
        is_learner: false,
        is_healthy: false,
    });
    let members = world.hosts.iter().filter_map(member).chain(lost).collect();
    Observed {
        etcd: None,
        own_members: Some(Ok(members)),
        ..world.observed()
    }
}

fn state(world: &World) -> State {
    State::observe(&world.spec(), managed(world))
}

fn next(world: &World) -> (State, Plan) {
    let state = state(world);
    let plan = plan(&world.spec(), &state);
    (state, plan)
}

/// A settled control plane whose machines have the hook.
fn hooked(replicas: i64) -> World {
    let mut world = World::settled(replicas);
    let (state, plan) = next(&world);
    assert_eq!(plan.steps.len(), state.machines.len(), "each machine gets the hook");
    assert!(plan.steps.iter().all(|step| !step.is_disruptive()));
    world.execute(&plan);
    let (_, plan) = next(&world);
    assert!(plan.steps.is_empty() && plan.waits.is_empty(), "{plan:?}");
    world
}

fn waits_for(plan: &Plan) -> Vec<WaitReason> {
    plan.waits.iter().map(|wait| wait.reason).collect()
}

#[test]
fn a_deleted_machine_keeps_its_member_until_its_replacement_has_one() {
    let mut world = hooked(3);
    let name = world.hosts[0].name().to_owned();
    world.delete(&name);
    let (state, plan) = next(&world);
    let step = plan.disruptive().unwrap();
    let Action::Create { machine, .. } = &step.action else {
        panic!("{plan:?}");
    };
    let hooks = machine.spec.lifecycle_hooks.as_ref().unwrap();
    assert_eq!(hooks.pre_drain[0].name, HOOK, "a new machine carries the hook");
    assert!(plan.steps.iter().all(|step| !is_release(&state.observed, step)));
    world.execute(&plan);
    // The new machine is ready, and its member has not started.
    let new = world.hosts.last_mut().unwrap();
    (new.ready, new.member) = (true, Member::Unstarted);
    assert!(next(&world).1.steps.is_empty());
    world.hosts.last_mut().unwrap().member = Member::Healthy;
    let (state, plan) = next(&world);
    let [step] = plan.steps.as_slice() else {
        panic!("{plan:?}");
    };
    assert!(is_release(&state.observed, step), "{step:?}");
    assert_eq!(removed_by(&state.observed, step), Some(name.as_str()));
    assert_eq!(successors(&state.observed, &name).len(), 3);
    // After a crash between the removal and the release, only the hook is left.
    world.named(&name).member = Member::None;
    let (state, plan) = next(&world);
    assert!(is_release(&state.observed, &plan.steps[0]));
    assert_eq!(removed_by(&state.observed, &plan.steps[0]), None);
}

#[test]
fn an_unhealthy_member_leaves_at_once_unless_the_quorum_needs_it() {
    let mut world = hooked(3);
    let name = world.hosts[0].name().to_owned();
    world.delete(&name);
    let lost = world.named(&name);
    (lost.ready, lost.member) = (false, Member::Unhealthy);
    let (state, plan) = next(&world);
    assert_eq!(removed_by(&state.observed, &plan.steps[0]), Some(name.as_str()));
    // Two of three members do not answer: without either, one of two would be healthy.
    world.hosts[1].member = Member::Unhealthy;
    let (_, plan) = next(&world);
    assert!(plan.steps.is_empty());
    assert!(waits_for(&plan).contains(&WaitReason::EtcdQuorum), "{plan:?}");
}

#[test]
fn nothing_is_decided_while_the_members_do_not_answer() {
    let mut world = hooked(3);
    let name = world.hosts[0].name().to_owned();
    world.delete(&name);
    let observed = Observed {
        own_members: Some(Err(UnknownMembers::NoAnswer(String::from("no member responds")))),
        ..world.observed()
    };
    let state = State::observe(&world.spec(), observed);
    let plan = plan(&world.spec(), &state);
    assert!(plan.steps.is_empty(), "{plan:?}");
    assert!(waits_for(&plan).contains(&WaitReason::EtcdHealthy), "{plan:?}");
}

/// A settled control plane of three machines with the hook, two of which are being deleted.
fn with_two_deleted() -> (World, Vec<String>) {
    let mut world = hooked(3);
    let names: Vec<String> = world.hosts.iter().map(|host| host.name().to_owned()).collect();
    world.delete(&names[0]);
    world.delete(&names[1]);
    (world, names)
}

fn hook_patches(plan: &Plan) -> usize {
    let is_patch = |step: &&Step| matches!(&step.action, Action::Patch { patch, .. } if patch.pointer("/spec/lifecycleHooks").is_some());
    plan.steps.iter().filter(is_patch).count()
}

#[test]
fn v114_without_the_option_a_deleted_machine_keeps_its_hook_and_without_an_operator_all_do() {
    let (mut world, _) = with_two_deleted();
    let managed = world.plan();
    assert_eq!(hook_patches(&managed), 1, "the machine that stays: {managed:?}");
    world.execute(&managed);
    let held = world.plan();
    assert_eq!(hook_patches(&held), 0, "{held:?}");
    let told: Vec<&str> = held.waits.iter().map(|wait| wait.message.as_str()).collect();
    let of_hook = told.iter().filter(|message| message.contains("--etcd-members=capstan"));
    assert_eq!(of_hook.count(), 2, "{told:?}");
    let world = hooked(3);
    let mut observed = world.observed();
    observed.etcd = None;
    let alone = plan(&world.spec(), &State::observe(&world.spec(), observed));
    assert_eq!(hook_patches(&alone), 0, "{alone:?}");
}

#[test]
fn v115_a_machine_without_a_node_keeps_its_hook_while_a_member_belongs_to_no_machine() {
    let (mut world, _) = with_two_deleted();
    for host in &mut world.hosts {
        host.machine["status"] = json!(null);
    }
    let (_, plan) = next(&world);
    assert_eq!(hook_patches(&plan), 0, "{plan:?}");
    assert!(waits_for(&plan).contains(&WaitReason::EtcdMembers), "{plan:?}");
}

#[test]
fn the_hook_is_removed_where_the_etcd_operator_manages_the_members_and_with_the_control_plane() {
    let mut world = hooked(3);
    let patches = |plan: &Plan| {
        let patch = |step: &Step| matches!(&step.action, Action::Patch { patch, .. } if patch.pointer("/spec/lifecycleHooks/preDrain") == Some(&json!([])));
        plan.steps.iter().filter(|step| patch(step)).count()
    };
    assert_eq!(patches(&world.plan()), 3);
    world.object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let object = serde_json::from_value(world.object.clone()).unwrap();
    let plan = leave(&object, &world.observed());
    assert_eq!(
        (patches(&plan), plan.steps.len()),
        (3, 3),
        "the finalizer stays until then"
    );
}

#[test]
fn v226_a_deleted_machine_keeps_its_hook_until_its_member_is_removed_also_without_its_control_plane() {
    let (mut world, names) = with_two_deleted();
    world.object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let object = serde_json::from_value(world.object.clone()).unwrap();
    let members = |observed: &Observed| observed.own_members.clone().unwrap().unwrap();
    let mut observed = managed(&world);
    let mut removed = Vec::new();
    // Each member is removed, and each machine goes, before the next one.
    for _ in 0..2 {
        let plan = leave(&object, &observed);
        let [step] = plan.steps.as_slice() else {
            panic!("{plan:?}");
        };
        assert!(is_release(&observed, step), "a live read confirms it");
        let member = removed_by(&observed, step).unwrap().to_owned();
        let gone = step.machine().unwrap().to_owned();
        assert_eq!(successors(&observed, &member).len(), 1);
        observed.own_members = Some(Ok(members(&observed)
            .into_iter()
            .filter(|one| one.name != member)
            .collect()));
        observed.machines.retain(|machine| machine.metadata.name() != gone);
        removed.push(gone);
    }
    assert!(
        removed.contains(&names[0]) && removed.contains(&names[1]),
        "{removed:?}"
    );
    // The machine that stays loses its hook, and no member.
    let plan = leave(&object, &observed);
    assert_eq!((hook_patches(&plan), plan.steps.len()), (1, 1), "{plan:?}");
    assert_eq!(removed_by(&observed, &plan.steps[0]), None);
}

/// Nothing of the deleted machine is released, whether or not the ControlPlane is being deleted.
fn is_held(world: &World, observed: Observed, name: &str, parts: &[&str]) {
    let mut object = world.object.clone();
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let last = leave(&serde_json::from_value(object).unwrap(), &observed);
    let state = State::observe(&world.spec(), observed);
    for plan in [plan(&world.spec(), &state), last] {
        assert_eq!(hook_patches(&plan), 0, "{plan:?}");
        let is_told = |wait: &&Wait| {
            wait.subject.as_ref().is_some_and(|subject| subject.name == name)
                && parts.iter().all(|part| wait.message.contains(part))
        };
        assert!(plan.waits.iter().any(|wait| is_told(&wait)), "{plan:?}");
    }
}

/// A wrong node reference made a deleted machine take the member of a machine that stays, as soon
/// as that member did not answer for a moment. Etcd then lost its quorum with the deleted machine.
#[test]
fn v251_a_deleted_machine_whose_node_another_machine_names_keeps_its_hook_and_every_member() {
    let mut world = hooked(3);
    let names: Vec<String> = world.hosts.iter().map(|host| host.name().to_owned()).collect();
    world.delete(&names[0]);
    world.hosts[1].member = Member::Unhealthy;
    let mut observed = managed(&world);
    let node = observed.machines[1].node_name().unwrap().to_owned();
    let wrong = Arc::make_mut(&mut observed.machines[0]);
    wrong.status = serde_json::from_value(json!({"phase": "Running", "nodeRef": {"name": node}})).unwrap();
    is_held(&world, observed, &names[0], &["both name the node", &names[1]]);
}

/// The member that was removed was not the one of the pod, and the other one voted without its
/// machine.
#[test]
fn v252_a_deleted_machine_keeps_its_hook_while_etcd_has_two_members_of_its_name() {
    let mut world = hooked(3);
    let name = world.hosts[0].name().to_owned();
    world.delete(&name);
    let mut observed = managed(&world);
    let mut members = observed.own_members.clone().unwrap().unwrap();
    members.push(members[0].clone());
    observed.own_members = Some(Ok(members));
    is_held(&world, observed, &name, &["2 members named"]);
}

/// The node of the deleted machine exists, and its member may start and vote a moment later. Seed
/// 20327 of the own-members scenario lost the quorum by that.
#[test]
fn v250_a_deleted_machine_keeps_its_hook_while_its_member_may_be_the_one_that_has_not_started() {
    let (mut world, names) = with_two_deleted();
    world.object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let object = serde_json::from_value(world.object.clone()).unwrap();
    let mut observed = managed(&world);
    let mut machines = observed.machines.iter();
    let first = machines.find(|machine| machine.metadata.name() == names[0]).unwrap();
    let node = first.node_name().unwrap().to_owned();
    let mut members = observed.own_members.clone().unwrap().unwrap();
    members.iter_mut().find(|one| one.name == node).unwrap().name = String::new();
    observed.own_members = Some(Ok(members));
    let plan = leave(&object, &observed);
    assert!(plan.steps.is_empty(), "{plan:?}");
    let text = format!(
        "an etcd member has not started, and may be that of machine {}",
        names[0]
    );
    assert!(plan.waits.iter().any(|wait| wait.message.contains(&text)), "{plan:?}");
}

#[test]
fn v226_a_member_that_etcd_needs_stays_and_the_finalizer_with_it() {
    let mut world = hooked(1);
    let name = world.hosts[0].name().to_owned();
    world.delete(&name);
    world.object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let object = serde_json::from_value(world.object.clone()).unwrap();
    let alone = managed(&world);
    let silent = Observed {
        own_members: Some(Err(UnknownMembers::NoAnswer(String::from("no member responds")))),
        ..alone.clone()
    };
    let unmanaged = Observed {
        own_members: None,
        ..alone.clone()
    };
    for (observed, reason, text) in [
        (alone, WaitReason::EtcdQuorum, "0 of 0 voting members"),
        (silent, WaitReason::EtcdHealthy, "no member responds"),
        (unmanaged, WaitReason::EtcdMembers, "--etcd-members=capstan"),
    ] {
        let plan = leave(&object, &observed);
        assert!(plan.steps.is_empty(), "{plan:?}");
        let [wait] = plan.waits.as_slice() else {
            panic!("{plan:?}");
        };
        assert_eq!(wait.reason, reason);
        assert!(wait.message.contains(text), "{}", wait.message);
        let status = stopped_status(&object, &plan, None, Timestamp::UNIX_EPOCH);
        let mut conditions = status.conditions.iter();
        let progressing = conditions.find(|one| one.type_ == "Progressing").unwrap();
        assert_eq!(progressing.reason, "Deleting");
        assert!(progressing.message.contains(text), "{}", progressing.message);
    }
}

#[test]
fn v227_a_deleted_machine_without_its_labels_is_reported_while_the_hook_holds_it() {
    let mut world = hooked(3);
    let name = world.hosts[0].name().to_owned();
    let metadata = world.hosts[0].machine["metadata"].as_object_mut().unwrap();
    let labels = metadata.remove("labels").unwrap();
    let (_, before) = next(&world);
    assert_eq!(before.degraded[0].reason, "StrayedMachines", "{before:?}");
    world.delete(&name);
    let (_, plan) = next(&world);
    assert_eq!(plan.disruptive(), None, "{plan:?}");
    let [reason] = plan.degraded.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!(reason.reason, "StrayedMachines");
    for part in [&*name, "put the labels back, so that the etcd members"] {
        assert!(reason.message.contains(part), "{}", reason.message);
    }
    // The remedy works.
    world.hosts[0].machine["metadata"]["labels"] = labels;
    let (_, plan) = next(&world);
    assert!(plan.degraded.is_empty() && plan.disruptive().is_some(), "{plan:?}");
    // The deletion of the ControlPlane does not release the machine without its member.
    world.hosts[0].machine["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("labels");
    world.object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let object = serde_json::from_value(world.object.clone()).unwrap();
    let observed = managed(&world);
    let plan = leave(&object, &observed);
    assert_eq!(removed_by(&observed, &plan.steps[0]), Some(name.as_str()), "{plan:?}");
}

/// The machine and the node of a host disappear, and its member stays behind.
fn lose(world: &mut World, position: usize) -> String {
    let name = world.hosts.remove(position).name().to_owned();
    world.lost.push(name.clone());
    name
}

/// The plan creates and deletes nothing, and the degradation has these parts.
fn is_degraded(state: &State, world: &World, parts: &[&str]) {
    let plan = plan(&world.spec(), state);
    assert_eq!(plan.disruptive(), None, "{plan:?}");
    let [reason] = plan.degraded.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!(reason.reason, "LostEtcdMember");
    for part in parts.iter().chain(&["etcdctl member remove"]) {
        assert!(reason.message.contains(part), "{part}: {}", reason.message);
    }
}

#[test]
fn v249_pods_of_several_etcd_clusters_degrade_the_control_plane_until_a_user_corrects_them() {
    let world = hooked(3);
    let text = "pods of different etcd clusters: etcd-events-a and etcd-a on Node a";
    let mut observed = Observed {
        own_members: Some(Err(several_clusters(text.to_owned()))),
        ..managed(&world)
    };
    is_stopped(&world, observed.clone(), text);
    // A reader that cannot ask the members knows what the controller reported.
    let condition = json!({"type": "Degraded", "status": "True", "reason": "SeveralEtcdClusters",
        "message": text, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let mut object = world.object.clone();
    object["status"] = json!({"conditions": [condition]});
    observed.own_members = assumed(&observed.machines, &serde_json::from_value(object).unwrap());
    is_stopped(&world, observed, text);
}

/// Nothing is done while only a user can tell which the etcd members are.
fn is_stopped(world: &World, observed: Observed, text: &str) {
    let plan = plan(&world.spec(), &State::observe(&world.spec(), observed));
    let [reason] = plan.degraded.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!((reason.reason, reason.message.as_str()), ("SeveralEtcdClusters", text));
    assert!(plan.steps.is_empty() && is_concerned(&plan), "{plan:?}");
}

#[test]
fn v220_no_machine_is_created_or_deleted_beside_a_member_that_is_left_behind() {
    // The machine went without its hook.
    let mut world = hooked(3);
    let name = lose(&mut world, 0);
    is_degraded(&state(&world), &world, &[&name]);
    world.lost.clear();
    let (_, plan) = next(&world);
    assert!(matches!(plan.disruptive().unwrap().action, Action::Create { .. }));
    // The same during a rollout, in which the number of machines is right again.
    let mut world = hooked(3);
    world.lost.push("gone".to_owned());
    world.object["spec"]["providerSpec"]["value"]["instanceType"] = json!("m6i.8xlarge");
    is_degraded(&state(&world), &world, &["gone"]);
    world.lost.clear();
    let (_, plan) = next(&world);
    assert!(matches!(plan.disruptive().unwrap().action, Action::Create { .. }));
}

/// Whether the instance is gone cannot be seen: its Machine, Node and pod may have been deleted.
#[test]
fn v224_a_member_without_a_machine_is_never_removed() {
    for position in 0..3 {
        let mut world = hooked(3);
        lose(&mut world, position);
        let (state, plan) = next(&world);
        let removed = plan.steps.iter().find_map(|step| removed_by(&state.observed, step));
        assert_eq!(removed, None, "{plan:?}");
    }
}

#[test]
fn v220_a_member_without_a_machine_that_answers_or_joins_is_not_lost() {
    let mut world = hooked(3);
    let name = lose(&mut world, 0);
    let of = |world: &World, change: &dyn Fn(&mut EtcdMember)| {
        let mut observed = state(world).observed;
        let Some(Ok(members)) = &mut observed.own_members else {
            panic!()
        };
        members.iter_mut().filter(|member| member.name == name).for_each(change);
        let state = State::observe(&world.spec(), observed);
        plan(&world.spec(), &state)
    };
    let plan = of(&world, &|member| member.is_healthy = true);
    assert!(plan.degraded.is_empty(), "{plan:?}");
    let plan = of(&world, &|member| member.name.clear());
    assert!(plan.degraded.is_empty(), "{plan:?}");
    assert_eq!(waits_for(&plan), [WaitReason::EtcdMembers], "{plan:?}");
    // The learner may be that of the machine, whose node is not linked yet.
    world.hosts[0].machine["status"] = json!(null);
    let plan = of(&world, &|member| member.is_learner = true);
    assert!(plan.degraded.is_empty(), "{plan:?}");
}

#[test]
fn v220_another_cause_of_a_lost_member_is_named() {
    let mut world = hooked(5);
    let name = lose(&mut world, 0);
    world.object["spec"]["replicas"] = json!(3);
    // Its node is still there.
    let mut observed = state(&world).observed;
    let node = json!({"metadata": {"name": name}});
    observed.nodes.push(Arc::new(serde_json::from_value(node).unwrap()));
    let state_with_node = State::observe(&world.spec(), observed);
    is_degraded(&state_with_node, &world, &[&name, &format!("Node {name}")]);
    // A machine without the labels of the control plane has the node.
    let mut observed = state(&world).observed;
    let worker = json!({"metadata": {"name": "stray"}, "spec": {}, "status": {"nodeRef": {"name": name}}});
    observed
        .machines
        .push(Arc::new(serde_json::from_value(worker).unwrap()));
    let state_with_machine = State::observe(&world.spec(), observed);
    is_degraded(&state_with_machine, &world, &[&name, "machine stray"]);
    // The members have other names than their nodes.
    let mut observed = state(&world).observed;
    let Some(Ok(members)) = &mut observed.own_members else {
        panic!()
    };
    for (member, number) in members.iter_mut().zip(0..) {
        (member.name, member.is_healthy) = (format!("etcd-{number}"), number > 0);
    }
    let renamed = State::observe(&world.spec(), observed);
    is_degraded(&renamed, &world, &["etcd-0", "the name of its node"]);
}

#[test]
fn v220_the_etcd_operator_removes_the_members_that_it_manages() {
    let mut world = hooked(3);
    let name = lose(&mut world, 0);
    let mut observed = world.observed();
    let text = format!("EtcdMembersAvailable: 2 of 3 members are available, {name} is unhealthy");
    let etcd = json!({"metadata": {"name": "etcd"}, "status": {"conditions": [
        {"type": "Available", "status": "True", "message": text}, {"type": "Degraded", "status": "False"}]}});
    observed.etcd = Some(Arc::new(serde_json::from_value(etcd).unwrap()));
    let state = State::observe(&world.spec(), observed);
    let plan = plan(&world.spec(), &state);
    assert!(plan.degraded.is_empty(), "{plan:?}");
}
