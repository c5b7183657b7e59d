//! What a plan must not do although the cluster is not as expected: records of creations, policies
//! that strip machines, former owners, shared nodes, and objects that cannot be read.

use core::net::IpAddr;
use std::collections::BTreeSet;

use super::spread::run;
use super::*;
use crate::api::core_v1::node::NodeAddress;
use crate::control_plane::removal::leave;
use crate::cpms::observed::{PendingCreate, UnansweredCreate, Unparsable};
use crate::cpms::pending_creates::{LAST_CREATED, creation, record};
use crate::cpms::stored_template::StoredTemplate;
use crate::model::{PENDING_CREATIONS, PendingCreation};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// The plan, with what a process knows in addition.
fn plan_with(world: &World, change: impl FnOnce(&mut Observed)) -> Plan {
    let mut observed = world.observed();
    change(&mut observed);
    let spec = world.spec();
    plan(&spec, &State::observe(&spec, observed))
}

/// Records the creation of a plan in the ControlPlane, as the controller does before it sends it.
fn record_of(world: &mut World, next: &Plan, by: &str) -> PendingCreation {
    let new = creation(next.disruptive().unwrap(), by, at(0)).unwrap();
    let meta = serde_json::from_value(world.object["metadata"].clone()).unwrap();
    let mut patch = record(&meta, &new, |_| false).unwrap();
    patch["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    json_patch::merge(&mut world.object, &patch);
    new
}

/// What another process reads of the records.
fn pending(records: &[&PendingCreation]) -> Vec<PendingCreate> {
    let read = |record: &&PendingCreation| PendingCreate {
        creation: (*record).clone(),
        until: at(240),
    };
    records.iter().map(read).collect()
}

/// Gives each node an address, and lists the members on these machines as voters.
fn list_voters(observed: &mut Observed, voters: &[&str]) {
    let nodes = observed.nodes.iter_mut().zip(1_u8..);
    let nodes = nodes.map(|(node, number)| {
        let node = Arc::make_mut(node);
        let address = IpAddr::from([10, 0, 0, number]);
        node.status.addresses = vec![NodeAddress {
            type_: "InternalIP".to_owned(),
            address: address.to_string(),
        }];
        voters.contains(&node.metadata.name()).then_some(address)
    });
    observed.voters = Some(nodes.flatten().collect());
}

#[test]
fn v221_nothing_is_created_or_deleted_while_a_member_is_a_learner_that_the_etcd_operator_counts() {
    let grows = growing();
    let mut shrinks = World::settled(5);
    shrinks.object["spec"]["replicas"] = json!(3);
    for world in [grows, shrinks] {
        let names: Vec<&str> = world.hosts.iter().map(Host::name).collect();
        let all = plan_with(&world, |observed| list_voters(observed, &names));
        assert!(all.disruptive().is_some(), "{all:?}");
        let one_learns = plan_with(&world, |observed| list_voters(observed, &names[1..]));
        assert!(one_learns.disruptive().is_none(), "{one_learns:?}");
        let [wait] = one_learns.waits.as_slice() else {
            panic!("{one_learns:?}");
        };
        assert_eq!(wait.reason, WaitReason::EtcdMembers);
        let message = format!(
            "the etcd member of machine {} does not vote yet: the ConfigMap etcd-endpoints in openshift-etcd does not \
             list 10.0.0.1",
            names[0]
        );
        assert_eq!(wait.message, message);
        // Nodes without an address, and clusters without the list, do not wait for it.
        let without_addresses = plan_with(&world, |observed| observed.voters = Some(BTreeSet::new()));
        assert_eq!(without_addresses, all);
        assert_eq!(world.plan(), all);
    }
}

fn growing() -> World {
    let mut world = World::settled(3);
    world.object["spec"]["replicas"] = json!(5);
    world
}

#[test]
fn a_process_that_finds_the_record_of_a_creation_requests_the_same_machine_again() {
    let mut world = growing();
    let first = world.plan();
    let record = record_of(&mut world, &first, "one");
    let name = &first.disruptive().unwrap().subject.name;
    assert_eq!((&record.machine, record.index), (name, 3));
    let again = plan_with(&world, |observed| observed.pending = pending(&[&record]));
    assert_eq!(again.disruptive().unwrap().subject.name, *name);
}

#[test]
fn while_a_requested_machine_may_still_be_created_no_other_is_created_or_deleted() {
    let mut world = growing();
    let first = world.plan();
    let record = record_of(&mut world, &first, "one");
    // The newest machine is gone, so that the next name is another one.
    let name = world.hosts[2].name().to_owned();
    world.hosts.retain(|one| one.name() != name);
    let next = plan_with(&world, |observed| observed.pending = pending(&[&record]));
    assert!(next.disruptive().is_none(), "{:?}", next.steps);
    assert_eq!(next.waits[0].reason, WaitReason::MachineRequested);
    assert_eq!((next.waits[0].until, next.reconcile_at), (Some(at(240)), Some(at(240))));
    let mut world = World::settled(5);
    world.object["spec"]["replicas"] = json!(3);
    assert!(world.plan().disruptive().is_some());
    let record = PendingCreation {
        machine: "ocp-x7k2p-master-aaaaa-5".to_owned(),
        ..record
    };
    let next = plan_with(&world, |observed| observed.pending = pending(&[&record]));
    assert!(next.disruptive().is_none(), "{:?}", next.steps);
}

#[test]
fn an_unanswered_creation_counts_until_it_is_over_and_its_record_is_then_removed() {
    let mut world = growing();
    let first = world.plan();
    let Action::Create { machine, .. } = first.disruptive().unwrap().action.clone() else {
        panic!("{first:?}");
    };
    let record = record_of(&mut world, &first, "one");
    let sent = |until: Option<Timestamp>| UnansweredCreate {
        index: record.index,
        machine: Arc::new((*machine).clone()),
        until,
    };
    let again = plan_with(&world, |observed| observed.unanswered = vec![sent(Some(at(180)))]);
    assert_eq!(again.disruptive().unwrap().subject.name, record.machine);
    // The machine exists, and the request is answered.
    world.execute(&first);
    let late = plan_with(&world, |observed| observed.unanswered = vec![sent(Some(at(180)))]);
    assert!(late.steps.is_empty(), "the request may still create it a second time");
    let over = world.plan();
    let [
        Step {
            action: Action::Records(patch),
            subject,
            ..
        },
    ] = &over.steps[..]
    else {
        panic!("{over:?}");
    };
    assert_eq!(*subject, world.spec().object());
    let annotations = &patch["metadata"]["annotations"];
    assert_eq!(annotations[PENDING_CREATIONS], Value::Null);
    assert_eq!(annotations[LAST_CREATED], json!({"3": record.machine}).to_string());
}

#[test]
fn a_machine_gets_another_name_than_the_last_machine_of_its_number() {
    let mut world = World::settled(1);
    world.object["spec"]["replicas"] = json!(3);
    let first = world.plan();
    let name = first.disruptive().unwrap().subject.name.clone();
    world.object["metadata"]["annotations"] = json!({(LAST_CREATED): json!({"1": name}).to_string()});
    assert_ne!(world.plan().disruptive().unwrap().subject.name, name);
}

#[test]
fn records_that_cannot_be_read_stop_every_step() {
    let mut world = growing();
    world.object["metadata"]["annotations"] = json!({(PENDING_CREATIONS): "?"});
    let next = world.plan();
    assert!(next.steps.is_empty());
    assert_eq!(next.degraded[0].reason, "UnreadablePendingCreations");
}

#[test]
fn a_policy_that_strips_each_new_machine_leads_to_one_machine_and_not_to_machines_without_end() {
    // Each piece of evidence is enough: the owner reference, the record in the machine, the records
    // of the ControlPlane, and the memory of the process.
    for evidence in 0..4 {
        let mut world = growing();
        let first = world.plan();
        if evidence == 2 {
            record_of(&mut world, &first, "one");
        }
        world.execute(&first);
        let one = world.hosts.last_mut().unwrap();
        let name = one.name().to_owned();
        let metadata = one.machine["metadata"].as_object_mut().unwrap();
        metadata.remove("labels");
        if evidence != 0 {
            metadata.remove("ownerReferences");
        }
        if evidence != 1 {
            metadata.remove("annotations");
        }
        let next = plan_with(&world, |observed| {
            if evidence == 3 {
                observed.requested = [name.clone()].into();
            }
        });
        assert!(next.disruptive().is_none(), "{evidence}: {next:?}");
        assert_eq!(next.degraded[0].reason, "StrayedMachines", "{evidence}");
        assert!(next.degraded[0].message.contains(&name));
    }
}

#[test]
fn the_finalizer_is_stored_before_a_machine_gets_an_owner() {
    let mut world = growing();
    world.object["metadata"]["finalizers"] = json!(["theirs"]);
    let next = world.plan();
    let [
        Step {
            action: Action::PatchSet(patch),
            ..
        },
    ] = &next.steps[..]
    else {
        panic!("{next:?}");
    };
    assert_eq!(
        patch["metadata"]["finalizers"],
        json!(["theirs", "controlplane.machine.openshift.io"])
    );
    assert_eq!(patch["metadata"]["resourceVersion"], "100");
    world.hosts[0].machine["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("ownerReferences");
    let next = world.plan();
    let subjects: Vec<&str> = next.steps.iter().map(|step| step.subject.kind.as_ref()).collect();
    assert_eq!(subjects, ["ControlPlane", "Machine"]);
}

#[test]
fn the_machines_of_a_deleted_control_plane_are_released_before_its_finalizer_is_removed() {
    let mut world = World::settled(3);
    world.object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    // One machine lost its labels, and one was not adopted yet.
    world.hosts[0].machine["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("labels");
    world.hosts[1].machine["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("ownerReferences");
    let plan_of = |world: &World| {
        leave(
            &serde_json::from_value(world.object.clone()).unwrap(),
            &world.observed(),
        )
    };
    let first = plan_of(&world);
    assert_eq!(verbs(&world.execute(&first)), ["patch"; 3]);
    for one in &world.hosts {
        let meta = &one.machine["metadata"];
        assert!(meta["ownerReferences"].as_array().is_none_or(Vec::is_empty), "{meta}");
        assert_eq!(meta["annotations"]["capstan.dev/released"], "cp-uid");
    }
    let last = plan_of(&world);
    let [
        Step {
            action: Action::PatchSet(patch),
            ..
        },
    ] = &last.steps[..]
    else {
        panic!("{last:?}");
    };
    assert_eq!(patch["metadata"]["finalizers"], json!([]));
    let object = serde_json::from_value(world.object.clone()).unwrap();
    let mut observed = world.observed();
    observed.unparsable = vec![unparsable()];
    let held = leave(&object, &observed);
    assert!(held.steps.is_empty() && held.degraded[0].reason == "UnparsableObjects");
    // A process that does not see the deletion yet adopts no released machine.
    world.object["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("deletionTimestamp");
    let steps = world.plan().steps;
    let is_patch = |step: &Step| matches!(step.action, Action::Patch { .. });
    assert!(!steps.iter().any(is_patch), "{steps:?}");
}

#[test]
fn the_machines_of_a_control_plane_that_was_created_again_change_their_owner() {
    let mut world = World::settled(3);
    world.object["metadata"]["uid"] = json!("second");
    let next = world.plan();
    assert_eq!(verbs(&world.execute(&next)), ["patch"; 3]);
    for one in &world.hosts {
        let owners = one.machine["metadata"]["ownerReferences"].as_array().unwrap();
        assert_eq!(owners.len(), 1);
        assert_eq!(owners[0]["uid"], "second");
    }
    assert!(world.plan().steps.is_empty());
    // Also while the ControlPlane is degraded: the garbage collector does not wait for a user.
    world.object["metadata"]["uid"] = json!("third");
    let next = plan_with(&world, |observed| observed.unparsable = vec![unparsable()]);
    assert_eq!(verbs(&world.execute(&next)), ["patch"; 3]);
}

#[test]
fn a_node_counts_for_one_of_two_machines_that_name_it() {
    let mut world = World::settled(3);
    world.object["spec"]["providerSpec"]["value"]["instanceType"] = json!("m6i.2xlarge");
    let first = world.plan();
    world.execute(&first);
    let old = world.hosts[0].name().to_owned();
    world.hosts[3].machine["status"]["nodeRef"]["name"] = json!(old);
    let next = world.plan();
    assert!(next.disruptive().is_none(), "{next:?}");
    assert_eq!(next.waits[0].reason, WaitReason::MachineReady);
}

fn unparsable() -> Unparsable {
    Unparsable {
        kind: "Machine".to_owned(),
        name: "broken".to_owned(),
        message: "expected a map".to_owned(),
    }
}

#[test]
fn a_machine_that_cannot_be_decoded_stops_every_step() {
    let world = growing();
    let next = plan_with(&world, |observed| observed.unparsable = vec![unparsable()]);
    assert!(next.steps.is_empty());
    assert_eq!(next.degraded[0].reason, "UnparsableObjects");
    let mut world = growing();
    world.hosts[0].machine["spec"] = json!({});
    let next = world.plan();
    assert!(next.steps.is_empty());
    assert_eq!(next.degraded[0].reason, "UnparsableObjects");
}

/// A webhook that changes a field and strips annotations leaves no record in the machine. The
/// answer of the API server to one dry run shows that machines are stored in this way.
#[test]
fn a_webhook_that_changes_machines_causes_no_endless_replacement() {
    let mut world = World::settled(3);
    for one in &mut world.hosts {
        one.machine["metadata"].as_object_mut().unwrap().remove("annotations");
        one.machine["spec"]["providerSpec"]["value"]["instanceType"] = json!("changed");
    }
    let state = world.state();
    let asked = question(&world.spec(), &state).unwrap();
    assert_eq!(question(&world.spec(), &World::settled(3).state()), None);
    let mut stored = asked.machine.spec.provider_spec.value.clone().unwrap();
    stored["instanceType"] = json!("changed");
    let answer = StoredTemplate {
        template: asked.template,
        provider_spec: stored,
    };
    let next = plan_with(&world, |observed| {
        observed.stored_templates = vec![Arc::new(answer.clone())];
    });
    assert!(next.steps.is_empty() && next.degraded.is_empty(), "{next:?}");
    // A machine that is outdated in fact waits: its replacement would not have the template either.
    world.hosts[0].machine["spec"]["providerSpec"]["value"]["instanceType"] = json!("old");
    let next = plan_with(&world, |observed| {
        observed.stored_templates = vec![Arc::new(answer.clone())];
    });
    assert!(next.steps.is_empty());
    assert_eq!(next.degraded[0].reason, "TemplateNotStored");
    // A missing machine is created nevertheless.
    world.object["spec"]["replicas"] = json!(5);
    let next = plan_with(&world, |observed| observed.stored_templates = vec![Arc::new(answer)]);
    assert!(next.disruptive().is_some());
}

#[test]
fn v88_the_api_server_is_asked_again_while_it_stores_other_values() {
    let mut world = World::settled(3);
    for one in &mut world.hosts {
        one.machine["metadata"].as_object_mut().unwrap().remove("annotations");
        one.machine["spec"]["providerSpec"]["value"]["instanceType"] = json!("changed");
    }
    let asked = question(&world.spec(), &world.state()).unwrap();
    let mut stored = asked.machine.spec.provider_spec.value.clone().unwrap();
    stored["instanceType"] = json!("changed");
    let mut observed = world.observed();
    observed.stored_templates = vec![Arc::new(StoredTemplate {
        template: asked.template,
        provider_spec: stored,
    })];
    let state = State::observe(&world.spec(), observed);
    assert!(
        state.standing().all(MachineState::is_current),
        "the answer makes them up to date"
    );
    assert!(question(&world.spec(), &state).unwrap().again);
    assert_eq!(retry_at(&state, at(0)), Some(at(60)));
    assert_eq!(retry_at(&world.state(), at(0)), None, "no answer is known");
}

/// Marks the nodes as control plane nodes and hides all but the first `machines` machines, as after
/// a restore without them.
fn without_machines(observed: &mut Observed, machines: usize) {
    observed.machines.truncate(machines);
    for node in &mut observed.nodes {
        let labels = &mut Arc::make_mut(node).metadata.labels;
        labels.insert("node-role.kubernetes.io/control-plane".to_owned(), String::new());
    }
}

#[test]
fn v82_no_machine_is_created_beside_members_whose_machines_are_unknown() {
    let world = World::settled(3);
    let reports = [
        "EtcdMembersAvailable: 3 members are available",
        "EtcdMembersAvailable: 2 of 3 members are available, b is unhealthy",
        "EtcdMembersAvailable: 1 of 3 members are available, a is unhealthy, b is unhealthy",
        "EtcdMembersAvailable: No quorum",
    ];
    for (position, report) in reports.into_iter().enumerate() {
        for machines in 0..3 {
            // Two machines with healthy members may replace the lost third one.
            if (position, machines) == (1, 2) {
                continue;
            }
            let next = plan_with(&world, |observed| {
                without_machines(observed, machines);
                let status = json!({"metadata": {"name": "etcd"}, "status": {"conditions": [
                    {"type": "Available", "status": "True", "message": report},
                    {"type": "Degraded", "status": "False"}]}});
                observed.etcd = Some(Arc::new(serde_json::from_value(status).unwrap()));
            });
            assert!(next.disruptive().is_none(), "{machines} {report}: {:?}", next.steps);
            assert!(!next.waits.is_empty(), "{machines} {report}");
        }
    }
}

#[test]
fn v82_the_wait_names_the_nodes_without_a_machine() {
    let world = World::settled(3);
    let next = plan_with(&world, |observed| without_machines(observed, 2));
    let [wait] = &next.waits[..] else {
        panic!("{:?}", next.waits)
    };
    assert_eq!(wait.reason, WaitReason::EtcdMembers);
    let name = world.hosts[2].name();
    assert!(
        wait.message.contains(name) && wait.message.contains("restore the Machines"),
        "{}",
        wait.message
    );
}

#[test]
fn a_member_of_the_bootstrap_host_stops_no_creation() {
    let mut world = World::settled(3);
    world.hosts.clear();
    for report in ["1 members are available", "1 member is available"] {
        let next = plan_with(&world, |observed| {
            let message = format!("EtcdMembersAvailable: {report}");
            let status = json!({"metadata": {"name": "etcd"}, "status": {"conditions": [
                {"type": "Available", "status": "True", "message": message}, {"type": "Degraded", "status": "False"}]}});
            observed.etcd = Some(Arc::new(serde_json::from_value(status).unwrap()));
        });
        assert!(next.disruptive().is_some(), "{:?}", next.waits);
    }
}

/// A policy changes the machines of one failure domain, in which no dry run took place.
#[test]
fn v230_a_machine_that_is_stored_with_another_shape_replaces_no_machine() {
    let mut world = World::settled(3);
    let before: Vec<String> = world.hosts.iter().map(|host| host.name().to_owned()).collect();
    world.object["spec"]["providerSpec"]["value"]["instanceType"] = json!("m6i.4xlarge");
    let shrink = |world: &mut World, name: &str, _: &str| {
        world.named(name).machine["spec"]["providerSpec"]["value"]["instanceType"] = json!("t3.micro");
    };
    assert_eq!(run(&mut world, shrink), 1);
    let names: Vec<&str> = world.hosts.iter().map(Host::name).collect();
    assert!(before.iter().all(|name| names.contains(&&**name)), "{names:?}");
    let next = world.plan();
    assert_eq!(next.disruptive(), None, "{next:?}");
    let [reason] = next.degraded.as_slice() else {
        panic!("{next:?}");
    };
    assert_eq!(reason.reason, "TemplateNotStored");
    for part in ["instanceType", "t3.micro", "delete these machines"] {
        assert!(reason.message.contains(part), "{}", reason.message);
    }
    // A user corrects the policy and deletes the machine.
    let bad = names.iter().find(|name| !before.contains(&(**name).to_owned()));
    let bad = (*bad.unwrap()).to_owned();
    world.delete(&bad);
    assert_eq!(run(&mut world, |_, _, _| ()), 3);
    assert!(world.plan().degraded.is_empty() && world.plan().steps.is_empty());
}
