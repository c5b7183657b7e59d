//! What a person tries who means harm, or errs: every way to write that `kubectl` knows, on objects that change only with
//! their original.

use serde_json::{Value, json};

use super::objects::{
    CLUSTER_API, KINDS, MACHINE_API, PAUSED, aws_machine, aws_template, cluster_api, cluster_api_resource, machine_api,
    machine_api_resource, status,
};
use super::world::{COLLECTOR, PEOPLE, SYNC, World};

const APPLY: [&str; 5] = ["apply", "--server-side", "--force-conflicts", "-f", "-"];

/// The copy in Cluster API with another spec, and without its pause.
fn tampered(kind: &str, name: &str) -> [(Value, &'static str); 2] {
    let mut spec = cluster_api(kind, name, true);
    spec["spec"]["clusterName"] = json!("another");
    [
        (spec, "authority-capi-spec-locked"),
        (cluster_api(kind, name, false), "authority-capi-reserved-annotations"),
    ]
}

#[tokio::test]
async fn a_copy_is_not_replaced_nor_applied_over_in_any_version() {
    let world = World::whole().await;
    for kind in KINDS {
        world.pair(kind, "hostile-write", "MachineAPI").await;
        for (object, rule) in tampered(kind, "hostile-write") {
            let mut older = object.clone();
            older["apiVersion"] = json!("cluster.x-k8s.io/v1beta1");
            for object in [object.to_string(), older.to_string()] {
                for user in PEOPLE {
                    world.refuses(user, &["replace", "-f", "-"], &object, rule).await;
                    if rule == "authority-capi-spec-locked" {
                        world.refuses(user, &APPLY, &object, rule).await;
                    }
                }
            }
        }
        // Owning the pause, and then leaving it out, takes it away.
        let paused = cluster_api(kind, "hostile-write", true).to_string();
        world.allows("alice", &APPLY, &paused).await;
        let unpaused = cluster_api(kind, "hostile-write", false).to_string();
        let apply = [&APPLY[..], &["--field-manager=sandbox-owner"]].concat();
        world.allows("alice", &apply, &paused).await;
        for manager in ["kubectl", "sandbox-owner"] {
            let manager = format!("--field-manager={manager}");
            world.run("alice", &[&APPLY[..], &[&manager]].concat(), &unpaused).await;
        }
        let resource = cluster_api_resource(kind);
        let get = ["get", "-n", CLUSTER_API, &resource, "hostile-write", "-o", "json"];
        let left = world.run("admin", &get, "").await.checked().unwrap().stdout;
        assert!(left.contains(PAUSED), "{left}");
    }
}

#[tokio::test]
async fn a_word_that_names_no_api_is_refused_and_not_replaced() {
    let world = World::whole().await;
    for kind in KINDS {
        world.pair(kind, "hostile-word", "MachineAPI").await;
        let resource = machine_api_resource(kind);
        for word in ["Foo", "Migrating"] {
            let created = machine_api(kind, "hostile-new", word).to_string();
            let patch = json!({"spec": {"authoritativeAPI": word}}).to_string();
            let patch = [
                "patch",
                "-n",
                MACHINE_API,
                &resource,
                "hostile-word",
                "--type=merge",
                "-p",
                &patch,
            ];
            for user in [PEOPLE[0], PEOPLE[1], SYNC] {
                world
                    .refuses(user, &["create", "-f", "-"], &created, "authority-api-known")
                    .await;
                world.refuses(user, &patch, "", "authority-api-known").await;
            }
        }
    }
}

/// Until the status says who leads, the spec does; an edit of it would hand over the lead while both sides act.
#[tokio::test]
async fn what_exists_twice_does_not_change_hands_before_it_is_decided_who_leads() {
    let world = World::whole().await;
    for kind in KINDS {
        for (name, wanted, other) in [
            ("hostile-undecided-a", "MachineAPI", "ClusterAPI"),
            ("hostile-undecided-b", "ClusterAPI", "MachineAPI"),
        ] {
            world.store(&machine_api(kind, name, wanted)).await;
            world.store(&cluster_api(kind, name, wanted == "MachineAPI")).await;
            let resource = machine_api_resource(kind);
            let patch = json!({"spec": {"authoritativeAPI": other}}).to_string();
            let patch = [
                "patch",
                "-n",
                MACHINE_API,
                &resource,
                name,
                "--type=merge",
                "-p",
                &patch,
                "--dry-run=server",
            ];
            for user in [PEOPLE[0], PEOPLE[1], SYNC] {
                world.refuses(user, &patch, "", "authority-migration-undecided").await;
            }
        }
    }
}

/// The removal of finalizers goes past the webhook, so that nothing is undeletable; a pause does not go with it.
#[tokio::test]
async fn a_copy_that_is_being_deleted_keeps_its_pause() {
    let world = World::whole().await;
    let ours = machine_api("Machine", "hostile-deleting", "MachineAPI");
    world.store(&ours).await;
    world.decide(&ours, &status("MachineAPI")).await;
    let mut theirs = cluster_api("Machine", "hostile-deleting", true);
    theirs["metadata"]["finalizers"] = json!(["machine.cluster.x-k8s.io"]);
    world.store(&theirs).await;
    let machine = ["-n", CLUSTER_API, "machines.cluster.x-k8s.io", "hostile-deleting"];
    let delete = [&["delete", "--wait=false"], &machine[..]].concat();
    world.allows("alice", &delete, "").await;
    let unpause = r#"{"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}}"#;
    let both = r#"{"metadata": {"finalizers": [], "annotations": {"cluster.x-k8s.io/paused": null}}}"#;
    let status = r#"{"status": {"phase": "Deleted"}}"#;
    for (patch, more, rule) in [
        (unpause, None, "authority-capi-reserved-annotations"),
        (both, None, "authority-capi-reserved-annotations"),
        (status, Some("--subresource=status"), "authority-capi-status-locked"),
    ] {
        let mut arguments = [&["patch", "--type=merge", "-p", patch], &machine[..]].concat();
        arguments.extend(more);
        for user in PEOPLE {
            world.refuses(user, &arguments, "", rule).await;
        }
    }
    let gone = r#"{"metadata": {"finalizers": []}}"#;
    let remove = [&["patch", "--type=merge", "-p", gone], &machine[..]].concat();
    world.allows("alice", &remove, "").await;
}

/// A copy that is deleted can be made anew by hand, but not without its pause; nor can infrastructure for it, by whatever way
/// it belongs to it.
#[tokio::test]
async fn a_copy_comes_back_paused_or_not_at_all() {
    let world = World::whole().await;
    for kind in ["Machine", "MachineSet"] {
        world.pair(kind, "hostile-again", "MachineAPI").await;
    }
    let mut owned = aws_machine("hostile-another-name", false);
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "name": "hostile-again", "uid": "00000000-0000-0000-0000-000000000001"}]);
    let mut generated = owned.clone();
    generated["metadata"]["name"] = Value::Null;
    generated["metadata"]["generateName"] = json!("hostile-");
    let mut template = aws_template("hostile-again-1", "hostile-again");
    template["metadata"]["annotations"] = Value::Null;
    world
        .allows(
            "alice",
            &[
                "delete",
                "-n",
                CLUSTER_API,
                "machines.cluster.x-k8s.io",
                "hostile-again",
            ],
            "",
        )
        .await;
    for object in [
        cluster_api("Machine", "hostile-again", false),
        aws_machine("hostile-again", false),
        owned,
        generated,
        template,
    ] {
        for user in PEOPLE {
            let create = ["create", "--dry-run=server", "-f", "-"];
            world
                .refuses(user, &create, &object.to_string(), "authority-capi-create-unpaused")
                .await;
        }
    }
}

