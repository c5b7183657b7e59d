//! Pools as a whole: the bugs of other implementations, records, deletion, and the status.

use serde_json::{Value, json};

use super::action::{Action, Plan};
use super::observed::Observed;
use super::plan::plan;
use super::samples::{World, now};
use super::state::State;
use super::{Mode, records, removal, status};
use crate::api::cluster_x_k8s_io::label_value;
use crate::model::NotStored;

fn conditions(state: &State, plan: &Plan) -> Value {
    let shown = status::conditions(state, Mode::Extend, plan);
    let shown = shown
        .into_iter()
        .map(|one| (one.type_.to_owned(), json!([one.status, one.reason, one.message])));
    Value::Object(shown.collect())
}

fn verbs(plan: &Plan) -> Vec<String> {
    let shown = plan.steps.iter();
    shown
        .map(|step| format!("{} {} {}", step.verb(), step.subject.kind, step.subject.name))
        .collect()
}

/// A managed group of two instances with Nodes, and no infrastructure machine.
fn managed() -> World {
    let mut world = World::new(2);
    world.machines.clear();
    world.instances.clear();
    world.infrastructure["status"] = json!({"initialization": {"provisioned": true}});
    world.infrastructure["spec"] = json!({"providerIDList": ["dev:///0", "dev:///1"]});
    world
}

/// The Machines that the plan creates.
fn created(plan: &Plan) -> Vec<Value> {
    let machines = plan.steps.iter().filter_map(|step| match &step.action {
        Action::Create(machine) => Some(serde_json::to_value(machine).unwrap()),
        _ => None,
    });
    machines.collect()
}

#[test]
fn bug_1_a_failure_that_the_provider_reports_is_shown_and_stops_nothing() {
    let mut world = World::new(2);
    world.infrastructure["status"]["failureReason"] = json!("QuotaExceeded");
    world.infrastructure["status"]["failureMessage"] = json!("no more machines");
    world.report_unhealthy(1);
    let state = world.state();
    let shown = conditions(&state, &world.plan());
    let message = "DevMachinePool \"p\" reports a failure: QuotaExceeded: no more machines";
    assert_eq!(shown["InfrastructureReady"], json!(["False", "Failed", message]));
    assert_eq!(world.deleted(), Some(String::from("p-1")));
}

#[test]
fn bug_2_a_long_name_an_empty_version_and_marks_on_both_sides_are_handled() {
    let mut world = World::new(3);
    let name = "p".repeat(70);
    let label = label_value(&name);
    assert!(label.starts_with("hash_") && label.len() < 63);
    world.pool["metadata"]["name"] = json!(name);
    world.pool["spec"]["template"]["spec"]["version"] = json!("");
    world.pool["spec"]["replicas"] = json!(1);
    for object in world.machines.iter_mut().chain(&mut world.instances) {
        object["metadata"]["labels"]["cluster.x-k8s.io/pool-name"] = json!(label);
    }
    for machine in &mut world.machines {
        machine["metadata"]["ownerReferences"][0]["name"] = json!(name);
    }
    // Both of the two that go are marked, and the older one of the others stays.
    for number in [1, 2] {
        world.machines[number]["metadata"]["annotations"]["cluster.x-k8s.io/delete-machine"] = json!("yes");
    }
    let state = world.state();
    assert_eq!(state.members.len(), 3);
    assert!(state.members.iter().all(|member| member.outdated.is_none()));
    assert_eq!(world.plan().steps, []);
}

#[test]
fn bug_3_the_nodes_of_a_deleted_pool_are_deleted_also_while_the_pool_lists_them() {
    let mut world = managed();
    world.pool["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:59:00Z");
    world.pool["spec"]["providerIDList"] = json!(["dev:///0"]);
    world.nodes[1]["metadata"]["annotations"] = json!({
        "cluster.x-k8s.io/owner-kind": "MachinePool", "cluster.x-k8s.io/owner-name": "p",
        "cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/cluster-namespace": "ns",
    });
    let mut foreign = world.nodes[1].clone();
    foreign["metadata"] = json!({"name": "other"});
    foreign["spec"]["providerID"] = json!("dev:///9");
    world.nodes.push(foreign);
    // While the infrastructure exists, an instance may still run.
    assert_eq!(world.waits(), ["Infrastructure"]);

    let observe = |world: &World| {
        let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c", "namespace": "ns"}});
        let objects: Vec<Value> = [world.pool.clone(), cluster]
            .into_iter()
            .chain(world.nodes.clone())
            .collect();
        State::observe(&Observed::of_objects(&objects).unwrap(), now())
    };
    let deletes = plan(&observe(&world), Mode::Extend, now());
    assert_eq!(verbs(&deletes), ["delete Node p-0", "delete Node p-1"]);
    world.nodes.drain(..2);
    let releases = plan(&observe(&world), Mode::Extend, now());
    assert_eq!(verbs(&releases), ["patch MachinePool p"]);
    let [step] = releases.steps.as_slice() else { panic!() };
    let Action::Patch(patch) = &step.action else { panic!() };
    assert_eq!(patch["metadata"]["finalizers"], json!([]));
}

