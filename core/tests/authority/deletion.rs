//! Deletion: the rows of the enhancement's table, and the deletions by the garbage collector.

use serde_json::{Value, json};

use super::world::*;
use capstan_core::admission::Snapshot;

fn authoritative(api: &str) -> Snapshot {
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
    row_machine_api_with_owner_deletes_cluster_api_too:
        Edit::delete(&owned_by(machine("MachineAPI", "MachineAPI"), "MachineSet", "workers")), authoritative("MachineAPI");
    row_machine_api_mirror_without_owner_leaves_cluster_api:
        Edit::delete(&machine("ClusterAPI", "ClusterAPI")), authoritative("ClusterAPI");
    row_authoritative_machine_api_without_owner_leaves_cluster_api_without_an_instance:
        Edit::delete(&machine("MachineAPI", "MachineAPI")), authoritative("MachineAPI");
    row_cluster_api_with_owner_deletes_the_machine_api_too:
        Edit::delete(&owned_by(capi_machine(false), "MachineSet", "workers")), authoritative("ClusterAPI");
    row_cluster_api_mirror_without_owner_is_recreated:
        Edit::delete(&capi_machine(true)), authoritative("MachineAPI");
    row_authoritative_cluster_api_without_owner_loses_its_instance_and_is_recreated:
        Edit::delete(&capi_machine(false)), authoritative("ClusterAPI");
    a_deletion_without_counterpart_has_no_warning: Edit::delete(&machine("MachineAPI", "MachineAPI")), cluster(&[]);
    a_control_plane_machine_is_named_in_the_warning:
        Edit::delete(&owned_by(master(machine("MachineAPI", "MachineAPI")), "ControlPlaneMachineSet", "cluster")),
        authoritative("MachineAPI");
    a_mirrored_set_is_deleted_alone: Edit::delete(&machine_set("ClusterAPI", "ClusterAPI")), authoritative("ClusterAPI");
    a_foreground_deletion_of_a_mirrored_set_warns_of_the_wait:
        Edit { propagation: "Foreground", ..Edit::delete(&machine_set("ClusterAPI", "ClusterAPI")) }, authoritative("ClusterAPI");
    an_authoritative_set_deletes_its_mirror_too: Edit::delete(&machine_set("MachineAPI", "MachineAPI")), authoritative("MachineAPI");
    a_mirrored_set_of_cluster_api_is_recreated: Edit::delete(&capi_set(true)), authoritative("MachineAPI");
    a_mirrored_health_check_is_deleted_alone: Edit::delete(&check("ClusterAPI", "ClusterAPI")), authoritative("ClusterAPI");
    an_authoritative_health_check_deletes_its_mirror_too: Edit::delete(&capi_check(false)), authoritative("ClusterAPI");
    a_deletion_is_allowed_with_a_warning_when_the_counterpart_is_unknown:
        Edit::delete(&machine("MachineAPI", "MachineAPI")), Snapshot::default();
    the_garbage_collector_does_not_delete_the_machines_of_a_mirrored_set:
        Edit::delete(&owned_by(machine("ClusterAPI", "ClusterAPI"), "MachineSet", "workers")).by(COLLECTOR),
        cluster(&[machine("ClusterAPI", "ClusterAPI"), capi_machine(false), capi_set(false)]);
}

#[test]
fn the_garbage_collector_is_held_back_in_both_directions_for_either_authority() {
    for api in ["MachineAPI", "ClusterAPI"] {
        // The MachineSet of the Machine API was a mirror and is deleted. The one of Cluster API is
        // authoritative and still exists.
        let own = owned_by(machine(api, api), "MachineSet", "workers");
        let deleted = cluster(&[own.clone(), capi_machine(false), capi_set(false)]);
        let deleting = with(
            machine_set("ClusterAPI", "ClusterAPI"),
            "/metadata/deletionTimestamp",
            json!("2026-01-01T00:00:00Z"),
        );
        let deleting = cluster(&[own.clone(), capi_machine(false), capi_set(false), deleting]);
        for snapshot in [deleted, deleting] {
            let edit = Edit::delete(&own).by(COLLECTOR);
            assert_eq!(edit.refused_by(&snapshot), ["authority-garbage-collector"], "{api}");
            assert!(edit.by("alice").allowed(&snapshot));
        }
        // The opposite direction.
        let own = owned_by(capi_machine(false), "MachineSet", "workers");
        let snapshot = cluster(&[machine(api, api), machine_set("MachineAPI", "MachineAPI"), own.clone()]);
        let edit = Edit::delete(&own).by(COLLECTOR);
        assert_eq!(edit.refused_by(&snapshot), ["authority-garbage-collector"], "{api}");
    }
}

#[test]
fn the_garbage_collector_works_after_the_deletion_of_an_authoritative_set_or_of_both_sets() {
    let deleting = |object: Value| with(object, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let own = owned_by(machine("MachineAPI", "MachineAPI"), "MachineSet", "workers");
    for around in [
        vec![],
        vec![deleting(capi_set(true))],
        vec![deleting(machine_set("MachineAPI", "MachineAPI")), capi_set(true)],
    ] {
        assert!(
            Edit::delete(&own).by(COLLECTOR).allowed(&cluster(&around)),
            "{around:?}"
        );
    }
    // A MachineSet of Cluster API that is not mirrored.
    let other = with(capi_machine(false), "/metadata/name", json!("other-a"));
    let alone = owned_by(other, "MachineSet", "others");
    assert!(Edit::delete(&alone).by(COLLECTOR).allowed(&authoritative("MachineAPI")));
    // An owner that is not a MachineSet.
    let cpms = owned_by(machine("MachineAPI", "MachineAPI"), "ControlPlaneMachineSet", "cluster");
    assert!(Edit::delete(&cpms).by(COLLECTOR).allowed(&authoritative("MachineAPI")));
}

#[test]
fn the_garbage_collector_waits_until_the_sets_are_known() {
    let own = owned_by(machine("MachineAPI", "MachineAPI"), "MachineSet", "workers");
    let edit = Edit::delete(&own).by(COLLECTOR);
    assert_eq!(edit.refused_by(&Snapshot::default()), ["authority-garbage-collector"]);
}

#[test]
fn controllers_get_no_warnings() {
    for user in [
        SYNC,
        "system:serviceaccount:openshift-machine-api:machine-api-controllers",
    ] {
        let edit = Edit::delete(&machine("MachineAPI", "MachineAPI")).by(user);
        assert_eq!(edit.response_text(&authoritative("MachineAPI")), "allowed\n", "{user}");
    }
}
