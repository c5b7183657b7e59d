use serde_json::{Value, json};

use super::*;
use crate::kcp::desired::Bootstrap;
use crate::kcp::samples::{World, now};
use crate::model::PAUSED_ROLLOUT;

mod bypassed;
mod interference;
mod lost_machines;
mod properties;
mod unknown;

fn planned(world: &World) -> Plan {
    plan(&world.state(), now())
}

/// The disruptive step, as `create a join`, `delete m-0` or `remove-member x`; else the waits.
fn next(world: &World) -> String {
    let plan = planned(world);
    let disruptive = plan.steps.iter().filter(|step| step.is_disruptive());
    let steps: Vec<String> = disruptive.map(shown).collect();
    if !steps.is_empty() {
        return steps.join(", ");
    }
    let mut waits: Vec<&str> = plan.waits.iter().map(|wait| wait.reason.name()).collect();
    waits.dedup();
    format!("waits {}", waits.join(" "))
}

fn shown(step: &Step) -> String {
    match &step.action {
        Action::Create { bootstrap, .. } => {
            format!("create {} {}", step.domain().unwrap_or("-"), bootstrap.name())
        }
        Action::RemoveMember { member } => format!("remove-member {member}"),
        Action::RemoveHook { member, .. } => {
            format!("remove-hook {} {}", step.subject.name, member.as_deref().unwrap_or("-"))
        }
        _ => format!("{} {}", step.verb(), step.subject.name),
    }
}

fn rolled(domains: &str, surge: u32) -> World {
    let mut world = World::new(domains);
    for machine in 0..domains.len() {
        world.outdated(machine);
    }
    world.spec()["rollout"] = json!({"strategy": {"rollingUpdate": {"maxSurge": surge}}});
    world
}

#[test]
fn a_control_plane_at_its_size_has_nothing_to_do() {
    let plan = planned(&World::new("abc"));
    assert!(
        plan.steps.is_empty() && plan.waits.is_empty() && plan.degraded.is_empty(),
        "{plan:?}"
    );
}

#[test]
fn the_first_machine_begins_the_control_plane_and_the_next_ones_join_one_at_a_time() {
    let mut world = World::new("");
    world.control_plane["status"] = json!({});
    world.spec()["replicas"] = json!(3);
    assert_eq!(next(&world), "create a init");
    let mut world = World::new("a");
    world.spec()["replicas"] = json!(3);
    assert_eq!(next(&world), "create b join");
    world.without_node(0);
    assert_eq!(next(&world), "waits MachineReady");
}

