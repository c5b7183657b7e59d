//! The shipped controllers of mirrored objects on a real API server with the garbage collector and
//! with the CRDs of OpenShift, of Cluster API, and of its AWS provider.
//!
//! Users act through kubectl. The tests play the controllers of both APIs and the infrastructure
//! provider. `neighbour` runs beside the core controllers of Cluster API. The CRDs and the core are
//! in Go modules, which are downloaded if they are missing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test reports a failure by a panic"
)]

mod cluster;
mod command;
mod control_plane;
mod controllers;
mod crashes;
mod faults;
mod fleet;
mod health_checks;
mod killed;
mod neighbour;
mod players;
mod set_crashes;
mod sets;
mod table;

use capstan_core::authority::pair::Part;
use capstan_core::authority::platforms::MirroredPlatforms;
use capstan_core::authority::spec::Api;
use serde_json::json;

use cluster::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_is_mirrored_migrated_and_deleted_by_the_table() {
    let cluster = Cluster::start().await;
    let running = cluster.controllers().await;
    an_edit_follows_and_the_steady_state_writes_nothing(&cluster).await;
    a_machine_is_migrated_there_and_back(&cluster).await;
    a_migration_that_a_field_blocks_tells_the_field_and_ends_without_it(&cluster).await;
    a_machine_without_an_owner_survives_the_deletion_of_its_mirror(&cluster).await;
    an_owned_machine_is_deleted_in_both_apis(&cluster).await;
    the_garbage_collector_reaches_no_instance_through_a_mirrored_parent(&cluster).await;
    sets::a_change_makes_a_new_template_and_the_old_one_goes(&cluster).await;
    sets::a_machine_set_is_migrated_there_and_back(&cluster).await;
    sets::the_machines_of_a_deleted_mirror_stay(&cluster).await;
    sets::the_deletion_of_an_authoritative_machine_set_leaves_nothing(&cluster).await;
    command::the_status_shows_both_apis(&cluster).await;
    command::the_command_migrates_waits_cancels_and_names_a_field(&cluster).await;
    command::several_objects_are_migrated_one_after_the_other(&cluster).await;
    nothing_is_written_while_another_sync_controller_runs(&cluster).await;
    running.stop().await;
    nothing_is_written_on_a_platform_that_is_switched_off(&cluster).await;
    crashes::a_migration_ends_after_a_crash_at_every_write(&cluster).await;
    crashes::a_migration_is_cancelled_after_each_write(&cluster).await;
    deletions_continue_on_a_platform_that_is_switched_off(&cluster).await;
    command::a_migration_does_not_begin_if_the_crd_drops_a_field_that_it_needs(&cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parents_are_migrated_and_deleted_although_controllers_stop_at_every_write() {
    let cluster = Cluster::start().await;
    let running = cluster.controllers().await;
    health_checks::a_failure_of_all_objects_is_a_condition_of_the_operator(&cluster).await;
    health_checks::a_check_is_copied_migrated_and_deleted(&cluster).await;
    running.stop().await;
    set_crashes::a_migration_ends_after_a_crash_at_every_write(&cluster).await;
    set_crashes::a_migration_is_cancelled_after_each_write(&cluster).await;
    set_crashes::a_creation_and_a_deletion_end_after_a_crash_at_every_write(&cluster).await;
    killed::the_migrations_end_although_each_process_is_killed_after_one_write(&cluster).await;
    table::create_the_objects_of_each_row(&cluster).await;
    let running = cluster.controllers().await;
    table::each_row_of_creation_ends_as_the_document_says(&cluster).await;
    table::the_deletion_of_an_authoritative_machine_without_an_owner_stays_in_its_api(&cluster).await;
    table::a_left_over_mirror_of_a_machine_set_can_be_deleted(&cluster).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_exist_before_the_sync_controller_follow_the_rows_of_creation() {
    let cluster = Cluster::start().await;
    table::create_the_objects_of_each_row(&cluster).await;
    let running = cluster.controllers().await;
    table::each_row_of_creation_ends_as_the_document_says(&cluster).await;
    table::the_deletion_of_an_authoritative_machine_without_an_owner_stays_in_its_api(&cluster).await;
    table::a_left_over_mirror_of_a_machine_set_can_be_deleted(&cluster).await;
    running.stop().await;
}

async fn an_edit_follows_and_the_steady_state_writes_nothing(cluster: &Cluster) {
    let mut machine = cluster.machine("edited", Api::MachineApi, None).await;
    machine.synchronized(Api::MachineApi).await;
    let mirror = machine.get(Part::ClusterApi).await.unwrap();
    assert_eq!(
        mirror["metadata"]["annotations"]["cluster.x-k8s.io/paused"],
        "sync.machine.openshift.io"
    );
    let edit = json!({"metadata": {"labels": {"team": "blue"}},
        "spec": {"providerSpec": {"value": {"instanceType": "m6i.4xlarge"}}}});
    machine.patch(Part::MachineApi, &edit).await;
    machine
        .until("the edit is copied", async |machine| {
            let mirror = machine.get(Part::ClusterApi).await.unwrap();
            let infrastructure = machine.get(Part::Infrastructure).await.unwrap_or_default();
            mirror["metadata"]["labels"]["team"] == "blue" && infrastructure["spec"]["instanceType"] == "m6i.4xlarge"
        })
        .await;
    machine.settle().await;
    cluster.gate.close_after(1000);
    let versions = machine.versions().await;
    machine.settle().await;
    assert_eq!(machine.versions().await, versions);
    assert_eq!(cluster.gate.writes(), Vec::<String>::new());
    cluster.gate.open();
    assert_eq!(machine.instances, 1);
}

async fn a_machine_is_migrated_there_and_back(cluster: &Cluster) {
    let mut machine = cluster.machine("migrated", Api::MachineApi, None).await;
    machine.synchronized(Api::MachineApi).await;
    let before = machine.get(Part::MachineApi).await.unwrap();
    for api in [Api::ClusterApi, Api::MachineApi] {
        machine.request(api).await;
        machine.synchronized(api).await;
        let versions = machine.versions().await;
        machine.settle().await;
        assert_eq!(
            machine.versions().await,
            versions,
            "{api:?}: the steady state writes nothing"
        );
    }
    let after = machine.get(Part::MachineApi).await.unwrap();
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(machine.instances, 1);
    let events = cluster
        .kubectl(&["get", "events", "-n", "openshift-machine-api", "-o", "json"])
        .await;
    let about_authority = events.matches("\"AuthorityChanged\"").count();
    assert!(
        about_authority >= 5,
        "the first status, and two for each migration: {events}"
    );
}

async fn a_migration_that_a_field_blocks_tells_the_field_and_ends_without_it(cluster: &Cluster) {
    let mut machine = cluster.machine("blocked", Api::MachineApi, None).await;
    machine.synchronized(Api::MachineApi).await;
    let field = |value: serde_json::Value| json!({"spec": {"providerSpec": {"value": {"fieldOfTomorrow": value}}}});
    machine.patch(Part::MachineApi, &field(json!(1))).await;
    machine.request(Api::ClusterApi).await;
    machine
        .until("the condition names the field", async |machine| {
            machine.condition("Synchronized").await == "False"
        })
        .await;
    machine.settle().await;
    let stored = machine.get(Part::MachineApi).await.unwrap();
    let conditions = stored["status"]["conditions"].to_string();
    assert!(
        conditions.contains("spec.providerSpec.value.fieldOfTomorrow"),
        "{conditions}"
    );
    assert!(conditions.contains("FailedToConvertMAPIMachineToCAPI"), "{conditions}");
    assert_eq!(machine.authority().await, "MachineAPI");
    machine.patch(Part::MachineApi, &field(json!(null))).await;
    machine.synchronized(Api::ClusterApi).await;
    assert_eq!(machine.instances, 1);
}

async fn a_machine_without_an_owner_survives_the_deletion_of_its_mirror(cluster: &Cluster) {
    let mut machine = cluster.machine("alone", Api::MachineApi, None).await;
    machine.synchronized(Api::MachineApi).await;
    let uid = machine.get(Part::ClusterApi).await.unwrap()["metadata"]["uid"].clone();
    machine.delete(Part::ClusterApi).await;
    machine
        .until("the mirror is made again", async |machine| {
            let mirror = machine.get(Part::ClusterApi).await;
            mirror.is_some_and(|mirror| mirror["metadata"]["uid"] != uid)
        })
        .await;
    machine.settle().await;
    assert!(machine.instance.is_some());
    machine.request(Api::ClusterApi).await;
    machine.synchronized(Api::ClusterApi).await;
    machine.delete(Part::MachineApi).await;
    machine
        .until("the mirror is deleted", async |machine| {
            machine.get(Part::MachineApi).await.is_none()
        })
        .await;
    machine.settle().await;
    let left = machine.get(Part::ClusterApi).await.unwrap();
    assert_eq!(left["metadata"]["deletionTimestamp"], json!(null));
    assert!(machine.instance.is_some(), "Cluster API keeps the instance");
    assert_eq!(machine.instances, 1);
}

async fn an_owned_machine_is_deleted_in_both_apis(cluster: &Cluster) {
    for (authority, deleted) in [
        (Api::MachineApi, Part::MachineApi),
        (Api::MachineApi, Part::ClusterApi),
        (Api::ClusterApi, Part::MachineApi),
        (Api::ClusterApi, Part::ClusterApi),
    ] {
        let name = format!("owned-{authority:?}-{deleted:?}").to_lowercase();
        let set = cluster.sets(&name, authority).await;
        let mut machine = cluster.machine(&name, authority, Some(&set)).await;
        machine.synchronized(authority).await;
        machine.delete(deleted).await;
        machine.gone().await;
        assert_eq!((machine.instance.as_deref(), machine.instances), (None, 1), "{name}");
    }
}

async fn the_garbage_collector_reaches_no_instance_through_a_mirrored_parent(cluster: &Cluster) {
    for authority in [Api::MachineApi, Api::ClusterApi] {
        let name = format!("collected-{authority:?}").to_lowercase();
        let set = cluster.sets(&name, authority).await;
        let mut machine = cluster.machine(&name, authority, Some(&set)).await;
        machine.synchronized(authority).await;
        let mirror = Part::of(authority.other());
        let before = machine.get(mirror).await.unwrap();
        let uid = |object: &serde_json::Value| object["metadata"]["uid"].clone();
        let owner = |object: &serde_json::Value| object["metadata"]["ownerReferences"][0]["uid"].clone();
        cluster.delete_set(authority.other(), &name).await;
        // A MachineSet of Cluster API is made again, and may become the owner before.
        machine
            .until("the garbage collector deletes the mirror", async |machine| {
                let object = machine.get(mirror).await.unwrap_or_default();
                uid(&object) != uid(&before) || owner(&object) != owner(&before)
            })
            .await;
        machine.settle().await;
        let kept = machine.get(Part::of(authority)).await.unwrap();
        assert_eq!(kept["metadata"]["deletionTimestamp"], json!(null), "{name}");
        assert!(machine.instance.is_some(), "{name}");
        assert_eq!(machine.instances, 1, "{name}");
    }
}

async fn nothing_is_written_on_a_platform_that_is_switched_off(cluster: &Cluster) {
    let mut machine = cluster.machine("switched-off", Api::MachineApi, None).await;
    cluster.gate.close_after(1000);
    let running = cluster.controllers_of(&MirroredPlatforms::only(&["GCP"])).await;
    machine
        .patch(Part::MachineApi, &json!({"metadata": {"labels": {"team": "red"}}}))
        .await;
    // The same time as in the test of another sync controller. No event shows that nothing happens.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(cluster.gate.writes(), Vec::<String>::new());
    running.stop().await;
    cluster.gate.open();
    let running = cluster.controllers_of(&MirroredPlatforms::only(&["GCP", "AWS"])).await;
    machine.synchronized(Api::MachineApi).await;
    running.stop().await;
}

async fn deletions_continue_on_a_platform_that_is_switched_off(cluster: &Cluster) {
    let running = cluster.controllers().await;
    let mut machine = cluster.machine("leaving", Api::MachineApi, None).await;
    machine.synchronized(Api::MachineApi).await;
    running.stop().await;
    let running = cluster.controllers_of(&MirroredPlatforms::only(&["GCP"])).await;
    machine.delete(Part::ClusterApi).await;
    machine
        .until("the mirror is deleted, and not made again", async |machine| {
            let versions = machine.versions().await;
            versions[1].is_null() && versions[2].is_null()
        })
        .await;
    machine.settle().await;
    assert!(machine.get(Part::ClusterApi).await.is_none() && machine.instance.is_some());
    machine.delete(Part::MachineApi).await;
    machine.gone().await;
    assert_eq!((machine.instance.is_some(), machine.instances), (false, 1));
    running.stop().await;
}

async fn nothing_is_written_while_another_sync_controller_runs(cluster: &Cluster) {
    let mut machine = cluster.machine("other", Api::MachineApi, None).await;
    machine.synchronized(Api::MachineApi).await;
    cluster.other_controller("capi-operator_1").await;
    cluster.gate.close_after(1000);
    machine
        .patch(Part::MachineApi, &json!({"metadata": {"labels": {"team": "red"}}}))
        .await;
    machine.request(Api::ClusterApi).await;
    for _ in 0..4 {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        cluster.other_controller("capi-operator_1").await;
    }
    assert_eq!(cluster.gate.writes(), Vec::<String>::new());
    cluster.gate.open();
    // The Lease expires. No watch event reports that.
    machine.synchronized(Api::ClusterApi).await;
    assert_eq!(machine.instances, 1);
}
