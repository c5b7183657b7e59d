//! Conditions that block a rollout, and how they are reported. Each test names the defect of the
//! upstream operator that it covers.

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

/// B5: the upstream operator deletes the old machine although the node of its replacement was never
/// ready.
#[tokio::test(flavor = "multi_thread")]
async fn b5_a_replacement_whose_node_never_becomes_ready_replaces_nothing() {
    let setup = Setup {
        fault: Arc::new(|machine| broken(machine, Fault::NeverReady)),
        ..Setup::default()
    };
    let world = World::new(setup).await.unwrap();
    let running = world.start_controllers("one").await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    world.set_instance_type("broken").await.unwrap();
    world
        .wait_for("a replacement that runs", async |world| {
            let machines = world.machines().await?;
            let replacement = machines
                .iter()
                .find(|machine| instance_type_of(machine) == Some("broken"));
            Ok(replacement
                .filter(|machine| machine.phase() == Some("Running"))
                .map(|_| ()))
        })
        .await
        .unwrap();
    world
        .wait_for_condition("Progressing=True/NeedsUpdateReplicas")
        .await
        .unwrap();
    // After the edit is reverted, the replacement is deleted and the other machines are unchanged.
    world.set_instance_type("m6i.xlarge").await.unwrap();
    world.wait_for_rollout("m6i.xlarge").await.unwrap();
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
    world.check_invariants().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn b7_a_failed_replacement_degrades_the_set_and_blocks_upgrades_with_its_reason() {
    let setup = Setup {
        fault: Arc::new(|machine| broken(machine, Fault::Fails("no quota for this type".to_owned()))),
        ..Setup::default()
    };
    let world = World::new(setup).await.unwrap();
    let running = world.start_controllers("one").await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    world.set_instance_type("broken").await.unwrap();
    world
        .wait_for_condition("Degraded=True/FailedReplacement")
        .await
        .unwrap();
    let upgradeable = world
        .wait_for("the ClusterOperator to block upgrades", async |world| {
            let operator = world.operator().await?;
            Ok(operator
                .condition("Upgradeable")
                .filter(|condition| condition.status == "False")
                .cloned())
        })
        .await
        .unwrap();
    assert_eq!(upgradeable.reason.as_deref(), Some("FailedReplacement"));
    assert!(upgradeable.message.unwrap().contains("no quota for this type"));
    assert_eq!(world.machines().await.unwrap().len(), 4);
    // The condition asks the user to correct the cause and to delete the machine.
    world.set_instance_type("m6i.2xlarge").await.unwrap();
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
    world.wait_for_rollout("m6i.2xlarge").await.unwrap();
    running.controllers.stop().await;
    world.check_invariants().unwrap();
}

/// B6, B4: a machine of another owner blocks the rollout. An owner reference to a deleted set is
/// replaced.
#[tokio::test(flavor = "multi_thread")]
async fn b6_a_machine_of_another_owner_blocks_the_rollout_and_b4_a_stale_owner_is_replaced() {
    let setup = Setup {
        state: "Inactive",
        // The garbage collector would delete machines whose owner does not exist.
        garbage_collector: false,
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
    let running = world.start_controllers("one").await.unwrap();
    world
        .edit(&json!({"spec": {"state": "Active"}, "metadata": {"labels": {"a": "b"}}}))
        .await
        .unwrap();
    world
        .wait_for_condition("Degraded=True/MachinesAlreadyOwned")
        .await
        .unwrap();
    world.set_instance_type("m6i.2xlarge").await.unwrap();
    let uid = world.set().await.unwrap().metadata.uid;
    world
        .wait_for("the stale owner to be replaced", async |world| {
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
    world
        .wait_for_condition("Progressing=False/OperatorDegraded")
        .await
        .unwrap();
    running.controllers.stop().await;
    let writes = world.writes().unwrap();
    assert!(
        writes.iter().all(|write| !write.starts_with("create machines")),
        "{writes:?}"
    );
    world.check_invariants().unwrap();
}

/// B24: the upstream operator cannot pause a rollout. B14: it does not notice lost labels.
#[tokio::test(flavor = "multi_thread")]
async fn b24_a_paused_rollout_waits_and_b14_a_machine_without_its_labels_is_reported() {
    let (world, running) = World::settled().await.unwrap();
    world
        .edit(&json!({"metadata": {"annotations": {"capstan.dev/paused-rollout": "true"}}}))
        .await
        .unwrap();
    world.set_instance_type("m6i.2xlarge").await.unwrap();
    world
        .wait_for_condition("Progressing=False/RolloutPaused")
        .await
        .unwrap();
    assert_eq!(world.machines().await.unwrap().len(), 3);
    let role = "machine.openshift.io/cluster-api-machine-role";
    let relabel = |value: &str| Patch::Merge(json!({"metadata": {"labels": {role: value}}}));
    let machines = world.api("machines");
    let name = "prod-x7k2p-master-1";
    machines
        .patch(name, &PatchParams::default(), &relabel("lost"))
        .await
        .unwrap();
    world.wait_for_condition("Degraded=True/StrayedMachines").await.unwrap();
    machines
        .patch(name, &PatchParams::default(), &relabel("master"))
        .await
        .unwrap();
    world.wait_for_condition("Degraded=False/AsExpected").await.unwrap();
    world
        .edit(&json!({"metadata": {"annotations": {"capstan.dev/paused-rollout": null}}}))
        .await
        .unwrap();
    world.wait_for_rollout("m6i.2xlarge").await.unwrap();
    running.controllers.stop().await;
    world.check_invariants().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_works_without_the_configuration_api_which_is_used_once_it_is_served() {
    let setup = Setup {
        configuration: false,
        ..Setup::default()
    };
    let world = World::new(setup).await.unwrap();
    let running = world.start_controllers("one").await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    world.set_instance_type("m6i.2xlarge").await.unwrap();
    world.wait_for_rollout("m6i.2xlarge").await.unwrap();
    world.configure().await.unwrap();
    world
        .wait_for("the ClusterOperator", async |world| {
            let operator = world.operator().await?;
            Ok(operator
                .condition("Available")
                .filter(|condition| condition.status == "True")
                .map(|_| ()))
        })
        .await
        .unwrap();
    running.controllers.stop().await;
    world.check_invariants().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_action_is_recorded_once_as_an_event() {
    let (world, running) = World::settled().await.unwrap();
    world.set_instance_type("m6i.2xlarge").await.unwrap();
    world.wait_for_rollout("m6i.2xlarge").await.unwrap();
    let events = world
        .wait_for("six events", async |world| {
            let events: Vec<serde_json::Value> = world.list("events").await?;
            let of = |reason: &str| events.iter().filter(|event| event["reason"] == reason).count();
            Ok((of("Created") == 3 && of("Deleted") == 3).then_some(events.clone()))
        })
        .await
        .unwrap();
    assert!(events.iter().any(|event| event["reason"] == "MachineReady"));
    let deleted = events.iter().find(|event| event["reason"] == "Deleted").unwrap();
    assert_eq!(deleted["involvedObject"]["name"], "cluster");
    assert!(
        deleted["message"].as_str().unwrap().contains("ready and up to date"),
        "{deleted}"
    );
    running.controllers.stop().await;
    world.check_invariants().unwrap();
}
