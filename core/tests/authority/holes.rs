//! The gaps of the admission policies that OpenShift ships, each closed. The numbers are those of
//! the list of gaps.

use serde_json::{Value, json};

use super::world::*;

#[test]
fn hole_1_a_migration_locks_both_specs_and_an_empty_status_locks_the_mirror() {
    for status in ["Migrating", ""] {
        let object = machine("ClusterAPI", status);
        let snapshot = cluster(&[object.clone(), capi_machine(true)]);
        let edit = Edit::set(&object, "/spec/providerID", json!("aws:///x"));
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
    // The request can be cancelled in every state.
    let object = machine("ClusterAPI", "Migrating");
    let back = Edit::set(&object, "/spec/authoritativeAPI", json!("MachineAPI"));
    assert!(back.allowed(&cluster(&[object, capi_machine(true)])));
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
    let object = machine("ClusterAPI", "ClusterAPI");
    let snapshot = cluster(&[object.clone(), capi_machine(false)]);
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
            let edit = Edit::set(&object, pointer, value.clone()).of("status").by(user);
            assert!(
                edit.refused_by(&snapshot)
                    .contains(&String::from("authority-status-forged")),
                "{pointer}"
            );
            assert!(edit.by(SYNC).allowed(&snapshot), "{pointer}");
        }
    }
    let phase = Edit::set(&object, "/status/phase", json!("Failed")).of("status");
    assert_eq!(phase.refused_by(&snapshot), ["authority-status-locked"]);
    let snapshot = cluster(&[machine("MachineAPI", "MachineAPI")]);
    for object in [capi_machine(true), aws_machine()] {
        let edit = Edit::set(&object, "/status", json!({"ready": true})).of("status");
        assert_eq!(edit.refused_by(&snapshot), ["authority-capi-status-locked"]);
    }
}

#[test]
fn hole_2_the_sync_finalizer_is_guarded_on_both_objects_for_either_authority() {
    for api in ["MachineAPI", "ClusterAPI", "Migrating"] {
        let snapshot = cluster(&[machine(api, api), capi_machine(true)]);
        for object in [machine(api, api), capi_machine(true), aws_machine()] {
            let edit = Edit::set(&object, "/metadata/finalizers", json!([]));
            let refused = edit.refused_by(&snapshot);
            assert!(
                refused.len() == 1 && refused[0].ends_with("sync-finalizer"),
                "{api}: {refused:?}"
            );
            assert!(edit.by(SYNC).allowed(&snapshot));
        }
    }
}

#[test]
fn hole_2_owner_references_and_health_checks_are_guarded() {
    let object = owned_by(machine("ClusterAPI", "ClusterAPI"), "MachineSet", "workers");
    let edit = Edit::set(&object, "/metadata/ownerReferences", Value::Null);
    assert_eq!(edit.refused_by(&cluster(&[])), ["authority-owner-references"]);
    let snapshot = cluster(&[check("MachineAPI", "MachineAPI")]);
    let edit = Edit::set(&capi_check(true), "/spec/clusterName", json!("x"));
    assert_eq!(edit.refused_by(&snapshot), ["authority-capi-spec-locked"]);
    let edit = Edit::set(&check("ClusterAPI", "ClusterAPI"), "/spec/maxUnhealthy", json!("40%"));
    assert_eq!(edit.refused_by(&cluster(&[])), ["authority-spec-locked"]);
}

/// The tests of the guards try all keys. This test has the keys that a comparison of prefixes gets
/// wrong.
#[test]
fn hole_3_reserved_namespaces_are_domains_and_not_prefixes() {
    let object = machine("ClusterAPI", "ClusterAPI");
    let set = |part: &str, key: &str| {
        let mut changed = object.clone();
        changed["metadata"][part][key] = json!("x");
        Edit::update(&object, changed).allowed(&cluster(&[]))
    };
    for part in ["labels", "annotations"] {
        assert!(!set(part, "node-role.kubernetes.io/x") && !set(part, "x.openshift.io/y") && !set(part, "x.k8s.io/y"));
        assert!(set(part, "kubernetes.ioXYZ/a") && set(part, "kubernetes.io.example.com/a"));
    }
}