#[test]
fn a_new_machine_has_the_configuration_of_its_bootstrap() {
    let mut world = World::new("a");
    world.spec()["replicas"] = json!(3);
    world.spec()["version"] = json!("v1.31.2");
    world.spec()["machineTemplate"]["metadata"] = json!({"labels": {"x": "y"}, "annotations": {"p": "q"}});
    world.spec()["machineTemplate"]["spec"]["deletion"] = json!({"nodeDrainTimeoutSeconds": 60});
    world.spec()["machineTemplate"]["spec"]["readinessGates"] =
        json!([{"conditionType": "SchedulerPodHealthy"}, {"conditionType": "Mine"}]);
    let plan = planned(&world);
    let step = plan.disruptive().unwrap();
    let Action::Create {
        machine,
        config,
        bootstrap,
    } = &step.action
    else {
        panic!("{step:?}")
    };
    assert_eq!(*bootstrap, Bootstrap::Join);
    let machine = serde_json::to_value(machine).unwrap();
    assert_eq!(machine["spec"]["version"], "v1.31.2");
    assert_eq!(machine["spec"]["infrastructureRef"]["kind"], "DevMachine");
    assert_eq!(machine["spec"]["deletion"], json!({"nodeDrainTimeoutSeconds": 60}));
    assert_eq!(machine["spec"]["readinessGates"].as_array().unwrap().len(), 7);
    assert_eq!(machine["metadata"]["labels"]["x"], "y");
    assert_eq!(machine["metadata"]["ownerReferences"][0]["controller"], true);
    let name = machine["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("cp-") && name.len() == 8, "{name}");
    let config = serde_json::to_value(config).unwrap();
    assert_eq!(config["metadata"]["name"], name);
    assert_eq!(config["spec"].get("initConfiguration"), None);
    assert_eq!(config["spec"]["joinConfiguration"]["controlPlane"], json!({}));
    assert_eq!(
        config["spec"]["clusterConfiguration"]["featureGates"],
        json!({"ControlPlaneKubeletLocalMode": true})
    );
}

#[test]
fn a_name_is_derived_and_no_machine_has_it() {
    let mut world = World::new("a");
    world.spec()["replicas"] = json!(3);
    let name = |world: &World| planned(world).disruptive().unwrap().subject.name.clone();
    let first = name(&world);
    assert_eq!(first, name(&world), "the same snapshot gives the same name");
    world.machines[0]["metadata"]["name"] = json!("other");
    assert_ne!(first, name(&world));
    world.spec()["machineNaming"] = json!({"template": "fixed"});
    assert_ne!(name(&world), "");
    world.machines[0]["metadata"]["name"] = json!("fixed");
    assert_eq!(planned(&world).degraded[0].reason, "InvalidMachineNaming");
}

#[test]
fn a_machine_too_many_is_deleted() {
    let mut world = World::new("abcab");
    world.spec()["replicas"] = json!(3);
    assert_eq!(next(&world), "delete m-0");
    world.set(1, condition::SCHEDULER, "False");
    assert_eq!(next(&world), "waits ControlPlaneHealthy");
}

#[test]
fn a_rollout_with_a_surge_creates_first_and_then_deletes() {
    let mut world = rolled("abc", 1);
    assert_eq!(next(&world), "create a join");
    world = rolled("abca", 1);
    world.spec()["replicas"] = json!(3);
    world.machines[3]["spec"]["version"] = json!("v1.30.0");
    assert_eq!(next(&world), "delete m-0");
    world.without_node(3);
    assert_eq!(next(&world), "waits MachineReady");
}

#[test]
fn a_rollout_without_a_surge_deletes_first_and_then_creates() {
    let world = rolled("abc", 0);
    assert_eq!(next(&world), "delete m-0");
    let mut world = rolled("bc", 0);
    world.spec()["replicas"] = json!(3);
    assert_eq!(next(&world), "create a join");
}

#[test]
fn a_rollout_and_a_change_of_replicas_happen_together() {
    let mut world = rolled("abcab", 1);
    world.spec()["replicas"] = json!(3);
    assert_eq!(next(&world), "delete m-0", "five machines, and four are allowed");
    let mut world = rolled("abc", 1);
    world.spec()["replicas"] = json!(5);
    assert_eq!(next(&world), "create a join");
}

#[test]
fn a_paused_rollout_replaces_nothing_and_scaling_continues() {
    let paused = |mut world: World| {
        world.control_plane["metadata"]["annotations"] = json!({(PAUSED_ROLLOUT): ""});
        world
    };
    assert_eq!(next(&paused(rolled("abc", 1))), "waits Pause");
    assert_eq!(next(&paused(rolled("abc", 0))), "waits Pause");
    let mut surged = paused(rolled("abca", 1));
    surged.spec()["replicas"] = json!(3);
    surged.machines[3]["spec"]["version"] = json!("v1.30.0");
    assert_eq!(next(&surged), "waits Pause", "both machines of the replacement stay");
    let mut more = paused(rolled("abc", 1));
    more.spec()["replicas"] = json!(5);
    assert_eq!(next(&more), "create a join");
    let mut fewer = paused(rolled("abcab", 1));
    fewer.spec()["replicas"] = json!(3);
    assert_eq!(next(&fewer), "delete m-0");
    let mut unhealthy = paused(rolled("abc", 1));
    unhealthy.unhealthy(1);
    assert_eq!(next(&unhealthy), "delete m-1", "remediation continues");
    let mut continued = rolled("abc", 1);
    continued.control_plane["metadata"]["annotations"] = json!({(PAUSED_ROLLOUT): "False"});
    assert_eq!(next(&continued), "create a join");
}

#[test]
fn a_paused_control_plane_or_cluster_is_ignored() {
    let mut world = rolled("abc", 1);
    world.control_plane["metadata"]["annotations"] = json!({"cluster.x-k8s.io/paused": ""});
    assert_eq!(next(&world), "waits ");
    let mut world = rolled("abc", 1);
    world.cluster["spec"]["paused"] = json!(true);
    assert_eq!(next(&world), "waits ");
}

#[test]
fn no_machine_is_created_before_the_cluster_has_infrastructure_and_an_endpoint() {
    let change = |pointer: &str, value: Value| {
        let mut world = World::new("");
        *world.cluster.pointer_mut(pointer).unwrap() = value;
        next(&world)
    };
    assert_eq!(change("/status/initialization", json!({})), "waits ClusterReady");
    assert_eq!(change("/spec/controlPlaneEndpoint", json!({})), "waits ClusterReady");
    assert_eq!(change("/metadata/name", json!("other")), "waits ClusterReady");
}

#[test]
fn v152_a_control_plane_to_which_the_cluster_does_not_refer_does_nothing() {
    let mut world = World::new("");
    world.cluster["spec"]["controlPlaneRef"] = json!({"kind": "KubeadmControlPlane", "name": "cp"});
    assert!(next(&world).starts_with("create "), "{}", next(&world));
    world.cluster["spec"]["controlPlaneRef"]["name"] = json!("other");
    assert_eq!(next(&world), "waits ClusterReady");
    assert!(
        world.state().cluster.is_none(),
        "its certificates are not created either"
    );
}

#[test]
fn v42_no_machine_is_adopted_while_one_is_too_far_from_the_version_or_has_another_bootstrap() {
    let adopted = |version: Value, kind: &str| {
        let mut world = World::new("abc");
        for machine in &mut world.machines[..2] {
            machine["metadata"]["ownerReferences"] = json!([]);
        }
        world.machines[0]["spec"]["version"] = version;
        world.machines[0]["spec"]["bootstrap"]["configRef"]["kind"] = json!(kind);
        planned(&world)
    };
    for version in [json!("v1.29.9"), json!("v1.31.0"), json!("1.30.1"), json!("")] {
        let plan = adopted(version.clone(), "KubeadmConfig");
        assert_eq!((plan.steps.len(), plan.degraded.len()), (2, 0), "{version}");
    }
    for (version, kind, problem) in [
        ("v1.28.0", "KubeadmConfig", "at most one minor version from v1.30.0"),
        ("v1.32.0", "KubeadmConfig", "at most one minor version from v1.30.0"),
        ("v2.30.0", "KubeadmConfig", "at most one minor version from v1.30.0"),
        ("latest", "KubeadmConfig", "at most one minor version from v1.30.0"),
        ("v1.30.0", "OtherConfig", "must have a KubeadmConfig"),
    ] {
        let plan = adopted(json!(version), kind);
        assert!(plan.steps.is_empty(), "{version} {kind}");
        assert_eq!(plan.degraded[0].reason, "AdoptionFailed");
        let message = &plan.degraded[0].message;
        assert!(
            message.contains("machine m-0 must") && message.contains(problem),
            "{message}"
        );
        assert!(
            message.ends_with("delete no machine while etcd needs its member"),
            "{message}"
        );
    }
}

#[test]
fn a_machine_without_a_controller_is_adopted_before_anything_else() {
    let mut world = rolled("abc", 1);
    world.machines[1]["metadata"]["ownerReferences"] = json!([]);
    let plan = planned(&world);
    assert_eq!(plan.steps.iter().map(shown).collect::<Vec<_>>(), ["patch m-1"]);
    world.machines[1]["metadata"]["ownerReferences"] = world.machines[0]["metadata"]["ownerReferences"].clone();
    world.machines[1]["metadata"]["ownerReferences"][0]["kind"] = json!("Another");
    assert_eq!(planned(&world).degraded[0].reason, "MachinesAlreadyOwned");
}

#[test]
fn a_remediation_records_the_machine_and_then_deletes_it() {
    let mut world = World::new("abc");
    world.unhealthy(1);
    world.set(1, condition::ETCD_MEMBER, "False");
    let plan = planned(&world);
    let verbs: Vec<&str> = plan.steps.iter().map(Step::verb).collect();
    assert_eq!(verbs, ["patch", "delete"]);
    let Action::PatchControlPlane(patch) = &plan.steps[0].action else {
        panic!("{plan:?}")
    };
    let text = patch["metadata"]["annotations"][REMEDIATION_IN_PROGRESS]
        .as_str()
        .unwrap();
    let record: Value = serde_json::from_str(text).unwrap();
    assert_eq!(
        record,
        json!({"machine": "m-1", "timestamp": "2026-06-01T12:00:00Z", "retryCount": 0})
    );
}

#[test]
fn the_replacement_of_a_remediated_machine_gets_its_record() {
    let mut world = World::new("ac");
    world.spec()["replicas"] = json!(3);
    let record = json!({"machine": "m-9", "timestamp": "2026-06-01T11:00:00Z", "retryCount": 1}).to_string();
    world.control_plane["metadata"]["annotations"] = json!({(REMEDIATION_IN_PROGRESS): record});
    let plan = planned(&world);
    let Action::Create { machine, .. } = &plan.disruptive().unwrap().action else {
        panic!("{plan:?}")
    };
    let annotation = "controlplane.cluster.x-k8s.io/remediation-for";
    assert_eq!(machine.metadata.annotations[annotation], record);
}

/// The replacement exists, so the next machine is not a replacement.
#[test]
fn a_record_whose_replacement_exists_is_removed_and_no_other_machine_gets_it() {
    let mut world = World::new("ac");
    world.spec()["replicas"] = json!(3);
    let record = json!({"machine": "m-9", "timestamp": "2026-06-01T11:00:00Z", "retryCount": 1}).to_string();
    world.control_plane["metadata"]["annotations"] = json!({(REMEDIATION_IN_PROGRESS): record.clone()});
    world.annotate(1, "controlplane.cluster.x-k8s.io/remediation-for", &record);
    let plan = planned(&world);
    let verbs: Vec<&str> = plan.steps.iter().map(Step::verb).collect();
    assert_eq!(verbs, ["patch", "create"]);
    let Action::Create { machine, .. } = &plan.steps[1].action else {
        panic!("{plan:?}")
    };
    let annotation = "controlplane.cluster.x-k8s.io/remediation-for";
    assert_eq!(machine.metadata.annotations.get(annotation), None);
    world.set(0, condition::SCHEDULER, "False");
    assert_eq!(next(&world), "waits ControlPlaneHealthy", "the checks are not weakened");
}

#[test]
fn leadership_moves_to_the_newest_healthy_machine_before_the_leader_is_deleted() {
    let mut world = World::new("abcab");
    world.spec()["replicas"] = json!(3);
    world.etcd.as_mut().unwrap()["leader"] = json!("n-0");
    let moved = |world: &World| {
        let plan = planned(world);
        match &plan.disruptive().unwrap().action {
            Action::Delete { move_leader_to, .. } => move_leader_to.join(" "),
            action => panic!("{action:?}"),
        }
    };
    assert_eq!(moved(&world), "m-4 m-3 m-2 m-1");
    world.set(2, condition::HEALTH_CHECK_SUCCEEDED, "True");
    assert_eq!(moved(&world), "m-2 m-4 m-3 m-1");
    world.etcd.as_mut().unwrap()["leader"] = json!("n-1");
    assert_eq!(moved(&world), "");
}

#[test]
fn v118_the_member_of_a_machine_without_a_hook_is_removed_before_the_machine_is_deleted() {
    let mut world = World::new("abcab");
    world.spec()["replicas"] = json!(3);
    let deleted = |world: &World| {
        let plan = planned(world);
        match &plan.disruptive().unwrap().action {
            Action::Delete { member, .. } => member.clone(),
            action => panic!("{action:?}"),
        }
    };
    assert_eq!(deleted(&world), None, "the hook delays the deletion");
    for machine in &mut world.machines {
        machine["metadata"]["annotations"] = json!({});
    }
    assert_eq!(deleted(&world).as_deref(), Some("n-0"));
}

#[test]
fn v119_a_deletion_of_the_control_plane_does_not_change_etcd() {
    let mut world = World::new("ab");
    world.etcd.as_mut().unwrap()["leader"] = json!("n-0");
    world.control_plane["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:00:00Z");
    for machine in &mut world.machines {
        machine["metadata"]["annotations"] = json!({});
    }
    let plan = planned(&world);
    assert_eq!(plan.steps.len(), 2, "{plan:?}");
    for step in &plan.steps {
        let Action::Delete {
            member, move_leader_to, ..
        } = &step.action
        else {
            panic!("{step:?}")
        };
        assert!(member.is_none() && move_leader_to.is_empty(), "{step:?}");
    }
}

#[test]
fn v150_a_member_that_has_not_started_stays_while_a_machine_with_a_node_has_none() {
    let mut world = World::new("abc");
    let members = |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name})).collect() };
    world.etcd.as_mut().unwrap()["members"] = members(&["n-0", "n-1", ""]);
    let plan = planned(&world);
    assert!(plan.disruptive().is_none(), "{plan:?}");
    let told = plan
        .waits
        .iter()
        .any(|wait| wait.message.contains("may be that of machine m-2"));
    assert!(told, "{:?}", plan.waits);
    world.etcd.as_mut().unwrap()["members"] = members(&["n-0", "n-1", "", ""]);
    assert_eq!(next(&world), "remove-member ", "one more than there are machines");
    // The user does what the wait says: the machine never joins, and its deletion must not wait.
    world.etcd.as_mut().unwrap()["members"] = members(&["n-0", "n-1", ""]);
    world.delete(2);
    assert_eq!(next(&world), "remove-member ", "the machine is being deleted");
}

