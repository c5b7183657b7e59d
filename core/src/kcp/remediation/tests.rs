use serde_json::{Value, json};

use super::*;
use crate::kcp::samples::{World, now};

/// `delete m-0 0`, `deferred …`, `impossible …`, `in progress` or `nothing`.
fn decided(world: &World) -> String {
    decided_while(world, false)
}

/// The same while a deletion waits for the repair, or does not.
fn decided_while(world: &World, repairs: bool) -> String {
    let state = world.state();
    match decide(&state, now(), repairs) {
        Decision::Nothing => String::from("nothing"),
        Decision::InProgress => String::from("in progress"),
        Decision::Deferred(refusal) => format!("deferred {}: {}", refusal.machine.name(), refusal.message),
        Decision::Impossible(refusal) => format!("impossible {}: {}", refusal.machine.name(), refusal.message),
        Decision::Delete(machine, record) => {
            assert_eq!(record.machine, machine.name());
            format!("delete {} {}", machine.name(), record.retry_count)
        }
    }
}

/// Three machines, the first of which is unhealthy.
fn world() -> World {
    let mut world = World::new("abc");
    world.unhealthy(0);
    world.set(0, condition::ETCD_MEMBER, "False");
    world
}

fn record(machine: &str, at: &str, retries: i64) -> Value {
    json!({"machine": machine, "timestamp": at, "retryCount": retries})
}

#[test]
fn a_machine_is_replaced_only_if_its_health_check_and_its_owner_are_false() {
    assert_eq!(decided(&world()), "delete m-0 0");
    assert_eq!(decided(&World::new("abc")), "nothing");
    for type_ in [condition::HEALTH_CHECK_SUCCEEDED, condition::OWNER_REMEDIATED] {
        for status in ["True", "Unknown", ""] {
            let mut world = world();
            world.set(0, type_, status);
            assert_eq!(decided(&world), "nothing", "{type_} {status}");
        }
    }
}

#[test]
fn the_most_broken_machine_is_first() {
    let mut world = World::new("abcab");
    for machine in 0..5 {
        world.unhealthy(machine);
    }
    let most = |world: &World| most_broken(&world.state(), false).unwrap().name().to_owned();
    assert_eq!(most(&world), "m-0", "the oldest");
    for (machine, type_) in [
        (1, condition::LABELS_AND_TAINTS),
        (2, condition::SCHEDULER),
        (3, condition::CONTROLLER_MANAGER),
        (4, condition::API_SERVER),
        (1, condition::ETCD_POD),
        (2, condition::ETCD_MEMBER),
    ] {
        world.set(machine, type_, "Unknown");
        assert_eq!(most(&world), format!("m-{machine}"), "{type_}");
    }
    world.machines[3]["status"]["nodeRef"] = json!({});
    assert_eq!(most(&world), "m-3", "no Node");
    world.annotate(0, REMEDIATE_MACHINE, "");
    assert_eq!(most(&world), "m-0", "annotated");
}

#[test]
fn machines_of_the_same_age_are_ordered_by_name() {
    let mut world = World::new("abc");
    for machine in 0..3 {
        world.unhealthy(machine);
        world.created(machine, "2026-01-01T00:00:00Z");
    }
    assert_eq!(most_broken(&world.state(), false).unwrap().name(), "m-0");
}

#[test]
fn nothing_is_replaced_while_a_replacement_is_pending() {
    let mut deleting = world();
    deleting.delete(0);
    assert_eq!(decided(&deleting), "in progress");
    let with_record = |text: &str| {
        let mut world = world();
        world.spec()["replicas"] = json!(4);
        // Another member can join.
        world.set(0, condition::ETCD_MEMBER, "True");
        world.control_plane["metadata"]["annotations"] = json!({(REMEDIATION_IN_PROGRESS): text});
        decided(&world)
    };
    let of = |machine: &str, at: &str| with_record(&record(machine, at, 2).to_string());
    assert_eq!(of("m-9", "2026-05-01T00:00:00Z"), "in progress");
    // The recorded machine became healthy.
    assert_eq!(of("m-1", "2026-05-01T00:00:00Z"), "delete m-0 0");
    // The deletion after the record failed.
    assert_eq!(of("m-0", "2026-05-01T00:00:00Z"), "delete m-0 2");
}

