//! Defects of the Machines of pools: what an attacker found.

use std::ops::Range;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::action::{Action, Plan, Step};
use super::plan::plan;
use super::progress;
use super::samples::{World, now};
use super::status;
use super::{Mode, Recreations, deferral};

const POOL_NAME: &str = "cluster.x-k8s.io/pool-name";

fn unlabel(object: &mut Value) {
    object["metadata"]["labels"].as_object_mut().unwrap().remove(POOL_NAME);
}

fn reasons(plan: &Plan) -> Vec<&'static str> {
    plan.degraded.iter().map(|degradation| degradation.reason).collect()
}

#[test]
fn v97_a_machine_whose_infrastructure_machine_lost_its_labels_stays_and_is_reported() {
    let mut world = World::new(3);
    world.rolling(&json!(1));
    world.outdate(0);
    world.report_unhealthy(2);
    world.instances.iter_mut().for_each(unlabel);
    let plan = world.plan();
    assert_eq!(
        (world.deleted(), reasons(&plan)),
        (None, vec!["InstancesWithoutLabels"])
    );
    let message = &plan.degraded[0].message;
    for part in ["p-0", "cluster.x-k8s.io/pool-name=p"] {
        assert!(message.contains(part), "{message}");
    }
    let mut world = World::new(3);
    unlabel(&mut world.instances[1]);
    assert_eq!(world.deleted(), None);
}

#[test]
fn v97_machines_whose_instances_vanish_together_are_deleted_one_after_the_other() {
    let mut world = World::new(4);
    world.instances.drain(1..);
    assert_eq!(world.deleted().as_deref(), Some("p-1"));
    world.delete(1);
    assert_eq!(world.deleted(), None);
    assert!(world.waits().contains(&"MachineRemoved"));
    // As many at once as may be remediated at once, and at least one.
    world.annotate("capstan.dev/remediation", &json!({"maxInFlight": 2}));
    assert_eq!(world.deleted().as_deref(), Some("p-2"));
    world.annotate("capstan.dev/remediation", &json!({"maxInFlight": 0}));
    assert_eq!(world.deleted(), None);
    world.machines.remove(1);
    assert_eq!(world.deleted().as_deref(), Some("p-2"));
}

#[test]
fn v97_a_machine_stays_while_the_provider_lists_its_instance() {
    let mut world = World::new(3);
    world.infrastructure["spec"] = json!({"providerIDList": ["dev:///0", "dev:///1"]});
    world.instances.drain(1..);
    // The provider does not list the last one any more.
    assert_eq!(world.deleted().as_deref(), Some("p-2"));
    world.machines.remove(2);
    assert_eq!(world.deleted(), None);
    let plan = world.plan();
    let listed = "the provider still lists its instance dev:///1";
    assert!(plan.waits.iter().any(|wait| wait.message.contains(listed)), "{plan:?}");
}

/// What happens with a strategy while new machines run `version`: the names of the Machines that
/// are deleted in some rounds, and the reasons of `Degraded` at the end.
fn roll(world: &mut World, version: &str) -> (Vec<String>, Vec<&'static str>) {
    roll_with(world, 10..50, |world| {
        let node = world.nodes.last_mut().unwrap();
        node["status"]["nodeInfo"]["kubeletVersion"] = json!(version);
    })
}

/// The same with a change of each new machine, whose numbers are given.
fn roll_with(
    world: &mut World,
    numbers: Range<usize>,
    change: impl Fn(&mut World),
) -> (Vec<String>, Vec<&'static str>) {
    let mut deleted = Vec::new();
    for number in numbers {
        let plan = world.plan();
        for step in &plan.steps {
            match &step.action {
                Action::Patch(patch) if step.subject.name == "p" => json_patch::merge(&mut world.pool, patch),
                Action::Delete => {
                    let place = world
                        .machines
                        .iter()
                        .position(|machine| machine["metadata"]["name"] == step.subject.name);
                    for objects in [&mut world.machines, &mut world.instances, &mut world.nodes] {
                        objects.remove(place.unwrap());
                    }
                    world.add(number);
                    change(world);
                    deleted.push(step.subject.name.clone());
                }
                other => panic!("{other:?}"),
            }
        }
    }
    (deleted, reasons(&world.plan()))
}

