//! A user deletes machines or the set. Deleted machines are replaced, and no other machine is lost.

use capstan_core::api::machine_openshift_io::machine::Machine;
use kube::api::{DeleteParams, Patch, PatchParams, PropagationPolicy};
use serde_json::json;

use crate::world::{Setup, World};

async fn delete_all(world: &World, machines: &[Machine]) {
    for machine in machines {
        let api = world.api("machines");
        api.delete(machine.metadata.name(), &DeleteParams::default())
            .await
            .unwrap();
    }
}

async fn three_deleted_at_once(strategy: &'static str) {
    let setup = Setup {
        strategy,
        ..Setup::default()
    };
    let world = World::new(setup).await.unwrap();
    world.allow_missing(3);
    let running = world.start_controllers("one").await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    let before = world.machines().await.unwrap();
    delete_all(&world, &before).await;
    world
        .wait_for("three new machines", async |world| {
            let machines = world.machines().await?;
            let all_new = machines.iter().all(|machine| {
                !machine.metadata.is_deleting() && before.iter().all(|old| old.metadata.uid != machine.metadata.uid)
            });
            Ok((machines.len() == 3 && all_new && world.is_rolled_out("m6i.xlarge").await?).then_some(()))
        })
        .await
        .unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    running.controllers.stop().await;
    let writes = world.writes().unwrap();
    let count = |what: &str| writes.iter().filter(|write| write.starts_with(what)).count();
    // Each machine gets one replacement, and the controllers delete nothing.
    assert_eq!(
        (count("create machines "), count("delete machines ")),
        (3, 0),
        "{writes:?}"
    );
    world.check_invariants().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn three_machines_deleted_at_once_are_replaced_under_rolling_update() {
    three_deleted_at_once("RollingUpdate").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_machines_deleted_at_once_are_replaced_under_on_delete() {
    three_deleted_at_once("OnDelete").await;
}

/// B19: under OnDelete, the upstream operator reports `Progressing` for ever.
#[tokio::test(flavor = "multi_thread")]
async fn b19_on_delete_replaces_deleted_machines_only_and_does_not_report_progress() {
    let setup = Setup {
        strategy: "OnDelete",
        ..Setup::default()
    };
    let world = World::new(setup).await.unwrap();
    let running = world.start_controllers("one").await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    world.set_instance_type("m6i.2xlarge").await.unwrap();
    world
        .wait_for_condition("Progressing=False/WaitingForDelete")
        .await
        .unwrap();
    assert_eq!(world.machines().await.unwrap().len(), 3);
    world.allow_missing(1);
    for name in ["prod-x7k2p-master-1", "prod-x7k2p-master-0", "prod-x7k2p-master-2"] {
        world
            .api("machines")
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
        world
            .wait_for("the machine to be replaced", async |world| {
                let machines = world.machines().await?;
                Ok(
                    (machines.len() == 3 && machines.iter().all(|machine| machine.metadata.name() != name))
                        .then_some(()),
                )
            })
            .await
            .unwrap();
    }
    world.wait_for_rollout("m6i.2xlarge").await.unwrap();
    running.controllers.stop().await;
    world.check_invariants().unwrap();
}

/// B1: the upstream operator never replaces a machine whose node no longer exists.
#[tokio::test(flavor = "multi_thread")]
async fn b1_a_deleted_machine_without_a_node_is_replaced() {
    let world = World::new(Setup::default()).await.unwrap();
    world.allow_missing(1);
    let running = world.start_controllers("one").await.unwrap();
    world
        .wait_for_condition("Available=True/AllReplicasAvailable")
        .await
        .unwrap();
    let name = "prod-x7k2p-master-1";
    world.api("nodes").delete(name, &DeleteParams::default()).await.unwrap();
    world
        .wait_for_condition("Available=False/UnavailableReplicas")
        .await
        .unwrap();
    world
        .api("machines")
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    world
        .wait_for("a replacement", async |world| {
            let machines = world.machines().await?;
            let is_replaced = machines.iter().all(|machine| machine.metadata.name() != name);
            Ok((is_replaced && world.is_rolled_out("m6i.xlarge").await?).then_some(()))
        })
        .await
        .unwrap();
    world
        .wait_for_condition("Available=True/AllReplicasAvailable")
        .await
        .unwrap();
    running.controllers.stop().await;
    world.check_invariants().unwrap();
}

async fn set_deleted(policy: PropagationPolicy) {
    let (world, running) = World::settled().await.unwrap();
    // B3: a machine that no longer matches the selector still has the owner reference to the set.
    let relabel = json!({"metadata": {"labels": {"machine.openshift.io/cluster-api-machine-role": "old"}}});
    let machines = world.api("machines");
    let patch = Patch::Merge(relabel);
    machines
        .patch("prod-x7k2p-master-2", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let uid = world.set().await.unwrap().metadata.uid;
    let params = DeleteParams {
        propagation_policy: Some(policy),
        ..DeleteParams::default()
    };
    world
        .api("controlplanemachinesets")
        .delete("cluster", &params)
        .await
        .unwrap();
    world
        .wait_for("the set to be deleted", async |world| {
            let current = world.api("controlplanemachinesets").get_opt("cluster").await?;
            Ok((current.is_none_or(|set| set.metadata.uid != uid)).then_some(()))
        })
        .await
        .unwrap();
    // The garbage collector has processed the deletion when it has deleted another dependant of the
    // same owner.
    world
        .wait_for_garbage_collector(uid.as_deref().unwrap_or_default())
        .await
        .unwrap();
    let machines = world.machines().await.unwrap();
    assert_eq!(machines.len(), 3);
    for machine in &machines {
        assert!(!machine.metadata.is_deleting(), "{}", machine.metadata.name());
        assert!(
            machine
                .metadata
                .owner_references
                .iter()
                .all(|owner| Some(&owner.uid) != uid.as_ref())
        );
    }
    running.controllers.stop().await;
    world.check_invariants().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_deleting_a_set_keeps_all_machines_also_one_that_lost_its_labels() {
    set_deleted(PropagationPolicy::Background).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_set_with_orphans_keeps_all_machines() {
    set_deleted(PropagationPolicy::Orphan).await;
}

/// B15: if one machine is missing and another is outdated, the upstream operator creates two at
/// once.
#[tokio::test(flavor = "multi_thread")]
async fn b15_a_missing_and_an_outdated_machine_are_replaced_one_after_the_other() {
    let world = World::new(Setup::default()).await.unwrap();
    world.allow_missing(1);
    let running = world.start_controllers("one").await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    running.controllers.stop().await;
    // The controllers are stopped while both changes are made.
    let machines = world.machines().await.unwrap();
    delete_all(&world, &machines[2..]).await;
    world.set_instance_type("m6i.2xlarge").await.unwrap();
    let running = world.start_controllers("two").await.unwrap();
    world.wait_for_rollout("m6i.2xlarge").await.unwrap();
    running.controllers.stop().await;
    // The monitor has recorded the machines during the whole rollout.
    world.check_invariants().unwrap();
}
