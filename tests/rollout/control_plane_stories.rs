//! The user stories of the document "Managing Control Plane machines" that the other tests of
//! ControlPlanes do not play: machines of another origin, the scale subresource, repairs by the
//! owned health check, another platform, and a better spread. docs/control-plane.md lists the test
//! of each story.

use std::collections::BTreeMap;

use anyhow::ensure;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::machine_openshift_io::machine_health_check::MachineHealthCheck;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::control_plane::{Plane, SETTLED, size};
use crate::platforms::Platform;

/// The machine controller's part of a health check: it deletes the machines whose node is not
/// ready, unless they are too many. Returns how many it deletes.
async fn remediate(plane: &Plane, unready: &[&Machine]) -> usize {
    let checks: Vec<MachineHealthCheck> = plane.world.list("machinehealthchecks").await.unwrap();
    let [check] = checks.as_slice() else {
        panic!("there must be one health check: {checks:?}")
    };
    let limit = check.spec.max_unhealthy.as_ref().and_then(Value::as_u64).unwrap();
    if unready.len() > usize::try_from(limit).unwrap() {
        return 0;
    }
    let machines = plane.world.api("machines");
    for machine in unready {
        machines
            .delete(machine.metadata.name(), &DeleteParams::default())
            .await
            .unwrap();
    }
    unready.len()
}