fn edited() -> World {
    let mut world = World::new(3);
    world.rolling(&json!(1));
    world.pool["spec"]["template"]["spec"]["version"] = json!("v1.33.1");
    world
}

#[test]
fn v98_machines_that_never_get_the_version_end_the_rollout() {
    let mut world = edited();
    let (deleted, reasons) = roll(&mut world, "v1.33.0");
    assert_eq!(deleted, ["p-0", "p-1"]);
    assert_eq!(reasons, ["NewMachinesOutdated"]);
    let plan = world.plan();
    let conditions = status::conditions(&world.state(), Mode::Extend, &plan);
    let degraded = conditions.iter().find(|condition| condition.type_ == "Degraded");
    let message = &degraded.unwrap().message;
    assert!(
        message.contains("is outdated (it runs v1.33.0, and the template has v1.33.1)"),
        "{message}"
    );

    // A machine that gets the version does not hide that the others do not.
    world.nodes[0]["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.33.1");
    assert_eq!(world.deleted(), None);
    // Another version is another attempt.
    world.pool["spec"]["template"]["spec"]["version"] = json!("v1.33.2");
    let (deleted, reasons) = roll(&mut world, "v1.33.2");
    assert_eq!((deleted.len(), reasons), (3, Vec::new()));
}

#[test]
fn v98_a_rollout_ends_if_the_kubelets_have_a_suffix_of_the_vendor() {
    for version in ["v1.33.1-eks-5e0fdde", "v1.33.1+k3s1"] {
        let (deleted, reasons) = roll(&mut edited(), version);
        assert_eq!(
            (deleted, reasons),
            (["p-0", "p-1", "p-2"].map(String::from).to_vec(), Vec::new())
        );
    }
}

#[test]
fn v98_a_machine_that_was_made_right_before_the_edit_is_replaced_once() {
    let mut world = edited();
    // Its infrastructure machine appears after the record of the rollout.
    let Action::Patch(patch) = &world.plan().steps[0].action else {
        panic!()
    };
    json_patch::merge(&mut world.pool, patch);
    world.machines[2]["metadata"]["creationTimestamp"] = json!("2026-05-01T00:05:00Z");
    let (deleted, reasons) = roll(&mut world, "v1.33.1");
    assert_eq!((deleted.len(), reasons), (3, Vec::new()));
}

#[test]
fn v98_the_record_of_a_rollout_names_the_newest_machine_and_is_written_once() {
    let mut world = edited();
    let steps = world.plan().steps;
    let [step] = steps.as_slice() else { panic!("{steps:?}") };
    let Action::Patch(patch) = &step.action else { panic!() };
    let newest: Timestamp = "2026-05-01T00:02:00Z".parse().unwrap();
    let text = patch["metadata"]["annotations"]["capstan.dev/rollout-progress"].as_str();
    let record: Value = serde_json::from_str(text.unwrap()).unwrap();
    let model = progress::model(&world.state());
    let expected = json!({"version": "v1.33.1", "model": model, "newest": newest.to_string(), "repeated": false});
    assert_eq!(record, expected);
    assert_eq!(patch["metadata"]["resourceVersion"], "3");
    json_patch::merge(&mut world.pool, patch);
    assert_eq!(world.deleted().as_deref(), Some("p-0"));
    assert_eq!(world.plan().steps.len(), 1);
}

