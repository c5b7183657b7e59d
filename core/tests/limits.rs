//! Reviews that once cost seconds, or a large response. The id of each defect is that of
//! `docs/defects.md`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails if it cannot build its own review"
)]
mod judged;
mod sets;

use capstan_core::admission::{Answer, Snapshot, Source};
use judged::judged;
use serde_json::{Value, json};
use sets::{MACHINE, aws, set_of};

fn set(change: impl FnOnce(&mut Value)) -> Value {
    let mut set = set_of(&aws());
    set["spec"]["template"][MACHINE]["failureDomains"] =
        json!({"platform": "AWS", "aws": [{"placement": {"availabilityZone": "us-east-1a"}}]});
    change(&mut set);
    set
}

fn template(set: &mut Value) -> &mut Value {
    &mut set["spec"]["template"][MACHINE]
}

fn provider_spec(set: &mut Value) -> &mut Value {
    &mut template(set)["spec"]["providerSpec"]["value"]
}

/// Three machines that are as the set describes them.
fn machines() -> Snapshot {
    let machines: Vec<Value> = (0..3)
        .map(|index| {
            let mut set = set(|_| {});
            let mut value = provider_spec(&mut set).clone();
            value["placement"]["availabilityZone"] = json!("us-east-1a");
            json!({
                "apiVersion": "machine.openshift.io/v1beta1",
                "kind": "Machine",
                "metadata": {"name": format!("prod-x7k2p-master-{index}"), "namespace": "openshift-machine-api",
                    "uid": format!("uid-{index}"), "labels": template(&mut set)["metadata"]["labels"]},
                "spec": {"providerSpec": {"value": value}},
                "status": {"phase": "Running", "nodeRef": {"name": format!("node-{index}")}},
            })
        })
        .collect();
    let nodes: Vec<Value> = (0..3)
        .map(|index| {
            json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": format!("node-{index}"), "labels": {"node-role.kubernetes.io/control-plane": ""}},
                "status": {"conditions": [{"type": "Ready", "status": "True",
                    "lastTransitionTime": "2026-01-01T00:10:00Z"}]}})
        })
        .collect();
    Snapshot {
        source: Source::Cluster,
        ..Snapshot::of_files(&[machines, nodes].concat()).unwrap()
    }
}

/// The answer of the validating webhook to an update, the response in it, and the size of the
/// request.
fn update(old: &Value, new: &Value, snapshot: &Snapshot) -> (Answer, Value, usize) {
    judged(
        &json!({"operation": "UPDATE", "object": new, "oldObject": old}),
        snapshot,
    )
}

#[test]
fn n1_a_list_of_failure_domains_above_the_limit_is_refused_as_a_whole() {
    let domain = |number: usize| json!({"placement": {"availabilityZone": format!("us-east-1-{number}")}});
    let domains = |count: usize| (0..count).map(domain).collect::<Vec<Value>>();
    let new = set(|set| template(set)["failureDomains"]["aws"] = domains(24_000).into());
    let (answer, response, _) = update(&set(|_| {}), &new, &machines());
    assert_eq!(answer.record.denied_by, ["cpms-failure-domains"]);
    let message = response["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("failureDomains.aws: Too many: 24000: must have at most 256 items"),
        "{message}"
    );
    let mut most = domains(255);
    most.push(json!({"placement": {"availabilityZone": "us-east-1a"}}));
    let new = set(|set| template(set)["failureDomains"]["aws"] = most.into());
    let (answer, response, _) = update(&set(|_| {}), &new, &machines());
    assert!(answer.record.allowed, "{response}");
}

#[test]
fn n2_a_small_request_causes_no_large_response() {
    let new = set(|set| template(set)["failureDomains"]["aws"] = vec![json!({}); 9000].into());
    let (answer, _, size) = update(&set(|_| {}), &new, &machines());
    assert!(!answer.record.allowed && size < 40_000);
    assert!(answer.body.len() < 2 * size, "{} for {size}", answer.body.len());
    let new = set(|set| {
        for number in 0..5000 {
            provider_spec(set)[format!("f{number}")] = json!(1);
        }
    });
    let (answer, _, size) = update(&set(|_| {}), &new, &machines());
    assert!(answer.body.len() < size, "{} for {size}", answer.body.len());
}

#[test]
fn a_difference_in_many_fields_is_allowed_with_a_short_warning() {
    let disks = |size: usize| vec![json!({"ebs": {"volumeSize": size}}); 80_000];
    let old = set(|set| provider_spec(set)["blockDevices"] = disks(120).into());
    let new = set(|set| provider_spec(set)["blockDevices"] = disks(240).into());
    let (answer, response, _) = update(&old, &new, &machines());
    assert!(answer.record.allowed, "{response}");
    assert!(answer.body.len() < 8192, "{}", answer.body.len());
}

#[test]
fn n9_an_edit_that_may_replace_machines_is_refused_until_the_machines_are_known() {
    let unknown = || Snapshot {
        source: Source::Cluster,
        ..Snapshot::default()
    };
    let larger = |set: &mut Value| provider_spec(set)["instanceType"] = json!("m6i.2xlarge");
    let (answer, response, _) = update(&set(|_| {}), &set(larger), &unknown());
    assert_eq!(answer.record.denied_by, ["cpms-rollout-known"], "{response}");
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.contains("try again in a moment"), "{message}");
    let (answer, response, _) = update(&set(|_| {}), &set(larger), &machines());
    assert!(answer.record.allowed, "{response}");
    // A rollout can always be paused, and a set without a rollout can always be edited.
    let paused = |set: &mut Value| set["metadata"]["annotations"] = json!({"capstan.dev/paused-rollout": "true"});
    let (answer, response, _) = update(&set(|_| {}), &set(paused), &unknown());
    assert!(answer.record.allowed, "{response}");
    let inactive = |set: &mut Value| set["spec"]["state"] = json!("Inactive");
    let new = set(|set| {
        inactive(set);
        larger(set);
    });
    let (answer, response, _) = update(&set(inactive), &new, &unknown());
    assert!(answer.record.allowed, "{response}");
}
