//! Edits that are allowed: risky ones with a warning that says what will happen, the others without
//! a word.

use serde_json::json;

use super::fixtures::{self, template_patch};
use super::world::{SET, World};

fn provider_spec(patch: &serde_json::Value) -> String {
    template_patch(&json!({"spec": {"providerSpec": {"value": patch}}}))
}

#[tokio::test]
async fn a_larger_instance_type_says_which_machines_it_replaces_and_how() {
    let cluster = World::ours().await.with_set(3, "Active").await;
    let expected = "Warning: this edit changes instanceType and replaces 3 machine(s), one at a time: instanceType: \
        \"m6i.xlarge\" → \"m6i.2xlarge\"";
    let patch = provider_spec(&json!({"instanceType": "m6i.2xlarge"}));
    let dry = [
        "patch",
        SET,
        "cluster",
        "--type=merge",
        "-p",
        &patch,
        "--dry-run=server",
    ];
    let output = cluster.run(&dry).await;
    assert!(output.success() && output.stderr.contains(expected), "{output}");
    let output = cluster
        .edit("s/instanceType: m6i.xlarge/instanceType: m6i.2xlarge/")
        .await;
    assert!(output.success() && output.stderr.contains(expected), "{output}");
    assert_eq!(
        output.stdout,
        "controlplanemachineset.machine.openshift.io/cluster edited\n"
    );
    // Taken back, since no machine was replaced yet: nothing to say.
    let output = cluster
        .patch(&provider_spec(&json!({"instanceType": "m6i.xlarge"})))
        .await;
    assert!(output.success(), "{output}");
    assert_eq!(output.stderr, "");
}

#[tokio::test]
async fn b18_a_misspelt_field_is_named() {
    let cluster = World::ours().await.with_set(3, "Active").await;
    let output = cluster
        .patch(&provider_spec(&json!({"instanceTypes": "m6i.2xlarge"})))
        .await;
    assert!(output.success(), "{output}");
    assert!(
        output.stderr.contains(
            "Warning: spec.template.machines_v1beta1_machine_openshift_io.spec.providerSpec.value.instanceTypes (did you \
             mean instanceType, which is set too?): unknown to AWSMachineProviderConfig: machines are created with it, and \
             the platform may ignore it"
        ),
        "{output}"
    );
    // A provider would read this one as `instanceType`.
    let output = cluster
        .patch(&provider_spec(&json!({"instancetype": "m6i.2xlarge"})))
        .await;
    assert!(
        !output.success() && output.stderr.contains("must be written instanceType"),
        "{output}"
    );
}

#[tokio::test]
async fn an_image_alone_replaces_nothing_and_says_how_it_would() {
    let cluster = World::ours().await.with_set(3, "Active").await;
    let output = cluster
        .patch(&provider_spec(&json!({"ami": {"id": "ami-00000000000000001"}})))
        .await;
    assert!(output.success(), "{output}");
    assert!(
        output.stderr.contains(
            "an image change alone replaces no machine; set the annotation capstan.dev/roll-on-image-change: \"true\" to \
             roll it out"
        ),
        "{output}"
    );
    assert!(!output.stderr.contains("replaces 3"), "{output}");
}

#[tokio::test]
async fn fewer_zones_that_were_acknowledged_are_a_warning() {
    let cluster = World::ours().await.with_set(3, "Active").await;
    let zones = r#"{"spec":{"template":{"machines_v1beta1_machine_openshift_io":{"failureDomains":{"aws":[
        {"placement":{"availabilityZone":"us-east-1a"},"subnet":{"type":"Filters","filters":[{"name":"tag:Name",
         "values":["prod-x7k2p-subnet-private-us-east-1a"]}]}}]}}}}"#;
    let refused = cluster.patch(&format!("{zones}}}")).await;
    assert!(!refused.success(), "{refused}");
    // The advice holds the annotation, ready to be used.
    let advice = refused
        .stderr
        .split("set the annotation ")
        .nth(1)
        .unwrap_or_else(|| panic!("{refused}"));
    let (annotation, value) = advice.split_once(": \"").unwrap();
    let value = &value[..value.find('"').unwrap()];
    let annotated = format!("{zones},\"metadata\":{}}}", json!({"annotations": {annotation: value}}));
    let output = cluster.patch(&annotated).await;
    assert!(output.success(), "{output}");
    assert!(
        output
            .stderr
            .contains("Warning: the 3 machines will be spread over 1 failure domain(s) instead of 3, without "),
        "{output}"
    );
}

#[tokio::test]
async fn what_moves_nothing_is_accepted_without_a_word() {
    let cluster = World::ours().await.with_set(3, "Active").await;
    for patch in [
        r#"{"metadata": {"labels": {"team": "a"}}}"#.to_owned(),
        r#"{"spec": {"machineNamePrefix": "control-plane"}}"#.to_owned(),
        r#"{"spec": {"strategy": {"type": "OnDelete"}}}"#.to_owned(),
        template_patch(&json!({"metadata": {"annotations": {"team": "a"}}})),
    ] {
        let output = cluster.patch(&patch).await;
        assert!(output.success(), "{patch}: {output}");
        assert_eq!(output.stderr, "", "{patch}");
    }
    let apply = cluster.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", "-"]);
    let output = apply.stdin(fixtures::set().to_string()).run().await.unwrap();
    assert!(output.success(), "{output}");
}

#[tokio::test]
async fn what_the_template_leaves_out_is_filled_in_before_it_is_judged() {
    let cluster = World::ours().await.with_machines(3).await;
    let mut set = fixtures::set();
    let path = "/spec/template/machines_v1beta1_machine_openshift_io/spec/providerSpec/value";
    let value = set.pointer_mut(path).unwrap().as_object_mut().unwrap();
    value.remove("userDataSecret");
    value.remove("credentialsSecret");
    cluster.create(&set).await;
    let stored = cluster.get().await;
    let value = stored.pointer(path).unwrap();
    assert_eq!(value["userDataSecret"], json!({"name": "master-user-data"}));
    assert_eq!(value["credentialsSecret"], json!({"name": "aws-cloud-credentials"}));
}
