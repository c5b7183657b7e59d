//! One plan for one state, in the notation of the vectors: `0[Ro,R]` is index 0 with two machines;
//! R is ready and up to date, S is the same for only five seconds, P is up to date and not ready
//! yet, X is not ready and outdated, `o` is outdated, `d` is being deleted.

use std::sync::Arc;

use crate::cpms::observed::{PendingCreate, UnansweredCreate};
use crate::cpms::plan::Plan;
use crate::cpms::simulation::{NEW, OLD, World};
use crate::model::PendingCreation;

fn world(text: &str) -> World {
    let mut world = World::new("a b c", NEW);
    world.observed.machines.clear();
    world.observed.nodes.clear();
    for part in text.split_whitespace() {
        let (index, machines) = part.trim_end_matches(']').split_once('[').unwrap();
        let number: usize = index.parse().unwrap();
        let zone = ["a", "b", "c"][number % 3];
        for (age, sort) in machines.split(',').filter(|sort| !sort.is_empty()).enumerate() {
            let name = format!("ocp-x7k2p-master-{}-{index}", ["old", "young", "third"][age]);
            let outdated = sort.contains('o') || sort.starts_with('X');
            world.add(&name, zone, if outdated { OLD } else { NEW });
            let created = world.ago(3600 - i64::try_from(age).unwrap());
            world.machine(&name).metadata.creation_timestamp = Some(created);
            match sort.chars().next().unwrap() {
                'R' => {}
                'P' => {
                    world.machine(&name).status = None;
                    world.node_gone(&name);
                }
                'S' => {
                    let since = world.ago(5);
                    world.set_node(&name, "True", since);
                }
                'X' => world.node_down(&name),
                other => panic!("{other}"),
            }
            if sort.ends_with('d') {
                world.delete(&name);
            }
        }
    }
    world
}

/// A record of another process that is valid for one more minute.
fn pending(world: &World, index: u32, machine: &str) -> PendingCreate {
    PendingCreate {
        creation: PendingCreation {
            index,
            machine: machine.to_owned(),
            requested_by: "another".to_owned(),
            requested_at: world.now,
            revision: None,
        },
        until: world.ago(-60),
    }
}

fn shown(plan: &Plan) -> String {
    let parts: Vec<String> = plan
        .steps
        .iter()
        .map(|step| {
            let name = step.machine().unwrap_or_default();
            let age = ["old", "young", "third"]
                .into_iter()
                .find(|age| name.contains(age))
                .unwrap_or("new");
            format!("{} {} {}", step.verb(), age, step.index.unwrap())
        })
        .collect();
    match plan.degraded.first() {
        Some(reason) => format!("{} ({})", parts.join(", "), reason.reason),
        None => parts.join(", "),
    }
}

fn check(strategy: &str, vectors: &[(&str, &str)]) {
    for (text, expected) in vectors {
        let mut world = world(text);
        world.strategy(strategy);
        assert_eq!(shown(&world.plan()), *expected, "{strategy} {text}");
    }
}

#[test]
fn rolling_update_follows_the_vectors() {
    check(
        "RollingUpdate",
        &[
            ("0[R] 1[R] 2[R]", ""),
            ("0[R] 1[Ro,P] 2[R]", ""),
            ("0[R] 1[Rod,R] 2[R]", ""),
            ("0[Ro] 1[Ro] 2[R]", "create new 0"),
            ("0[Ro,R] 1[Ro] 2[R]", "delete old 0"),
            ("0[R] 1[R] 2[]", "create new 2"),
            // OpenShift's operator creates 1 as well: two at once.
            ("0[R] 1[Ro] 2[]", "create new 2"),
            // OpenShift's operator deletes both at once.
            ("0[Ro,R] 1[Ro,R] 2[]", "delete old 0"),
            ("0[Ro] 1[Ro] 2[Ro] 3[Ro]", " (ExcessIndexes)"),
            ("1[R] 2[R] 3[R]", ""),
            ("0[R] 1[Rd] 2[R]", "create new 1"),
            ("0[R] 1[Rd,R] 2[R]", ""),
        ],
    );
}

