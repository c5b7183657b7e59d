//! A user who impersonates a service account has its name, but no token of it, and therefore no
//! special rights. Gap 6 of the policies that OpenShift ships.

use serde_json::json;

use super::objects::{
    CLUSTER_API, FINALIZER, KINDS, MACHINE_API, PAUSED, cluster_api, cluster_api_resource, machine_api,
    machine_api_resource, status,
};
use super::world::{
    AWS_CONTROLLERS, CLUSTER_API_CONTROLLERS, COLLECTOR, IMPERSONATOR, MACHINE_API_CONTROLLERS, SYNC, World,
};

#[tokio::test]
async fn hole_6_a_user_who_impersonates_a_service_account_has_no_special_rights() {
    for (world, policies) in [(World::whole().await, true), (World::webhook_only().await, false)] {
        for kind in KINDS {
            world.pair(kind, "acted-machine-api", "ClusterAPI").await;
            world.pair(kind, "acted-cluster-api", "MachineAPI").await;
        }
        for kind in KINDS {
            let (machine_api, cluster_api) = (machine_api_resource(kind), cluster_api_resource(kind));
            for (namespace, resource, name, prefix, controllers) in [
                (
                    MACHINE_API,
                    &machine_api,
                    "acted-machine-api",
                    "authority",
                    &[MACHINE_API_CONTROLLERS][..],
                ),
                (
                    CLUSTER_API,
                    &cluster_api,
                    "acted-cluster-api",
                    "authority-capi",
                    &[CLUSTER_API_CONTROLLERS, AWS_CONTROLLERS],
                ),
            ] {
                let spec = json!({"spec": {"fieldOfTomorrow": 1}});
                let label = json!({"metadata": {"labels": {"node-role.kubernetes.io/infra": ""}}});
                let finalizer = json!({"metadata": {"finalizers": [FINALIZER]}});
                let phase = json!({"status": {"phase": "Failed"}});
                // The last field: whether the rules allow it for the controllers of the API.
                for (patch, subresource, rule, by_controllers) in [
                    (&spec, "", "spec-locked", false),
                    (&label, "", "reserved-labels", true),
                    (&finalizer, "", "sync-finalizer", false),
                    (&phase, "--subresource=status", "status-locked", true),
                ] {
                    let patch = patch.to_string();
                    let mut arguments = vec!["patch", "-n", namespace, resource, name, "--dry-run=server"];
                    arguments.extend(["--type=merge", "-p", &patch]);
                    arguments.extend(Some(subresource).filter(|flag| !flag.is_empty()));
                    let rule = format!("{prefix}-{rule}");
                    let allowed = controllers.iter().copied().filter(|_| by_controllers);
                    for account in allowed.chain([SYNC]) {
                        world.allows(account, &arguments, "").await;
                        let acting = format!("--as={account}");
                        let arguments = [&arguments[..], &[&acting]].concat();
                        // The administrator may impersonate every user, too.
                        for user in [IMPERSONATOR, "admin"] {
                            world.refuses(user, &arguments, "", &rule).await;
                        }
                    }
                    // Only the policies refuse requests of the controllers, because the webhook
                    // does not review them. A policy recognises a mirror in Cluster API only by the
                    // sync controller's pause value.
                    let recognised = policies && namespace == MACHINE_API;
                    for account in controllers.iter().filter(|_| recognised && !by_controllers) {
                        world.refuses(account, &arguments, "", &rule).await;
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn hole_6_impersonation_gives_no_special_rights_at_creation_or_as_the_garbage_collector() {
    let world = World::whole().await;
    let object = machine_api("Machine", "acted-create", "MachineAPI");
    world.store(&object).await;
    world.set_status(&object, &status("MachineAPI")).await;
    let create = ["create", "--dry-run=server", "-f", "-"];
    let unpaused = cluster_api("Machine", "acted-create", false).to_string();
    let mut signed = cluster_api("Machine", "acted-create", true);
    signed["metadata"]["annotations"][PAUSED] = json!("sync.machine.openshift.io");
    for (object, rule) in [
        (&unpaused, "authority-capi-create-unpaused"),
        (&signed.to_string(), "authority-capi-pause-signed"),
    ] {
        world.allows(SYNC, &create, object).await;
        let acting = format!("--as={SYNC}");
        world
            .refuses(IMPERSONATOR, &[&create[..], &[&acting]].concat(), object, rule)
            .await;
    }
    // The webhook does not review requests of Cluster API's controllers, but those that impersonate
    // them.
    world.allows(CLUSTER_API_CONTROLLERS, &create, &unpaused).await;
    let acting = format!("--as={CLUSTER_API_CONTROLLERS}");
    world
        .refuses(
            IMPERSONATOR,
            &[&create[..], &[&acting]].concat(),
            &unpaused,
            "authority-capi-create-unpaused",
        )
        .await;
    world.pair("MachineSet", "acted-owner", "ClusterAPI").await;
    world.pair("Machine", "acted-owned", "ClusterAPI").await;
    let machines = machine_api_resource("Machine");
    let owner = world
        .owner(MACHINE_API, &machine_api_resource("MachineSet"), "acted-owner")
        .await;
    let patch = |owners: serde_json::Value| json!({"metadata": {"ownerReferences": owners}}).to_string();
    let own = patch(json!([owner]));
    let arguments = [
        "patch",
        "-n",
        MACHINE_API,
        &machines,
        "acted-owned",
        "--type=merge",
        "-p",
    ];
    world.allows(SYNC, &[&arguments[..], &[&own]].concat(), "").await;
    let orphan = patch(json!([]));
    let orphan = [&arguments[..], &[&orphan, "--dry-run=server"]].concat();
    world.allows(COLLECTOR, &orphan, "").await;
    let acting = format!("--as={COLLECTOR}");
    world
        .refuses(
            IMPERSONATOR,
            &[&orphan[..], &[&acting]].concat(),
            "",
            "authority-owner-references",
        )
        .await;
}

/// A user who may impersonate groups, or a user of any name, has none of their rights.
#[tokio::test]
async fn h4_an_impersonated_group_or_controller_manager_has_no_special_rights() {
    let world = World::whole().await;
    world.pair("Machine", "acted-group", "MachineAPI").await;
    let machine = ["-n", CLUSTER_API, "machines.cluster.x-k8s.io", "acted-group"];
    let owner = world
        .owner(CLUSTER_API, "machines.cluster.x-k8s.io", "acted-group")
        .await;
    let own = json!({"metadata": {"ownerReferences": [owner]}}).to_string();
    let own = [&["patch", "--type=merge", "-p", &own], &machine[..]].concat();
    world.allows(SYNC, &own, "").await;
    let phase = json!({"status": {"phase": "Failed"}}).to_string();
    let status = [
        &[
            "patch",
            "--type=merge",
            "--dry-run=server",
            "--subresource=status",
            "-p",
            &phase,
        ],
        &machine[..],
    ]
    .concat();
    let orphan = r#"{"metadata": {"ownerReferences": []}}"#;
    let orphan = [
        &["patch", "--type=merge", "--dry-run=server", "-p", orphan],
        &machine[..],
    ]
    .concat();
    let masters = "--as-group=system:masters";
    let group = "--as-group=system:serviceaccounts:openshift-cluster-api";
    for (arguments, identity, rule) in [
        (&status, ["--as=mallory", group], "authority-capi-status-locked"),
        (
            &orphan,
            ["--as=system:kube-controller-manager", group],
            "authority-capi-owner-references",
        ),
    ] {
        let arguments = [&arguments[..], &identity[..], &[masters]].concat();
        world.refuses("admin", &arguments, "", rule).await;
    }
    world.allows(AWS_CONTROLLERS, &status, "").await;
    world.allows(COLLECTOR, &orphan, "").await;
}
