//! What `capstan check` did not judge, the objects of a folder, single rules, and the version.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Folder, capstan, machine, path, set, stderr, stdout};

fn rows(output: &std::process::Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap()
}

/// The ids of the skipped rules of the object in a row.
fn skipped(row: &Value) -> Vec<&str> {
    let skipped = row["skipped"].as_array().unwrap();
    skipped.iter().map(|rule| rule["rule"].as_str().unwrap()).collect()
}

#[test]
fn a_skipped_rule_is_in_the_output_and_fails_a_strict_check_only() {
    let folder = Folder::new();
    let file = folder.objects("set.yaml", &[set()]);
    let output = capstan(&["check", "-o", "json", path(&file)], "");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows = rows(&output);
    assert!(!skipped(&rows[0]).is_empty(), "{rows}");
    assert_eq!(rows[0]["allowed"], true);
    let strict = capstan(&["check", "--strict", path(&file)], "");
    assert_eq!(strict.status.code(), Some(1));
    assert!(
        stderr(&strict).contains("rules were skipped for 1 object(s)"),
        "{}",
        stderr(&strict)
    );
}

#[test]
fn a_kind_without_rules_fails_a_strict_check_only() {
    let unknown = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}).to_string();
    assert_eq!(capstan(&["check", "-"], &unknown).status.code(), Some(0));
    let output = capstan(&["check", "--strict", "-o", "json", "-"], &unknown);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(skipped(&rows(&output)[0]), ["check-unknown-kind"]);
}

#[test]
fn w169_a_version_of_cluster_api_without_rules_fails_a_strict_check() {
    for (version, expected) in [("v9", true), ("v1alpha4", true), ("v1beta1", false), ("v1beta2", false)] {
        let pool = json!({
            "apiVersion": format!("cluster.x-k8s.io/{version}"),
            "kind": "MachinePool",
            "metadata": {"name": "a", "namespace": "ns"},
            "spec": {"clusterName": "c", "template": {"spec": {"clusterName": "c"}}},
        });
        let output = capstan(&["check", "--strict", "-o", "json", "-"], &pool.to_string());
        assert_eq!(output.status.code(), Some(1), "{version}: {}", stdout(&output));
        let rows = rows(&output);
        // A pool without bootstrap data is refused where there are rules.
        assert_eq!(rows[0]["allowed"], expected, "{version}: {rows}");
        let is_unknown = expected && skipped(&rows[0]) == ["check-unknown-kind"];
        assert_eq!(is_unknown, expected, "{version}: {rows}");
    }
}

#[test]
fn a_kind_in_other_letters_is_refused_and_the_refusal_names_the_kind() {
    for wrong in ["machine", "MACHINE"] {
        let mut lower = machine(0, "a");
        lower["kind"] = json!(wrong);
        let output = capstan(&["check", "-"], &lower.to_string());
        assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
        assert!(stdout(&output).contains("use \"Machine\""), "{}", stdout(&output));
    }
}

#[test]
fn a_strict_check_succeeds_if_every_rule_was_evaluated() {
    let folder = Folder::new();
    let file = folder.objects("set.yaml", &[set()]);
    let output = capstan(&["check", "-o", "json", "--operation", "delete", path(&file)], "");
    assert_eq!(output.status.code(), Some(0));
    let scale = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
        "metadata": {"name": "cp", "namespace": "ns"},
        "spec": {"replicas": 3, "version": "v1.33.1", "machineTemplate": {"spec": {"infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachineTemplate", "name": "t"}}}}});
    let output = capstan(&["check", "--strict", "-o", "json", "-"], &scale.to_string());
    let rows = rows(&output);
    assert_eq!(skipped(&rows[0]), [""; 0], "{rows}");
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
}

/// The machines beside a set in its folder are what its rules look up.
#[test]
fn the_objects_of_a_folder_are_given_to_each_other() {
    let folder = Folder::new();
    let machines = folder.machines();
    let file = folder.objects("set.yaml", &[set()]);
    let of_set = |output: &std::process::Output| -> Vec<String> {
        let rows = rows(output);
        let rows = rows.as_array().unwrap().clone();
        let row = rows.iter().find(|row| row["kind"] == "ControlPlaneMachineSet").unwrap();
        let causes = row["causes"].as_array().unwrap().iter();
        let causes = causes.map(|cause| cause["message"].as_str().unwrap());
        let warnings = row["warnings"].as_array().unwrap().iter();
        let all = causes.chain(warnings.map(|warning| warning.as_str().unwrap()));
        all.map(str::to_owned).collect()
    };
    let alone = of_set(&capstan(&["check", "-o", "json", path(&file)], ""));
    let given = of_set(&capstan(
        &["check", "-o", "json", "--with", path(&machines), path(&file)],
        "",
    ));
    let parent = file.parent().unwrap().to_path_buf();
    let together = of_set(&capstan(&["check", "-o", "json", path(&parent)], ""));
    assert_eq!(together, given);
    assert_ne!(together, alone, "the machines must have been looked up");
}