#[test]
fn rolling_update_handles_further_states() {
    check(
        "RollingUpdate",
        &[
            // Both machines of an index are being deleted. There is one machine too many until the
            // first is gone.
            ("0[R] 1[Rd,Rd] 2[R]", ""),
            ("0[R] 1[Xd,Rd] 2[R]", "create new 1"),
            // A replacement that is outdated by a template change is deleted, and the old machine
            // stays until the next replacement is ready.
            ("0[Ro,X] 1[Ro] 2[Ro]", "delete young 0"),
            ("0[Ro,Ro] 1[Ro] 2[Ro]", "delete young 0"),
            ("0[X,Ro] 1[Ro] 2[Ro]", "delete old 0"),
            ("0[X,X] 1[R] 2[R]", "delete young 0"),
            ("0[Ro,X,P] 1[R] 2[R]", "delete young 0"),
            ("0[X,P] 1[R] 2[R]", ""),
            ("0[X,R] 1[R] 2[R]", "delete old 0"),
            // Of two machines that are up to date, the older is deleted.
            ("0[R,R] 1[R] 2[R]", "delete old 0"),
            // A machine that is not ready is replaced first, and no ready machine is replaced while
            // another is not ready.
            ("0[Ro] 1[X] 2[Ro]", "create new 1"),
            ("0[Ro] 1[X] 2[X]", "create new 1"),
            ("0[Ro] 1[P] 2[Ro]", ""),
            ("0[Ro] 1[S] 2[Ro]", ""),
            ("0[Ro,S] 1[Ro] 2[Ro]", ""),
            ("0[S] 1[] 2[R]", ""),
            // One at a time, also if several are deleted at once.
            ("0[Rod] 1[Rod] 2[Rod]", "create new 0"),
            ("0[Rod,P] 1[Rod] 2[Rod]", ""),
            ("0[Rod,R] 1[Rod] 2[Rod]", ""),
            ("0[R] 1[Rod] 2[Rod]", "create new 1"),
            // An unready machine that is being deleted and has a hook does not delay the machine
            // that its hook waits for.
            ("0[Xd,R] 1[Xd] 2[R]", "create new 1"),
            ("0[] 1[] 2[R]", "create new 0"),
            ("0[P] 1[] 2[R]", ""),
            ("", " (NoReadyMachines)"),
            ("0[X] 1[X] 2[X]", " (NoReadyMachines)"),
        ],
    );
}

#[test]
fn on_delete_follows_the_vectors_one_by_one() {
    check(
        "OnDelete",
        &[
            ("0[R] 1[Ro] 2[R]", ""),
            ("3[R] 4[Rod] 5[R]", "create new 4"),
            ("0[R] 1[Rod,R] 2[R]", ""),
            // Decision 7: OpenShift's operator creates 1 as well.
            ("0[Rod] 1[Rod] 2[R]", "create new 0"),
            ("0[Rod,P] 1[Rod,R] 2[R]", ""),
            ("0[R] 1[Ro] 2[]", "create new 2"),
            ("0[R] 1[R] 2[Rd]", "create new 2"),
            // Left by another strategy: the user decides, and the other indexes do not wait.
            ("0[Ro,R] 1[R] 2[R]", ""),
            ("0[Ro,R] 1[Rd] 2[R]", "create new 1"),
            // The template changed again, so that all machines are outdated.
            ("0[Ro,Ro,Ro] 1[Rod] 2[Ro]", "create new 1"),
            ("0[Ro,Ro,Ro] 1[] 2[Ro]", "create new 1"),
            ("0[R,R] 1[R] 2[R]", " (ExcessUpdatedReplicas)"),
        ],
    );
}

#[test]
fn recreate_removes_first_and_only_while_all_others_are_ready() {
    for (text, expected) in [
        ("0[R] 1[R] 2[R]", ""),
        ("0[Ro] 1[Ro] 2[Ro]", "delete old 0"),
        ("0[Rod] 1[Ro] 2[Ro]", ""),
        ("0[] 1[Ro] 2[Ro]", "create new 0"),
        ("0[P] 1[Ro] 2[Ro]", ""),
        ("0[R] 1[Ro] 2[Ro]", "delete old 1"),
        ("0[Ro] 1[X] 2[R]", "delete old 1"),
        ("0[X] 1[X] 2[R]", ""),
        ("0[Ro,R] 1[R] 2[R]", "delete old 0"),
    ] {
        let mut world = world(text);
        world.gates.recreate = true;
        world.annotate("capstan.dev/recreate-acknowledged", "etcd-quorum-at-risk");
        world.strategy("Recreate");
        assert_eq!(shown(&world.plan()), expected, "Recreate {text}");
    }
}

#[test]
fn b23_a_deletion_carries_uid_and_version() {
    let world = world("0[Ro,R] 1[R] 2[R]");
    let step = world.plan().steps.pop().unwrap();
    let precondition = step.precondition.unwrap();
    assert_eq!(precondition.uid, "uid-ocp-x7k2p-master-old-0");
    assert!(!precondition.resource_version.is_empty());
}

#[test]
fn the_name_of_a_machine_is_stable_and_an_existing_name_leads_to_the_next() {
    let mut world = world("0[Ro] 1[R] 2[R]");
    let name = |world: &World| world.plan().steps.pop().unwrap().machine().unwrap().to_owned();
    let first = name(&world);
    world.pass(3600);
    world.set["metadata"]["generation"] = serde_json::json!(9);
    assert_eq!(
        name(&world),
        first,
        "after a lost reply, the API server answers AlreadyExists"
    );
    world.add(&first, "a", NEW);
    // A machine of another owner with the same name.
    world.machine(&first).metadata.labels.clear();
    world.machine(&first).metadata.owner_references.clear();
    world.observed.nodes.pop();
    let second = name(&world);
    assert_ne!(second, first);
    assert!(second.starts_with("ocp-x7k2p-master-") && second.ends_with("-0"));
    // Seed 34815: the first name is free again, and the second was requested without an answer
    // (G2).
    world
        .observed
        .machines
        .retain(|machine| machine.metadata.name() != first);
    assert_eq!(name(&world), first);
    world.observed.pending = vec![pending(&world, 0, &second)];
    assert_eq!(name(&world), second);
}