#[test]
fn a_member_without_a_machine_is_removed_and_a_member_without_a_name_is_first() {
    let mut world = World::new("abc");
    let members = |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name})).collect() };
    world.etcd.as_mut().unwrap()["members"] = members(&["n-0", "n-1", "n-2", "x", ""]);
    assert_eq!(next(&world), "remove-member ");
    world.etcd.as_mut().unwrap()["members"] = members(&["n-0", "n-1", "n-2", "x"]);
    assert_eq!(next(&world), "remove-member x");
    world.set(0, condition::ETCD_MEMBER, "False");
    world.set(1, condition::ETCD_MEMBER, "False");
    assert_eq!(next(&world), "waits EtcdHealthy", "two of three are not healthy");
    world.without_node(2);
    let plan = planned(&world);
    assert!(plan.disruptive().is_none(), "the member may belong to m-2");
}

fn hooked(domains: &str) -> World {
    let mut world = World::new(domains);
    world.delete(0);
    world.machines[0]["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"}));
    world
}

#[test]
fn the_hook_is_removed_with_the_member_after_the_machine_is_drained() {
    assert_eq!(next(&hooked("abc")), "remove-hook m-0 n-0");
    assert_eq!(next(&hooked("abc").external()), "remove-hook m-0 -");
    assert_eq!(next(&hooked("a")), "create b join", "the last machine");
    let mut draining = World::new("abc");
    draining.delete(0);
    assert_eq!(next(&draining), "waits MachineRemoved");
    let mut unsafe_quorum = hooked("abc");
    unsafe_quorum.set(1, condition::ETCD_MEMBER, "False");
    assert_eq!(next(&unsafe_quorum), "waits EtcdHealthy");
    let mut unknown = hooked("abc");
    unknown.etcd = None;
    assert_eq!(next(&unknown), "waits EtcdHealthy");
    let mut second = hooked("abc");
    second.delete(1);
    second.machines[1]["metadata"]["annotations"] = json!({});
    assert_eq!(next(&second), "waits MachineRemoved", "one at a time");
}

