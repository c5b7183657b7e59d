//! Defects that other components and unusual machines showed. The name of a test begins with the
//! id of the defect.

use serde_json::json;

use crate::api::machine_openshift_io::control_plane_machine_set::{
    ControlPlaneMachineSet, ControlPlaneMachineSetStatus,
};
use crate::api::machine_openshift_io::label;
use crate::cpms::pending_creates;
use crate::cpms::plan::{Action, Plan, Step, plan};
use crate::cpms::simulation::{Event, NEW, OLD, World};
use crate::cpms::status::status;
use crate::model::PENDING_CREATIONS;

const M0: &str = "ocp-x7k2p-master-0";
const M1: &str = "ocp-x7k2p-master-1";
const M2: &str = "ocp-x7k2p-master-2";

fn status_of(world: &World) -> ControlPlaneMachineSetStatus {
    let (spec, state) = (world.spec(), world.state());
    let plan = plan(&spec, &state, world.now);
    status(&spec, &state, &plan, None, None, world.now)
}

/// A condition as `status/reason`.
fn condition(world: &World, type_: &str) -> String {
    let status = status_of(world);
    let mut conditions = status.conditions.iter();
    let found = conditions.find(|condition| condition.type_ == type_).unwrap();
    format!("{}/{}", found.status, found.reason)
}

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

/// A machine that was requested for the empty index and is not ready yet does not serve the index.
#[test]
fn s4_a_shared_index_loses_a_ready_machine_only_while_each_other_index_has_a_ready_one() {
    for instance_type in [NEW, OLD] {
        let mut world = same_index(instance_type);
        run(&mut world, |world, step| {
            if matches!(step.action, Action::Delete { .. }) {
                let state = world.state();
                let serves = |index: &u32| state.of_index(*index).any(|machine| machine.is_ready());
                let served = state.indexes.iter().all(serves);
                assert!(served || ready(world) >= 3, "{instance_type}: {step:?}");
            }
        });
    }
}

// S3

/// Adds a machine of another role that the selector matches.
fn add_other(world: &mut World, name: &str, role: &str, owned: bool) {
    world.add(name, "a", NEW);
    let machine = world.machine(name);
    for key in [label::ROLE, label::TYPE] {
        machine.metadata.labels.insert(key.to_owned(), role.to_owned());
    }
    machine.metadata.owner_references.clear();
    if owned {
        let owner = json!([{"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "name": "workers",
            "uid": "workers-uid", "controller": true}]);
        machine.metadata.owner_references = serde_json::from_value(owner).unwrap();
    }
    let node = world.observed.nodes.last_mut().unwrap();
    std::sync::Arc::make_mut(node).metadata.labels.clear();
}

/// A set whose selector matches every machine of the cluster.
fn wide(wanted: &str) -> World {
    let mut world = World::new("a b c", wanted);
    world.set["spec"]["selector"] = json!({"matchLabels": {label::CLUSTER: "ocp-x7k2p"}});
    add_other(&mut world, "ocp-x7k2p-worker-a-1", "worker", false);
    add_other(&mut world, "ocp-x7k2p-infra-a", "infra", false);
    add_other(&mut world, "ocp-x7k2p-worker-b-9", "worker", true);
    world
}

fn is_other(step: &Step) -> bool {
    let machine = step.machine().unwrap_or_default();
    machine.contains("worker") || machine.contains("infra")
}

#[test]
fn s3_a_wide_selector_writes_to_no_machine_of_another_role() {
    for wanted in [OLD, NEW] {
        let mut world = wide(wanted);
        let before = world.observed.machines[3..].to_vec();
        assert_eq!(world.plan().degraded, []);
        let steps = run(&mut world, |_, _| {});
        assert_eq!(steps.iter().find(|step| is_other(step)), None);
        for machine in &before {
            assert!(world.observed.machines.contains(machine), "{}", machine.metadata.name());
        }
        assert_eq!(condition(&world, "Progressing"), "False/AllReplicasUpdated");
        let counted = status_of(&world);
        assert_eq!((counted.replicas, counted.updated_replicas), (Some(3), Some(3)));
    }
}

