//! The deletion of a set: it never deletes machines, and the set can always be deleted.

use capstan_sandbox::control_plane::wait_until;
use serde_json::json;

use super::fixtures;
use super::world::{SET, SOON, Taken, World};

const FOREGROUND: &str = "foreground deletion makes the garbage collector delete the control plane machines; delete with \
    propagationPolicy Background, as kubectl delete does by default, or Orphan: the machines stay [cpms-foreground-deletion]";

async fn machines(cluster: &Taken) -> usize {
    let output = cluster.run(&["get", "machines", "-o", "name"]).await;
    output.checked().unwrap().stdout.lines().count()
}

async fn exists(cluster: &Taken) -> bool {
    let output = cluster.run(&["get", SET, "--ignore-not-found", "-o", "name"]).await;
    !output.checked().unwrap().stdout.is_empty()
}

/// Makes the set the owner of each machine, so that the garbage collector would delete it.
async fn adopt(cluster: &Taken) {
    let uid = cluster.get().await["metadata"]["uid"].clone();
    for machine in fixtures::machines(3) {
        let owner = json!({"metadata": {"ownerReferences": [{
            "apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet", "name": "cluster", "uid": uid,
            "controller": true, "blockOwnerDeletion": true}]}});
        let name = machine["metadata"]["name"].as_str().unwrap();
        let patch = owner.to_string();
        let output = cluster
            .run(&["patch", "machine", name, "--type=merge", "-p", &patch])
            .await;
        output.checked().unwrap();
    }
}

#[tokio::test]
async fn b2_a_foreground_deletion_is_refused_for_every_user() {
    let cluster = World::ours().await.with_set(3, "Active").await;
    adopt(&cluster).await;
    let delete = ["delete", SET, "cluster", "--cascade=foreground"];
    for arguments in [&delete[..], &[&delete[..], &["--dry-run=server"]].concat()] {
        for user in ["admin", "alice"] {
            let kubectl = cluster.kubectl(arguments);
            let kubectl = if user == "alice" {
                kubectl.as_user(user, &["admins"])
            } else {
                kubectl
            };
            let output = kubectl.run().await.unwrap();
            assert!(!output.success(), "{arguments:?} as {user}: {output}");
            assert!(output.stderr.contains(FOREGROUND), "{arguments:?} as {user}: {output}");
        }
    }
    let all = cluster.run(&["delete", SET, "--all", "--cascade=foreground"]).await;
    assert!(!all.success() && all.stderr.contains(FOREGROUND), "{all}");
    assert_eq!(cluster.get().await["metadata"]["deletionTimestamp"], json!(null));
    assert_eq!(machines(&cluster).await, 3);
    // The finalizer would have the same effect in a later deletion.
    let finalizer = cluster
        .patch(r#"{"metadata": {"finalizers": ["foregroundDeletion"]}}"#)
        .await;
    assert!(
        finalizer.stderr.contains(
            "with the finalizer foregroundDeletion, a deletion makes the garbage collector delete the control plane \
             machines; leave foregroundDeletion out of metadata.finalizers [cpms-foreground-finalizer]"
        ),
        "{finalizer}"
    );
    release(&cluster).await;
}

/// Removes the owner of the machines, as the next test expects.
async fn release(cluster: &Taken) {
    let patch = r#"{"metadata": {"ownerReferences": null}}"#;
    for machine in fixtures::machines(3) {
        let name = machine["metadata"]["name"].as_str().unwrap();
        cluster
            .run(&["patch", "machine", name, "--type=merge", "-p", patch])
            .await
            .checked()
            .unwrap();
    }
}

#[tokio::test]
async fn deleting_an_active_set_warns_of_what_stops_being_managed() {
    for cascade in ["background", "orphan"] {
        let cluster = World::ours().await.with_set(3, "Active").await;
        let cascade = format!("--cascade={cascade}");
        let warning = "Warning: deleting this active set leaves its 3 machines running and unmanaged: failed machines are not \
            replaced, and changes are not rolled out, until the generated Inactive set is activated";
        let dry = cluster
            .run(&["delete", SET, "cluster", &cascade, "--dry-run=server"])
            .await;
        assert!(dry.success() && dry.stderr.contains(warning), "{dry}");
        assert!(exists(&cluster).await);
        let output = cluster.run(&["delete", SET, "cluster", &cascade]).await;
        assert!(output.success() && output.stderr.contains(warning), "{output}");
        assert!(!exists(&cluster).await);
        assert_eq!(machines(&cluster).await, 3);
    }
}

#[tokio::test]
async fn deleting_an_inactive_set_gives_no_warning() {
    let cluster = World::ours().await.with_set(3, "Inactive").await;
    let output = cluster.run(&["delete", SET, "cluster"]).await;
    assert!(output.success(), "{output}");
    assert_eq!(output.stderr, "");
}

/// A set that is being deleted and still has a finalizer.
async fn deleting(state: &str) -> Taken {
    let cluster = World::ours().await.with_set(3, state).await;
    let finalizer = r#"{"metadata": {"finalizers": ["controlplanemachineset.machine.openshift.io"]}}"#;
    cluster.patch(finalizer).await.checked().unwrap();
    let delete = ["delete", SET, "cluster", "--wait=false"];
    cluster.run(&delete).await.checked().unwrap();
    cluster
}

#[tokio::test]
async fn an_object_that_is_being_deleted_loses_its_finalizers() {
    let cluster = deleting("Active").await;
    let output = cluster.patch(r#"{"metadata": {"finalizers": null}}"#).await;
    assert!(output.success(), "{output}");
    wait_until("the deletion of the set", SOON, async || {
        Ok((!exists(&cluster).await).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn changes_of_a_set_that_is_being_deleted_are_reviewed() {
    let cluster = deleting("Active").await;
    let output = cluster.patch(r#"{"spec": {"replicas": 5}}"#).await;
    assert!(output.stderr.contains("[cpms-replicas-immutable]"), "{output}");
    // The removal of the finalizers in the same request makes no difference.
    let both = cluster
        .patch(r#"{"metadata": {"finalizers": null}, "spec": {"machineNamePrefix": "_"}}"#)
        .await;
    assert!(both.stderr.contains("[cpms-name-prefix-format]"), "{both}");
    drop(cluster);
    let cluster = deleting("Inactive").await;
    let output = cluster.patch(r#"{"spec": {"state": "Active"}}"#).await;
    assert!(
        output.stderr.contains(
            "spec.state: Forbidden: a control plane machine set that is being deleted cannot be activated; wait until it is \
             gone, then create a new one [cpms-activation-while-deleting]"
        ) || output.stderr.contains(
            "spec.state: a control plane machine set that is being deleted cannot be activated; wait until it is gone, then \
             create a new one [cpms-activation-while-deleting]"
        ),
        "{output}"
    );
}

#[tokio::test]
async fn a_deleted_set_can_be_created_again() {
    let cluster = World::ours().await.with_set(3, "Active").await;
    cluster.run(&["delete", SET, "cluster"]).await.checked().unwrap();
    let create = cluster
        .kubectl(&["create", "-f", "-"])
        .stdin(fixtures::set().to_string());
    let output = create.run().await.unwrap();
    assert!(output.success(), "{output}");
}
