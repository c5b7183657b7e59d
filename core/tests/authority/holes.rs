//! Each hole that was found in today's policies, closed. The numbers are those of the list of holes.

use serde_json::{Value, json};

use super::world::*;

#[test]
fn hole_1_a_hand_over_locks_both_specs_and_so_does_a_status_that_is_not_there_yet() {
    for status in ["Migrating", ""] {
        let ours = machine("ClusterAPI", status);
        let snapshot = cluster(&[ours.clone(), capi_machine(true)]);
        let edit = Edit::set(&ours, "/spec/providerID", json!("aws:///x"));
        assert_eq!(edit.refused_by(&snapshot), ["authority-spec-locked"], "{status:?}");
        assert!(edit.by(SYNC).allowed(&snapshot));
    }
    for (requested, status) in [
        ("ClusterAPI", "Migrating"),
        ("MachineAPI", "Migrating"),
        ("MachineAPI", ""),
        ("", ""),
    ] {
        let snapshot = cluster(&[machine(requested, status), capi_machine(true)]);
        let edit = Edit::set(&capi_machine(true), "/spec/failureDomain", json!("b"));
        assert_eq!(edit.refused_by(&snapshot), ["authority-capi-spec-locked"], "{status:?}");
    }
    // The request itself can be taken back, whatever the state.
    let ours = machine("ClusterAPI", "Migrating");
    let back = Edit::set(&ours, "/spec/authoritativeAPI", json!("MachineAPI"));
    assert!(back.allowed(&cluster(&[ours, capi_machine(true)])));
}

#[test]
fn hole_2_infrastructure_is_guarded() {
    let snapshot = cluster(&[
        machine("MachineAPI", "MachineAPI"),
        machine_set("MachineAPI", "MachineAPI"),
    ]);
    for (object, pointer) in [
        (aws_machine(), "/spec/instanceType"),
        (aws_template(), "/spec/template/spec/instanceType"),
        (aws_machine(), "/metadata/annotations"),
        (aws_machine(), "/metadata/ownerReferences"),
        (aws_template(), "/metadata/labels"),
    ] {
        assert!(!Edit::set(&object, pointer, json!("x")).allowed(&snapshot), "{pointer}");
    }
    for platform in [
        "Azure",
        "GCP",
        "IBMPowerVS",
        "IBMVPC",
        "Metal3",
        "Nutanix",
        "OpenStack",
        "VSphere",
    ] {
        let object = with(aws_machine(), "/kind", json!(format!("{platform}Machine")));
        let edit = Edit::set(&object, "/spec/anything", json!(1));
        assert_eq!(edit.refused_by(&snapshot), ["authority-capi-spec-locked"], "{platform}");
    }
}

#[test]
fn hole_2_the_status_is_guarded() {
    let ours = machine("ClusterAPI", "ClusterAPI");
    let snapshot = cluster(&[ours.clone(), capi_machine(false)]);
    for (pointer, value) in [
        ("/status/authoritativeAPI", json!("Migrating")),
        ("/status/synchronizedAPI", json!("MachineAPI")),
        ("/status/synchronizedGeneration", json!(7)),
        (
            "/status/conditions",
            json!([{"type": "Synchronized", "status": "True", "reason": "Forged"}]),
        ),
    ] {
        for user in ["alice", "kube:admin"] {
            let edit = Edit::set(&ours, pointer, value.clone()).of("status").by(user);
            assert!(
                edit.refused_by(&snapshot)
                    .contains(&String::from("authority-status-forged")),
                "{pointer}"
            );
            assert!(edit.by(SYNC).allowed(&snapshot), "{pointer}");
        }
    }
    let phase = Edit::set(&ours, "/status/phase", json!("Failed")).of("status");
    assert_eq!(phase.refused_by(&snapshot), ["authority-status-locked"]);
    let snapshot = cluster(&[machine("MachineAPI", "MachineAPI")]);
    for object in [capi_machine(true), aws_machine()] {
        let edit = Edit::set(&object, "/status", json!({"ready": true})).of("status");
        assert_eq!(edit.refused_by(&snapshot), ["authority-capi-status-locked"]);
    }
}

#[test]
fn hole_2_the_finalizer_is_guarded_on_both_sides_whoever_leads() {
    for leads in ["MachineAPI", "ClusterAPI", "Migrating"] {
        let snapshot = cluster(&[machine(leads, leads), capi_machine(true)]);
        for object in [machine(leads, leads), capi_machine(true), aws_machine()] {
            let edit = Edit::set(&object, "/metadata/finalizers", json!([]));
            let refused = edit.refused_by(&snapshot);
            assert!(
                refused.len() == 1 && refused[0].ends_with("sync-finalizer"),
                "{leads}: {refused:?}"
            );
            assert!(edit.by(SYNC).allowed(&snapshot));
        }
    }
}