#[test]
fn v130_a_deletion_that_waits_for_the_quorum_does_not_prevent_the_remediation_that_it_waits_for() {
    let mut world = hooked("abc");
    world.unhealthy(1);
    world.set(1, condition::ETCD_MEMBER, "False");
    assert_eq!(planned(&world).disruptive().map(shown).unwrap(), "delete m-1");
    let mut draining = world.clone();
    draining.machines[0]["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .pop();
    assert!(planned(&draining).disruptive().is_none());
    let mut released = world;
    released.machines[0]["metadata"]["annotations"] = json!({});
    assert!(planned(&released).disruptive().is_none(), "its member is gone");
}

#[test]
fn v175_a_deletion_that_waits_for_the_learner_of_a_machine_that_fails_to_join_does_not_prevent_its_remediation() {
    let mut world = hooked("abc");
    world.without_node(2);
    let members = world.etcd.as_mut().unwrap()["members"].as_array_mut().unwrap();
    members[2] = json!({"name": "", "learner": true});
    assert_eq!(next(&world), "waits EtcdHealthy", "the learner may still vote");
    world.unhealthy(2);
    assert_eq!(planned(&world).disruptive().map(shown).unwrap(), "delete m-2");
    let mut other = world;
    other.set(2, condition::HEALTH_CHECK_SUCCEEDED, "");
    other.unhealthy(1);
    assert!(
        planned(&other).disruptive().is_none(),
        "it is not the one that fails to join"
    );
}

#[test]
fn v177_a_deletion_that_is_held_up_does_not_write_its_record_again() {
    let mut world = World::new("abc");
    world.unhealthy(1);
    let verbs = |world: &World| -> Vec<&str> { planned(world).steps.iter().map(Step::verb).collect() };
    assert_eq!(verbs(&world), ["patch", "delete"]);
    let Action::PatchControlPlane(patch) = &planned(&world).steps[0].action else {
        panic!("the record is first");
    };
    let annotations = patch["metadata"]["annotations"].clone();
    world.control_plane["metadata"]["annotations"] = annotations;
    assert_eq!(verbs(&world), ["delete"]);
}

#[test]
fn v131_a_machine_whose_member_must_stay_does_not_hold_up_the_deletion_of_the_broken_one() {
    let mut world = hooked("abc");
    world.set(1, condition::ETCD_MEMBER, "False");
    world.delete(1);
    world.machines[1]["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:30:00Z");
    let drained = world.machines[0]["status"]["conditions"]
        .as_array()
        .unwrap()
        .last()
        .cloned();
    world.machines[1]["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .extend(drained);
    assert_eq!(next(&world), "remove-hook m-1 n-1");
}

#[test]
fn v134_a_creation_that_began_with_another_spec_is_not_continued() {
    let mut world = World::new("abc");
    world.spec()["replicas"] = json!(5);
    let name = |world: &World| planned(world).disruptive().unwrap().subject.name.clone();
    let first = name(&world);
    let mut other = world.clone();
    other.spec()["machineTemplate"]["spec"]["infrastructureRef"]["name"] = json!("t2");
    assert_ne!(name(&other), first, "the infrastructure machine may exist already");
    let mut other = world.clone();
    other.spec()["kubeadmConfigSpec"]["joinConfiguration"]["nodeRegistration"]["kubeletExtraArgs"][0]["value"] =
        json!("3");
    assert_ne!(name(&other), first, "the KubeadmConfig may exist already");
    assert_eq!(name(&world), first);
}

#[test]
fn other_hooks_are_removed_first_from_1_31() {
    let mut world = hooked("abc");
    world.annotate(0, "pre-terminate.delete.hook.machine.cluster.x-k8s.io/mine", "");
    assert_eq!(next(&world), "remove-hook m-0 n-0");
    world.spec()["version"] = json!("v1.31.0");
    assert_eq!(next(&world), "waits MachineRemoved");
}

#[test]
fn a_deleted_control_plane_deletes_its_machines_after_the_workers() {
    let mut world = World::new("abc");
    world.control_plane["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:00:00Z");
    for machine in &mut world.machines {
        machine["metadata"]["annotations"] = json!({});
    }
    assert_eq!(next(&world), "delete m-0, delete m-1, delete m-2");
    let mut worker = world.machines[0].clone();
    worker["metadata"]["name"] = json!("w");
    worker["metadata"]["uid"] = json!("w-uid");
    worker["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": "c"});
    worker["metadata"]["ownerReferences"][0]["kind"] = json!("MachineSet");
    world.machines.push(worker);
    assert_eq!(next(&world), "waits WorkersRemoved");
    world.machines.clear();
    assert_eq!(
        planned(&world).steps.iter().map(shown).collect::<Vec<_>>(),
        ["patch cp"]
    );
}

#[test]
fn a_remediation_that_is_withdrawn_is_known() {
    let mut world = World::new("abc");
    world.unhealthy(1);
    assert!(withdrawn_remediations(&world.state()).is_empty());
    world.set(1, condition::HEALTH_CHECK_SUCCEEDED, "True");
    assert_eq!(withdrawn_remediations(&world.state()), ["m-1"]);
}

#[test]
fn a_deferred_remediation_says_when_it_is_tried_again() {
    let mut world = World::new("abc");
    world.unhealthy(0);
    let record = json!({"machine": "old", "timestamp": "2026-06-01T11:59:00Z", "retryCount": 0}).to_string();
    world.annotate(0, "controlplane.cluster.x-k8s.io/remediation-for", &record);
    world.spec()["remediation"] = json!({"retryPeriodSeconds": 600});
    let plan = planned(&world);
    assert_eq!(plan.waits[0].reason, WaitReason::RemediationDeferred);
    assert_eq!(plan.reconcile_at, "2026-06-01T12:09:00Z".parse().ok());
}

#[test]
fn bug_7_6_nothing_is_written_while_preflight_checks_block_a_rollout() {
    let mut world = rolled("abc", 1);
    world.set(1, condition::API_SERVER, "Unknown");
    let plan = planned(&world);
    assert!(plan.steps.is_empty(), "{plan:?}");
    assert_eq!(plan.waits[0].reason, WaitReason::ControlPlaneHealthy);
}

#[test]
fn bug_7_7_the_order_of_the_input_does_not_change_the_plan() {
    let mut world = rolled("ccbbaa", 0);
    for machine in 0..6 {
        world.created(machine, "2026-01-01T00:00:00Z");
    }
    let first = planned(&world);
    assert_eq!(shown(first.disruptive().unwrap()), "delete m-4");
    world.machines.reverse();
    assert_eq!(planned(&world), first);
}

#[test]
fn bug_7_2_a_max_surge_that_is_read_as_zero_never_deletes_the_only_machine() {
    for surge in [json!(0), json!("50%"), json!("abc")] {
        let mut world = rolled("a", 0);
        world.spec()["rollout"]["strategy"]["rollingUpdate"]["maxSurge"] = surge.clone();
        let plan = planned(&world);
        assert!(plan.steps.is_empty(), "{surge} {plan:?}");
        assert_eq!(plan.degraded[0].reason, "InvalidMaxSurge");
    }
    assert_eq!(next(&rolled("a", 1)), "create b join");
}

#[test]
fn bug_7_8_the_failure_domain_with_the_most_eligible_machines_loses_one() {
    // The proposal deletes where most machines are: in a. Only the machines of b are outdated.
    let mut world = World::new("aaabb");
    world.spec()["replicas"] = json!(3);
    world.outdated(3);
    world.outdated(4);
    assert_eq!(next(&world), "delete m-3");
}