#[test]
fn a_version_that_is_pending_defers_a_remediation() {
    let mut world = world();
    world.cluster["spec"]["topology"] = json!({"version": "v1.31.0"});
    assert!(decided(&world).starts_with("deferred m-0: the Cluster is upgraded to v1.31.0"));
}

/// The first machine replaces another one. Now is 12:00.
fn retried(at: &str, retries: i64, limits: &Value) -> String {
    let mut world = world();
    world.annotate(0, REMEDIATION_FOR, &record("old", at, retries).to_string());
    world.spec()["remediation"] = limits.clone();
    decided(&world)
}

#[test]
fn retries_are_counted_within_the_minimum_healthy_period() {
    let none = json!({});
    assert_eq!(retried("2026-06-01T11:30:00Z", 0, &none), "delete m-0 1");
    assert_eq!(retried("2026-06-01T11:30:00Z", 7, &none), "delete m-0 8");
    assert_eq!(
        retried("2026-06-01T11:00:01Z", 7, &none),
        "delete m-0 8",
        "default of one hour"
    );
    assert_eq!(retried("2026-06-01T11:00:00Z", 7, &none), "delete m-0 0");
    let short = json!({"minHealthyPeriodSeconds": 60});
    assert_eq!(retried("2026-06-01T11:58:00Z", 7, &short), "delete m-0 0");
}

/// The clock of the process that replaced the machine was an hour ahead.
#[test]
fn v258_a_retry_does_not_wait_for_a_clock_that_is_ahead() {
    let mut world = world();
    world.spec()["remediation"] = json!({"retryPeriodSeconds": 600});
    world.created(0, "2026-06-01T11:45:00Z");
    let ahead = record("old", "2026-06-01T12:44:00Z", 0).to_string();
    world.annotate(0, REMEDIATION_FOR, &ahead);
    assert_eq!(decided(&world), "delete m-0 1");
    world.created(0, "2026-06-01T11:55:00Z");
    let deferred = decided(&world);
    assert!(deferred.ends_with("next try at 2026-06-01T12:05:00Z"), "{deferred}");
}

#[test]
fn a_retry_waits_for_the_retry_period() {
    let limits = json!({"retryPeriodSeconds": 600});
    assert_eq!(
        retried("2026-06-01T11:50:01Z", 0, &limits),
        "deferred m-0: the replacement of old became unhealthy; \
         spec.remediation.retryPeriodSeconds allows the next try at 2026-06-01T12:00:01Z"
    );
    assert_eq!(retried("2026-06-01T11:50:00Z", 0, &limits), "delete m-0 1");
}

#[test]
fn the_number_of_retries_is_limited() {
    let impossible = |most: i32| {
        format!("impossible m-0: the remediation was retried {most} time(s), and spec.remediation.maxRetry is {most}")
    };
    assert_eq!(
        retried("2026-06-01T11:50:00Z", 2, &json!({"maxRetry": 3})),
        "delete m-0 3"
    );
    assert_eq!(
        retried("2026-06-01T11:50:00Z", 3, &json!({"maxRetry": 3})),
        impossible(3)
    );
    // With 0 a machine is replaced once, and its replacement is not.
    let zero = json!({"maxRetry": 0});
    let mut first = world();
    first.spec()["remediation"] = zero.clone();
    assert_eq!(decided(&first), "delete m-0 0");
    assert_eq!(retried("2026-06-01T11:50:00Z", 0, &zero), impossible(0));
    assert_eq!(
        retried("2026-06-01T10:00:00Z", 0, &zero),
        "delete m-0 0",
        "after the healthy period"
    );
}

#[test]
fn a_record_without_a_time_is_from_long_ago_and_an_unreadable_one_needs_a_user() {
    let mut world = world();
    world.annotate(0, REMEDIATION_FOR, "{\"machine\": \"old\", \"retryCount\": 5}");
    assert_eq!(decided(&world), "delete m-0 0");
    world.annotate(0, REMEDIATION_FOR, "5 times");
    assert!(decided(&world).starts_with("impossible m-0: annotation"));
}

