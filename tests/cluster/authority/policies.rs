//! Without the webhook: the API server enforces the CEL rules by itself.

use serde_json::json;

use super::objects::{
    CLUSTER_API, FINALIZER, KINDS, MACHINE_API, PAUSED, cluster_api, cluster_api_resource, machine_api,
    machine_api_resource, status,
};
use super::world::{SYNC, USERS, World};

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
