//! Attempts to bypass the guards, by intent or by mistake: every way in which `kubectl` writes, on
//! mirrors.

use serde_json::{Value, json};

use super::objects::{
    CLUSTER_API, KINDS, MACHINE_API, PAUSED, aws_machine, cluster_api, cluster_api_resource, machine_api,
    machine_api_resource, status,
};
use super::world::{COLLECTOR, SYNC, USERS, World};

const APPLY: [&str; 5] = ["apply", "--server-side", "--force-conflicts", "-f", "-"];

/// The mirror in Cluster API with another spec, and without its pause.
fn tampered(kind: &str, name: &str) -> [(Value, &'static str); 2] {
    let mut spec = cluster_api(kind, name, true);
    spec["spec"]["clusterName"] = json!("another");
    [
        (spec, "authority-capi-spec-locked"),
        (cluster_api(kind, name, false), "authority-capi-reserved-annotations"),
    ]
}

#[tokio::test]
async fn a_mirror_cannot_be_replaced_or_applied_in_any_version() {
    let world = World::whole().await;
    for kind in KINDS {
        world.pair(kind, "hostile-write", "MachineAPI").await;
        for (object, rule) in tampered(kind, "hostile-write") {
            let mut older = object.clone();
            older["apiVersion"] = json!("cluster.x-k8s.io/v1beta1");
            for object in [object.to_string(), older.to_string()] {
                for user in USERS {
                    world.refuses(user, &["replace", "-f", "-"], &object, rule).await;
                    if rule == "authority-capi-spec-locked" {
                        world.refuses(user, &APPLY, &object, rule).await;
                    }
                }
            }
        }
        // A field manager that owned the pause and omits it later would remove it.
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
async fn a_value_that_names_no_api_is_refused_and_not_defaulted() {
    let world = World::whole().await;
    for kind in KINDS {
        world.pair(kind, "hostile-value", "MachineAPI").await;
        let resource = machine_api_resource(kind);
        for value in ["Foo", "Migrating"] {
            let created = machine_api(kind, "hostile-new", value).to_string();
            let patch = json!({"spec": {"authoritativeAPI": value}}).to_string();
            let patch = [
                "patch",
                "-n",
                MACHINE_API,
                &resource,
                "hostile-value",
                "--type=merge",
                "-p",
                &patch,
            ];
            for user in [USERS[0], USERS[1], SYNC] {
                world
                    .refuses(user, &["create", "-f", "-"], &created, "authority-api-known")
                    .await;
                world.refuses(user, &patch, "", "authority-api-known").await;
            }
        }
    }
}

/// While the status is empty, the spec names the authoritative API. A change of the spec would
/// change the authority while both APIs are active.
#[tokio::test]
async fn an_object_in_both_apis_does_not_migrate_before_its_status_is_set() {
    let world = World::whole().await;
    for kind in KINDS {
        for (name, desired, other) in [
            ("hostile-undecided-a", "MachineAPI", "ClusterAPI"),
            ("hostile-undecided-b", "ClusterAPI", "MachineAPI"),
        ] {
            world.store(&machine_api(kind, name, desired)).await;
            world.store(&cluster_api(kind, name, desired == "MachineAPI")).await;
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
            for user in [USERS[0], USERS[1], SYNC] {
                world.refuses(user, &patch, "", "authority-migration-undecided").await;
            }
        }
    }
}

/// The webhook does not review the removal of finalizers, so that every deletion can finish. A
/// request that also removes the pause is reviewed.
#[tokio::test]
async fn a_mirror_that_is_being_deleted_keeps_its_pause() {
    let world = World::whole().await;
    let authoritative = machine_api("Machine", "hostile-deleting", "MachineAPI");
    world.store(&authoritative).await;
    world.set_status(&authoritative, &status("MachineAPI")).await;
    let mut mirror = cluster_api("Machine", "hostile-deleting", true);
    mirror["metadata"]["finalizers"] = json!(["machine.cluster.x-k8s.io"]);
    world.store(&mirror).await;
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
        for user in USERS {
            world.refuses(user, &arguments, "", rule).await;
        }
    }
    let no_finalizers = r#"{"metadata": {"finalizers": []}}"#;
    let remove = [&["patch", "--type=merge", "-p", no_finalizers], &machine[..]].concat();
    world.allows("alice", &remove, "").await;
}

/// A user may recreate a deleted mirror, but only paused. The same applies to its infrastructure,
/// whatever connects the infrastructure to the mirror.
#[tokio::test]
async fn a_deleted_mirror_can_be_recreated_only_paused() {
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
    ] {
        for user in USERS {
            let create = ["create", "--dry-run=server", "-f", "-"];
            world
                .refuses(user, &create, &object.to_string(), "authority-capi-create-unpaused")
                .await;
        }
    }
}

/// `kubectl delete --all` gets a warning for each object.
#[tokio::test]
async fn a_deletion_of_all_objects_warns_for_each() {
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
                    .contains("MachineSet hostile-all-a in Cluster API stays authoritative")
                && output
                    .stderr
                    .contains("MachineSet hostile-all-b in Cluster API is deleted too")
        })
        .await;
}