#[test]
fn v100_a_pool_with_the_infrastructure_of_another_pool_takes_no_step_and_is_released() {
    let mut world = World::new(2);
    world.rolling(&json!(1));
    world.outdate(0);
    world.report_unhealthy(1);
    let owner = |name: &str, uid: &str| {
        json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "name": name, "uid": uid,
            "controller": true}])
    };
    world.infrastructure["metadata"]["ownerReferences"] = owner("workers", "w-uid");
    world.pool["metadata"]["finalizers"] = json!([]);
    for mode in [Mode::Extend, Mode::Own] {
        let plan = plan(&world.state(), mode, now());
        assert_eq!(
            (plan.steps.len(), reasons(&plan)),
            (0, vec!["InfrastructureOfAnotherPool"])
        );
        let message = &plan.degraded[0].message;
        assert!(message.contains("belongs to MachinePool workers"), "{message}");
    }
    // The deletion of the copy waits for nothing, and touches no Node.
    world.pool["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:59:00Z");
    world.pool["metadata"]["finalizers"] = json!(["capstan.dev/machine-pool"]);
    world.pool["spec"]["providerIDList"] = json!(["dev:///0", "dev:///1"]);
    for mode in [Mode::Extend, Mode::Own] {
        let plan = plan(&world.state(), mode, now());
        let [step] = plan.steps.as_slice() else {
            panic!("{plan:?}")
        };
        let Action::Patch(patch) = &step.action else {
            panic!("{step:?}")
        };
        assert_eq!(
            (&step.subject.name, &patch["metadata"]["finalizers"]),
            (&String::from("p"), &json!([]))
        );
        assert!(plan.waits.is_empty());
    }
    // The pool that controls the object still waits for it.
    world.infrastructure["metadata"]["ownerReferences"] = owner("p", "p-uid");
    assert_eq!(world.waits(), ["Infrastructure"]);
}

#[test]
fn v101_a_machine_that_took_the_name_of_an_instance_is_named_and_not_created_again() {
    let mut world = World::new(2);
    unlabel(&mut world.machines[1]);
    world.machines[1]["metadata"]["ownerReferences"] = json!([]);
    let own = plan(&world.state(), Mode::Own, now());
    assert!(
        own.steps.iter().all(|step| !matches!(step.action, Action::Create(_))),
        "{own:?}"
    );
    assert_eq!(reasons(&own), ["MachineNameTaken"]);
    let message = &own.degraded[0].message;
    assert!(message.contains("Machine p-1 exists without the labels"), "{message}");
    // The core manager creates the Machines otherwise.
    assert_eq!(reasons(&world.plan()), Vec::<&str>::new());
}

/// A policy changed the reference at the creation. The creation was repeated, and the conflict
/// counted as a deletion by others.
#[test]
fn v214_a_machine_that_refers_to_another_kind_is_named_and_not_created_again() {
    let mut world = World::new(2);
    world.machines[1]["spec"]["infrastructureRef"]["kind"] = json!("FooMachine");
    let mut known = Recreations::default();
    assert_eq!(fight(&world, &mut known, Mode::Own, 0..20), Vec::<i64>::new());
    let own = reconcile(&world, &mut known, Mode::Own, 20);
    assert_eq!(reasons(&own), ["MachineNameTaken"]);
    let message = &own.degraded[0].message;
    assert!(
        message.contains("Machine p-1 refers to FooMachine \"p-1\""),
        "{message}"
    );
    // It waits for its deletion, and is created after it.
    world.machines[1]["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:59:00Z");
    assert_eq!(fight(&world, &mut known, Mode::Own, 21..22), Vec::<i64>::new());
    world.machines.remove(1);
    assert_eq!(fight(&world, &mut known, Mode::Own, 22..23), [22]);
}

/// A webhook changed the name in the reference at the creation. The Machine seemed to have lost its
/// instance, was deleted, and was created again without end.
#[test]
fn v270_a_machine_that_refers_to_another_name_is_named_and_not_deleted() {
    let mut world = World::new(2);
    world.machines[1]["spec"]["infrastructureRef"]["name"] = json!("other-p-1");
    world.machines[1]["spec"]["providerID"] = json!("");
    for mode in [Mode::Own, Mode::Extend] {
        let plan = plan(&world.state(), mode, now());
        let changes = plan
            .steps
            .iter()
            .filter(|step| matches!(step.action, Action::Delete | Action::Create(_)));
        assert_eq!(changes.count(), 0, "{plan:?}");
    }
    let own = plan(&world.state(), Mode::Own, now());
    assert_eq!(reasons(&own), ["MachineNameTaken"]);
    assert!(
        own.degraded[0]
            .message
            .contains("refers to DevMachinePoolMachine \"other-p-1\""),
        "{own:?}"
    );
    // Without the instance of its name, it has lost its own one.
    world.instances.remove(1);
    assert_eq!(world.deleted().as_deref(), Some("p-1"));
}

