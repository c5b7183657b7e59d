//! Warnings of an edit that the plan of the controller would contradict. The id of each defect is
//! that of `docs/defects.md`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails if it cannot build its own review"
)]
#[allow(dead_code, reason = "other tests use the rest")]
mod edits;
mod judged;
mod sets;

use serde_json::{Value, json};

use edits::{aws_set, edited, judge_in, machines, provider_spec};

const PAUSE: &str = "capstan.dev/paused-rollout";

fn with_type(set: &Value, type_: &str) -> Value {
    edited(set, |set| provider_spec(set)["instanceType"] = json!(type_))
}

fn annotated(set: &Value, key: &str) -> Value {
    edited(set, |set| set["metadata"]["annotations"] = json!({key: "true"}))
}

/// A machine of index 0 that starts, as the set describes it.
fn surge(set: &Value) -> Value {
    let mut machine = machines(set).remove(0);
    machine["metadata"]["name"] = json!("prod-x7k2p-master-new-0");
    machine["metadata"]["uid"] = json!("uid-new");
    machine["metadata"]["creationTimestamp"] = json!("2026-01-02T00:00:00Z");
    machine["status"] = json!({"phase": "Provisioning"});
    machine
}

fn warnings(old: &Value, new: &Value, cluster: &[Value]) -> String {
    let answer = judge_in(old, new, cluster, "");
    assert!(answer.allowed, "{}", answer.message);
    answer.warnings
}

#[test]
fn w137_the_count_of_replaced_machines_is_that_of_the_list() {
    let set = aws_set(|_| {});
    let outdated = with_type(&set, "m6i.8xlarge");
    // A replacement starts when the pause ends.
    let mut cluster = machines(&set);
    cluster.push(surge(&outdated));
    let text = warnings(&annotated(&outdated, PAUSE), &outdated, &cluster);
    assert!(text.contains("replaces 3 machine(s)"), "{text}");
    assert!(
        text.contains("of 3: prod-x7k2p-master-0 is replaced by prod-x7k2p-master-new-0"),
        "{text}"
    );
    assert!(text.contains("3 of 3: "), "{text}");
    // The machine that a user deleted is replaced also without the edit.
    let mut cluster = machines(&set);
    cluster[1]["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    let text = warnings(&annotated(&outdated, PAUSE), &outdated, &cluster);
    assert!(text.contains("replaces 2 machine(s)"), "{text}");
    assert!(text.contains("2 of 2: ") && !text.contains("of 3: "), "{text}");
}

#[test]
fn w137_a_second_edit_during_a_replacement_names_the_machine_that_works() {
    let set = aws_set(|_| {});
    let outdated = with_type(&set, "m6i.8xlarge");
    let mut cluster = machines(&set);
    cluster.push(surge(&outdated));
    let text = warnings(&outdated, &with_type(&set, "m6i.4xlarge"), &cluster);
    assert!(text.contains("prod-x7k2p-master-0 is replaced by"), "{text}");
    assert!(!text.contains("prod-x7k2p-master-new-0 is replaced"), "{text}");
}

#[test]
fn w138_a_pause_keeps_only_the_machines_that_the_plan_would_replace() {
    let set = aws_set(|_| {});
    let outdated = with_type(&set, "m6i.8xlarge");
    let mut cluster = machines(&set);
    cluster[1]["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    let text = warnings(&outdated, &annotated(&outdated, PAUSE), &cluster);
    assert!(text.contains("2 machine(s) stay outdated"), "{text}");
    // A user replaces machines on OnDelete, and a pause does not matter.
    let on_delete = edited(&outdated, |set| set["spec"]["strategy"]["type"] = json!("OnDelete"));
    let text = warnings(&on_delete, &annotated(&on_delete, PAUSE), &machines(&set));
    assert!(!text.contains("stay outdated"), "{text}");
    // The set was paused before the edit.
    let paused = annotated(&outdated, PAUSE);
    let later = edited(&paused, |set| {
        set["metadata"]["annotations"]["capstan.dev/progress-deadline"] = json!("1h");
    });
    let text = warnings(&paused, &later, &machines(&set));
    assert!(!text.contains("stay outdated"), "{text}");
}

#[test]
fn w139_an_edit_changes_only_the_fields_that_it_changes() {
    let set = aws_set(|_| {});
    let outdated = with_type(&set, "m6i.8xlarge");
    let new = edited(&outdated, |set| {
        provider_spec(set)["iamInstanceProfile"] = json!({"id": "other"});
    });
    let text = warnings(&outdated, &new, &machines(&set));
    assert!(
        text.contains("this edit changes iamInstanceProfile.id and replaces 3 machine(s)"),
        "{text}"
    );
}
