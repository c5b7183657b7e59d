//! Machines that somebody deletes, and a set that somebody deletes: no machine is lost by it.

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
    let running = world.control("one").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    let before = world.machines().await.unwrap();
    delete_all(&world, &before).await;
    world
        .until("three new machines", async |world| {
            let machines = world.machines().await?;
            let fresh = machines.iter().all(|machine| {
                !machine.metadata.is_deleting() && before.iter().all(|old| old.metadata.uid != machine.metadata.uid)
            });
            Ok((machines.len() == 3 && fresh && world.is_rolled_out("m6i.xlarge").await?).then_some(()))
        })
        .await
        .unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    running.controllers.stop().await;
    let writes = world.writes().unwrap();
    let count = |what: &str| writes.iter().filter(|write| write.starts_with(what)).count();
    // One replacement each, and nothing that Capstan deleted.
    assert_eq!(
        (count("create machines "), count("delete machines ")),
        (3, 0),
        "{writes:?}"
    );
    world.judge().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn three_machines_deleted_at_once_are_replaced_under_rolling_update() {
    three_deleted_at_once("RollingUpdate").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_machines_deleted_at_once_are_replaced_under_on_delete() {
    three_deleted_at_once("OnDelete").await;
}

/// B19: under OnDelete, today's operator says that it progresses, for ever.
#[tokio::test(flavor = "multi_thread")]
async fn b19_on_delete_replaces_what_the_user_deletes_and_nothing_else_and_does_not_claim_progress() {
    let setup = Setup {
        strategy: "OnDelete",
        ..Setup::default()
    };
    let world = World::new(setup).await.unwrap();
    let running = world.control("one").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    world.ask_for("m6i.2xlarge").await.unwrap();
    world.says("Progressing=False/WaitingForDelete").await.unwrap();
    assert_eq!(world.machines().await.unwrap().len(), 3);
    world.allow_missing(1);
    for name in ["prod-x7k2p-master-1", "prod-x7k2p-master-0", "prod-x7k2p-master-2"] {
        world
            .api("machines")
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
        world
            .until("the machine to be replaced", async |world| {
                let machines = world.machines().await?;
                Ok(
                    (machines.len() == 3 && machines.iter().all(|machine| machine.metadata.name() != name))
                        .then_some(()),
                )
            })
            .await
            .unwrap();
    }
    world.rolled_out("m6i.2xlarge").await.unwrap();
    running.controllers.stop().await;
    world.judge().unwrap();
}

/// B1: today's operator never replaces a machine whose node is gone.
#[tokio::test(flavor = "multi_thread")]
async fn b1_a_machine_whose_node_is_gone_is_replaced_when_it_is_deleted() {
    let world = World::new(Setup::default()).await.unwrap();
    world.allow_missing(1);
    let running = world.control("one").await.unwrap();
    world.says("Available=True/AllReplicasAvailable").await.unwrap();
    let name = "prod-x7k2p-master-1";
    world.api("nodes").delete(name, &DeleteParams::default()).await.unwrap();
    world.says("Available=False/UnavailableReplicas").await.unwrap();
    world
        .api("machines")
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    world
        .until("a replacement", async |world| {
            let machines = world.machines().await?;
            let gone = machines.iter().all(|machine| machine.metadata.name() != name);
            Ok((gone && world.is_rolled_out("m6i.xlarge").await?).then_some(()))
        })
        .await
        .unwrap();
    world.says("Available=True/AllReplicasAvailable").await.unwrap();
    running.controllers.stop().await;
    world.judge().unwrap();
}

async fn set_deleted(policy: PropagationPolicy) {
    let world = World::new(Setup::default()).await.unwrap();
    let running = world.control("one").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    // B3: a machine that lost the labels that the set selects still names the set as its owner.
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
        .until("the set to be gone", async |world| {
            let there = world.api("controlplanemachinesets").get_opt("cluster").await?;
            Ok((there.is_none_or(|there| there.metadata.uid != uid)).then_some(()))
        })
        .await
        .unwrap();
    // The garbage collector has seen the deletion when it has collected another orphan of the same owner.
    world
        .garbage_is_collected(uid.as_deref().unwrap_or_default())
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
    world.judge().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_a_set_deleted_in_the_background_leaves_all_machines_also_one_that_lost_its_labels() {
    set_deleted(PropagationPolicy::Background).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_deleted_with_its_machines_orphaned_leaves_all_machines() {
    set_deleted(PropagationPolicy::Orphan).await;
}

/// B15: with a machine missing and another outdated, today's operator makes two at once.
#[tokio::test(flavor = "multi_thread")]
async fn b15_a_machine_that_is_missing_and_one_that_is_outdated_are_replaced_one_after_the_other() {
    let world = World::new(Setup::default()).await.unwrap();
    world.allow_missing(1);
    let running = world.control("one").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    running.controllers.stop().await;
    // Both are there when the controller looks again.
    let machines = world.machines().await.unwrap();
    delete_all(&world, &machines[2..]).await;
    world.ask_for("m6i.2xlarge").await.unwrap();
    let running = world.control("two").await.unwrap();
    world.rolled_out("m6i.2xlarge").await.unwrap();
    running.controllers.stop().await;
    // The monitor has seen every moment of it.
    world.judge().unwrap();
}
