//! Whoever may act as a service account has its name, but no token of it: for the guards that is a plain user. Hole 6 of
//! today's policies.

use serde_json::json;

use super::objects::{
    CLUSTER_API, FINALIZER, KINDS, MACHINE_API, PAUSED, cluster_api, cluster_api_resource, machine_api,
    machine_api_resource, status,
};
use super::world::{
    AWS_CONTROLLERS, CLUSTER_API_CONTROLLERS, COLLECTOR, IMPERSONATOR, MACHINE_API_CONTROLLERS, SYNC, World,
};

#[tokio::test]
async fn hole_6_who_acts_as_a_service_account_gets_around_no_rule() {
    for (world, policies) in [(World::whole().await, true), (World::webhook_only().await, false)] {
        for kind in KINDS {
            world.pair(kind, "acted-ours", "ClusterAPI").await;
            world.pair(kind, "acted-theirs", "MachineAPI").await;
        }
        for kind in KINDS {
            let (ours, theirs) = (machine_api_resource(kind), cluster_api_resource(kind));
            for (namespace, resource, name, prefix, controllers) in [
                (
                    MACHINE_API,
                    &ours,
                    "acted-ours",
                    "authority",
                    &[MACHINE_API_CONTROLLERS][..],
                ),
                (
                    CLUSTER_API,
                    &theirs,
                    "acted-theirs",
                    "authority-capi",
                    &[CLUSTER_API_CONTROLLERS, AWS_CONTROLLERS],
                ),
            ] {
                let spec = json!({"spec": {"fieldOfTomorrow": 1}});
                let label = json!({"metadata": {"labels": {"node-role.kubernetes.io/infra": ""}}});
                let finalizer = json!({"metadata": {"finalizers": [FINALIZER]}});
                let phase = json!({"status": {"phase": "Failed"}});
                // By whom it may be done, by the rules.
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
                        // The administrator may act as anybody, too.
                        for user in [IMPERSONATOR, "admin"] {
                            world.refuses(user, &arguments, "", &rule).await;
                        }
                    }
                    // What the controllers may not do is refused by the policies, which know a copy in Cluster API by a signed
                    // pause only; the webhook does not ask them.
                    let known = policies && namespace == MACHINE_API;
                    for account in controllers.iter().filter(|_| known && !by_controllers) {
                        world.refuses(account, &arguments, "", &rule).await;
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn hole_6_nor_at_creation_nor_as_the_garbage_collector() {
    let world = World::whole().await;
    let ours = machine_api("Machine", "acted-create", "MachineAPI");
    world.store(&ours).await;
    world.decide(&ours, &status("MachineAPI")).await;
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
    // The controllers of Cluster API are not asked about; who acts as them is.
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