#[test]
fn hole_2_owner_references_and_health_checks_are_guarded() {
    let ours = owned_by(machine("ClusterAPI", "ClusterAPI"), "MachineSet", "workers");
    let edit = Edit::set(&ours, "/metadata/ownerReferences", Value::Null);
    assert_eq!(edit.refused_by(&cluster(&[])), ["authority-owner-references"]);
    let snapshot = cluster(&[check("MachineAPI", "MachineAPI")]);
    let edit = Edit::set(&capi_check(true), "/spec/clusterName", json!("x"));
    assert_eq!(edit.refused_by(&snapshot), ["authority-capi-spec-locked"]);
    let edit = Edit::set(&check("ClusterAPI", "ClusterAPI"), "/spec/maxUnhealthy", json!("40%"));
    assert_eq!(edit.refused_by(&cluster(&[])), ["authority-spec-locked"]);
}

/// The keys themselves are tried one by one where the guards are; here are those that a test of prefixes got wrong.
#[test]
fn hole_3_reserved_namespaces_are_domains_and_not_prefixes() {
    let ours = machine("ClusterAPI", "ClusterAPI");
    let set = |part: &str, key: &str| {
        let mut changed = ours.clone();
        changed["metadata"][part][key] = json!("x");
        Edit::update(&ours, changed).allowed(&cluster(&[]))
    };
    for part in ["labels", "annotations"] {
        assert!(!set(part, "node-role.kubernetes.io/x") && !set(part, "x.openshift.io/y") && !set(part, "x.k8s.io/y"));
        assert!(set(part, "kubernetes.ioXYZ/a") && set(part, "kubernetes.io.example.com/a"));
    }
}

#[test]
fn hole_4_a_field_that_is_added_tomorrow_is_guarded() {
    for (object, snapshot) in [
        (machine("ClusterAPI", "ClusterAPI"), cluster(&[])),
        (machine_set("ClusterAPI", "ClusterAPI"), cluster(&[])),
        (capi_machine(true), cluster(&[machine("MachineAPI", "MachineAPI")])),
    ] {
        let edit = Edit::set(&object, "/spec/fieldOfTomorrow", json!({"on": true}));
        assert!(!edit.allowed(&snapshot), "{object}");
    }
}

#[test]
fn hole_5_a_set_is_warned_of_too_and_the_condition_is_repeated() {
    let unsynchronized =
        json!([{"type": "Synchronized", "status": "False", "reason": "FailedToConvert", "message": "no subnet"}]);
    for ours in [
        machine("MachineAPI", "MachineAPI"),
        machine_set("MachineAPI", "MachineAPI"),
    ] {
        let ours = with(ours, "/status/conditions", unsynchronized.clone());
        let told = Edit::set(&ours, "/spec/authoritativeAPI", json!("ClusterAPI"))
            .told(&cluster(&[capi_machine(true), capi_set(true)]));
        assert!(
            told.starts_with("allowed") && told.contains("FailedToConvert: no subnet"),
            "{told}"
        );
    }
    // Without a status there is an answer as well.
    let ours = machine("MachineAPI", "");
    let told = Edit::set(&ours, "/spec/authoritativeAPI", json!("ClusterAPI")).told(&cluster(&[]));
    assert!(
        told.starts_with("allowed") && told.contains("does not exist yet"),
        "{told}"
    );
}

