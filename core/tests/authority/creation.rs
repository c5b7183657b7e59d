//! Creation: the rows of the enhancement's table, and the rules of its text.

use serde_json::{Value, json};

use super::world::*;
use capstan_core::admission::{Snapshot, Source};

fn mirrored() -> Snapshot {
    cluster(&[capi_machine(false), capi_set(false), capi_check(false)])
}

golden! {
    row_machine_api_authority_without_counterpart_is_created: Edit::create(new(machine("MachineAPI", ""))), cluster(&[]);
    row_machine_api_authority_beside_cluster_api_is_refused:
        Edit::create(new(machine("MachineAPI", ""))), mirrored();
    row_cluster_api_authority_beside_cluster_api_is_created:
        Edit::create(new(machine("ClusterAPI", ""))), mirrored();
    row_cluster_api_authority_without_counterpart_is_created:
        Edit::create(new(machine("ClusterAPI", ""))), cluster(&[]);
    row_no_authority_beside_cluster_api_defaults_to_cluster_api:
        Edit::create(new(machine("", ""))).mutating(), mirrored();
    row_no_authority_without_counterpart_defaults_to_the_machine_api:
        Edit::create(new(machine("", ""))).mutating(), cluster(&[]);
    row_cluster_api_object_without_counterpart_is_created: Edit::create(new(capi_machine(false))), cluster(&[]);
    row_paused_cluster_api_object_beside_an_authoritative_machine_is_created:
        Edit::create(new(capi_machine(true))), cluster(&[machine("MachineAPI", "MachineAPI")]);
    row_unpaused_cluster_api_object_beside_an_authoritative_machine_is_refused:
        Edit::create(new(capi_machine(false))), cluster(&[machine("MachineAPI", "MachineAPI")]);
    row_authoritative_cluster_api_object_is_created_beside_its_mirror:
        Edit::create(new(capi_machine(false))), cluster(&[machine("ClusterAPI", "ClusterAPI")]);
    an_object_without_authority_is_refused_by_the_validating_pass_beside_cluster_api:
        Edit::create(new(machine("", ""))), mirrored();
    the_status_of_a_new_object_is_dropped_with_a_warning: Edit::create(machine("MachineAPI", "ClusterAPI")).mutating(), cluster(&[]);
    an_unpaused_cluster_api_object_is_refused_during_a_migration:
        Edit::create(new(capi_machine(false))), cluster(&[machine("ClusterAPI", "Migrating")]);
    an_unpaused_cluster_api_object_is_refused_until_the_machine_is_paused:
        Edit::create(new(capi_machine(false))),
        cluster(&[with(machine("ClusterAPI", "ClusterAPI"), "/status/conditions", json!([{"type": "Paused", "status": "False"}]))]);
    a_creation_is_refused_before_the_counterpart_was_read:
        Edit::create(new(machine("MachineAPI", ""))),
        Snapshot { source: Source::Cluster, ..Snapshot::default() };
    a_creation_warns_offline_when_the_counterpart_was_not_given: Edit::create(new(machine("MachineAPI", ""))), Snapshot::default();
    a_field_that_the_machine_api_cannot_express_is_reported_at_creation:
        Edit::create(with(new(capi_machine(true)), "/spec/version", json!("v1.33.0"))),
        cluster(&[machine("MachineAPI", "MachineAPI")]);
}

#[test]
fn every_kind_follows_the_same_table() {
    let authoritative = cluster(&[
        machine("MachineAPI", "MachineAPI"),
        machine_set("MachineAPI", "MachineAPI"),
        check("MachineAPI", "MachineAPI"),
    ]);
    for object in [machine_set("MachineAPI", ""), check("MachineAPI", "")] {
        let edit = Edit::create(new(object.clone()));
        assert_eq!(
            edit.refused_by(&mirrored()),
            ["authority-create-beside-cluster-api"],
            "{object}"
        );
        assert!(edit.allowed(&cluster(&[])));
    }
    let paused_check = with(check("ClusterAPI", ""), "/metadata/annotations", json!({PAUSED: ""}));
    for object in [machine_set("ClusterAPI", ""), paused_check] {
        assert!(Edit::create(new(object)).allowed(&mirrored()));
    }
    let unpaused = |object: Value| with(object, "/metadata/annotations", Value::Null);
    for (object, paused) in [
        (capi_set(false), capi_set(true)),
        (capi_check(false), capi_check(true)),
        (unpaused(aws_machine()), aws_machine()),
    ] {
        assert_eq!(
            Edit::create(new(object.clone())).refused_by(&authoritative),
            ["authority-capi-create-unpaused"],
            "{object}"
        );
        assert!(Edit::create(new(paused)).allowed(&authoritative));
        assert!(Edit::create(new(object.clone())).by(SYNC).allowed(&authoritative));
        assert!(Edit::create(new(object)).allowed(&cluster(&[])));
    }
}

#[test]
fn objects_in_other_namespaces_are_not_mirrored() {
    let elsewhere = with(
        new(machine("MachineAPI", "")),
        "/metadata/namespace",
        json!("elsewhere"),
    );
    assert!(Edit::create(elsewhere).allowed(&mirrored()));
    let far = with(capi_machine(false), "/metadata/namespace", json!("elsewhere"));
    assert!(Edit::create(new(machine("MachineAPI", ""))).allowed(&cluster(&[far])));
}

#[test]
fn an_object_with_a_generated_name_has_no_counterpart() {
    let mut unnamed = new(machine("", ""));
    unnamed["metadata"] = json!({"generateName": "worker-", "namespace": "openshift-machine-api"});
    assert!(
        Edit::create(unnamed.clone())
            .mutating()
            .response_text(&mirrored())
            .contains("MachineAPI")
    );
    assert!(Edit::create(unnamed).allowed(&mirrored()));
}

#[test]
fn defaulting_is_idempotent_and_a_manifest_without_the_field_keeps_the_stored_value() {
    let old = machine("ClusterAPI", "ClusterAPI");
    let without = with(old.clone(), "/spec/authoritativeAPI", Value::Null);
    let response = Edit::update(&old, without.clone())
        .mutating()
        .response_text(&mirrored());
    assert_eq!(
        response,
        "allowed\npatch: [{\"op\":\"add\",\"path\":\"/spec/authoritativeAPI\",\"value\":\"ClusterAPI\"}]\n"
    );
    assert_eq!(
        Edit::update(&old, old.clone()).mutating().response_text(&mirrored()),
        "allowed\n"
    );
    assert_eq!(
        Edit::update(&old, without).refused_by(&mirrored()),
        ["authority-stays-said"]
    );
}

/// The default must not replace an invalid value, because the schema would then accept the object.
#[test]
fn a_value_that_names_no_api_is_refused_and_not_defaulted() {
    for word in ["Foo", "Migrating", "machineapi", "machine.openshift.io"] {
        let new = with(machine("", ""), "/spec/authoritativeAPI", json!(word));
        let created = Edit::create(new).mutating();
        assert_eq!(created.refused_by(&cluster(&[])), ["authority-api-known"], "{word}");
        let stored = machine("MachineAPI", "MachineAPI");
        let updated = Edit::set(&stored, "/spec/authoritativeAPI", json!(word)).mutating();
        assert_eq!(updated.refused_by(&cluster(&[])), ["authority-api-known"], "{word}");
    }
    let stored = machine("MachineAPI", "MachineAPI");
    for nothing in [json!(""), Value::Null] {
        let updated = Edit::set(&stored, "/spec/authoritativeAPI", nothing).mutating();
        assert!(
            updated.response_text(&cluster(&[])).contains("patch"),
            "the stored value is kept"
        );
    }
}
