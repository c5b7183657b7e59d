//! Rollouts on OpenShift's CRDs with the webhooks of the Machine API in front, on every platform.

use std::collections::BTreeMap;
use std::time::Duration;

use capstan_core::cpms::template_metadata::invalid_metadata;
use capstan_sandbox::neighbours::openshift_api::Variant;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::platforms::Platform;
use crate::world::{Crds, Setup, World};

/// How long nothing may be written after a rollout.
const QUIET: Duration = Duration::from_secs(60);

fn setup(platform: Platform, replicas: usize) -> Setup {
    Setup {
        platform,
        replicas,
        crds: Crds::OpenShift(Variant::CustomNoUpgrade),
        machine_webhook: true,
        ..Setup::default()
    }
}

/// Replaces all machines by larger ones. Each is replaced once, and nothing is written in the
/// minute after.
async fn every_machine_is_replaced_once(setup: Setup) {
    let (platform, replicas) = (setup.platform, setup.replicas);
    let world = World::new(setup).await.unwrap();
    let running = world.start_controllers("one").await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    let before = world.writes().unwrap();
    assert_eq!(count(&before, "create machines "), 0, "{before:?}");
    world.set_size(&platform.larger()).await.unwrap();
    world
        .wait_for("all machines to be replaced", async |world| {
            let writes = world.writes_since_edit()?;
            anyhow::ensure!(count(&writes, "create machines ") <= replicas, "{writes:?}");
            Ok(world.has_size(&platform.larger()).await?.then_some(()))
        })
        .await
        .unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    let writes = world.writes_since_edit().unwrap();
    assert_eq!(count(&writes, "create machines "), replicas, "{writes:?}");
    assert_eq!(count(&writes, "delete machines "), replicas, "{writes:?}");
    assert_quiet(&world, QUIET).await;
    running.controllers.stop().await;
    world.check_invariants().unwrap();
}

/// Checks that the controllers write nothing for a time, after the writes of the moment before are
/// finished.
async fn assert_quiet(world: &World, time: Duration) {
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = world.writes().unwrap().len();
    tokio::time::sleep(time).await;
    let writes = world.writes().unwrap();
    assert_eq!(writes.len(), before, "{:?}", &writes[before..]);
}

fn count(writes: &[String], what: &str) -> usize {
    writes.iter().filter(|write| write.starts_with(what)).count()
}

macro_rules! rollouts {
    ($($platform:ident: $name:ident;)*) => {$(
        /// Both rollouts run at the same time, each on its own control plane, because they mostly
        /// wait.
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            tokio::join!(
                every_machine_is_replaced_once(setup(Platform::$platform, 3)),
                every_machine_is_replaced_once(setup(Platform::$platform, 5)),
            );
        }
    )*};
}

rollouts! {
    Aws: three_and_five_machines_on_aws;
    Azure: three_and_five_machines_on_azure;
    Gcp: three_and_five_machines_on_gcp;
    VSphere: three_and_five_machines_on_vsphere;
    Nutanix: three_and_five_machines_on_nutanix;
    OpenStack: three_and_five_machines_on_openstack;
    PowerVs: three_and_five_machines_on_powervs;
}

/// Checks that no machine is replaced twice when the template of the set has this change.
async fn no_machine_is_replaced_twice(platform: Platform, template: fn(&mut serde_json::Value)) {
    let mut setup = setup(platform, 3);
    setup.template = template;
    let world = World::new(setup).await.unwrap();
    let running = world.start_controllers("one").await.unwrap();
    tokio::time::sleep(Duration::from_secs(20)).await;
    running.controllers.stop().await;
    let writes = world.writes().unwrap();
    let machines = world.api("machines").list(&ListParams::default()).await.unwrap();
    let created = count(&writes, "create machines ");
    assert!(created <= 3, "{created} machines were created");
    assert!(machines.items.len() <= 4);
}

macro_rules! templates {
    ($($name:ident: $platform:ident, $template:expr;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            no_machine_is_replaced_twice(Platform::$platform, $template).await;
        }
    )*};
}

templates! {
    s1_an_unknown_field_on_aws: Aws, |value| value["unknown"] = json!("x");
    s1_no_region_on_aws: Aws, |value| {
        value["placement"].as_object_mut().unwrap().remove("region");
    };
    s1_no_instance_type_on_aws: Aws, |value| {
        value.as_object_mut().unwrap().remove("instanceType");
    };
    s1_a_data_disk_without_a_lun_on_azure: Azure, |value| {
        value["dataDisks"] = json!([{"nameSuffix": "a", "diskSizeGB": 4, "deletionPolicy": "Delete"}]);
    };
    s1_no_network_on_azure: Azure, |value| {
        for field in ["vnet", "subnet"] {
            value.as_object_mut().unwrap().remove(field);
        }
    };
    s1_a_disk_without_auto_delete_on_gcp: Gcp, |value| {
        value["disks"][0].as_object_mut().unwrap().remove("autoDelete");
    };
    s1_a_preemptible_field_of_false_on_gcp: Gcp, |value| value["preemptible"] = json!(false);
    s1_a_public_ip_field_of_false_on_gcp: Gcp, |value| value["networkInterfaces"][0]["publicIP"] = json!(false);
}