#[test]
fn a_cluster_that_does_not_respond_holds_a_deleted_pool_until_the_timeout_passed() {
    let mut world = World::new(0);
    world.pool["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:59:00Z");
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": "ns"}});
    for (seconds, released) in [(0, false), (61, false), (30, true)] {
        world.pool["spec"]["template"]["spec"]["deletion"] = json!({"nodeDeletionTimeoutSeconds": seconds});
        let objects = [world.pool.clone(), cluster.clone()];
        let state = State::observe(&Observed::of_objects(&objects).unwrap(), now());
        let plan = plan(&state, Mode::Extend, now());
        assert_eq!(!plan.steps.is_empty(), released, "{seconds}");
        assert_eq!(plan.reconcile_at.is_some(), seconds == 61);
    }
    // A Cluster that goes takes its Nodes with it.
    let state = State::observe(&Observed::of_objects(&[world.pool.clone()]).unwrap(), now());
    assert_eq!(verbs(&plan(&state, Mode::Extend, now())), ["patch MachinePool p"]);
}

#[test]
fn v194_a_machine_that_the_provider_left_is_deleted_with_the_pool() {
    let mut world = World::new(2);
    world.pool["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:59:00Z");
    // The provider deletes the Machines while the infrastructure exists.
    assert_eq!(world.deleted(), None);
    world.infrastructure["metadata"]["name"] = json!("another");
    world.instances.clear();
    assert_eq!(world.deleted().as_deref(), Some("p-0"));
    world.delete(0);
    assert_eq!(world.deleted().as_deref(), Some("p-1"));
    // A Machine without a controller is not the pool's own.
    world.machines[1]["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(world.deleted(), None);
}

#[test]
fn a_pool_gets_the_finalizer_once() {
    let mut world = World::new(1);
    world.pool["metadata"]["finalizers"] = json!(["theirs"]);
    let plan = world.plan();
    assert_eq!(verbs(&plan), ["patch MachinePool p"]);
    let Action::Patch(patch) = &plan.steps[0].action else {
        panic!()
    };
    assert_eq!(patch["metadata"]["finalizers"], json!(["theirs", removal::FINALIZER]));
    assert_eq!(patch["metadata"]["resourceVersion"], "3");
}

#[test]
fn an_instance_that_cannot_be_deleted_alone_is_shown_as_a_record_and_never_deleted() {
    let mut world = managed();
    let shown = created(&world.plan());
    assert_eq!(shown.len(), 2);
    for record in &shown {
        let annotations = &record["metadata"]["annotations"];
        assert_eq!(annotations[records::RECORD], "true");
        assert_eq!(annotations["cluster.x-k8s.io/paused"], "true");
        // It names an object that does not exist, and not the infrastructure of the pool.
        assert_eq!(record["spec"]["infrastructureRef"]["name"], record["metadata"]["name"]);
        assert_ne!(record["metadata"]["name"], "p");
    }
    world.machines = shown;
    for (number, machine) in world.machines.iter_mut().enumerate() {
        machine["metadata"]["uid"] = json!(format!("r-{number}"));
    }
    world.report_unhealthy(0);
    let state = world.state();
    let plan = world.plan();
    assert_eq!(verbs(&plan), Vec::<String>::new());
    let deletable = &conditions(&state, &plan)["InstancesDeletable"];
    assert_eq!(deletable[1], "ProviderCannotDeleteInstances");
    let patch = records::status(&state.members[0], &NotStored::default(), now()).unwrap();
    assert_eq!(patch["status"]["phase"], "Running");
    assert!(patch["status"]["nodeRef"]["name"].as_str().unwrap().starts_with("p-"));

    // The Machine controller holds a paused Machine with its finalizer.
    world.delete(0);
    world.machines[0]["metadata"]["finalizers"] = json!(["machine.cluster.x-k8s.io", "theirs"]);
    let released = world.plan();
    let [step] = released.steps.as_slice() else {
        panic!("{released:?}")
    };
    let Action::Patch(patch) = &step.action else { panic!() };
    assert_eq!(patch["metadata"]["finalizers"], json!(["theirs"]));
    world.machines[0]["metadata"] = {
        let mut metadata = world.machines[0]["metadata"].clone();
        metadata.as_object_mut().unwrap().remove("deletionTimestamp");
        metadata
    };

    // A record goes after its instance.
    world.infrastructure["spec"]["providerIDList"] = json!(["dev:///1"]);
    let gone = world.plan();
    assert_eq!(gone.steps.len(), 1);
    let id = &world
        .machines
        .iter()
        .find(|one| one["metadata"]["name"] == gone.steps[0].subject.name);
    assert_eq!(id.unwrap()["spec"]["providerID"], "dev:///0");
}

#[test]
fn v195_an_instance_that_has_a_machine_gets_no_record_while_the_provider_forgets_the_kind() {
    let mut world = World::new(2);
    world.infrastructure["spec"] = json!({"providerIDList": ["dev:///0", "dev:///1", "dev:///2"]});
    world.infrastructure["status"] = json!({"ready": true});
    let ids: Vec<Value> = created(&world.plan())
        .iter()
        .map(|record| record["spec"]["providerID"].clone())
        .collect();
    assert_eq!(ids, [json!("dev:///2")]);
}

#[test]
fn v271_no_record_is_created_while_a_machine_of_the_pool_has_no_provider_id() {
    let mut world = World::new(2);
    world.infrastructure["spec"] = json!({"providerIDList": ["dev:///0", "dev:///1"]});
    world.infrastructure["status"] = json!({"ready": true});
    world.machines[1]["spec"]["providerID"] = json!("");
    let plan = world.plan();
    assert!(created(&plan).is_empty(), "{plan:?}");
    let message = "Machine p-1 has no provider ID yet, so its instance is not known";
    assert!(plan.waits.iter().any(|wait| wait.message == message), "{plan:?}");
    // A Machine that is being deleted does not hold up records.
    world.delete(1);
    assert_eq!(created(&world.plan()).len(), 1);
}

#[test]
fn records_of_pools_with_long_names_have_valid_names_of_their_own() {
    let (left, right) = ("a".repeat(253), format!("{}b", "a".repeat(252)));
    let names = [
        records::name(&left, "x"),
        records::name(&right, "x"),
        records::name(&left, "y"),
    ];
    assert!(names.iter().all(|name| name.len() <= 253));
    assert!(names[0] != names[1] && names[0] != names[2]);
}

#[test]
fn an_instance_that_its_provider_reports_as_outdated_is_outdated() {
    let mut world = World::new(3);
    world.rolling(&json!(1));
    world.instances[0]["status"] = json!({"conditions": [
        {"type": "UpToDate", "status": "False", "reason": "Model", "message": "it has model a"}]});
    world.instances[1]["status"] = json!({"latestModelApplied": false});
    world.instances[2]["status"] = json!({"latestModelApplied": true, "conditions": [
        {"type": "UpToDate", "status": "Unknown"}]});
    let state = world.state();
    let outdated: Vec<bool> = state.members.iter().map(|member| member.outdated.is_some()).collect();
    assert_eq!(outdated, [true, true, false]);
    assert!(state.members[0].outdated.as_ref().unwrap().contains("it has model a"));
    assert_eq!(world.deleted(), Some(String::from("p-0")));
}

#[test]
fn without_nodes_the_machines_report_availability_and_version() {
    let mut world = World::new(2);
    world.nodes.clear();
    for machine in &mut world.machines {
        machine["status"]["conditions"] = json!([{"type": "Available", "status": "True"}]);
        machine["status"]["nodeInfo"] = json!({"kubeletVersion": "v1.33.0"});
    }
    assert_eq!(world.plan(), Plan::default());
    world.machines[0]["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.32.0");
    world.machines[1]["status"]["conditions"][0]["status"] = json!("Unknown");
    world.rolling(&json!(1));
    let state = world.state();
    assert!(state.members[0].outdated.is_some() && !state.members[1].is_available);
    assert_eq!(world.deleted(), None);
}

#[test]
fn a_machine_of_another_infrastructure_kind_has_not_lost_its_instance() {
    let mut world = World::new(2);
    world.machines[0]["spec"]["infrastructureRef"]["kind"] = json!("OldMachine");
    assert_eq!(world.deleted(), None);
    world.machines[0]["spec"]["infrastructureRef"]["kind"] = json!("DevMachinePoolMachine");
    world.instances.remove(0);
    assert_eq!(world.deleted(), Some(String::from("p-0")));
}

#[test]
fn a_stored_status_is_not_written_again() {
    let world = World::new(2);
    let mut pool = world.pool.clone();
    let (state, plan) = (world.state(), world.plan());
    let mut known = NotStored::default();
    let of = |pool: &Value, known: &NotStored| status::patch(pool, &state, Mode::Extend, &plan, known, now());
    let patch = of(&pool, &known).unwrap();
    assert_eq!(patch["metadata"], json!({"uid": "p-uid", "resourceVersion": "3"}));
    let selector = "cluster.x-k8s.io/cluster-name=c,cluster.x-k8s.io/pool-name=p";
    assert_eq!(patch["status"]["selector"], selector);
    json_patch::merge(&mut pool, &patch);
    assert_eq!(of(&pool, &known), None);
    // The CRD drops the selector.
    pool["status"].as_object_mut().unwrap().remove("selector");
    known.learn(&patch, &pool["status"]);
    assert_eq!(of(&pool, &known), None);
    assert_eq!(patch["status"].get("readyReplicas"), None, "the core manager writes it");
}

#[test]
fn a_pool_of_capstan_alone_has_its_cluster_its_data_and_its_counters() {
    let mut world = World::new(2);
    world.pool["metadata"]["uid"] = json!("p-uid");
    world.infrastructure["metadata"]["uid"] = json!("i-uid");
    world.infrastructure["spec"] = json!({"providerIDList": ["dev:///0", "dev:///1"]});
    world.pool["spec"]["template"]["spec"]["bootstrap"] = json!({"configRef": {
        "apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": "p"}});
    let bootstrap = json!({"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig",
        "metadata": {"name": "p", "namespace": "ns", "uid": "b-uid"},
        "status": {"initialization": {"dataSecretCreated": true}, "dataSecretName": "boot"}});
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": "ns", "uid": "c-uid"}});
    let mut objects = vec![world.pool.clone(), world.infrastructure.clone(), bootstrap, cluster];
    let observe = |objects: &[Value], world: &World| {
        let all = [objects, &world.machines, &world.instances, &world.nodes].concat();
        State::observe(&Observed::of_objects(&all).unwrap(), now())
    };
    let first = plan(&observe(&objects, &world), Mode::Own, now());
    assert_eq!(
        verbs(&first),
        ["patch MachinePool p", "patch DevMachinePool p", "patch KubeadmConfig p"]
    );
    for (object, step) in objects.iter_mut().zip(&first.steps) {
        let Action::Patch(patch) = &step.action else { panic!() };
        json_patch::merge(object, patch);
    }
    let pool = &objects[0];
    assert_eq!(pool["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "c");
    assert_eq!(pool["metadata"]["ownerReferences"][0]["kind"], "Cluster");
    assert_eq!(pool["spec"]["providerIDList"], json!(["dev:///0", "dev:///1"]));
    assert_eq!(pool["spec"]["template"]["spec"]["bootstrap"]["dataSecretName"], "boot");
    assert_eq!(objects[1]["metadata"]["ownerReferences"][0]["uid"], "p-uid");
    let state = observe(&objects, &world);
    let rest = plan(&state, Mode::Own, now());
    assert_eq!(verbs(&rest), Vec::<String>::new());
    let patch = status::patch(&objects[0], &state, Mode::Own, &rest, &NotStored::default(), now()).unwrap();
    let status = &patch["status"];
    assert_eq!(
        (&status["replicas"], &status["upToDateReplicas"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(status["phase"], "Running");
    let both = json!({"bootstrapDataSecretCreated": true, "infrastructureProvisioned": true});
    assert_eq!(status["initialization"], both);

    objects[0]["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:59:00Z");
    let deletes = plan(&observe(&objects, &world), Mode::Own, now());
    assert_eq!(verbs(&deletes), ["delete DevMachinePool p", "delete KubeadmConfig p"]);
}

#[test]
fn v196_a_pool_that_is_deleted_before_it_owns_its_infrastructure_becomes_the_owner_first() {
    let mut world = World::new(0);
    world.infrastructure["metadata"]["uid"] = json!("i-uid");
    world.pool["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:59:00Z");
    let adopts = plan(&world.state(), Mode::Own, now());
    assert_eq!(verbs(&adopts), ["patch DevMachinePool p"]);
    let Action::Patch(patch) = &adopts.steps[0].action else {
        panic!("{adopts:?}")
    };
    json_patch::merge(&mut world.infrastructure, patch);
    let deletes = plan(&world.state(), Mode::Own, now());
    assert_eq!(verbs(&deletes), ["delete DevMachinePool p"]);
}
