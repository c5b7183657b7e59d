//! Validation ratcheting: a field that was invalid before the rule existed does not block edits of
//! other fields.

use serde_json::json;

use super::fixtures::{self, TEMPLATE_POINTER, template_patch};
use super::world::{SET, Taken, World};

/// Stores a set that the rules refuse, while no rule is in force.
async fn store_without_rules(cluster: &Taken, set: &serde_json::Value) {
    cluster.without_rules(async || cluster.create(set).await).await;
}

#[tokio::test]
async fn an_invalid_field_can_stay_while_another_field_is_edited() {
    let cluster = World::ours().await.with_machines(3).await;
    let mut set = fixtures::set();
    let machine = set.pointer_mut(TEMPLATE_POINTER).unwrap();
    // The label has another value than the rules require, and the selector does not match the
    // template.
    machine["metadata"]["labels"]["machine.openshift.io/cluster-api-machine-type"] = json!("control-plane");
    store_without_rules(&cluster, &set).await;

    let output = cluster.patch(r#"{"metadata": {"labels": {"team": "a"}}}"#).await;
    assert!(output.success(), "{output}");
    let instance = template_patch(&json!({"spec": {"providerSpec": {"value": {"instanceType": "m6i.2xlarge"}}}}));
    let output = cluster.patch(&instance).await;
    assert!(output.success(), "{output}");
    // A change of the invalid field is judged.
    let worse = json!({"metadata": {"labels": {"machine.openshift.io/cluster-api-machine-type": "worker"}}});
    let output = cluster.patch(&template_patch(&worse)).await;
    assert!(output.stderr.contains("[cpms-label-type]"), "{output}");
    let better = json!({"metadata": {"labels": {"machine.openshift.io/cluster-api-machine-type": "master"}}});
    let output = cluster.patch(&template_patch(&better)).await;
    assert!(output.success(), "{output}");
}

#[tokio::test]
async fn a_set_of_another_name_can_be_deleted_and_loses_its_finalizers() {
    let cluster = World::openshift().await.with_machines(3).await;
    let mut set = fixtures::set();
    set["metadata"]["name"] = json!("other");
    set["metadata"]["finalizers"] = json!(["example.com/mine"]);
    store_without_rules(&cluster, &set).await;
    let label = ["label", SET, "other", "team=a"];
    cluster.run(&label).await.checked().unwrap();
    let delete = ["delete", SET, "other", "--wait=false"];
    cluster.run(&delete).await.checked().unwrap();
    let release = [
        "patch",
        SET,
        "other",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":null}}"#,
    ];
    cluster.run(&release).await.checked().unwrap();
    let left = cluster.run(&["get", SET, "-o", "name"]).await.checked().unwrap();
    assert_eq!(left.stdout, "");
}
