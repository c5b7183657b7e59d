//! What was wrong before a rule came is not the fault of whoever edits something else.

use serde_json::json;

use super::fixtures::{self, TEMPLATE_POINTER, template_patch};
use super::world::{SET, Taken, World};

/// Stores a set that the rules would refuse, by looking away for a moment.
///
/// The webhook is told to match nothing; the policy is bound to nothing. Both are put back before the test goes on.
async fn smuggle(cluster: &Taken, set: &serde_json::Value) {
    cluster.without_rules(async || cluster.create(set).await).await;
}

#[tokio::test]
async fn a_field_that_was_wrong_may_stay_so_while_another_is_edited() {
    let cluster = World::ours().await.with_machines(3).await;
    let mut set = fixtures::set();
    let machine = set.pointer_mut(TEMPLATE_POINTER).unwrap();
    // A label that the rules demand is missing, and the selector does not match any more.
    machine["metadata"]["labels"]["machine.openshift.io/cluster-api-machine-type"] = json!("control-plane");
    smuggle(&cluster, &set).await;

    let output = cluster.patch(r#"{"metadata": {"labels": {"team": "a"}}}"#).await;
    assert!(output.success(), "{output}");
    let instance = template_patch(&json!({"spec": {"providerSpec": {"value": {"instanceType": "m6i.2xlarge"}}}}));
    let output = cluster.patch(&instance).await;
    assert!(output.success(), "{output}");
    // Touched, it is judged.
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
    smuggle(&cluster, &set).await;
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
