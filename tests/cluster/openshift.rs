//! Capstan on a CRD that behaves like that of OpenShift. Its rules do not depend on its own CRD.

use serde_json::json;

use super::fixtures;
use super::refusals;
use super::world::World;

#[tokio::test]
async fn every_edit_that_our_crd_refuses_is_refused_with_the_same_text_on_theirs() {
    for refusal in refusals::all() {
        refusal.try_every_way(World::openshift().await).await;
    }
}

#[tokio::test]
async fn a_set_of_another_name_is_refused_although_their_crd_accepts_it() {
    let cluster = World::openshift().await.with_set(3, "Active").await;
    let mut other = fixtures::set();
    other["metadata"]["name"] = json!("other");
    let output = cluster
        .kubectl(&["create", "-f", "-"])
        .stdin(other.to_string())
        .run()
        .await
        .unwrap();
    assert!(
        output.stderr.contains(
            "metadata.name: Invalid value: \"other\": control plane machine set name must be cluster; a cluster has one \
             control plane and one set for it: change metadata.name to cluster [cpms-name]"
        ),
        "{output}"
    );
}

#[tokio::test]
async fn defaults_of_their_crd_are_no_change() {
    let cluster = World::openshift().await.with_set(3, "Active").await;
    let spec = cluster.get().await["spec"].clone();
    let authority = spec.pointer("/template/machines_v1beta1_machine_openshift_io/spec/authoritativeAPI");
    assert_eq!(authority, Some(&json!("MachineAPI")));
    let output = cluster.patch(r#"{"metadata": {"labels": {"team": "a"}}}"#).await;
    assert!(output.success(), "{output}");
    assert_eq!(output.stderr, "");
}
