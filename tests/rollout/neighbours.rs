//! Rollouts on OpenShift's CRDs with the webhooks of the Machine API in front, on every platform.

use std::time::Duration;

use capstan_sandbox::neighbours::openshift_api::Variant;
use kube::api::ListParams;
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
async fn every_machine_is_replaced_once(platform: Platform, replicas: usize) {
    let world = World::new(setup(platform, replicas)).await.unwrap();
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
                every_machine_is_replaced_once(Platform::$platform, 3),
                every_machine_is_replaced_once(Platform::$platform, 5),
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
async fn no_machine_is_replaced_twice(platform: Platform, machine_webhook: bool, template: fn(&mut serde_json::Value)) {
    let mut setup = setup(platform, 3);
    setup.machine_webhook = machine_webhook;
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
    ($webhook:literal: $($name:ident: $platform:ident, $template:expr;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            no_machine_is_replaced_twice(Platform::$platform, $webhook, $template).await;
        }
    )*};
}

templates! {
    true:
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

templates! {
    false:
    s2_static_addresses_on_vsphere: VSphere, |value| {
        value["network"]["devices"][0]["ipAddrs"] = json!(["192.168.1.10/24"]);
        value["network"]["devices"][0]["nameservers"] = json!(["192.168.1.1"]);
    };
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