/// vSphere without the webhooks of the Machine API.
fn on_vsphere() -> Setup {
    Setup {
        machine_webhook: false,
        ..setup(Platform::VSphere, 3)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_static_addresses_on_vsphere() {
    let mut setup = on_vsphere();
    setup.template = |value| {
        value["network"]["devices"][0]["ipAddrs"] = json!(["192.168.1.10/24"]);
        value["network"]["devices"][0]["nameservers"] = json!(["192.168.1.1"]);
    };
    every_machine_is_replaced_once(setup).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_more_devices_than_networks_on_vsphere() {
    let mut setup = on_vsphere();
    setup.template = |value| {
        let pool = json!([{"group": "ipam", "resource": "pools", "name": "p"}]);
        value["network"]["devices"] = json!([{"networkName": "VM Network"},
            {"networkName": "Storage", "addressesFromPools": pool}]);
    };
    every_machine_is_replaced_once(setup).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_failure_domains_that_differ_in_networks_only_on_vsphere() {
    let mut setup = on_vsphere();
    setup.infrastructure = |infrastructure| {
        let domains = &mut infrastructure["spec"]["platformSpec"]["vsphere"]["failureDomains"];
        domains[1]["topology"] = domains[0]["topology"].clone();
        domains[1]["topology"]["networks"] = json!(["Other Network"]);
    };
    every_machine_is_replaced_once(setup).await;
}

/// S5: OpenShift's CRD does not have `status.selector`, and the status is written every five
/// seconds.
#[tokio::test(flavor = "multi_thread")]
async fn s5_a_pruned_status_field_causes_no_writes() {
    for variant in [Variant::Default, Variant::CustomNoUpgrade] {
        let mut setup = setup(Platform::Aws, 3);
        setup.crds = Crds::OpenShift(variant);
        let world = World::new(setup).await.unwrap();
        let running = world.start_controllers("one").await.unwrap();
        world
            .wait_for_condition("Progressing=False/AllReplicasUpdated")
            .await
            .unwrap();
        assert_quiet(&world, Duration::from_secs(15)).await;
        running.controllers.stop().await;
        world.check_invariants().unwrap();
    }
}

/// S6: the set has a label that the API server refuses on a machine, because the webhook was not
/// there when the set was edited. The machine that is deleted is replaced all the same.
#[tokio::test(flavor = "multi_thread")]
async fn s6_a_label_that_the_api_server_refuses_does_not_stop_the_repair() {
    let world = World::new(setup(Platform::Aws, 3)).await.unwrap();
    world.allow_missing(1);
    let running = world.start_controllers("one").await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    let label = json!({"metadata": {"labels": {"team": "Infra Team"}}});
    world
        .edit(&json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": label}}}))
        .await
        .unwrap();
    world
        .wait_for_condition("Degraded=True/InvalidTemplateMetadata")
        .await
        .unwrap();
    let deleted = world.machines().await.unwrap().remove(1);
    let machines = world.api("machines");
    machines
        .delete(deleted.metadata.name(), &DeleteParams::default())
        .await
        .unwrap();
    world
        .wait_for("a machine in place of the deleted one", async |world| {
            let machines = world.machines().await?;
            let is_gone = machines
                .iter()
                .all(|machine| machine.metadata.uid != deleted.metadata.uid);
            Ok((is_gone && world.is_rolled_out("m6i.xlarge").await?).then_some(()))
        })
        .await
        .unwrap();
    running.controllers.stop().await;
    world.check_invariants().unwrap();
}

/// S6: Capstan refuses the labels and annotations that the API server refuses, and no others.
#[tokio::test(flavor = "multi_thread")]
async fn s6_the_api_server_and_capstan_refuse_the_same_labels_and_annotations() {
    let world = World::new(setup(Platform::Aws, 3)).await.unwrap();
    let machine = world.machines().await.unwrap().remove(0);
    let machines = world.api("machines");
    let dry_run = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let long = "a".repeat(63);
    let keys = [
        "team".to_owned(),
        "example.com/Team_1.a".to_owned(),
        "Example.com/team".to_owned(),
        "a b".to_owned(),
        "a/b/c".to_owned(),
        "/a".to_owned(),
        "a/".to_owned(),
        "-a".to_owned(),
        "a.".to_owned(),
        long.clone(),
        format!("{long}a"),
        format!("{}.com/a", [&*long; 4].join(".")),
    ];
    let values = [
        "".to_owned(),
        "Infra Team".to_owned(),
        "a/b".to_owned(),
        "-a".to_owned(),
        long.clone(),
        long + "a",
    ];
    let labels = keys.iter().map(|key| ("labels", key.as_str(), "a"));
    let annotations = keys.iter().map(|key| ("annotations", key.as_str(), "any value"));
    let values = values.iter().map(|value| ("labels", "team", value.as_str()));
    let mut refused = 0;
    for (field, key, value) in labels.chain(annotations).chain(values) {
        let patch = Patch::Merge(json!({"metadata": {field: {key: value}}}));
        let answer = machines.patch(machine.metadata.name(), &dry_run, &patch).await;
        let pair = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let none = BTreeMap::new();
        let (labels, annotations) = if field == "labels" {
            (&pair, &none)
        } else {
            (&none, &pair)
        };
        let found = invalid_metadata(labels, annotations);
        assert_eq!(
            answer.is_err(),
            !found.is_empty(),
            "{field} {key}={value}: {answer:?} {found:?}"
        );
        refused += usize::from(answer.is_err());
    }
    assert!(refused > 10, "{refused}");
}
