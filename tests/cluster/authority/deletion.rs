//! Deletion, beyond the rows of the enhancement's table: warnings about the control plane, and the
//! garbage collector.

use super::objects::{CLUSTER_API, MACHINE_API, cluster_api, machine_api, status};
use super::world::{COLLECTOR, SYNC, USERS, World};

async fn warned(world: &World, namespace: &str, resource: &str, name: &str, text: &str) {
    let delete = ["delete", "-n", namespace, resource, name, "--dry-run=server"];
    for user in USERS {
        world.warns(user, &delete, "", text).await;
    }
    let silent = world.allows(SYNC, &delete, "").await;
    assert!(!silent.stderr.contains("Warning"), "{silent}");
}

#[tokio::test]
async fn a_control_plane_machine_is_named_in_the_warning() {
    let world = World::whole().await;
    let mut master = machine_api("Machine", "delete-master", "MachineAPI");
    master["metadata"]["labels"] = serde_json::json!({"machine.openshift.io/cluster-api-machine-role": "master"});
    world.store(&master).await;
    world.set_status(&master, &status("MachineAPI")).await;
    world.store(&cluster_api("Machine", "delete-master", true)).await;
    let text = "delete-master is a control plane machine";
    for (namespace, resource) in [
        (MACHINE_API, "machines.machine.openshift.io"),
        (CLUSTER_API, "machines.cluster.x-k8s.io"),
    ] {
        warned(world, namespace, resource, "delete-master", text).await;
    }
}

/// In both directions, with requests as the user of the garbage collector. The real garbage
/// collector of the cluster runs at the same time.
#[tokio::test]
async fn the_garbage_collector_does_not_delete_the_machines_of_a_mirrored_set() {
    let world = World::whole().await;
    for (authority, namespace, group) in [
        ("ClusterAPI", MACHINE_API, "machine.openshift.io"),
        ("MachineAPI", CLUSTER_API, "cluster.x-k8s.io"),
    ] {
        let name = format!("collect-{}", authority.to_lowercase());
        world.pair("MachineSet", &name, authority).await;
        let (set, machine) = (format!("machinesets.{group}"), format!("machines.{group}"));
        let arguments = ["get", "-n", namespace, &set, &name, "-o", "jsonpath={.metadata.uid}"];
        let uid = world.run("admin", &arguments, "").await.checked().unwrap().stdout;
        world.pair("Machine", &name, authority).await;
        let owner = serde_json::json!({"metadata": {"ownerReferences": [{"kind": "MachineSet", "name": name, "uid": uid,
            "apiVersion": if authority == "ClusterAPI" { "machine.openshift.io/v1beta1" } else { "cluster.x-k8s.io/v1beta2" }}]}});
        let owner = owner.to_string();
        world
            .allows(
                SYNC,
                &["patch", "-n", namespace, &machine, &name, "--type=merge", "-p", &owner],
                "",
            )
            .await;
        // The mirrored MachineSet is deleted.
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