/// The provider reports the newest machine as outdated.
fn report_outdated(world: &mut World) {
    let instance = world.instances.last_mut().unwrap();
    instance["status"] = json!({"latestModelApplied": false});
}

/// Its deletion would leave the instance, and the Machine would be created again at once.
#[test]
fn v154_a_new_machine_is_not_replaced_before_the_core_manager_took_it_up() {
    let mut world = World::new(3);
    world.rolling(&json!(1));
    report_outdated(&mut world);
    let machine = &mut world.machines[2];
    machine["metadata"]["creationTimestamp"] = json!("2026-06-01T11:59:59Z");
    for number in [0, 1] {
        world.nodes[number]["status"]["conditions"][0]["status"] = json!("True");
    }
    world.break_node(2);
    // The first plan records that the rollout began after this machine was made.
    let (deleted, _) = roll_with(&mut world, 10..11, |_| ());
    assert_eq!(deleted, Vec::<String>::new());
    assert_eq!(world.deleted(), None, "{:?}", world.plan());
    let told = world
        .plan()
        .waits
        .iter()
        .any(|wait| wait.message.contains("must take it up"));
    assert!(told, "{:?}", world.plan().waits);
    world.machines[2]["metadata"]["finalizers"] = json!(["machine.cluster.x-k8s.io"]);
    assert_eq!(world.deleted().as_deref(), Some("p-2"));
}

