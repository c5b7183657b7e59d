//! Creation, row by row of the document's table, and what its text adds.

use serde_json::{Value, json};

use super::world::*;
use capstan_core::admission::{Snapshot, Source};

fn mirrored() -> Snapshot {
    cluster(&[capi_machine(false), capi_set(false), capi_check(false)])
}

fn new(object: Value) -> Value {
    let mut object = object;
    object.as_object_mut().unwrap().remove("status");
    object
}

golden! {
    row_machine_api_with_its_own_authority_and_no_mirror_is_created: Edit::create(new(machine("MachineAPI", ""))), cluster(&[]);
    row_machine_api_with_its_own_authority_beside_a_mirror_is_refused:
        Edit::create(new(machine("MachineAPI", ""))), mirrored();
    row_machine_api_with_cluster_api_leading_beside_a_mirror_is_created:
        Edit::create(new(machine("ClusterAPI", ""))), mirrored();
    row_machine_api_with_cluster_api_leading_and_no_mirror_is_created:
        Edit::create(new(machine("ClusterAPI", ""))), cluster(&[]);
    row_machine_api_without_authority_beside_a_mirror_gets_cluster_api:
        Edit::create(new(machine("", ""))).first(), mirrored();
    row_machine_api_without_authority_and_without_mirror_gets_the_machine_api:
        Edit::create(new(machine("", ""))).first(), cluster(&[]);
    row_cluster_api_without_a_machine_api_half_is_created: Edit::create(new(capi_machine(false))), cluster(&[]);
    row_cluster_api_beside_a_leading_machine_api_half_is_created_when_it_is_paused:
        Edit::create(new(capi_machine(true))), cluster(&[machine("MachineAPI", "MachineAPI")]);
    row_cluster_api_beside_a_leading_machine_api_half_is_refused_when_it_is_not_paused:
        Edit::create(new(capi_machine(false))), cluster(&[machine("MachineAPI", "MachineAPI")]);
    row_cluster_api_that_leads_is_created_beside_its_machine_api_half:
        Edit::create(new(capi_machine(false))), cluster(&[machine("ClusterAPI", "ClusterAPI")]);
    a_machine_api_half_that_was_not_filled_in_is_refused_beside_a_mirror:
        Edit::create(new(machine("", ""))), mirrored();
    a_forged_status_is_refused: Edit::create(machine("MachineAPI", "ClusterAPI")).first(), cluster(&[]);
    during_a_hand_over_nothing_unpaused_comes_into_being:
        Edit::create(new(capi_machine(false))), cluster(&[machine("ClusterAPI", "Migrating")]);
    before_the_controllers_of_the_machine_api_have_stopped_nothing_unpaused_comes_into_being:
        Edit::create(new(capi_machine(false))),
        cluster(&[with(machine("ClusterAPI", "ClusterAPI"), "/status/conditions", json!([{"type": "Paused", "status": "False"}]))]);
    what_has_not_been_read_yet_is_not_guessed:
        Edit::create(new(machine("MachineAPI", ""))),
        Snapshot { source: Source::Cluster, ..Snapshot::default() };
    what_was_not_given_is_said: Edit::create(new(machine("MachineAPI", ""))), Snapshot::default();
    a_feature_that_the_machine_api_lacks_is_named_beside_a_half_of_it:
        Edit::create(with(new(capi_machine(true)), "/spec/version", json!("v1.33.0"))),
        cluster(&[machine("MachineAPI", "MachineAPI")]);
}

#[test]
fn every_kind_is_judged_by_the_same_table() {
    let leads = cluster(&[
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
    for object in [machine_set("ClusterAPI", ""), check("ClusterAPI", "")] {
        assert!(Edit::create(new(object)).allowed(&mirrored()));
    }
    let unpaused = |object: Value| with(object, "/metadata/annotations", Value::Null);
    for (object, paused) in [
        (capi_set(false), capi_set(true)),
        (capi_check(false), capi_check(true)),
        (unpaused(aws_machine()), aws_machine()),
        (unpaused(aws_template()), aws_template()),
    ] {
        assert_eq!(
            Edit::create(new(object.clone())).refused_by(&leads),
            ["authority-capi-create-unpaused"],
            "{object}"
        );
        assert!(Edit::create(new(paused)).allowed(&leads));
        assert!(Edit::create(new(object.clone())).by(SYNC).allowed(&leads));
        assert!(Edit::create(new(object)).allowed(&cluster(&[])));
    }
}

#[test]
fn elsewhere_nothing_has_another_half() {
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
fn a_name_that_is_yet_to_be_made_has_no_other_half() {
    let mut unnamed = new(machine("", ""));
    unnamed["metadata"] = json!({"generateName": "worker-", "namespace": "openshift-machine-api"});
    assert!(
        Edit::create(unnamed.clone())
            .first()
            .told(&mirrored())
            .contains("MachineAPI")
    );
    assert!(Edit::create(unnamed).allowed(&mirrored()));
}

#[test]
fn filling_in_again_changes_nothing_and_a_manifest_without_the_field_asks_for_nothing() {
    let old = machine("ClusterAPI", "ClusterAPI");
    let without = with(old.clone(), "/spec/authoritativeAPI", Value::Null);
    let told = Edit::update(&old, without.clone()).first().told(&mirrored());
    assert_eq!(
        told,
        "allowed\npatch: [{\"op\":\"add\",\"path\":\"/spec/authoritativeAPI\",\"value\":\"ClusterAPI\"}]\n"
    );
    assert_eq!(Edit::update(&old, old.clone()).first().told(&mirrored()), "allowed\n");
    assert_eq!(
        Edit::update(&old, without).refused_by(&mirrored()),
        ["authority-stays-said"]
    );
}

/// What is filled in must not hide it from the schema.
#[test]
fn a_word_that_names_no_api_is_refused_and_not_replaced() {
    for word in ["Foo", "Migrating", "machineapi", "machine.openshift.io"] {
        let new = with(machine("", ""), "/spec/authoritativeAPI", json!(word));
        let created = Edit::create(new).first();
        assert_eq!(created.refused_by(&cluster(&[])), ["authority-api-known"], "{word}");
        let ours = machine("MachineAPI", "MachineAPI");
        let updated = Edit::set(&ours, "/spec/authoritativeAPI", json!(word)).first();
        assert_eq!(updated.refused_by(&cluster(&[])), ["authority-api-known"], "{word}");
    }
    let ours = machine("MachineAPI", "MachineAPI");
    for nothing in [json!(""), Value::Null] {
        let updated = Edit::set(&ours, "/spec/authoritativeAPI", nothing).first();
        assert!(
            updated.told(&cluster(&[])).contains("patch"),
            "what was said stays said"
        );
    }
}