#[test]
fn hole_6_a_set_that_is_being_deleted_does_not_migrate_and_no_name_gets_around_the_rules() {
    for ours in [
        machine("MachineAPI", "MachineAPI"),
        machine_set("MachineAPI", "MachineAPI"),
        check("MachineAPI", "MachineAPI"),
    ] {
        let ours = with(ours, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
        for user in ["alice", SYNC] {
            let edit = Edit::set(&ours, "/spec/authoritativeAPI", json!("ClusterAPI")).by(user);
            assert_eq!(
                edit.refused_by(&cluster(&[])),
                ["authority-migration-while-deleting"],
                "{user}"
            );
        }
    }
    let deleting = with(
        capi_set(true),
        "/metadata/deletionTimestamp",
        json!("2026-01-01T00:00:00Z"),
    );
    let edit = Edit::set(
        &machine_set("MachineAPI", "MachineAPI"),
        "/spec/authoritativeAPI",
        json!("ClusterAPI"),
    );
    assert_eq!(
        edit.by(SYNC).refused_by(&cluster(&[deleting])),
        ["authority-migration-of-counterpart"]
    );
}

/// Whoever may act as the sync controller, or as a controller of an API, has its name but no token of it.
#[test]
fn hole_6_who_acts_as_a_service_account_is_a_plain_user() {
    let ours = machine("ClusterAPI", "ClusterAPI");
    let snapshot = cluster(&[ours.clone(), capi_machine(false)]);
    for (edit, rule) in [
        (
            Edit::set(&ours, "/spec/providerID", json!("x")),
            "authority-spec-locked",
        ),
        (
            Edit::set(&ours, "/metadata/finalizers", json!([])),
            "authority-sync-finalizer",
        ),
        (
            Edit::set(&ours, "/metadata/labels/team", json!("red")),
            "authority-label-conflict",
        ),
        (
            Edit::set(&ours, "/status/synchronizedAPI", json!("MachineAPI")).of("status"),
            "authority-status-forged",
        ),
    ] {
        assert!(edit.clone().by(SYNC).allowed(&snapshot), "{rule}");
        let refused = edit.acting_as(SYNC).refused_by(&snapshot);
        assert!(refused.contains(&String::from(rule)), "{refused:?}");
    }
    let mut status = Edit::set(&ours, "/status/phase", json!("Failed")).of("status");
    status = status.by("system:serviceaccount:openshift-machine-api:machine-api-controllers");
    assert!(status.allowed(&snapshot));
    status.impersonates = true;
    assert_eq!(status.refused_by(&snapshot), ["authority-status-locked"]);
    let snapshot = cluster(&[machine("MachineAPI", "MachineAPI")]);
    let unpaused = Edit::create(with(capi_machine(false), "/status", Value::Null));
    assert!(unpaused.clone().by(SYNC).allowed(&snapshot));
    assert!(!unpaused.acting_as(SYNC).allowed(&snapshot));
    // The garbage collector is held back by its name, whoever it is.
    let ours = owned_by(machine("ClusterAPI", "ClusterAPI"), "MachineSet", "workers");
    let sets = cluster(&[ours.clone(), capi_machine(false), capi_set(false)]);
    assert!(!Edit::delete(&ours).acting_as(COLLECTOR).allowed(&sets));
    let orphaned = Edit::set(&ours, "/metadata/ownerReferences", Value::Null);
    assert!(orphaned.clone().by(COLLECTOR).allowed(&sets));
    assert!(!orphaned.acting_as(COLLECTOR).allowed(&sets));
}

#[test]
fn hole_7_creation_is_judged_also_while_migrating_and_before_a_status_is_there() {
    for (authority, status) in [("ClusterAPI", "Migrating"), ("MachineAPI", ""), ("", "")] {
        let edit = Edit::create(with(capi_machine(false), "/status", Value::Null));
        let snapshot = cluster(&[machine(authority, status)]);
        assert_eq!(
            edit.refused_by(&snapshot),
            ["authority-capi-create-unpaused"],
            "{authority} {status}"
        );
    }
}

#[test]
fn hole_8_a_cluster_without_cluster_api_is_judged_like_any_other() {
    // Its caches know that there is nothing of it.
    let ours = machine("MachineAPI", "MachineAPI");
    assert!(Edit::set(&ours, "/spec/providerID", json!("aws:///x")).allowed(&cluster(std::slice::from_ref(&ours))));
    assert!(Edit::create(with(machine("MachineAPI", ""), "/status", Value::Null)).allowed(&cluster(&[])));
}

/// A mirror is found by its name in an ordered map: the time of a guarded update does not grow with the number of mirrors
/// save by the depth of a tree. What is measured is measured by the benchmark; here it is that nothing is looked through.
#[test]
fn hole_9_one_mirror_is_looked_up_and_no_other_is_looked_at() {
    let mut objects: Vec<Value> = (0..2000)
        .map(|number| {
            with(
                machine("ClusterAPI", "ClusterAPI"),
                "/metadata/name",
                json!(format!("other-{number}")),
            )
        })
        .collect();
    objects.push(machine("MachineAPI", "MachineAPI"));
    let snapshot = cluster(&objects);
    let edit = Edit::set(&capi_machine(true), "/spec/failureDomain", json!("b"));
    assert_eq!(edit.refused_by(&snapshot), ["authority-capi-spec-locked"]);
}