#[test]
fn v267_an_unreadable_record_on_the_control_plane_names_the_annotation_to_correct() {
    let mut world = world();
    world.control_plane["metadata"]["annotations"] = json!({REMEDIATION_IN_PROGRESS: "m-1"});
    let expected = format!("impossible m-0: annotation {REMEDIATION_IN_PROGRESS} of the control plane cannot be read");
    assert!(decided(&world).starts_with(&expected), "{}", decided(&world));
}

#[test]
fn the_only_machine_is_replaced_only_before_initialization() {
    let mut world = World::new("a");
    world.unhealthy(0);
    let refused = decided(&world);
    assert!(refused.starts_with("impossible m-0: the only machine"), "{refused}");
    assert!(
        refused.contains("until a new machine has joined"),
        "the remedy: {refused}"
    );
    assert!(refused.contains("the control plane begins again"), "{refused}");
    world.control_plane["status"]["initialization"] = json!({});
    world.etcd = None;
    world.without_node(0);
    world.unhealthy(0);
    assert_eq!(decided(&world), "delete m-0 0");
}

#[test]
fn other_machines_that_change_defer_a_remediation() {
    let mut creating = world();
    creating.without_node(2);
    creating.set(0, condition::ETCD_MEMBER, "True");
    assert_eq!(decided(&creating), "deferred m-0: machine m-2 has no Node yet");
    creating.set(0, condition::ETCD_MEMBER, "False");
    creating.unhealthy(2);
    // Its etcd member has not joined.
    let members = creating.etcd.as_mut().unwrap();
    members["members"].as_array_mut().unwrap().truncate(2);
    assert!(
        decided(&creating).starts_with("delete m-2"),
        "the machine without a Node is more broken"
    );
    let mut deleting = world();
    deleting.delete(1);
    assert_eq!(decided(&deleting), "deferred m-0: machine m-1 is being deleted");
}

#[test]
fn unknown_members_defer_a_remediation() {
    let mut world = world();
    world.etcd = None;
    assert_eq!(decided(&world), "deferred m-0: the etcd members are unknown");
    world.members();
    world.etcd.as_mut().unwrap()["members"] = json!([]);
    assert_eq!(decided(&world), "deferred m-0: the etcd members are unknown");
}

#[test]
fn bug_7_1_a_machine_is_remediated_with_external_etcd() {
    let mut world = World::new("abc").external();
    world.unhealthy(0);
    assert_eq!(decided(&world), "delete m-0 0");
    for machine in [1, 2] {
        world.set(machine, condition::SCHEDULER, "Unknown");
    }
    assert_eq!(
        decided(&world),
        "impossible m-0: no other machine has healthy components"
    );
}

#[test]
fn a_remediation_keeps_the_quorum() {
    // (machines, other members that are not healthy, safe)
    for (machines, bad, safe) in [
        (2, 0, true),
        (2, 1, false),
        (3, 0, true),
        (3, 1, false),
        (4, 0, true),
        (4, 1, true),
        (4, 2, false),
        (5, 1, true),
        (5, 2, false),
        (7, 2, true),
        (7, 3, false),
    ] {
        let mut world = World::new(&"a".repeat(machines));
        world.unhealthy(0);
        world.set(0, condition::ETCD_MEMBER, "False");
        for other in 1..=bad {
            world.set(other, condition::ETCD_MEMBER, "Unknown");
        }
        let decided = decided(&world);
        assert_eq!(decided == "delete m-0 0", safe, "{machines} {bad}: {decided}");
        assert_eq!(
            decided.contains("the removal of etcd member n-0 would leave"),
            !safe,
            "{decided}"
        );
    }
}

#[test]
fn a_learner_prevents_a_remediation_unless_it_is_the_member_of_the_machine() {
    let mut world = world();
    let members = world.etcd.as_mut().unwrap();
    members["members"][1]["learner"] = json!(true);
    assert!(decided(&world).contains("do not vote yet"), "{}", decided(&world));
    world.members();
    world.etcd.as_mut().unwrap()["members"][0]["learner"] = json!(true);
    assert_eq!(decided(&world), "delete m-0 0");
}

