//! Requests that follow each other faster than the caches of the server.

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::objects::{PAUSED, cluster_api, machine_api};
use super::world::{SYNC, World};

fn api_of(client: &kube::Client, object: &Value) -> kube::Api<DynamicObject> {
    let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let kind = kube::core::GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
    let namespace = object["metadata"]["namespace"].as_str().unwrap();
    kube::Api::namespaced_with(client.clone(), namespace, &kube::core::ApiResource::from_gvk(&kind))
}

async fn create(client: &kube::Client, object: &Value) -> kube::Result<DynamicObject> {
    let typed = serde_json::from_value(object.clone()).unwrap();
    api_of(client, object).create(&PostParams::default(), &typed).await
}

/// Neither object is stored while the other one is reviewed.
#[tokio::test]
async fn h2_two_creations_at_the_same_time_do_not_both_succeed() {
    let world = World::whole().await;
    let alice = world.client("alice").await;
    for attempt in 0..20 {
        for kind in ["Machine", "MachineSet"] {
            let name = format!("lag-same-{attempt}");
            let (first, second) = (machine_api(kind, &name, "MachineAPI"), cluster_api(kind, &name, false));
            let (first, second) = futures::future::join(create(&alice, &first), create(&alice, &second)).await;
            assert!(first.is_err() || second.is_err(), "both objects are stored");
        }
    }
}

/// One request follows the response to the other one.
#[tokio::test]
async fn h2_the_second_object_of_a_pair_is_refused_at_once() {
    let world = World::whole().await;
    let alice = world.client("alice").await;
    for attempt in 0..20 {
        for kind in ["Machine", "MachineSet"] {
            let name = |order: &str| format!("lag-{order}-{attempt}");
            let name = (name("a"), name("b"));
            let steps = [
                (
                    machine_api(kind, &name.0, "MachineAPI"),
                    cluster_api(kind, &name.0, false),
                    "[authority-capi-create-unpaused]",
                ),
                (
                    cluster_api(kind, &name.1, false),
                    machine_api(kind, &name.1, "MachineAPI"),
                    "[authority-create-beside-cluster-api]",
                ),
            ];
            for (first, second, rule) in steps {
                create(&alice, &first).await.unwrap();
                let refusal = create(&alice, &second).await.expect_err("both objects are stored");
                assert!(refusal.to_string().contains(rule), "{refusal}");
            }
        }
    }
}

/// The policies do not recognise this pause as one of the sync controller, so only the webhook
/// guards it.
#[tokio::test]
async fn h2_a_mirror_is_locked_right_after_its_creation() {
    let world = World::whole().await;
    let (alice, sync) = (world.client("alice").await, world.client(SYNC).await);
    let unpause = Patch::Merge(json!({"metadata": {"annotations": {PAUSED: null}}}));
    for attempt in 0..20 {
        for kind in ["Machine", "MachineSet"] {
            let name = format!("lag-update-{attempt}");
            let mirror = cluster_api(kind, &name, true);
            create(&alice, &machine_api(kind, &name, "MachineAPI")).await.unwrap();
            create(&sync, &mirror).await.unwrap();
            let mirrors = api_of(&alice, &mirror);
            let refusal = mirrors.patch(&name, &PatchParams::default(), &unpause).await;
            let refusal = refusal.expect_err("the mirror lost its pause").to_string();
            assert!(refusal.contains("authority-capi-reserved-annotations"), "{refusal}");
        }
    }
}