#[test]
fn s3_a_deleted_set_with_a_wide_selector_marks_no_machine_of_another_role() {
    let mut world = wide(OLD);
    world.machine(M1).metadata.owner_references.clear();
    world.set["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
    let plan = world.plan();
    assert_eq!(writes(&plan), [M0, M1, M2].map(|name| format!("patch {name}")));
}

#[test]
fn s3_no_machine_is_adopted_or_relabelled_while_the_set_is_degraded() {
    let mut world = World::new("a b c", OLD);
    world.add("ocp-x7k2p-master-3", "a", OLD);
    world.machine("ocp-x7k2p-master-3").metadata.owner_references.clear();
    world.machine(M1).metadata.owner_references.clear();
    world.template()["metadata"]["labels"]["team"] = json!("infra");
    let plan = world.plan();
    assert_eq!(plan.degraded[0].reason, "ExcessIndexes");
    assert_eq!(plan.steps, []);
    // The garbage collector would delete a machine of a former set.
    let mut former = world.clone();
    former.machine(M0).metadata.owner_references[0].uid = "former-uid".to_owned();
    let steps = former.plan().steps;
    assert_eq!(steps.len(), 1, "{steps:?}");
    former.apply(&steps[0]);
    let meta = &former.machine(M0).metadata;
    assert_eq!(meta.owner_references[0].uid, "set-uid");
    assert!(!meta.labels.contains_key("team"));
    world.observed.machines.pop();
    world.observed.nodes.pop();
    assert_eq!(writes(&world.plan()).len(), 3);
}

#[test]
fn v181_an_inactive_set_does_not_advise_to_delete_a_failed_machine() {
    let mut world = World::new("a b c", OLD);
    world.fail(M2, "quota exceeded");
    world.node_gone(M2);
    for (state, advice) in [
        ("Active", "then delete the machine to have it made again"),
        ("Inactive", "the Inactive set makes no machine again"),
    ] {
        world.set["spec"]["state"] = json!(state);
        let plan = world.plan();
        assert_eq!(plan.degraded[0].reason, "FailedReplacement");
        assert!(plan.degraded[0].message.ends_with(advice), "{plan:?}");
    }
}

// S9

#[test]
fn s9_a_failed_machine_does_not_stop_the_repair_of_another_index() {
    let mut world = World::new("a b c", OLD);
    world.fail(M2, "instance i-2 does not exist");
    world.node_gone(M2);
    world.delete(M1);
    let plan = world.plan();
    assert_eq!(plan.degraded[0].reason, "FailedReplacement");
    let step = plan.disruptive().expect("index 1 gets a machine");
    assert_eq!((step.verb(), step.index), ("create", Some(1)));
    // The index is repaired also when its machine is gone already.
    let mut world = World::new("a b c", OLD);
    world.fail(M2, "instance i-2 does not exist");
    world.machine(M2).status.as_mut().unwrap().node_ref = None;
    world.node_gone(M2);
    world.happen(&Event::Removed(M1.to_owned()));
    run(&mut world, |_, _| {});
    let state = world.state();
    assert!(state.of_index(1).any(|machine| machine.is_ready()));
    assert_eq!(state.of_index(2).count(), 1, "the failed machine is left to the user");
    assert_eq!(condition(&world, "Degraded"), "True/FailedReplacement");
}

#[test]
fn s9_a_failed_machine_does_not_stop_the_deletion_of_a_replaced_machine() {
    let mut world = World::new("a b c", NEW);
    let is_finish = |world: &World| {
        let plan = world.plan();
        plan.disruptive()
            .is_some_and(|step| matches!(step.action, Action::Delete { .. }))
    };
    while !is_finish(&world) {
        for step in world.plan().steps {
            world.apply(&step);
        }
        if let Some(event) = world.events().first().cloned() {
            world.happen(&event);
        }
        world.pass(60);
    }
    world.machine(M2).spec.provider_spec.value.as_mut().unwrap()["instanceType"] = json!(NEW);
    world.fail(M2, "instance i-2 does not exist");
    let plan = world.plan();
    assert_eq!(plan.degraded[0].reason, "FailedReplacement");
    // Two ready machines remain beside the failed machine.
    assert_eq!(writes(&plan), [format!("delete {M0}")]);
}

#[test]
fn s9_a_failed_machine_stops_new_replacements() {
    let mut world = World::new("a b c", NEW);
    world.machine(M2).spec.provider_spec.value.as_mut().unwrap()["instanceType"] = json!(NEW);
    world.fail(M2, "no capacity");
    let plan = world.plan();
    assert_eq!(plan.degraded[0].reason, "FailedReplacement");
    assert_eq!(plan.disruptive(), None);
    assert_eq!(condition(&world, "Progressing"), "False/OperatorDegraded");
}

// S10

/// Creates the machine that the plan asks for as the controller does: the request is recorded in
/// the set first. Then plans run until the record is removed.
fn create_recorded(world: &mut World) -> String {
    let step = world.plan().disruptive().cloned().unwrap();
    let creation = pending_creates::creation(&step, "one", world.now).unwrap();
    let set: ControlPlaneMachineSet = serde_json::from_value(world.set.clone()).unwrap();
    let patch = pending_creates::record(&set.metadata, &creation, |_| false).unwrap();
    json_patch::merge(&mut world.set, &patch);
    assert_eq!(
        world.plan().disruptive().unwrap().machine(),
        step.machine(),
        "the same request again"
    );
    world.apply(&step);
    for _ in 0..3 {
        for step in world.plan().steps {
            world.apply(&step);
        }
    }
    assert!(world.set["metadata"]["annotations"].get(PENDING_CREATIONS).is_none());
    step.machine().unwrap().to_owned()
}

#[test]
fn s10_consecutive_repairs_of_an_empty_index_use_different_names() {
    let mut world = World::new("a b c", OLD);
    let mut names = vec![M1.to_owned()];
    world.happen(&Event::Removed(M1.to_owned()));
    for _ in 0..5 {
        let name = create_recorded(&mut world);
        assert!(name.ends_with("-1") && !names.contains(&name), "{name} of {names:?}");
        world.happen(&Event::Removed(name.clone()));
        names.push(name);
    }
}

#[test]
fn s10_a_repair_that_is_refused_keeps_its_name() {
    let mut world = World::new("a b c", OLD);
    world.happen(&Event::Removed(M1.to_owned()));
    let step = world.plan().disruptive().cloned().unwrap();
    for _ in 0..3 {
        let creation = pending_creates::creation(&step, "one", world.now).unwrap();
        let set: ControlPlaneMachineSet = serde_json::from_value(world.set.clone()).unwrap();
        let patch = pending_creates::record(&set.metadata, &creation, |_| true).unwrap();
        json_patch::merge(&mut world.set, &patch);
        world.pass(60);
        let again = world.plan();
        assert_eq!(again.steps.len(), 1);
        assert_eq!(again.disruptive().unwrap().machine(), step.machine());
    }
}

// S7

/// A rollout whose last replacement has no node, beside a node that no machine claims.
fn unclaimed() -> World {
    let mut world = World::new("a b c", OLD);
    let machine = world.machine(M2);
    machine.status = serde_json::from_value(json!({"phase": "Provisioned"})).unwrap();
    let created = world.now;
    world.machine(M2).metadata.creation_timestamp = Some(created);
    world.node_gone(M2);
    let now = world.now;
    world.set_node("stranger", "True", now);
    world
}

#[test]
fn s7_a_node_that_is_not_claimed_for_long_is_unmanaged() {
    let mut world = unclaimed();
    let plan = world.plan();
    assert_eq!(plan.degraded, []);
    assert_eq!(plan.disruptive(), None);
    let deadline = plan.reconcile_at.expect("the wait has a deadline");
    world.now = deadline - jiff::SignedDuration::from_secs(1);
    assert_eq!(world.plan().degraded, []);
    world.now = deadline;
    assert_eq!(world.plan().degraded[0].reason, "UnmanagedNodes");
    assert_eq!(condition(&world, "Progressing"), "False/OperatorDegraded");
    // The machine claims the node after all.
    let status = json!({"phase": "Running", "nodeRef": {"name": "node-of-stranger"}});
    world.machine(M2).status = serde_json::from_value(status).unwrap();
    assert_eq!(world.plan().degraded, []);
}

#[test]
fn s7_a_rollout_with_a_machine_that_is_not_ready_is_not_reported_as_complete() {
    let mut world = unclaimed();
    assert_eq!(condition(&world, "Progressing"), "True/NeedsUpdateReplicas");
    let status = status_of(&world);
    assert_eq!(status.updated_replicas, Some(2));
    let progressing = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Progressing")
        .unwrap();
    assert!(
        progressing.message.contains("2 of 3 up to date; "),
        "{}",
        progressing.message
    );
    assert!(progressing.message.contains(M2), "{}", progressing.message);
    // One machine of three is ready.
    for name in [M0, M1] {
        world.node_gone(name);
        world.machine(name).status = serde_json::from_value(json!({"phase": "Provisioned"})).unwrap();
    }
    world.add("ocp-x7k2p-master-new-0", "a", OLD);
    assert_eq!(condition(&world, "Progressing"), "True/NeedsUpdateReplicas");
}

// S11

#[test]
fn s11_a_rollout_progresses_while_etcd_is_not_healthy() {
    let mut world = World::new("a b c", NEW);
    world.etcd(
        "True",
        "EtcdMembersAvailable: 2 of 3 members are available, node-2 is unhealthy",
    );
    assert_eq!(condition(&world, "Progressing"), "True/WaitingForEtcd");
    world.etcd("True", "EtcdMembersAvailable: 3 members are available");
    assert_eq!(condition(&world, "Progressing"), "True/NeedsUpdateReplicas");
    // The user pauses the rollout meanwhile.
    world.etcd("False", "");
    world.annotate(crate::cpms::spec::PAUSED_ROLLOUT, "true");
    assert_eq!(condition(&world, "Progressing"), "False/RolloutPaused");
}

#[test]
fn s11_a_rollout_progresses_while_another_machine_is_not_ready() {
    let mut world = World::new("a b c", NEW);
    world.machine(M2).spec.provider_spec.value.as_mut().unwrap()["instanceType"] = json!(NEW);
    world.node_down(M2);
    world.pass(3600);
    assert_eq!(world.plan().disruptive(), None);
    assert_eq!(condition(&world, "Progressing"), "True/WaitingForReadyMachines");
}

#[test]
fn s11_a_rollout_is_false_only_in_the_five_documented_cases() {
    let mut world = World::new("a b c", NEW);
    let mut ends = 0;
    for minute in 0..600 {
        let (healthy, message) = match minute % 3 {
            0 => (
                "False",
                "EtcdMembersAvailable: 1 of 3 members are available, a is unhealthy, b is unhealthy",
            ),
            1 => (
                "True",
                "EtcdMembersAvailable: 3 of 4 members are available, c has not started",
            ),
            _ => ("True", "EtcdMembersAvailable: 3 members are available"),
        };
        world.etcd(healthy, message);
        let done = world.observed.machines.len() == 3
            && world
                .state()
                .each_machine()
                .all(|machine| machine.is_current() && machine.is_ready());
        let progressing = condition(&world, "Progressing");
        assert_eq!(progressing.starts_with("False"), done, "minute {minute}: {progressing}");
        ends += usize::from(done);
        let plan = world.plan();
        for step in &plan.steps {
            world.apply(step);
        }
        if plan.steps.is_empty()
            && let Some(event) = world.events().first().cloned()
        {
            world.happen(&event);
        }
        world.pass(60);
    }
    assert!(ends > 0);
}

#[test]
fn v89_machines_that_all_lost_their_labels_are_reported_as_stray_alone() {
    let mut world = World::new("a b c", OLD);
    for name in [M0, M1, M2] {
        world.machine(name).metadata.labels.remove(label::ROLE);
    }
    let reasons: Vec<&str> = world.plan().degraded.iter().map(|reason| reason.reason).collect();
    assert_eq!(reasons, ["StrayedMachines"]);
}

#[test]
fn v92_the_machines_of_a_control_plane_stay_with_it() {
    let mut world = World::new("a b c", OLD);
    for name in [M0, M1, M2] {
        let owners = &mut world.machine(name).metadata.owner_references;
        for owner in owners {
            "machine.openshift.io/v1alpha1".clone_into(&mut owner.api_version);
            "ControlPlane".clone_into(&mut owner.kind);
        }
    }
    let degraded = world.plan().degraded;
    let [reason] = &degraded[..] else {
        panic!("{degraded:?}")
    };
    assert_eq!(reason.reason, "MachinesAlreadyOwned");
    assert!(
        reason.message.contains("must stay Inactive beside it"),
        "{}",
        reason.message
    );
}

/// The component of a finalizer may be gone, and a user must know the finalizer to remove it.
#[test]
fn v212_a_deleted_machine_without_a_hook_names_the_finalizers_that_hold_it() {
    let told = |world: &World| {
        let plan = world.plan();
        let mut waits = plan.waits.iter().map(|wait| wait.message.clone());
        waits.find(|message| message.contains("to be removed")).unwrap()
    };
    let mut world = World::new("a b c", NEW);
    world.delete(M1);
    world.machine(M1).metadata.finalizers = vec![String::from("sync.machine.openshift.io/finalizer")];
    world.machine(M1).spec.lifecycle_hooks = None;
    assert_eq!(
        told(&world),
        format!("waiting for machine {M1} to be removed; held by the finalizer sync.machine.openshift.io/finalizer")
    );
    world.machine(M1).metadata.finalizers.push(String::from("b"));
    assert!(told(&world).ends_with("; held by the finalizers sync.machine.openshift.io/finalizer, b"));
    // A hook is what a user acts on first.
    world.machine(M1).spec.lifecycle_hooks =
        serde_json::from_value(json!({"preDrain": [{"name": "h", "owner": "o"}]})).unwrap();
    assert!(told(&world).ends_with("; held by h (o)"));
}