#[test]
fn a_machine_without_a_member_is_replaced() {
    let mut world = World::new("abc");
    world.without_node(0);
    let members = world.etcd.as_mut().unwrap();
    members["members"].as_array_mut().unwrap().remove(0);
    world.unhealthy(0);
    world.set(1, condition::ETCD_MEMBER, "False");
    assert_eq!(decided(&world), "delete m-0 0");
}

/// Three machines. A user deleted the first one, and the second one fails.
fn blocked() -> World {
    let mut world = World::new("abc");
    world.delete(0);
    world.unhealthy(1);
    world.set(1, condition::ETCD_MEMBER, "False");
    world
}

#[test]
fn a_deletion_that_waits_for_the_repair_does_not_defer_it() {
    let world = blocked();
    assert_eq!(decided(&world), "deferred m-1: machine m-0 is being deleted");
    assert_eq!(decided_while(&world, true), "delete m-1 0");
    let mut both = world.clone();
    both.unhealthy(0);
    both.set(0, condition::ETCD_MEMBER, "False");
    let decided = decided_while(&both, true);
    assert!(
        decided.starts_with("impossible m-1: the removal of etcd member n-1"),
        "{decided}"
    );
    // The first machine was remediated, and then the second one failed.
    let mut second = world;
    second.unhealthy(0);
    let text = record("m-0", "2026-05-01T00:00:00Z", 0).to_string();
    second.control_plane["metadata"]["annotations"] = json!({(REMEDIATION_IN_PROGRESS): text});
    assert_eq!(decided_while(&second, true), "delete m-1 0");
}

#[test]
fn v176_a_replacement_that_cannot_join_does_not_prevent_the_remediation_that_it_waits_for() {
    let mut world = World::new("abc");
    world.spec()["replicas"] = json!(5);
    let text = record("m-9", "2026-05-01T00:00:00Z", 0).to_string();
    world.control_plane["metadata"]["annotations"] = json!({(REMEDIATION_IN_PROGRESS): text});
    world.unhealthy(0);
    assert_eq!(decided(&world), "in progress", "its replacement is created first");
    world.set(0, condition::ETCD_MEMBER, "False");
    assert_eq!(
        decided(&world),
        "delete m-0 0",
        "a fourth member would need a third healthy one"
    );
    let members = world.etcd.as_mut().unwrap()["members"].as_array_mut().unwrap();
    members.push(json!({"name": "", "learner": true}));
    assert_eq!(decided(&world), "in progress", "a member joins");
}

#[test]
fn v223_a_machine_with_a_lost_member_is_replaced_while_another_machine_cannot_join_because_of_it() {
    let mut world = World::new("abca");
    world.unhealthy(0);
    world.set(0, condition::ETCD_MEMBER, "False");
    world.without_node(3);
    let members = |extra: Value| {
        let mut members = vec![json!({"name": "n-0"}), json!({"name": "n-1"}), json!({"name": "n-2"})];
        members.extend(extra.as_array().cloned().unwrap_or_default());
        json!(members)
    };
    world.etcd.as_mut().unwrap()["members"] = members(json!([]));
    assert_eq!(decided(&world), "delete m-0 0");
    // The machine without a Node has joined as far as etcd knows.
    world.etcd.as_mut().unwrap()["members"] = members(json!([{"name": "", "learner": true}]));
    assert!(decided(&world).starts_with("impossible m-0"), "{}", decided(&world));
    world.etcd.as_mut().unwrap()["members"] = members(json!([]));
    world.set(0, condition::ETCD_MEMBER, "Unknown");
    assert_eq!(decided(&world), "deferred m-0: machine m-3 has no Node yet");
}

