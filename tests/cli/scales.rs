//! `capstan check` of Scales, of statuses, and of refusals without a field; `capstan generate` of
//! ControlPlanes of every size.

use serde_json::{Value, json};

use super::{capstan, machine, stderr, stdout};

fn control_plane(replicas: i64) -> Value {
    json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
        "metadata": {"name": "cp", "namespace": "ns"},
        "spec": {"replicas": replicas, "version": "v1.33.1", "machineTemplate": {"spec": {"infrastructureRef":
            {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerMachineTemplate", "name": "cp"}}}}})
}

fn pool() -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
        "metadata": {"name": "cp", "namespace": "ns", "labels": null},
        "spec": {"clusterName": "c", "replicas": 3, "template": {"spec": {"clusterName": "c", "version": "v1.33.1",
            "bootstrap": {"dataSecretName": "s"}, "infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerMachinePool", "name": "cp"}}}}})
}

fn scale(replicas: i64) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "cp", "namespace": "ns"},
        "spec": {"replicas": replicas}})
}

/// The rows of a check of objects in one file.
fn checked(arguments: &[&str], objects: &[Value]) -> Vec<Value> {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    let arguments = [&["check", "-o", "json"], arguments, &["-"]].concat();
    let output = capstan(&arguments, &texts.join("\n---\n"));
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn w213_a_scale_finds_its_control_plane_in_the_same_file() {
    let rows = checked(&[], &[control_plane(3), scale(4)]);
    assert_eq!(rows[1]["operation"], "update");
    assert_eq!(rows[1]["causes"][0]["rule"], "kcp-replicas-odd");
    // Variants of one object do not tell which of them is stored.
    let rows = checked(&[], &[control_plane(3), control_plane(5), scale(4)]);
    assert_eq!(rows[2]["skipped"][0]["rule"], "check-unknown-kind");
}

#[test]
fn w220_a_scale_without_a_namespace_is_not_that_of_the_first_of_two_control_planes() {
    let mut near = control_plane(3);
    near["metadata"]["namespace"] = json!("other");
    let mut anywhere = scale(4);
    anywhere["metadata"].as_object_mut().unwrap().remove("namespace");
    let rows = checked(&[], &[near.clone(), control_plane(3), anywhere]);
    assert_eq!(rows[2]["skipped"][0]["rule"], "check-unknown-kind");
    let rows = checked(&[], &[near, control_plane(3), control_plane(3), scale(4)]);
    assert_eq!(
        rows[3]["causes"][0]["rule"], "kcp-replicas-odd",
        "the namespace selects it"
    );
    let mut bare = control_plane(5);
    bare["metadata"].as_object_mut().unwrap().remove("namespace");
    let rows = checked(&[], &[bare, control_plane(3), scale(4)]);
    assert_eq!(rows[2]["causes"][0]["rule"], "kcp-replicas-odd", "not one without");
}

#[test]
fn w221_a_document_in_flow_style_may_follow_another_one() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n";
    let output = capstan(&["check", "-o", "json", "-"], text);
    let rows: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(rows[1]["name"], "b");
}

#[test]
fn w214_a_scale_of_a_pool_is_checked_and_a_negative_one_is_refused() {
    let rows = checked(&[], &[pool(), scale(1)]);
    let warning = rows[1]["warnings"][0].to_string();
    assert!(warning.contains("this update removes 2 of 3 machine(s)"), "{rows:?}");
    let rows = checked(&[], &[pool(), scale(-1)]);
    assert_eq!(rows[1]["causes"][0]["rule"], "mp-replicas");
    assert_eq!(rows[1]["warnings"], json!([]));
}

#[test]
fn w219_a_pool_is_not_compared_with_the_same_pool_in_another_version() {
    let mut old = pool();
    old["apiVersion"] = json!("cluster.x-k8s.io/v1beta1");
    let folder = super::Folder::new();
    let stored = folder.objects("stored.json", &[old]);
    let rows = checked(&["--old", super::path(&stored)], &[pool()]);
    let skipped = rows[0]["skipped"][0].to_string();
    assert!(skipped.contains("give both in one version"), "{rows:?}");
}

