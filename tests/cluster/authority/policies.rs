//! Without the webhook: the API server enforces the CEL rules by itself.

use serde_json::json;

use super::objects::{
    CLUSTER_API, FINALIZER, KINDS, MACHINE_API, PAUSED, cluster_api, cluster_api_resource, machine_api,
    machine_api_resource, status,
};
use super::world::{CLUSTER_API_CONTROLLERS, ETCD_OPERATOR, SYNC, USERS, World};

#[tokio::test]
async fn a_mirror_is_guarded_while_the_webhook_is_unavailable() {
    let world = World::policies_only().await;
    for kind in KINDS {
        let in_machine_api = machine_api(kind, "policy-machine-api", "ClusterAPI");
        world.store(&in_machine_api).await;
        world.set_status(&in_machine_api, &status("ClusterAPI")).await;
        let mut in_cluster_api = cluster_api(kind, "policy-cluster-api", true);
        in_cluster_api["metadata"]["annotations"][PAUSED] = json!("sync.machine.openshift.io");
        world.store(&in_cluster_api).await;
        for (namespace, resource, name, prefix) in [
            (
                MACHINE_API,
                machine_api_resource(kind),
                "policy-machine-api",
                "authority",
            ),
            (
                CLUSTER_API,
                cluster_api_resource(kind),
                "policy-cluster-api",
                "authority-capi",
            ),
        ] {
            for (patch, subresource, rule) in [
                (json!({"spec": {"fieldOfTomorrow": 1}}), "", "spec-locked"),
                (
                    json!({"metadata": {"labels": {"a.openshift.io/b": "c"}}}),
                    "",
                    "reserved-labels",
                ),
                (
                    json!({"metadata": {"annotations": {"a.k8s.io/b": "c"}}}),
                    "",
                    "reserved-annotations",
                ),
                (json!({"metadata": {"finalizers": [FINALIZER]}}), "", "sync-finalizer"),
                (json!({"status": {"phase": "Failed"}}), "status", "status-locked"),
            ] {
                let patch = patch.to_string();
                let mut arguments = vec![
                    "patch",
                    "-n",
                    namespace,
                    &resource,
                    name,
                    "--dry-run=server",
                    "--type=merge",
                    "-p",
                    &patch,
                ];
                if !subresource.is_empty() {
                    arguments.push("--subresource=status");
                }
                let rule = format!("{prefix}-{rule}");
                for user in USERS {
                    let output = world.refuses(user, &arguments, "", &rule).await;
                    assert!(output.stderr.contains("ValidatingAdmissionPolicy"), "{output}");
                }
                world.allows(SYNC, &arguments, "").await;
            }
            let mine = json!({"metadata": {"labels": {"example.com/mine": "x"}}}).to_string();
            let label = [
                "patch",
                "-n",
                namespace,
                &resource,
                name,
                "--dry-run=server",
                "--type=merge",
                "-p",
                &mine,
            ];
            world.allows("alice", &label, "").await;
        }
    }
}

/// What the etcd operator and the MachineSet controller of Cluster API write to mirrors.
#[tokio::test]
async fn f3_f4_the_policies_allow_what_the_platforms_controllers_write() {
    let world = World::policies_only().await;
    let machines = machine_api_resource("Machine");
    let authoritative = machine_api("Machine", "policy-hook", "ClusterAPI");
    world.store(&authoritative).await;
    world.set_status(&authoritative, &status("ClusterAPI")).await;
    let mut child = cluster_api("Machine", "policy-child", true);
    child["metadata"]["annotations"][PAUSED] = json!("sync.machine.openshift.io");
    // The garbage collector deletes an object whose owner does not exist.
    world.store(&cluster_api("MachineSet", "policy-parent", true)).await;
    let parent = cluster_api_resource("MachineSet");
    let owner = world.owner(CLUSTER_API, &parent, "policy-parent");
    child["metadata"]["ownerReferences"] = json!([owner.await]);
    world.store(&child).await;
    let hook = json!({"name": "EtcdQuorumOperator", "owner": "clusteroperator/etcd"});
    let hook = json!({"spec": {"lifecycleHooks": {"preDrain": [hook]}}});
    let in_place = json!({"spec": {"minReadySeconds": 10, "taints": [], "deletion": {"nodeDrainTimeoutSeconds": 60}}});
    let resource = cluster_api_resource("Machine");
    for (user, target, patch, rule) in [
        (
            ETCD_OPERATOR,
            ["-n", MACHINE_API, &machines, "policy-hook"],
            &hook,
            "authority-spec-locked",
        ),
        (
            CLUSTER_API_CONTROLLERS,
            ["-n", CLUSTER_API, &resource, "policy-child"],
            &in_place,
            "authority-capi-spec-locked",
        ),
    ] {
        let arguments = |patch: &serde_json::Value| {
            let mut arguments = vec![String::from("patch"), String::from("--type=merge"), String::from("-p")];
            arguments.push(patch.to_string());
            arguments.push(String::from("--dry-run=server"));
            arguments.extend(target.map(str::to_owned));
            arguments
        };
        let allowed = arguments(patch);
        let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
        world.allows(user, &allowed, "").await;
        for other in USERS {
            world.refuses(other, &allowed, "", rule).await;
        }
        let refused = arguments(&json!({"spec": {"providerID": "x"}}));
        let refused: Vec<&str> = refused.iter().map(String::as_str).collect();
        world.refuses(user, &refused, "", rule).await;
    }
}