#[test]
fn v133_a_remediation_ends_with_its_replacement_whatever_the_clock_of_the_controller_says() {
    let ahead = record("m-9", "2026-06-01T20:00:00Z", 0).to_string();
    let mut world = World::new("abc");
    world.spec()["replicas"] = json!(4);
    world.control_plane["metadata"]["annotations"] = json!({(REMEDIATION_IN_PROGRESS): ahead});
    assert!(
        record_in_progress(&world.state()).is_some(),
        "no machine replaces m-9 yet"
    );
    let mut replaced = world.clone();
    replaced.annotate(2, REMEDIATION_FOR, &ahead);
    assert_eq!(record_in_progress(&replaced.state()), None);
    let mut shrunk = world.clone();
    shrunk.spec()["replicas"] = json!(3);
    assert_eq!(record_in_progress(&shrunk.state()), None, "no machine is missing");
    shrunk.outdated(0);
    assert!(
        record_in_progress(&shrunk.state()).is_some(),
        "the surge of the rollout is missing"
    );
    shrunk.unhealthy(1);
    shrunk.set(1, condition::ETCD_MEMBER, "False");
    assert_eq!(
        decided(&shrunk),
        "delete m-1 0",
        "no machine can be created beside a broken member"
    );
    let behind = record("m-9", "2020-01-01T00:00:00Z", 0).to_string();
    world.control_plane["metadata"]["annotations"] = json!({(REMEDIATION_IN_PROGRESS): behind});
    assert!(
        record_in_progress(&world.state()).is_some(),
        "older machines replace nothing"
    );
}

#[test]
fn v132_a_control_plane_with_a_node_has_data_also_if_its_status_is_lost() {
    let mut world = World::new("a");
    world.control_plane["status"] = json!({});
    world.unhealthy(0);
    assert!(
        decided(&world).starts_with("impossible m-0: the only machine"),
        "{}",
        decided(&world)
    );
    world.without_node(0);
    world.unhealthy(0);
    world.etcd = None;
    world.others.retain(|other| other["kind"] != "Node");
    assert_eq!(decided(&world), "delete m-0 0");
}

/// A restore can lose the status of the control plane and of its machine.
#[test]
fn v298_the_status_of_the_cluster_a_node_and_an_etcd_member_prove_that_a_machine_has_data() {
    let mut nothing = World::new("a");
    let others = nothing.others.clone();
    nothing.control_plane["status"] = json!({});
    nothing.without_node(0);
    nothing.machines[0]["spec"]["providerID"] = json!("dev://m-0");
    nothing.unhealthy(0);
    let etcd = nothing.etcd.take();
    assert_eq!(decided(&nothing), "delete m-0 0");
    let mut with_member = nothing.clone();
    with_member.etcd = etcd;
    let mut with_node = nothing.clone();
    with_node.others = others;
    let mut with_cluster = nothing.clone();
    with_cluster.cluster["status"]["initialization"]["controlPlaneInitialized"] = json!(true);
    for world in [with_member, with_node, with_cluster] {
        let decided = decided(&world);
        assert!(decided.starts_with("impossible m-0: the only machine"), "{decided}");
    }
}

