//! The rows of the document's table for deletion: what goes and what stays is said, and the garbage collector is held back.

use super::objects::{CLUSTER_API, MACHINE_API, cluster_api, machine_api, machine_api_resource, owned_by, status};
use super::world::{COLLECTOR, PEOPLE, SYNC, World};

async fn told(world: &World, namespace: &str, resource: &str, name: &str, words: &str) {
    let delete = ["delete", "-n", namespace, resource, name, "--dry-run=server"];
    for user in PEOPLE {
        world.warns(user, &delete, "", words).await;
    }
    let silent = world.allows(SYNC, &delete, "").await;
    assert!(!silent.stderr.contains("Warning"), "{silent}");
}

#[tokio::test]
async fn the_deletion_of_a_machine_says_what_becomes_of_the_other_half() {
    let world = World::whole().await;
    world.pair("Machine", "delete-alone-a", "ClusterAPI").await;
    world.pair("Machine", "delete-alone-b", "MachineAPI").await;
    let (ours, theirs) = ("machines.machine.openshift.io", "machines.cluster.x-k8s.io");
    let gone = "delete-alone-a stays, leads, and keeps the instance";
    told(world, MACHINE_API, ours, "delete-alone-a", gone).await;
    let again = "delete-alone-a stays, and this Machine is made again from it";
    told(world, CLUSTER_API, theirs, "delete-alone-a", again).await;
    let without = "its instance is deleted; Cluster API's Machine delete-alone-b stays, without an instance";
    told(world, MACHINE_API, ours, "delete-alone-b", without).await;
    let copy = "only this copy is deleted, and made again";
    told(world, CLUSTER_API, theirs, "delete-alone-b", copy).await;
}

#[tokio::test]
async fn the_deletion_of_a_machine_with_an_owner_takes_the_other_half_with_it() {
    let world = World::whole().await;
    // The owners exist, so that the garbage collector of this cluster leaves their machines alone.
    world.pair("MachineSet", "delete-owner", "MachineAPI").await;
    for (mut object, group) in [
        (
            machine_api("Machine", "delete-child", "MachineAPI"),
            "machine.openshift.io",
        ),
        (cluster_api("Machine", "delete-child", true), "cluster.x-k8s.io"),
    ] {
        let namespace = object["metadata"]["namespace"].as_str().unwrap().to_owned();
        let set = format!("machinesets.{group}");
        let arguments = [
            "get",
            "-n",
            &namespace,
            &set,
            "delete-owner",
            "-o",
            "jsonpath={.metadata.uid}",
        ];
        let uid = world.run("admin", &arguments, "").await.checked().unwrap().stdout;
        object = owned_by(object, "MachineSet", "delete-owner");
        object["metadata"]["ownerReferences"][0]["uid"] = serde_json::json!(uid);
        world.store(&object).await;
    }
    let with_it = "its instance is deleted, and Cluster API's Machine delete-child with it";
    told(
        world,
        MACHINE_API,
        "machines.machine.openshift.io",
        "delete-child",
        with_it,
    )
    .await;
    let with_it = "its instance is deleted, and the Machine API's Machine delete-child with it";
    told(world, CLUSTER_API, "machines.cluster.x-k8s.io", "delete-child", with_it).await;
}

#[tokio::test]
async fn a_machine_of_the_control_plane_is_named_as_such() {
    let world = World::whole().await;
    let mut master = machine_api("Machine", "delete-master", "MachineAPI");
    master["metadata"]["labels"] = serde_json::json!({"machine.openshift.io/cluster-api-machine-role": "master"});
    world.store(&master).await;
    world.decide(&master, &status("MachineAPI")).await;
    world.store(&cluster_api("Machine", "delete-master", true)).await;
    let words = "delete-master is a control plane machine";
    for (namespace, resource) in [
        (MACHINE_API, "machines.machine.openshift.io"),
        (CLUSTER_API, "machines.cluster.x-k8s.io"),
    ] {
        told(world, namespace, resource, "delete-master", words).await;
    }
}

#[tokio::test]
async fn the_deletion_of_a_parent_that_does_not_lead_is_not_carried_over_and_says_so() {
    let world = World::whole().await;
    for (kind, stays) in [
        ("MachineSet", "leads and stays, with all of its machines"),
        ("MachineHealthCheck", "leads, stays and goes on"),
    ] {
        let (ours, theirs) = (
            machine_api_resource(kind),
            format!("{}s.cluster.x-k8s.io", kind.to_lowercase()),
        );
        world.pair(kind, "delete-parent", "ClusterAPI").await;
        told(world, MACHINE_API, &ours, "delete-parent", stays).await;
        let with_it = format!("the Machine API's {kind} delete-parent is deleted with it");
        told(world, CLUSTER_API, &theirs, "delete-parent", &with_it).await;
        world.pair(kind, "delete-leading", "MachineAPI").await;
        let with_it = format!("Cluster API's {kind} delete-leading is deleted with it");
        told(world, MACHINE_API, &ours, "delete-leading", &with_it).await;
        told(world, CLUSTER_API, &theirs, "delete-leading", stays).await;
    }
}

/// In both directions, as the user that the garbage collector is; what it does of its own accord is in its own time.
#[tokio::test]
async fn the_garbage_collector_does_not_delete_the_machines_of_a_copy() {
    let world = World::whole().await;
    for (leads, namespace, group) in [
        ("ClusterAPI", MACHINE_API, "machine.openshift.io"),
        ("MachineAPI", CLUSTER_API, "cluster.x-k8s.io"),
    ] {
        let name = format!("collect-{}", leads.to_lowercase());
        world.pair("MachineSet", &name, leads).await;
        let (set, machine) = (format!("machinesets.{group}"), format!("machines.{group}"));
        let arguments = ["get", "-n", namespace, &set, &name, "-o", "jsonpath={.metadata.uid}"];
        let uid = world.run("admin", &arguments, "").await.checked().unwrap().stdout;
        world.pair("Machine", &name, leads).await;
        let owner = serde_json::json!({"metadata": {"ownerReferences": [{"kind": "MachineSet", "name": name, "uid": uid,
            "apiVersion": if leads == "ClusterAPI" { "machine.openshift.io/v1beta1" } else { "cluster.x-k8s.io/v1beta2" }}]}});
        let owner = owner.to_string();
        world
            .allows(
                SYNC,
                &["patch", "-n", namespace, &machine, &name, "--type=merge", "-p", &owner],
                "",
            )
            .await;
        // The copy of the set is deleted, and its real garbage collector sets to work.
        world
            .allows("admin", &["delete", "-n", namespace, &set, &name], "")
            .await;
        let delete = ["delete", "-n", namespace, &machine, &name, "--wait=false"];
        world
            .refuses(COLLECTOR, &delete, "", "authority-garbage-collector")
            .await;
        let left = world
            .run(
                "admin",
                &["get", "-n", namespace, &machine, &name, "-o", "jsonpath={.metadata}"],
                "",
            )
            .await;
        let left = left.checked().unwrap().stdout;
        assert!(!left.contains("deletionTimestamp"), "{left}");
    }
}