#[test]
fn w215_a_status_is_checked_by_its_schema_and_gets_no_patch() {
    let folder = super::Folder::new();
    let stored = folder.objects("stored.json", &[control_plane(3)]);
    let of_status = |status: Value| {
        let mut object = control_plane(3);
        object["status"] = status;
        checked(&["--old", super::path(&stored)], &[object]).remove(0)
    };
    let row = of_status(json!({"replicas": 3}));
    assert_eq!((&row["allowed"], &row["patch"]), (&json!(true), &json!([])), "{row}");
    let row = of_status(json!({"replicas": "x"}));
    let fields = row["causes"].as_array().unwrap().iter();
    assert!(
        fields
            .map(|cause| &cause["field"])
            .any(|field| field == "status.replicas"),
        "{row}"
    );
    let row = of_status(json!({"replica": 3}));
    assert_eq!(row["causes"][0]["rule"], "schema-unknown-field", "{row}");
}

#[test]
fn w216_a_refusal_by_a_range_is_an_error_in_sarif() {
    let mut huge = control_plane(3);
    huge["spec"]["replicas"] = json!(99_999_999_999_i64);
    let output = capstan(&["check", "-o", "sarif", "-"], &huge.to_string());
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let results = report["runs"][0]["results"].as_array().unwrap();
    let range = results
        .iter()
        .find(|result| result["ruleId"] == "schema-range")
        .unwrap();
    assert_eq!(range["level"], "error");
    let hint = results.iter().find(|result| result["ruleId"] == "schema-incomplete");
    assert!(hint.is_none_or(|hint| hint["level"] == "note"), "{report}");
}

#[test]
fn w217_w222_a_control_plane_is_generated_for_one_and_for_seven_machines() {
    let generated = |count: usize| {
        let machines: Vec<String> = (0..count).map(|index| machine(index, "a").to_string()).collect();
        let output = capstan(
            &["generate", "--kind", "ControlPlane", "-f", "-"],
            &machines.join("\n---\n"),
        );
        (output.status.code(), stdout(&output), stderr(&output))
    };
    for (machines, replicas) in [(1, 1), (3, 3), (7, 7)] {
        let (code, text, error) = generated(machines);
        assert_eq!(code, Some(0), "{error}");
        assert!(text.contains(&format!("replicas: {replicas}\n")), "{text}");
    }
    let leaving = |count: usize| {
        let mut machines: Vec<Value> = (0..3).map(|index| machine(index, "a")).collect();
        for machine in machines.iter_mut().take(count) {
            machine["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let texts: Vec<String> = machines.iter().map(Value::to_string).collect();
        let output = capstan(
            &["generate", "--kind", "ControlPlane", "-f", "-"],
            &texts.join("\n---\n"),
        );
        assert!(
            stderr(&output).contains("are being deleted: compare spec.replicas"),
            "{}",
            stderr(&output)
        );
        stdout(&output)
    };
    assert!(leaving(3).contains("replicas: 3\n"), "W222: {}", leaving(3));
    assert!(leaving(1).contains("replicas: 3\n"), "two remain");
    let (code, _, error) = generated(8);
    assert_eq!(code, Some(2));
    assert!(error.contains("a ControlPlane has at most 7"), "{error}");
    let output = capstan(&["generate", "-f", "-"], &scale(1).to_string());
    assert!(
        stderr(&output).contains("no control plane machine exists: a Machine with the labels"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn w218_null_in_the_metadata_of_a_pool_is_no_value_and_a_bad_item_of_a_list_has_its_number() {
    let output = capstan(&["plan", "-f", "-"], &pool().to_string());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [pool(), {"a": 1}]});
    let output = capstan(&["check", "-"], &list.to_string());
    assert!(
        stderr(&output).contains("it is item 1 of a list, from 0"),
        "{}",
        stderr(&output)
    );
}