/// Without the hook, the machine would be gone before another one has joined.
#[test]
fn v305_only_a_machine_with_the_hook_may_be_deleted_as_the_last_one() {
    let mut world = World::new("a");
    world.unhealthy(0);
    let advice = "it keeps its hook until a new machine has joined";
    assert!(decided(&world).contains(advice), "{}", decided(&world));
    let annotations = world.machines[0]["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.retain(|name, _| !name.starts_with("pre-terminate"));
    let decided = decided(&world);
    assert!(
        decided.contains("the only machine") && !decided.contains(advice),
        "{decided}"
    );
}

/// A restore can lose all statuses, also while the managed cluster cannot be reached.
#[test]
fn v300_v308_a_machine_that_etcd_needed_or_whose_member_was_healthy_has_data() {
    let mut world = World::new("a");
    world.control_plane["status"] = json!({});
    world.without_node(0);
    world.unhealthy(0);
    world.etcd = None;
    world.set(0, condition::ETCD_MEMBER, "Unknown");
    assert_eq!(decided(&world), "delete m-0 0");
    let mut member = world.clone();
    member.set(0, condition::ETCD_MEMBER, "True");
    let kept = decided(&member);
    assert!(kept.starts_with("impossible m-0: the only machine"), "V308: {kept}");
    world.annotate(0, crate::kcp::deletion::REQUIRED, "etcd would have no member");
    let decided = decided(&world);
    assert!(decided.starts_with("impossible m-0: the only machine"), "{decided}");
    let state = world.state();
    let patch = crate::kcp::deletion::machine_patch(&state, &state.machines[0], now());
    assert_eq!(patch, None, "the annotation stays");
}

/// A restore loses all statuses. The bootstrap provider wrote the data of a worker only after the
/// control plane was initialized.
#[test]
fn v317_a_worker_that_joined_proves_that_the_only_machine_has_data() {
    let mut world = World::new("a");
    world.control_plane["status"] = json!({});
    let mut worker = world.machines[0].clone();
    world.without_node(0);
    world.unhealthy(0);
    world.etcd = None;
    world.others.retain(|other| other["kind"] != "Node");
    worker["metadata"] = json!({"name": "w-0", "namespace": "ns", "uid": "w-0-uid",
        "labels": {"cluster.x-k8s.io/cluster-name": "c"}});
    worker["status"] = json!({});
    world.machines.push(worker);
    assert_eq!(decided(&world), "delete m-0 0", "the worker has no data yet");
    let mut registered = world.clone();
    registered.machines[1]["status"]["nodeRef"]["name"] = json!("w-0");
    world.machines[1]["spec"]["bootstrap"]["dataSecretName"] = json!("w-0");
    for world in [&registered, &world] {
        let decided = decided(world);
        assert!(decided.starts_with("impossible m-0: the only machine"), "{decided}");
    }
    // A user deletes the machine, and it keeps its hook. Without it, no first machine is created
    // while it is not known whether the instance still runs.
    world.delete(0);
    world.machines[0]["status"]["conditions"] =
        json!([{"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"}]);
    let plans = |world: &World| crate::kcp::first_machine::plan_of_objects(&world.state(), now());
    let plan = plans(&world);
    assert!(!plan.steps.iter().any(is_hook_removal), "{plan:?}");
    world.machines.remove(0);
    let plan = plans(&world);
    assert!(
        !plan.steps.iter().any(crate::kcp::action::Step::is_disruptive),
        "{plan:?}"
    );
    let message = "worker w-0 of its Cluster has joined, or has the data to join";
    assert!(plan.waits.iter().any(|wait| wait.message.contains(message)), "{plan:?}");
    // A user wrote the data of this worker.
    world.machines[0]["spec"]["bootstrap"]["configRef"] = json!({});
    let plan = plans(&world);
    assert!(
        plan.steps.iter().any(crate::kcp::action::Step::is_disruptive),
        "{plan:?}"
    );
}

/// A world of which only the machines and their configurations remain after a restore.
fn restored(domains: &str) -> World {
    let mut world = World::new(domains);
    world.control_plane["status"] = json!({});
    for index in 0..domains.len() {
        world.without_node(index);
    }
    world.unhealthy(0);
    world.etcd = None;
    world.others.retain(|other| other["kind"] != "Node");
    world
}

fn is_kept(world: &World) -> bool {
    let decided = decided(world);
    assert!(
        decided.starts_with("delete m-0") || !decided.starts_with("delete"),
        "{decided}"
    );
    !decided.starts_with("delete")
}

#[test]
fn v317_machines_of_a_pool_that_joined_prove_that_the_only_machine_has_data() {
    let mut world = restored("a");
    let pool = |spec: Value, status: Value| {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
            "metadata": {"name": "p", "namespace": "ns"}, "status": status,
            "spec": {"clusterName": "c", "template": {"spec": {"bootstrap": spec}}}})
    };
    let reference = json!({"kind": "KubeadmConfig", "name": "p"});
    world.others.push(pool(json!({"configRef": reference}), json!({})));
    assert!(!is_kept(&world), "the pool has no data yet");
    let data = json!({"configRef": reference, "dataSecretName": "p"});
    for (spec, status) in [(data, json!({})), (json!({}), json!({"nodeRefs": [{"name": "n"}]}))] {
        *world.others.last_mut().unwrap() = pool(spec, status);
        assert!(is_kept(&world));
    }
}

