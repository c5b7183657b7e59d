//! Deletion, beyond the rows of the document's table: the control plane is named, and the garbage collector is held back.

use super::objects::{CLUSTER_API, MACHINE_API, cluster_api, machine_api, status};
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