async fn break_nodes(plane: &Plane, machines: &[&Machine], ready: bool) {
    for machine in machines {
        plane
            .world
            .node_ready(machine.node_name().unwrap(), ready)
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn adopted_machines_are_scaled_by_the_scale_subresource_and_repaired_by_the_health_check() {
    let plane = Plane::new(3).await;
    let running = plane.start("one").await;
    plane.wait_until_settled(3, "m6i.xlarge").await;
    assert_eq!(plane.changes_after(0), (0, 0), "machines of another origin are adopted");
    for (replicas, changes) in [(5, (2, 0)), (3, (0, 2))] {
        let before = plane.writes_when_idle().await;
        let scale = Patch::Merge(size(replicas));
        plane
            .api
            .patch_scale("cluster", &PatchParams::default(), &scale)
            .await
            .unwrap();
        plane.wait_until_settled(replicas, "m6i.xlarge").await;
        assert_eq!(plane.changes_after(before), changes, "{replicas}");
    }
    // One unhealthy node: the health check deletes its machine, and the controller replaces it.
    let machines = plane.wait_until_settled(3, "m6i.xlarge").await;
    let before = plane.writes_when_idle().await;
    break_nodes(&plane, &[&machines[0]], false).await;
    plane.wait_for("Available=False/UnavailableReplicas").await;
    assert_eq!(remediate(&plane, &[&machines[0]]).await, 1);
    let repaired = plane.wait_until_settled(3, "m6i.xlarge").await;
    let is_new = |machine: &Machine| machine.metadata.name() != machines[0].metadata.name();
    assert!(repaired.iter().all(is_new));
    assert_eq!(plane.changes_after(before), (1, 0));
    // Two unhealthy nodes: the health check deletes no machine, and the controller waits for a
    // user.
    let lost = [&repaired[0], &repaired[1]];
    break_nodes(&plane, &lost, false).await;
    plane.wait_for("Available=False/UnavailableReplicas: 1 of 3").await;
    let before = plane.writes_when_idle().await;
    assert_eq!(remediate(&plane, &lost).await, 0, "two of three are too many");
    plane.edit(&size(5)).await;
    plane.wait_for("Progressing=True/ScalingOut").await;
    assert_eq!(plane.changes_after(before), (0, 0));
    break_nodes(&plane, &lost, true).await;
    plane.wait_until_settled(5, "m6i.xlarge").await;
    assert_eq!(plane.changes_after(before), (2, 0));
    running.stop().await;
}

/// The list of the etcd members that vote, as the etcd operator writes it.
fn voters(addresses: &[String]) -> String {
    let data: BTreeMap<String, &String> = std::iter::zip((0..).map(|id| format!("{id:x}")), addresses).collect();
    let name = json!({"name": "etcd-endpoints", "namespace": "openshift-etcd"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": data}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn v221_no_machine_is_created_or_planned_while_the_etcd_operator_does_not_list_each_voter() {
    let plane = Plane::new(3).await;
    let namespace = r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-etcd"}}"#;
    plane.world.plane.apply_yaml(namespace).await.unwrap();
    let machines = plane.world.machines().await.unwrap();
    let addresses: Vec<String> = (1..=machines.len()).map(|host| format!("10.0.0.{host}")).collect();
    for (machine, address) in std::iter::zip(&machines, &addresses) {
        let status = json!({"addresses": [{"type": "InternalIP", "address": address}]});
        let node = machine.node_name().unwrap();
        plane
            .world
            .plane
            .patch_status(["node", node], &[], &status)
            .await
            .unwrap();
    }
    plane.world.plane.apply_yaml(&voters(&addresses[1..])).await.unwrap();
    let running = plane.start("one").await;
    plane.wait_until_settled(3, "m6i.xlarge").await;
    let before = plane.writes_when_idle().await;
    plane.edit(&size(5)).await;
    let message = format!(
        "the etcd member of machine {} does not vote yet: the ConfigMap etcd-endpoints in openshift-etcd does not list \
         10.0.0.1",
        machines[0].metadata.name()
    );
    plane.wait_for(&format!("Progressing=True/ScalingOut: {message}")).await;
    let plan = crate::control_plane_commands::read(&plane.world, "plan").await;
    assert_eq!(
        (&plan["next"], &plan["waits"][0]["message"]),
        (&json!([]), &json!(message))
    );
    assert_eq!(plane.changes_after(before), (0, 0));
    // The operator promotes the learner. New nodes have no address here.
    plane.world.plane.apply_yaml(&voters(&addresses)).await.unwrap();
    plane.wait_until_settled(5, "m6i.xlarge").await;
    assert_eq!(plane.changes_after(before), (2, 0));
    running.stop().await;
}

fn zone(machine: &Machine) -> String {
    let value = machine.spec.provider_spec.value.as_ref().unwrap();
    value["placement"]["availabilityZone"].as_str().unwrap().to_owned()
}

/// A zone is taken from the list, and comes back.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_the_failure_domains_moves_one_machine_and_leaves_no_record() {
    let plane = Plane::new(3).await;
    let running = plane.start("one").await;
    plane.wait_until_settled(3, "m6i.xlarge").await;
    let domains = plane.api.get("cluster").await.unwrap().data["spec"]["failureDomains"]["aws"].clone();
    let all = domains.as_array().unwrap();
    for (listed, most) in [(&all[..2], 2), (&all[..], 1)] {
        let before = plane.writes_when_idle().await;
        plane.edit(&json!({"spec": {"failureDomains": {"aws": listed}}})).await;
        let machines = plane
            .world
            .wait_for("an even spread", async |_| {
                Ok(Some(plane.machines_if_settled(3, "m6i.xlarge").await?))
            })
            .await
            .unwrap();
        let mut zones: BTreeMap<String, usize> = BTreeMap::new();
        for machine in &machines {
            *zones.entry(zone(machine)).or_default() += 1;
        }
        assert_eq!(zones.len(), listed.len(), "{zones:?}");
        assert!(zones.values().all(|count| *count <= most), "{zones:?}");
        assert_eq!(plane.changes_after(before), (1, 1));
        plane.writes_when_idle().await;
        let object = plane.api.get("cluster").await.unwrap();
        let annotations = object.metadata.annotations.unwrap_or_default();
        assert!(!annotations.contains_key("capstan.dev/rebalancing"), "{annotations:?}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_of_another_platform_is_resized_and_scaled() {
    let platform = Platform::Gcp;
    let plane = Plane::on(platform, 3).await;
    let running = plane.start("one").await;
    let resized = async |replicas: usize, wanted: &Value| {
        let what = format!("{replicas} machines of size {wanted}");
        let settled = async |_: &_| {
            let conditions = plane.conditions().await?;
            let machines = plane.world.machines().await?;
            let fits = |machine: &Machine| {
                let value = machine.spec.provider_spec.value.as_ref();
                value.and_then(|value| value.get(platform.size_field())) == Some(wanted)
            };
            let is_settled = conditions.iter().any(|one| one.starts_with(SETTLED));
            ensure!(
                is_settled && machines.len() == replicas && machines.iter().all(fits),
                "the conditions are {conditions:#?}"
            );
            Ok(Some(()))
        };
        plane.world.wait_for(&what, settled).await.unwrap();
    };
    let larger = platform.larger();
    plane
        .edit(&json!({"spec": {"providerSpec": {"value": {(platform.size_field()): larger}}}}))
        .await;
    resized(3, &larger).await;
    assert_eq!(plane.changes_after(0), (3, 3));
    plane.edit(&size(5)).await;
    resized(5, &larger).await;
    assert_eq!(plane.changes_after(0), (5, 3));
    running.stop().await;
}