#[test]
fn v318_a_node_and_a_second_machine_prove_that_machines_have_data() {
    let mut world = restored("a");
    assert!(!is_kept(&world));
    // The Node has no provider ID, or is that of a worker.
    world
        .others
        .push(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w-0"}}));
    assert!(is_kept(&world));
    assert!(is_kept(&restored("abc")), "etcd is not known");
}

#[test]
fn v319_v322_a_configuration_that_was_used_proves_that_the_only_machine_has_data() {
    let mut world = restored("a");
    let config = |world: &mut World, metadata: Value, join: Value| {
        let labels = json!({"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/control-plane": ""});
        let mut object = json!({"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig",
            "metadata": {"name": "cp-1", "namespace": "ns", "labels": labels, "annotations": metadata},
            "spec": {"joinConfiguration": join}});
        if join.is_null() {
            object["spec"] = json!({"initConfiguration": {}});
        }
        world.others.push(object);
    };
    config(&mut world, json!({}), Value::Null);
    assert!(!is_kept(&world), "the first machine may never have booted");
    world.others.pop();
    // A user may write how workers find the cluster before it exists.
    config(
        &mut world,
        json!({}),
        json!({"discovery": {"file": {"kubeConfigPath": "/k"}}}),
    );
    world.others.last_mut().unwrap()["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": "c"});
    assert!(!is_kept(&world), "the configuration of a worker");
    world.others.pop();
    let expiry = json!({"machine.cluster.x-k8s.io/certificates-expiry": "2027-01-01T00:00:00Z"});
    for (metadata, join) in [
        (expiry, Value::Null),
        (json!({}), json!({"discovery": {"bootstrapToken": {"token": "t"}}})),
        (json!({}), json!({"discovery": {"file": {"kubeConfigPath": "/k"}}})),
        (json!({}), json!({"controlPlane": {}})),
    ] {
        config(&mut world, metadata, join);
        assert!(is_kept(&world));
        // Its Machine need not exist, and neither need any other one.
        let mut without = world.clone();
        without.machines.clear();
        let plan = crate::kcp::first_machine::plan_of_objects(&without.state(), now());
        assert!(
            !plan.steps.iter().any(crate::kcp::action::Step::is_disruptive),
            "{plan:?}"
        );
        assert!(
            plan.waits
                .iter()
                .any(|wait| wait.message.contains("KubeadmConfig cp-1")),
            "{plan:?}"
        );
        world.others.pop();
    }
}

fn is_hook_removal(step: &crate::kcp::action::Step) -> bool {
    matches!(step.action, crate::kcp::action::Action::RemoveHook { .. })
}

/// Four of five machines. The first one has lost its member, and the last one never joins. The
/// control plane records a remediation of the machine.
fn recorded(of: &str) -> World {
    let mut world = World::new("abca");
    world.spec()["replicas"] = json!(5);
    world.unhealthy(0);
    world.set(0, condition::ETCD_MEMBER, "False");
    world.without_node(3);
    world.unhealthy(3);
    world.etcd.as_mut().unwrap()["members"].as_array_mut().unwrap().pop();
    let text = record(of, "2026-05-01T00:00:00Z", 2).to_string();
    world.control_plane["metadata"]["annotations"] = json!({(REMEDIATION_IN_PROGRESS): text});
    world
}

#[test]
fn v240_a_remediation_whose_deletion_did_not_take_effect_is_completed_beside_a_machine_that_never_joins() {
    let world = recorded("m-0");
    assert_eq!(most_broken(&world.state(), false).unwrap().name(), "m-3");
    assert_eq!(decided(&world), "delete m-0 2");
    // A learner must be gone before a voting member goes.
    let mut learns = world.clone();
    let members = learns.etcd.as_mut().unwrap()["members"].as_array_mut().unwrap();
    members.push(json!({"name": "", "learner": true}));
    assert_eq!(decided(&learns), "delete m-3 0");
    let mut leaving = world;
    leaving.delete(2);
    assert_eq!(decided(&leaving), "in progress", "one deletion at a time");
}

#[test]
fn v241_a_machine_whose_learner_never_votes_is_replaced_before_the_replacement_of_a_machine_that_is_gone() {
    let mut world = recorded("m-9");
    world.set(0, condition::HEALTH_CHECK_SUCCEEDED, "True");
    world.set(0, condition::ETCD_MEMBER, "True");
    assert_eq!(decided(&world), "in progress", "its replacement can join");
    let members = world.etcd.as_mut().unwrap()["members"].as_array_mut().unwrap();
    members.push(json!({"name": "", "learner": true}));
    assert_eq!(decided(&world), "delete m-3 0");
    world.set(3, condition::HEALTH_CHECK_SUCCEEDED, "True");
    world.unhealthy(1);
    assert_eq!(decided(&world), "in progress", "the learner soon votes");
}