#[test]
fn an_object_of_a_folder_is_not_given_to_itself() {
    let folder = Folder::new();
    let file = folder.objects("set.yaml", &[set()]);
    let parent = file.parent().unwrap().to_path_buf();
    let alone = capstan(&["check", path(&file)], "");
    let in_folder = capstan(&["check", path(&parent)], "");
    assert_eq!(stdout(&in_folder), stdout(&alone));
}

/// Each object has its own snapshot. Together they must not need memory and time for each pair of
/// objects.
#[test]
fn a_folder_of_four_hundred_machines_is_checked_within_seconds() {
    let folder = Folder::new();
    let machines: Vec<Value> = (0..400).map(|index| machine(index, "a")).collect();
    let file = folder.objects("machines.yaml", &machines);
    let parent = file.parent().unwrap().to_path_buf();
    let start = Instant::now();
    let output = capstan(&["check", "-o", "json", path(&parent)], "");
    let time = start.elapsed();
    assert_eq!(rows(&output).as_array().unwrap().len(), 400, "{}", stderr(&output));
    assert!(time < Duration::from_secs(15), "{time:?}");
}

#[test]
fn a_rule_is_shown_by_its_id() {
    let output = capstan(&["rules", "cpms-replicas-immutable"], "");
    assert!(
        stdout(&output).starts_with("cpms-replicas-immutable\n"),
        "{}",
        stdout(&output)
    );
    assert_eq!(stdout(&output).lines().count(), 4);
    let output = capstan(&["rules", "cpms-unknown"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("cpms-unknown must be the id of a rule"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_version_is_that_of_the_package() {
    let output = capstan(&["version", "-o", "json"], "");
    let version: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert!(stdout(&capstan(&["version"], "")).starts_with(&format!("capstan {} ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn manifests_are_those_of_the_selected_features() {
    let printed = |arguments: &[&str]| stdout(&capstan(&[&["manifests"], arguments].concat(), ""));
    let default = printed(&["all"]);
    assert_eq!(default, printed(&["all", "--feature", "admission"]));
    assert!(!default.contains("name: capstan-mirroring\n") && !default.contains("- --mirroring\n"));
    assert!(!default.contains("capstan-controllers\n"));
    let all = printed(&["all", "--feature", "mirroring,controllers,admission"]);
    assert!(all.contains("        - --mirroring\n") && all.contains("name: capstan-controllers\n"));
    // The webhook configurations come last, so that an interrupted installation registers nothing.
    let last = all.rfind("\nkind: ").unwrap();
    assert!(all[last..].starts_with("\nkind: ValidatingWebhookConfiguration"));
    let first = all.find("WebhookConfiguration").unwrap();
    assert!(all.rfind("kind: Deployment").unwrap() < first && all.rfind("kind: ClusterRole").unwrap() < first);
    let output = capstan(&["manifests", "deployment", "--feature", "mirroring"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("must include admission"),
        "{}",
        stderr(&output)
    );
    // The configured sync controller is exempt, and the default ones are not.
    let own = printed(&[
        "webhooks",
        "--feature",
        "mirroring",
        "--sync-identity",
        "system:serviceaccount:a:sync",
    ]);
    assert!(own.contains("in ['system:serviceaccount:a:sync']") && !own.contains(":capi-controllers"));
}

#[test]
fn a_feature_gate_that_does_not_exist_is_refused() {
    let output = capstan(&["check", "--feature-gates", "CPMSRecreat=true", "-"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("must name one of"), "{}", stderr(&output));
}

#[test]
fn a_namespace_of_manifests_must_be_a_valid_name() {
    for name in ["", "Foo Bar", "a.b"] {
        let output = capstan(&["manifests", "rbac", "--namespace", name], "");
        assert_eq!(output.status.code(), Some(2), "{name}");
    }
}

#[test]
fn output_to_a_closed_pipe_is_no_error() {
    let mut process = std::process::Command::new(env!("CARGO_BIN_EXE_capstan"))
        .args(["manifests", "crds"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(process.stdout.take());
    let output = process.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}
