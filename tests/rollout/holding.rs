//! What holds a rollout back, and what it says then. Each test names the defect of today's operator that it keeps away.

use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_sandbox::infrastructure::Fault;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use std::sync::Arc;

use crate::world::{Setup, World, instance_type_of};

fn broken(machine: &Machine, fault: Fault) -> Fault {
    match instance_type_of(machine) {
        Some("broken") => fault,
        _ => Fault::None,
    }
}

/// B5: a node that has never been ready lets today's operator delete the old machine.
#[tokio::test(flavor = "multi_thread")]
async fn b5_a_replacement_whose_node_never_becomes_ready_replaces_nothing() {
    let setup = Setup {
        fault: Arc::new(|machine| broken(machine, Fault::NeverReady)),
        ..Setup::default()
    };
    let world = World::new(setup).await.unwrap();
    let running = world.control("one").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    world.ask_for("broken").await.unwrap();
    world
        .until("a replacement that runs", async |world| {
            let machines = world.machines().await?;
            let there = machines
                .iter()
                .find(|machine| instance_type_of(machine) == Some("broken"));
            Ok(there.filter(|machine| machine.phase() == Some("Running")).map(|_| ()))
        })
        .await
        .unwrap();
    world.says("Progressing=True/NeedsUpdateReplicas").await.unwrap();
    // Back to what it was: the one that never became ready goes, and nothing else has changed.
    world.ask_for("m6i.xlarge").await.unwrap();
    world.rolled_out("m6i.xlarge").await.unwrap();
    running.controllers.stop().await;
    let names: Vec<String> = world
        .machines()
        .await
        .unwrap()
        .iter()
        .map(|m| m.metadata.name().to_owned())
        .collect();
    assert_eq!(
        names,
        ["prod-x7k2p-master-0", "prod-x7k2p-master-1", "prod-x7k2p-master-2"]
    );
    world.judge().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn b7_a_replacement_that_fails_degrades_and_blocks_upgrades_with_the_true_reason() {
    let setup = Setup {
        fault: Arc::new(|machine| broken(machine, Fault::Fails("no quota for this type".to_owned()))),
        ..Setup::default()
    };
    let world = World::new(setup).await.unwrap();
    let running = world.control("one").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    world.ask_for("broken").await.unwrap();
    world.says("Degraded=True/FailedReplacement").await.unwrap();
    let upgradeable = world
        .until("the ClusterOperator to say so", async |world| {
            let operator = world.operator().await?;
            Ok(operator
                .condition("Upgradeable")
                .filter(|there| there.status == "False")
                .cloned())
        })
        .await
        .unwrap();
    assert_eq!(upgradeable.reason.as_deref(), Some("FailedReplacement"));
    assert!(upgradeable.message.unwrap().contains("no quota for this type"));
    assert_eq!(world.machines().await.unwrap().len(), 4);
    // As it says: correct the cause, then delete the machine.
    world.ask_for("m6i.2xlarge").await.unwrap();
    let machines = world.machines().await.unwrap();
    let failed = machines
        .iter()
        .find(|machine| machine.phase() == Some("Failed"))
        .unwrap();
    world
        .api("machines")
        .delete(failed.metadata.name(), &DeleteParams::default())
        .await
        .unwrap();
    world.rolled_out("m6i.2xlarge").await.unwrap();
    running.controllers.stop().await;
    world.judge().unwrap();
}

/// B6, B4: a machine of another owner stops the rollout; a reference to a set that is gone is repaired.
#[tokio::test(flavor = "multi_thread")]
async fn b6_a_machine_that_another_owns_stops_the_rollout_and_b4_a_stale_owner_is_replaced() {
    let setup = Setup {
        state: "Inactive",
        // It would take machines whose owners are gone for orphans.
        garbage: false,
        ..Setup::default()
    };
    let world = World::new(setup).await.unwrap();
    let own = |kind: &str, api: &str| {
        Patch::Merge(json!({"metadata": {"ownerReferences": [
            {"apiVersion": api, "kind": kind, "name": "cluster", "uid": "gone", "controller": true}]}}))
    };
    let machines = world.api("machines");
    let params = PatchParams::default();
    let stale = own("ControlPlaneMachineSet", "machine.openshift.io/v1");
    machines.patch("prod-x7k2p-master-0", &params, &stale).await.unwrap();
    let foreign = own("MachineSet", "machine.openshift.io/v1beta1");
    machines.patch("prod-x7k2p-master-1", &params, &foreign).await.unwrap();
    let running = world.control("one").await.unwrap();
    world
        .edit(&json!({"spec": {"state": "Active"}, "metadata": {"labels": {"a": "b"}}}))
        .await
        .unwrap();
    world.says("Degraded=True/MachinesAlreadyOwned").await.unwrap();
    world.ask_for("m6i.2xlarge").await.unwrap();
    let uid = world.set().await.unwrap().metadata.uid;
    world
        .until("the stale owner to be replaced", async |world| {
            let machines = world.machines().await?;
            let first = machines
                .iter()
                .find(|machine| machine.metadata.name() == "prod-x7k2p-master-0");
            let owner = first
                .and_then(|machine| machine.metadata.controller())
                .map(|owner| owner.uid.clone());
            Ok((owner == uid).then_some(()))
        })
        .await
        .unwrap();
    world.says("Progressing=False/OperatorDegraded").await.unwrap();
    running.controllers.stop().await;
    let writes = world.writes().unwrap();
    assert!(
        writes.iter().all(|write| !write.starts_with("create machines")),
        "{writes:?}"
    );
    world.judge().unwrap();
}

/// B24: no way to pause; B14: lost labels go unnoticed.
#[tokio::test(flavor = "multi_thread")]
async fn b24_a_paused_rollout_waits_and_b14_a_machine_that_loses_its_labels_is_noticed() {
    let world = World::new(Setup::default()).await.unwrap();
    let running = world.control("one").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    world
        .edit(&json!({"metadata": {"annotations": {"capstan.dev/paused-rollout": "true"}}}))
        .await
        .unwrap();
    world.ask_for("m6i.2xlarge").await.unwrap();
    world.says("Progressing=False/RolloutPaused").await.unwrap();
    assert_eq!(world.machines().await.unwrap().len(), 3);
    let role = "machine.openshift.io/cluster-api-machine-role";
    let relabel = |value: &str| Patch::Merge(json!({"metadata": {"labels": {role: value}}}));
    let machines = world.api("machines");
    let name = "prod-x7k2p-master-1";
    machines
        .patch(name, &PatchParams::default(), &relabel("lost"))
        .await
        .unwrap();
    world.says("Degraded=True/StrayedMachines").await.unwrap();
    machines
        .patch(name, &PatchParams::default(), &relabel("master"))
        .await
        .unwrap();
    world.says("Degraded=False/AsExpected").await.unwrap();
    world
        .edit(&json!({"metadata": {"annotations": {"capstan.dev/paused-rollout": null}}}))
        .await
        .unwrap();
    world.rolled_out("m6i.2xlarge").await.unwrap();
    running.controllers.stop().await;
    world.judge().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_the_configuration_api_is_looked_after_and_the_api_is_taken_up_when_it_comes() {
    let setup = Setup {
        configuration: false,
        ..Setup::default()
    };
    let world = World::new(setup).await.unwrap();
    let running = world.control("one").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    world.ask_for("m6i.2xlarge").await.unwrap();
    world.rolled_out("m6i.2xlarge").await.unwrap();
    world.configure().await.unwrap();
    world
        .until("the ClusterOperator", async |world| {
            let operator = world.operator().await?;
            Ok(operator
                .condition("Available")
                .filter(|there| there.status == "True")
                .map(|_| ()))
        })
        .await
        .unwrap();
    running.controllers.stop().await;
    world.judge().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_action_is_told_once_as_an_event() {
    let world = World::new(Setup::default()).await.unwrap();
    let running = world.control("one").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    world.ask_for("m6i.2xlarge").await.unwrap();
    world.rolled_out("m6i.2xlarge").await.unwrap();
    let told = world
        .until("six events", async |world| {
            let events: Vec<serde_json::Value> = world.list("events").await?;
            let of = |reason: &str| events.iter().filter(|event| event["reason"] == reason).count();
            Ok((of("Created") == 3 && of("Deleted") == 3).then_some(events.clone()))
        })
        .await
        .unwrap();
    assert!(told.iter().any(|event| event["reason"] == "MachineReady"));
    let deleted = told.iter().find(|event| event["reason"] == "Deleted").unwrap();
    assert_eq!(deleted["involvedObject"]["name"], "cluster");
    assert!(
        deleted["message"].as_str().unwrap().contains("ready and up to date"),
        "{deleted}"
    );
    running.controllers.stop().await;
    world.judge().unwrap();
}