/// `kubectl delete --all` is told of each object, and takes nothing that the one after the other would not.
#[tokio::test]
async fn a_deletion_of_everything_is_told_of_each() {
    let world = World::whole().await;
    world.pair("MachineSet", "hostile-all-a", "ClusterAPI").await;
    world.pair("MachineSet", "hostile-all-b", "MachineAPI").await;
    let all = [
        "delete",
        "-n",
        MACHINE_API,
        "machinesets.machine.openshift.io",
        "--all",
        "--dry-run=server",
    ];
    world
        .until("alice", &all, "", |output| {
            output.success()
                && output
                    .stderr
                    .contains("Cluster API's MachineSet hostile-all-a leads and stays")
                && output
                    .stderr
                    .contains("Cluster API's MachineSet hostile-all-b is deleted with it")
        })
        .await;
}

/// The real garbage collector of this cluster: a copy of a set goes with `--cascade=foreground`, and its machines stay.
#[tokio::test]
async fn a_foreground_deletion_of_a_copy_takes_no_machine_with_it() {
    let world = World::whole().await;
    world.pair("MachineSet", "hostile-cascade", "ClusterAPI").await;
    world.pair("Machine", "hostile-cascade", "ClusterAPI").await;
    let sets = machine_api_resource("MachineSet");
    let mut owner = world.owner(MACHINE_API, &sets, "hostile-cascade").await;
    owner["blockOwnerDeletion"] = json!(true);
    let patch = json!({"metadata": {"ownerReferences": [owner]}}).to_string();
    let machine = ["-n", MACHINE_API, "machines.machine.openshift.io", "hostile-cascade"];
    let own = [&["patch", "--type=merge", "-p", &patch], &machine[..]].concat();
    world.allows(SYNC, &own, "").await;
    let delete = [
        "delete",
        "-n",
        MACHINE_API,
        &sets,
        "hostile-cascade",
        "--cascade=foreground",
        "--wait=false",
    ];
    world
        .warns("alice", &delete, "", "a foreground deletion waits for the machines")
        .await;
    let refused = [&["delete", "--wait=false"], &machine[..]].concat();
    world
        .refuses(COLLECTOR, &refused, "", "authority-garbage-collector")
        .await;
    // It is let go, and the machine is still there for the garbage collector to find.
    let release = [
        "patch",
        "-n",
        MACHINE_API,
        &sets,
        "hostile-cascade",
        "--type=merge",
        "-p",
    ];
    world
        .allows(
            "alice",
            &[&release[..], &[r#"{"metadata": {"finalizers": []}}"#]].concat(),
            "",
        )
        .await;
    world
        .refuses(COLLECTOR, &refused, "", "authority-garbage-collector")
        .await;
    let get = [&["get", "-o", "jsonpath={.metadata}"], &machine[..]].concat();
    let left = world.run("admin", &get, "").await.checked().unwrap().stdout;
    assert!(!left.contains("deletionTimestamp"), "{left}");
}