/// With the real garbage collector: a mirrored MachineSet is deleted with `--cascade=foreground`,
/// and its Machines stay.
#[tokio::test]
async fn a_foreground_deletion_of_a_mirror_deletes_no_machine() {
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
        .warns("alice", &delete, "", "a foreground deletion waits for the Machines")
        .await;
    let refused = [&["delete", "--wait=false"], &machine[..]].concat();
    world
        .refuses(COLLECTOR, &refused, "", "authority-garbage-collector")
        .await;
    // The MachineSet is released, and the garbage collector still must not delete the Machine.
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

/// The controllers of Cluster API delete the Machines of a deleted Cluster, and the garbage
/// collector deletes what it owns.
#[tokio::test]
async fn h3_a_cluster_with_mirrored_objects_cannot_be_deleted() {
    let world = World::whole().await;
    let cluster = |name: &str| {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": name, "namespace": CLUSTER_API}, "spec": {}})
    };
    world.store(&cluster("hostile-cluster")).await;
    world.store(&cluster("hostile-free-cluster")).await;
    let mut mirror = cluster_api("Machine", "hostile-of-cluster", true);
    mirror["spec"]["clusterName"] = json!("hostile-cluster");
    world.store(&mirror).await;
    let mut alone = cluster_api("Machine", "hostile-of-free-cluster", false);
    alone["spec"]["clusterName"] = json!("hostile-free-cluster");
    world.store(&alone).await;
    let authoritative = machine_api("Machine", "hostile-of-cluster", "ClusterAPI");
    world.store(&authoritative).await;
    world.set_status(&authoritative, &status("MachineAPI")).await;
    let delete = |name| {
        [
            "delete",
            "-n",
            CLUSTER_API,
            "clusters.cluster.x-k8s.io",
            name,
            "--dry-run=server",
        ]
    };
    for user in [USERS[0], USERS[1], COLLECTOR] {
        world
            .refuses(user, &delete("hostile-cluster"), "", "authority-cluster-in-use")
            .await;
    }
    world.allows("alice", &delete("hostile-free-cluster"), "").await;
    world.allows(SYNC, &delete("hostile-cluster"), "").await;
}

/// A policy cannot look up the authoritative object, so a user confirms that it does not exist.
#[tokio::test]
async fn f6_a_mirror_is_released_after_the_authoritative_object_is_deleted() {
    let world = World::whole().await;
    for kind in KINDS {
        for name in ["hostile-orphan", "hostile-mirrored"] {
            let mut mirror = cluster_api(kind, name, true);
            mirror["metadata"]["annotations"][PAUSED] = json!("sync.machine.openshift.io");
            world.store(&mirror).await;
        }
        let authoritative = machine_api(kind, "hostile-mirrored", "MachineAPI");
        world.store(&authoritative).await;
        world.set_status(&authoritative, &status("MachineAPI")).await;
        let resource = cluster_api_resource(kind);
        let patch = |name: &str| {
            let annotations = json!({PAUSED: null, "capstan.dev/unmirrored": name});
            json!({"metadata": {"annotations": annotations}}).to_string()
        };
        let (orphan, mirrored) = (patch("hostile-orphan"), patch("hostile-mirrored"));
        let unpause = json!({"metadata": {"annotations": {PAUSED: null}}}).to_string();
        let arguments = |name, patch| ["patch", "-n", CLUSTER_API, &resource, name, "--type=merge", "-p", patch];
        for user in USERS {
            let refused = arguments("hostile-orphan", &unpause);
            world
                .refuses(user, &refused, "", "authority-capi-reserved-annotations")
                .await;
            let refused = arguments("hostile-mirrored", &mirrored);
            world.refuses(user, &refused, "", "authority-capi-unmirrored").await;
        }
        world.allows("alice", &arguments("hostile-orphan", &orphan), "").await;
        let spec = json!({"spec": {"fieldOfTomorrow": 1}}).to_string();
        world.allows("alice", &arguments("hostile-orphan", &spec), "").await;
    }
}