#[test]
fn v120_machines_that_their_provider_reports_as_outdated_for_ever_end_the_rollout() {
    for version in ["v1.33.0", ""] {
        let mut world = World::new(3);
        world.pool["spec"]["template"]["spec"]["version"] = json!(version);
        world.rolling(&json!(1));
        world.infrastructure["spec"] = json!({"template": {"image": "a"}});
        report_outdated(&mut world);
        let (deleted, stopped) = roll_with(&mut world, 10..24, report_outdated);
        assert_eq!(deleted, ["p-2", "p-11"], "{version}");
        assert_eq!(stopped, ["NewMachinesOutdated"]);
        let message = &world.plan().degraded[0].message;
        for part in [
            "Machine p-13 ",
            "does not have the latest model",
            "capstan.dev/rollout-progress",
        ] {
            assert!(message.contains(part), "{message}");
        }

        // What follows the instances is no other model. Another image is one, and another attempt.
        world.infrastructure["spec"]["providerIDList"] = json!(["dev:///1"]);
        world.infrastructure["spec"]["replicas"] = json!(4);
        assert_eq!(reasons(&world.plan()), ["NewMachinesOutdated"]);
        world.infrastructure["spec"]["template"]["image"] = json!("b");
        let (deleted, stopped) = roll_with(&mut world, 24..30, |_| ());
        assert_eq!((deleted.len(), stopped), (1, Vec::new()));

        // A user begins a rollout again by the removal of the record.
        report_outdated(&mut world);
        let (_, stopped) = roll_with(&mut world, 30..40, report_outdated);
        assert_eq!(stopped, ["NewMachinesOutdated"]);
        let annotations = world.pool["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove("capstan.dev/rollout-progress");
        let (deleted, stopped) = roll_with(&mut world, 40..50, |_| ());
        assert_eq!((deleted.len(), stopped), (1, Vec::new()));
    }
}

/// Others delete the Machines right after each reconcile, once in a second. Returns when the
/// Machines were created.
fn fight(world: &World, known: &mut Recreations, mode: Mode, seconds: std::ops::Range<i64>) -> Vec<i64> {
    let mut created = Vec::new();
    for second in seconds {
        let plan = reconcile(world, known, mode, second);
        let creations: Vec<_> = plan
            .steps
            .iter()
            .filter(|step| matches!(step.action, Action::Create(_)))
            .collect();
        created.extend(creations.iter().map(|_| second));
        deferral::taken(known, creations.into_iter(), at(second));
    }
    created
}

fn at(second: i64) -> Timestamp {
    now().checked_add(jiff::SignedDuration::from_secs(second)).unwrap()
}

fn reconcile(world: &World, known: &mut Recreations, mode: Mode, second: i64) -> Plan {
    let mut state = world.state();
    deferral::observe(known, &mut state);
    plan(&state, mode, at(second))
}

#[test]
fn v190_machines_that_others_delete_at_once_are_created_less_and_less_often() {
    let mut world = World::new(3);
    let mut known = Recreations::default();
    assert_eq!(
        reasons(&reconcile(&world, &mut known, Mode::Own, 0)),
        Vec::<&str>::new()
    );
    let machines = std::mem::take(&mut world.machines);
    let created = fight(&world, &mut known, Mode::Own, 1..20);
    assert_eq!(created, [1, 1, 1, 3, 3, 3, 7, 7, 7, 15, 15, 15]);
    let plan = reconcile(&world, &mut known, Mode::Own, 20);
    assert_eq!(reasons(&plan), ["NewMachinesDeleted"]);
    let message = &plan.degraded[0].message;
    for part in ["Machine p-0, p-1, p-2 ", "audit log", "every 5 minutes"] {
        assert!(message.contains(part), "{message}");
    }
    let [wait] = plan
        .waits
        .iter()
        .filter(|wait| wait.until.is_some())
        .collect::<Vec<_>>()[..]
    else {
        panic!("{:?}", plan.waits)
    };
    assert_eq!((wait.reason.name(), wait.until), ("CreationDeferred", Some(at(31))));
    assert_eq!(plan.reconcile_at, Some(at(31)));

    // The first Machine of a new instance is not delayed.
    world.add(7);
    world.machines.clear();
    let plan = reconcile(&world, &mut known, Mode::Own, 21);
    let creations = plan
        .steps
        .iter()
        .filter(|step| matches!(step.action, Action::Create(_)));
    let names: Vec<&str> = creations.map(|step| step.subject.name.as_str()).collect();
    assert_eq!(names, ["p-7"]);
    for objects in [&mut world.instances, &mut world.nodes] {
        objects.truncate(3);
    }

    // In an hour, each is created a few times, and the report stays.
    let created = fight(&world, &mut known, Mode::Own, 21..3600);
    assert!((30..=60).contains(&created.len()), "{created:?}");
    let last = *created.last().unwrap();
    assert!(last > 3600 - 300);
    assert_eq!(
        reasons(&reconcile(&world, &mut known, Mode::Own, 3600)),
        ["NewMachinesDeleted"]
    );

    // The Machines are not deleted any more.
    world.machines = machines;
    let during = reconcile(&world, &mut known, Mode::Own, 3601);
    assert_eq!(reasons(&during), ["NewMachinesDeleted"]);
    let until = at(last + 600);
    assert_eq!(during.reconcile_at, Some(until));
    let after = reconcile(&world, &mut known, Mode::Own, last + 600);
    assert_eq!((reasons(&after), after.reconcile_at), (Vec::new(), None));
    // One that is deleted later is created again at once, also if the clock was set back.
    world.machines.remove(0);
    let mut other = known.clone();
    assert_eq!(
        fight(&world, &mut known, Mode::Own, last + 601..last + 602),
        [last + 601]
    );
    assert_eq!(fight(&world, &mut other, Mode::Own, -100..-99), [-100]);
}

#[test]
fn v190_records_of_instances_that_others_delete_are_created_less_and_less_often() {
    let mut world = World::new(2);
    world.infrastructure["status"] = json!({"ready": true});
    world.infrastructure["spec"] = json!({"providerIDList": ["dev:///0", "dev:///1"]});
    world.machines.clear();
    world.instances.clear();
    for mode in [Mode::Extend, Mode::Own] {
        let mut known = Recreations::default();
        let created = fight(&world, &mut known, mode, 1..20);
        assert_eq!(created, [1, 1, 2, 2, 4, 4, 8, 8, 16, 16]);
        assert_eq!(
            reasons(&reconcile(&world, &mut known, mode, 20)),
            ["NewMachinesDeleted"]
        );
        // An instance that is gone has no record to wait for.
        let mut gone = world.clone();
        gone.infrastructure["spec"] = json!({"providerIDList": []});
        let plan = reconcile(&gone, &mut known, mode, 21);
        assert!(
            plan.waits.iter().all(|wait| wait.reason.name() != "CreationDeferred"),
            "{plan:?}"
        );
    }
}

#[test]
fn v197_no_record_is_created_before_the_finalizer_of_its_pool_is_stored() {
    let mut world = World::new(1);
    world.infrastructure["status"] = json!({"ready": true});
    world.infrastructure["spec"] = json!({"providerIDList": ["dev:///0"]});
    world.machines.clear();
    world.instances.clear();
    let creations = |world: &World, mode: Mode| {
        let plan = plan(&world.state(), mode, now());
        let is_creation = |step: &&Step| matches!(step.action, Action::Create(_));
        plan.steps.iter().filter(is_creation).count()
    };
    for mode in [Mode::Extend, Mode::Own] {
        assert_eq!(creations(&world, mode), 1);
        // The write of the finalizer can fail. The pool could then be deleted at once, and the
        // record would stay with the finalizer of the Machine controller.
        let mut new = world.clone();
        new.pool["metadata"]["finalizers"] = json!([]);
        assert_eq!(creations(&new, mode), 0);
    }
}

#[test]
fn v272_a_machine_of_another_kind_that_nothing_controls_is_left_alone() {
    let mut world = World::new(2);
    world.add(7);
    world.machines[2]["metadata"]["ownerReferences"] = json!([]);
    world.machines[2]["spec"]["infrastructureRef"]["kind"] = json!("OtherMachine");
    world.instances.pop();
    for mode in [Mode::Extend, Mode::Own] {
        let (state, plan) = (world.state(), plan(&world.state(), mode, now()));
        assert_eq!(
            (state.members.len(), &state.unrelated[..]),
            (2, &["p-7".to_owned()][..])
        );
        // No step concerns it, and no instance is too many because of it.
        let subjects: Vec<&str> = plan.steps.iter().map(|step| step.subject.name.as_str()).collect();
        assert!(!subjects.contains(&"p-7"), "{plan:?}");
        assert!(plan.waits.is_empty(), "{plan:?}");
        assert!(
            plan.notes.iter().any(|note| note.ends_with("left alone: p-7")),
            "{plan:?}"
        );
    }
    // A Machine of the kind that lost its owner is one of the pool.
    world.machines[2]["spec"]["infrastructureRef"]["kind"] = json!("DevMachinePoolMachine");
    assert_eq!(world.state().members.len(), 3);
    // So is every Machine while the kind is not known.
    world.machines[2]["spec"]["infrastructureRef"]["kind"] = json!("OtherMachine");
    world.infrastructure["status"] = json!({"ready": true});
    assert_eq!(world.state().members.len(), 3);
}

#[test]
fn v273_a_step_that_fails_for_some_time_makes_a_pool_degraded() {
    let world = World::new(1);
    let plan = world.plan();
    let degraded = |plan: &Plan| {
        let conditions = status::conditions(&world.state(), Mode::Own, plan);
        let found = conditions.into_iter().find(|condition| condition.type_ == "Degraded");
        found
            .map(|condition| (condition.status, condition.reason, condition.message))
            .unwrap()
    };
    assert_eq!(degraded(&plan).0, "False");
    let failing = status::with_failing(&plan, "creating Machine p-0: denied");
    let message = String::from("creating Machine p-0: denied");
    assert_eq!(degraded(&failing), ("True", "StepFails", message));
    // Another reason stays the first one.
    let both = status::with_failing(&failing, "and more");
    assert_eq!(degraded(&both).2, "creating Machine p-0: denied; and more");
    let stored = |reason: &str| json!({"status": {"conditions": [{"type": "Degraded", "reason": reason}]}});
    assert!(status::reports_failing(&stored("StepFails")) && !status::reports_failing(&stored("NotDegraded")));
}