#[test]
fn hole_4_an_unknown_field_is_guarded() {
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
fn hole_5_a_set_gets_warnings_too_and_they_repeat_the_condition() {
    let unsynchronized =
        json!([{"type": "Synchronized", "status": "False", "reason": "FailedToConvert", "message": "no subnet"}]);
    for object in [
        machine("MachineAPI", "MachineAPI"),
        machine_set("MachineAPI", "MachineAPI"),
    ] {
        let object = with(object, "/status/conditions", unsynchronized.clone());
        let response = Edit::set(&object, "/spec/authoritativeAPI", json!("ClusterAPI"))
            .response_text(&cluster(&[capi_machine(true), capi_set(true)]));
        assert!(
            response.starts_with("allowed") && response.contains("FailedToConvert: no subnet"),
            "{response}"
        );
    }
    // An object without a status gets a warning too.
    let object = machine("MachineAPI", "");
    let response = Edit::set(&object, "/spec/authoritativeAPI", json!("ClusterAPI")).response_text(&cluster(&[]));
    assert!(
        response.starts_with("allowed") && response.contains("does not exist yet"),
        "{response}"
    );
}

#[test]
fn hole_6_an_object_that_is_being_deleted_does_not_migrate_for_any_user() {
    for object in [
        machine("MachineAPI", "MachineAPI"),
        machine_set("MachineAPI", "MachineAPI"),
        check("MachineAPI", "MachineAPI"),
    ] {
        let object = with(object, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
        for user in ["alice", SYNC] {
            let edit = Edit::set(&object, "/spec/authoritativeAPI", json!("ClusterAPI")).by(user);
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

/// A user who impersonates a controller has its name, but no token of it.
#[test]
fn hole_6_a_user_who_impersonates_a_service_account_has_no_special_rights() {
    let object = machine("ClusterAPI", "ClusterAPI");
    let snapshot = cluster(&[object.clone(), capi_machine(false)]);
    for (edit, rule) in [
        (
            Edit::set(&object, "/spec/providerID", json!("x")),
            "authority-spec-locked",
        ),
        (
            Edit::set(&object, "/metadata/finalizers", json!([])),
            "authority-sync-finalizer",
        ),
        (
            Edit::set(&object, "/metadata/labels/team", json!("red")),
            "authority-label-conflict",
        ),
        (
            Edit::set(&object, "/status/synchronizedAPI", json!("MachineAPI")).of("status"),
            "authority-status-forged",
        ),
    ] {
        assert!(edit.clone().by(SYNC).allowed(&snapshot), "{rule}");
        let refused = edit.impersonating(SYNC).refused_by(&snapshot);
        assert!(refused.contains(&String::from(rule)), "{refused:?}");
    }
    let mut status = Edit::set(&object, "/status/phase", json!("Failed")).of("status");
    status = status.by("system:serviceaccount:openshift-machine-api:machine-api-controllers");
    assert!(status.allowed(&snapshot));
    status.impersonates = true;
    assert_eq!(status.refused_by(&snapshot), ["authority-status-locked"]);
    let snapshot = cluster(&[machine("MachineAPI", "MachineAPI")]);
    let unpaused = Edit::create(new(capi_machine(false)));
    assert!(unpaused.clone().by(SYNC).allowed(&snapshot));
    assert!(!unpaused.impersonating(SYNC).allowed(&snapshot));
    // A user who impersonates the garbage collector is held back as the collector is.
    let object = owned_by(machine("ClusterAPI", "ClusterAPI"), "MachineSet", "workers");
    let sets = cluster(&[object.clone(), capi_machine(false), capi_set(false)]);
    assert!(!Edit::delete(&object).impersonating(COLLECTOR).allowed(&sets));
    let orphaned = Edit::set(&object, "/metadata/ownerReferences", Value::Null);
    assert!(orphaned.clone().by(COLLECTOR).allowed(&sets));
    assert!(!orphaned.impersonating(COLLECTOR).allowed(&sets));
}

#[test]
fn hole_7_creation_is_guarded_during_a_migration_and_before_the_status_is_set() {
    for (authority, status) in [("ClusterAPI", "Migrating"), ("MachineAPI", ""), ("", "")] {
        let edit = Edit::create(new(capi_machine(false)));
        let snapshot = cluster(&[machine(authority, status)]);
        assert_eq!(
            edit.refused_by(&snapshot),
            ["authority-capi-create-unpaused"],
            "{authority} {status}"
        );
    }
}

#[test]
fn hole_8_a_cluster_without_cluster_api_is_guarded_like_any_other() {
    // Its caches show that no object of Cluster API exists.
    let object = machine("MachineAPI", "MachineAPI");
    assert!(Edit::set(&object, "/spec/providerID", json!("aws:///x")).allowed(&cluster(std::slice::from_ref(&object))));
    assert!(Edit::create(with(machine("MachineAPI", ""), "/status", Value::Null)).allowed(&cluster(&[])));
}

/// A lookup finds one object by name in an ordered map. The benchmark measures the time of a
/// guarded update; this test shows that the number of other objects does not change the result.
#[test]
fn hole_9_a_guard_looks_up_one_object_by_name() {
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
