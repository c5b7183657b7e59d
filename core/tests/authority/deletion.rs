//! Deletion, row by row of the document's table, and what the garbage collector must not do.

use serde_json::{Value, json};

use super::world::*;
use capstan_core::admission::Snapshot;

fn led_by(api: &str) -> Snapshot {
    let capi = api == "MachineAPI";
    cluster(&[
        machine(api, api),
        machine_set(api, api),
        check(api, api),
        capi_machine(capi),
        capi_set(capi),
        capi_check(capi),
    ])
}

fn master(object: Value) -> Value {
    with(
        object,
        "/metadata/labels",
        json!({"machine.openshift.io/cluster-api-machine-role": "master"}),
    )
}

golden! {
    row_machine_api_with_owner_takes_its_mirror_with_it:
        Edit::delete(&owned_by(machine("MachineAPI", "MachineAPI"), "MachineSet", "workers")), led_by("MachineAPI");
    row_machine_api_without_owner_leaves_its_mirror:
        Edit::delete(&machine("ClusterAPI", "ClusterAPI")), led_by("ClusterAPI");
    row_machine_api_without_owner_that_leads_leaves_its_mirror_without_an_instance:
        Edit::delete(&machine("MachineAPI", "MachineAPI")), led_by("MachineAPI");
    row_cluster_api_with_owner_takes_its_mirror_with_it:
        Edit::delete(&owned_by(capi_machine(false), "MachineSet", "workers")), led_by("ClusterAPI");
    row_cluster_api_without_owner_is_made_again:
        Edit::delete(&capi_machine(true)), led_by("MachineAPI");
    row_cluster_api_without_owner_that_leads_loses_its_instance_and_is_made_again:
        Edit::delete(&capi_machine(false)), led_by("ClusterAPI");
    without_a_mirror_there_is_nothing_to_say: Edit::delete(&machine("MachineAPI", "MachineAPI")), cluster(&[]);
    a_machine_of_the_control_plane_is_named_as_such:
        Edit::delete(&owned_by(master(machine("MachineAPI", "MachineAPI")), "ControlPlaneMachineSet", "cluster")),
        led_by("MachineAPI");
    a_set_that_does_not_lead_goes_alone: Edit::delete(&machine_set("ClusterAPI", "ClusterAPI")), led_by("ClusterAPI");
    a_set_that_does_not_lead_and_its_foreground_deletion:
        Edit { propagation: "Foreground", ..Edit::delete(&machine_set("ClusterAPI", "ClusterAPI")) }, led_by("ClusterAPI");
    a_set_that_leads_takes_its_mirror_with_it: Edit::delete(&machine_set("MachineAPI", "MachineAPI")), led_by("MachineAPI");
    a_set_of_cluster_api_that_does_not_lead_is_made_again: Edit::delete(&capi_set(true)), led_by("MachineAPI");
    a_check_that_does_not_lead_goes_alone: Edit::delete(&check("ClusterAPI", "ClusterAPI")), led_by("ClusterAPI");
    a_check_that_leads_takes_its_mirror_with_it: Edit::delete(&capi_check(false)), led_by("ClusterAPI");
    what_cannot_be_known_is_said_and_a_deletion_is_allowed:
        Edit::delete(&machine("MachineAPI", "MachineAPI")), Snapshot::default();
    the_garbage_collector_does_not_delete_the_machines_of_a_copy:
        Edit::delete(&owned_by(machine("ClusterAPI", "ClusterAPI"), "MachineSet", "workers")).by(COLLECTOR),
        cluster(&[machine("ClusterAPI", "ClusterAPI"), capi_machine(false), capi_set(false)]);
}

#[test]
fn the_garbage_collector_is_held_back_in_both_directions_whoever_leads_the_machine() {
    for leads in ["MachineAPI", "ClusterAPI"] {
        // The set of the Machine API was a copy, and is gone; that of Cluster API leads and lives on.
        let own = owned_by(machine(leads, leads), "MachineSet", "workers");
        let gone = cluster(&[own.clone(), capi_machine(false), capi_set(false)]);
        let going = with(
            machine_set("ClusterAPI", "ClusterAPI"),
            "/metadata/deletionTimestamp",
            json!("2026-01-01T00:00:00Z"),
        );
        let going = cluster(&[own.clone(), capi_machine(false), capi_set(false), going]);
        for snapshot in [gone, going] {
            let edit = Edit::delete(&own).by(COLLECTOR);
            assert_eq!(edit.refused_by(&snapshot), ["authority-garbage-collector"], "{leads}");
            assert!(edit.by("alice").allowed(&snapshot));
        }
        // The other way round.
        let own = owned_by(capi_machine(false), "MachineSet", "workers");
        let snapshot = cluster(&[
            machine(leads, leads),
            machine_set("MachineAPI", "MachineAPI"),
            own.clone(),
        ]);
        let edit = Edit::delete(&own).by(COLLECTOR);
        assert_eq!(edit.refused_by(&snapshot), ["authority-garbage-collector"], "{leads}");
    }
}

#[test]
fn the_garbage_collector_goes_on_after_a_set_that_leads_or_that_is_gone_on_both_sides() {
    let going = |object: Value| with(object, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let own = owned_by(machine("MachineAPI", "MachineAPI"), "MachineSet", "workers");
    for around in [
        vec![],
        vec![going(capi_set(true))],
        vec![going(machine_set("MachineAPI", "MachineAPI")), capi_set(true)],
    ] {
        assert!(
            Edit::delete(&own).by(COLLECTOR).allowed(&cluster(&around)),
            "{around:?}"
        );
    }
    // A set of Cluster API that stands for itself.
    let alone = owned_by(capi_machine(false), "MachineSet", "others");
    assert!(Edit::delete(&alone).by(COLLECTOR).allowed(&led_by("MachineAPI")));
    // An owner that is no set.
    let cpms = owned_by(machine("MachineAPI", "MachineAPI"), "ControlPlaneMachineSet", "cluster");
    assert!(Edit::delete(&cpms).by(COLLECTOR).allowed(&led_by("MachineAPI")));
}

#[test]
fn the_garbage_collector_waits_for_what_is_not_known() {
    let own = owned_by(machine("MachineAPI", "MachineAPI"), "MachineSet", "workers");
    let edit = Edit::delete(&own).by(COLLECTOR);
    assert_eq!(edit.refused_by(&Snapshot::default()), ["authority-garbage-collector"]);
}

#[test]
fn controllers_are_told_nothing() {
    for user in [
        SYNC,
        "system:serviceaccount:openshift-machine-api:machine-api-controllers",
    ] {
        let edit = Edit::delete(&machine("MachineAPI", "MachineAPI")).by(user);
        assert_eq!(edit.told(&led_by("MachineAPI")), "allowed\n", "{user}");
    }
}