/// Seed 70292: a second request created the machine, which was deleted. The next index got its
/// machine before the first request arrived.
#[test]
fn no_other_machine_is_created_while_a_requested_machine_may_exceed_the_limit() {
    let sent = |world: &World| {
        let plan = world.plan();
        let crate::cpms::plan::Action::Create { machine, .. } = &plan.disruptive().unwrap().action else {
            panic!("{plan:?}");
        };
        UnansweredCreate {
            index: plan.disruptive().unwrap().index.unwrap(),
            machine: Arc::new((**machine).clone()),
            until: Some(world.ago(-60)),
        }
    };
    let asked = sent(&world("0[R] 1[Ro] 2[R]"));
    for (text, expected) in [
        // The same machine again.
        ("0[R] 1[Ro] 2[R]", "create new 1"),
        // Another machine would be the second that is too many.
        ("0[Ro] 1[Ro] 2[R]", ""),
        // In place of a missing machine, one more can be created, and no more.
        ("0[] 1[R] 2[R]", "create new 0"),
        ("0[Rod] 1[R] 2[R]", ""),
    ] {
        let mut world = world(text);
        world.observed.unanswered = vec![asked.clone()];
        let plan = world.plan();
        assert_eq!(shown(&plan), expected, "{text}: {plan:?}");
        if expected.is_empty() {
            assert_eq!(plan.reconcile_at, asked.until);
            world.pass(60);
            assert_eq!(shown(&world.plan()), "create new 0");
        }
    }
    // A record of another process counts too, unless it is for the same machine or the machine
    // exists.
    for (text, there, expected) in [
        ("0[R] 1[Ro] 2[R]", "", "create new 1"),
        ("0[Ro] 1[Ro] 2[R]", "", ""),
        ("0[Ro] 1[Ro] 2[R]", "there", "create new 0"),
    ] {
        let mut world = world(text);
        let recorded = if there.is_empty() {
            pending(&world, asked.index, asked.machine.metadata.name())
        } else {
            pending(&world, 0, world.observed.machines[0].metadata.name())
        };
        world.observed.pending = vec![recorded];
        assert_eq!(shown(&world.plan()), expected, "{text}: {:?}", world.plan());
        world.pass(60);
        assert!(shown(&world.plan()).starts_with("create new"));
    }
    // A creation that is over delays nothing.
    let mut world = world("0[Ro] 1[Ro] 2[R]");
    world.observed.unanswered = vec![UnansweredCreate { until: None, ..asked }];
    assert_eq!(shown(&world.plan()), "create new 0");
}

#[test]
fn a_made_machine_is_complete() {
    let mut world = world("0[Ro] 1[R] 2[R]");
    world.set["spec"]["machineNamePrefix"] = serde_json::json!("masters");
    world.template()["metadata"]["annotations"] = serde_json::json!({"team": "infra"});
    world.template()["spec"]["taints"] = serde_json::json!([{"key": "k", "effect": "NoSchedule"}]);
    let plan = world.plan();
    let crate::cpms::plan::Action::Create { machine, .. } = &plan.disruptive().unwrap().action else {
        panic!("{plan:?}");
    };
    insta::assert_json_snapshot!(machine);
}

#[test]
fn without_the_infrastructure_no_machine_differs_in_its_failure_domain() {
    let mut world = World::on(Some(crate::cpms::domains::Platform::VSphere), "a b c", OLD);
    assert!(world.plan().degraded.is_empty());
    world.observed.infrastructure = None;
    let state = world.state();
    assert_eq!(world.plan().degraded[0].reason, "InfrastructureUnknown");
    assert!(
        state.machines.iter().all(|machine| machine.changes.is_empty()),
        "{:?}",
        state.machines
    );
}

#[test]
fn the_plan_gives_the_reason_for_which_one_of_two_outdated_machines_is_deleted() {
    for (machines, why) in [
        (
            "0[Ro,Ro] 1[R] 2[R]",
            "index 0 has more than one outdated machine, and this is the newest",
        ),
        (
            "0[Ro,Xo] 1[R] 2[R]",
            "index 0 has more than one outdated machine, and this one is not ready",
        ),
    ] {
        let plan = world(machines).plan();
        let step = plan.disruptive().unwrap();
        assert_eq!(
            (step.machine(), step.because.as_str()),
            (Some("ocp-x7k2p-master-young-0"), why)
        );
    }
}
