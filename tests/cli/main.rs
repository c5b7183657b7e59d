//! The offline commands as pipelines use them: arguments, exit codes, and the stable JSON output.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails if it cannot start the program or read its output"
)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

mod cluster_mistakes;
mod control_plane;
mod conversion_mistakes;
mod conversions;
mod dashboard;
mod inputs;
mod installations;
mod kubeadm_control_plane;
mod machine_pool;
mod migrate;
mod mistakes;
mod namespaces;
mod pictures;
mod plans;
mod scales;
mod strict;
mod stub;

const MACHINE: &str = "machines_v1beta1_machine_openshift_io";

fn set() -> Value {
    let labels = json!({
        "machine.openshift.io/cluster-api-cluster": "prod-x7k2p",
        "machine.openshift.io/cluster-api-machine-role": "master",
        "machine.openshift.io/cluster-api-machine-type": "master",
    });
    json!({
        "apiVersion": "machine.openshift.io/v1",
        "kind": "ControlPlaneMachineSet",
        "metadata": {"name": "cluster", "namespace": "openshift-machine-api"},
        "spec": {
            "replicas": 3,
            "state": "Active",
            "selector": {"matchLabels": labels},
            "template": {"machineType": MACHINE, MACHINE: {
                "failureDomains": {"platform": "GCP", "gcp": [{"zone": "a"}, {"zone": "b"}, {"zone": "c"}]},
                "metadata": {"labels": labels},
                "spec": {"providerSpec": {"value": {
                    "kind": "GCPMachineProviderSpec",
                    "machineType": "n2-standard-4",
                    "region": "us-central1",
                    "targetPools": ["api"],
                    "userDataSecret": {"name": "master-user-data"},
                    "credentialsSecret": {"name": "gcp-cloud-credentials"},
                }}},
            }},
        },
    })
}

fn machine(index: usize, zone: &str) -> Value {
    let set = set();
    let template = &set["spec"]["template"][MACHINE];
    let mut value = template["spec"]["providerSpec"]["value"].clone();
    value["zone"] = json!(zone);
    json!({
        "apiVersion": "machine.openshift.io/v1beta1",
        "kind": "Machine",
        "metadata": {
            "name": format!("prod-x7k2p-master-{index}"),
            "namespace": "openshift-machine-api",
            "labels": template["metadata"]["labels"],
        },
        "spec": {"providerSpec": {"value": value}},
    })
}

/// A temporary folder, removed at the end of the test.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn objects(&self, name: &str, objects: &[Value]) -> PathBuf {
        let texts: Vec<String> = objects
            .iter()
            .map(|object| serde_json::to_string_pretty(object).unwrap())
            .collect();
        self.file(name, &texts.join("\n---\n"))
    }

    fn machines(&self) -> PathBuf {
        let zones = ["a", "b", "c"];
        self.objects(
            "machines.yaml",
            &zones
                .iter()
                .enumerate()
                .map(|(i, zone)| machine(i, zone))
                .collect::<Vec<_>>(),
        )
    }
}

fn capstan(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_capstan"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that refuses its arguments closes its input without reading it.
    let _ignored = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn path(path: &std::path::Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_refused_update_exits_with_1_and_names_field_value_and_rule() {
    let folder = Folder::new();
    let mut new = set();
    new["spec"]["replicas"] = json!(5);
    let (old, new) = (folder.objects("old.yaml", &[set()]), folder.objects("new.yaml", &[new]));
    let output = capstan(&["check", "-o", "json", "--old", path(&old), path(&new)], "");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let rows: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let row = &rows[0];
    assert_eq!(
        row.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>(),
        [
            "allowed",
            "causes",
            "code",
            "kind",
            "links",
            "message",
            "name",
            "namespace",
            "operation",
            "patch",
            "reason",
            "skipped",
            "warnings"
        ]
    );
    assert_eq!(
        (&row["kind"], &row["namespace"], &row["name"], &row["operation"]),
        (
            &json!("ControlPlaneMachineSet"),
            &json!("openshift-machine-api"),
            &json!("cluster"),
            &json!("update")
        )
    );
    assert_eq!(
        (&row["allowed"], &row["code"], &row["reason"]),
        (&json!(false), &json!(422), &json!("Invalid"))
    );
    let cause = &row["causes"][0];
    assert_eq!(
        (&cause["field"], &cause["reason"], &cause["rule"]),
        (
            &json!("spec.replicas"),
            &json!("FieldValueInvalid"),
            &json!("cpms-replicas-immutable")
        )
    );
    assert!(
        cause["message"]
            .as_str()
            .unwrap()
            .starts_with("Invalid value: 5: replicas is immutable")
    );
    assert!(
        row["message"]
            .as_str()
            .unwrap()
            .contains("spec.replicas: Invalid value: 5: replicas is immutable")
    );
}

#[test]
fn a_valid_set_with_its_machines_is_allowed_without_warnings() {
    let folder = Folder::new();
    let file = folder.objects("set.yaml", &[set()]);
    let output = capstan(
        &["check", "-o", "json", "--with", path(&folder.machines()), path(&file)],
        "",
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let row = &rows[0];
    assert_eq!(
        (&row["allowed"], &row["code"], &row["operation"]),
        (&json!(true), &json!(200), &json!("create"))
    );
    assert_eq!(
        (&row["warnings"], &row["patch"], &row["causes"]),
        (&json!([]), &json!([]), &json!([]))
    );
}

#[test]
fn a_rule_whose_objects_are_not_given_causes_a_warning() {
    let output = capstan(&["check", "-o", "json", "-"], &set().to_string());
    assert_eq!(output.status.code(), Some(0));
    let rows: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let warnings = rows[0]["warnings"].to_string();
    assert!(
        warnings.contains("spec.replicas: not checked, because the control plane Machines are not given"),
        "{warnings}"
    );
}

#[test]
fn the_patch_adds_defaults() {
    let folder = Folder::new();
    let mut set = set();
    let value = set
        .pointer_mut(&format!("/spec/template/{MACHINE}/spec/providerSpec/value"))
        .unwrap();
    value.as_object_mut().unwrap().remove("userDataSecret");
    let output = capstan(
        &["check", "-o", "json", "--with", path(&folder.machines()), "-"],
        &set.to_string(),
    );
    let rows: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        rows[0]["patch"],
        json!([{
            "op": "add",
            "path": format!("/spec/template/{MACHINE}/spec/providerSpec/value/userDataSecret"),
            "value": {"name": "master-user-data"},
        }])
    );
}

#[test]
fn the_verdict_on_a_deletion_depends_on_its_propagation_policy() {
    let text = set().to_string();
    let run = |propagation: &str| {
        capstan(
            &[
                "check",
                "-o",
                "json",
                "--operation",
                "delete",
                "--propagation",
                propagation,
                "-",
            ],
            &text,
        )
    };
    let refused = run("foreground");
    assert_eq!(refused.status.code(), Some(1));
    let rows: Value = serde_json::from_str(&stdout(&refused)).unwrap();
    assert_eq!(
        (&rows[0]["code"], &rows[0]["reason"]),
        (&json!(403), &json!("Forbidden"))
    );
    assert_eq!(rows[0]["causes"][0]["rule"], "cpms-foreground-deletion");
    for propagation in ["background", "orphan"] {
        let allowed = run(propagation);
        assert_eq!(allowed.status.code(), Some(0));
        assert!(stdout(&allowed).contains("unmanaged"), "{propagation}");
    }
}

#[test]
fn unknown_fields_are_refused_with_the_message_of_the_api_server() {
    let mut set = set();
    set["spec"]["replicsa"] = json!(3);
    let output = capstan(&["check", "-o", "json", "-"], &set.to_string());
    assert_eq!(output.status.code(), Some(1));
    let rows: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        (&rows[0]["code"], &rows[0]["reason"]),
        (&json!(400), &json!("BadRequest"))
    );
    assert!(
        rows[0]["message"]
            .as_str()
            .unwrap()
            .contains("strict decoding error: unknown field \"spec.replicsa\"")
    );
}

#[test]
fn the_schema_checks_types_enums_and_required_fields() {
    for (change, field, words) in [
        (json!({"replicas": "three"}), "spec.replicas", "must be of type integer"),
        (
            json!({"replicas": 4}),
            "spec.replicas",
            "supported values: \"3\", \"5\"",
        ),
        (
            json!({"strategy": {"type": "Fast"}}),
            "spec.strategy.type",
            "supported values: \"RollingUpdate\", \"OnDelete\", \"Recreate\"",
        ),
        (json!({"selector": null}), "spec.selector", "Required value"),
    ] {
        let mut set = set();
        for (key, value) in change.as_object().unwrap() {
            match value {
                Value::Null => drop(set["spec"].as_object_mut().unwrap().remove(key)),
                value => set["spec"][key] = value.clone(),
            }
        }
        let output = capstan(&["check", "-o", "json", "-"], &set.to_string());
        assert_eq!(output.status.code(), Some(1), "{change}");
        let rows: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let causes = rows[0]["causes"].as_array().unwrap();
        let matches = |cause: &&Value| cause["field"] == field && cause["message"].as_str().unwrap().contains(words);
        assert!(causes.iter().any(|cause| matches(&cause)), "{change}: {rows}");
    }
}

#[test]
fn input_that_cannot_be_read_exits_with_2_and_names_file_document_and_line() {
    let folder = Folder::new();
    let file = folder.file(
        "broken.yaml",
        "apiVersion: v1\nkind: ConfigMap\n---\napiVersion: v1\nkind: [\n",
    );
    let output = capstan(&["check", path(&file)], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("broken.yaml: document 2, line"),
        "{}",
        stderr(&output)
    );
    let output = capstan(&["check", "--operation", "update", "-"], &set().to_string());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--old"));
    let output = capstan(&["check", "--operation", "sideways", "-"], "");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn duplicate_or_empty_input_is_reported() {
    let output = capstan(&["check", "--with", "-", "-"], &set().to_string());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("more than once"), "{}", stderr(&output));
    let output = capstan(&["check", "-o", "json", "-"], "# nothing\n");
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), "[]\n"));
    assert!(
        stderr(&output).contains("must contain an object"),
        "{}",
        stderr(&output)
    );
    let twice = set()
        .to_string()
        .replacen("\"replicas\":3", "\"replicas\":5,\"replicas\":3", 1);
    let output = capstan(&["check", "-"], &twice);
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    assert!(
        stderr(&output).ends_with("duplicate mapping key: replicas\n"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn an_object_without_a_namespace_is_matched_with_its_old_version() {
    let folder = Folder::new();
    let mut new = set();
    new["spec"]["replicas"] = json!(5);
    new["metadata"].as_object_mut().unwrap().remove("namespace");
    // An object with the same name in another API group does not match.
    let other =
        json!({"apiVersion": "example.com/v1", "kind": "ControlPlaneMachineSet", "metadata": {"name": "cluster"}});
    let (old, new) = (
        folder.objects("old.yaml", &[other, set()]),
        folder.objects("new.yaml", &[new]),
    );
    let output = capstan(&["check", "-o", "json", "--old", path(&old), path(&new)], "");
    let rows: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        (&rows[0]["operation"], &rows[0]["causes"][0]["rule"]),
        (&json!("update"), &json!("cpms-replicas-immutable"))
    );
    let mut unknown = set();
    unknown["metadata"]["name"] = json!("other");
    let output = capstan(&["check", "--old", path(&old), "-"], &unknown.to_string());
    assert!(stderr(&output).contains("checked as a creation"), "{}", stderr(&output));
}

#[test]
fn null_in_metadata_is_accepted_and_a_wrong_type_is_refused_with_its_field() {
    let nulls = |object: &mut Value| {
        for field in [
            "labels",
            "annotations",
            "creationTimestamp",
            "ownerReferences",
            "finalizers",
        ] {
            object["metadata"][field] = Value::Null;
        }
    };
    let folder = Folder::new();
    let mut set_of_nulls = set();
    nulls(&mut set_of_nulls);
    let mut machine = machine(0, "a");
    nulls(&mut machine);
    machine["spec"]["taints"] = Value::Null;
    let with = folder.objects("with.yaml", &[machine]);
    let output = capstan(&["check", "--with", path(&with), "-"], &set_of_nulls.to_string());
    assert_eq!(stderr(&output), "");
    assert!(!stdout(&output).contains("cpms-readable"), "{}", stdout(&output));

    let mut wrong = set();
    wrong["metadata"]["annotations"] = json!({"capstan.dev/rollout-limit": 1});
    let output = capstan(&["check", "-o", "json", "-"], &wrong.to_string());
    let rows: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let cause = &rows[0]["causes"][0];
    assert_eq!(
        (&cause["rule"], &cause["field"]),
        (
            &json!("schema-metadata"),
            &json!("metadata.annotations[capstan.dev/rollout-limit]")
        )
    );
}

#[test]
fn recreate_requires_its_feature_gate_and_the_acknowledgement_of_the_risk() {
    let folder = Folder::new();
    let machines = folder.machines();
    let mut set = set();
    set["spec"]["strategy"] = json!({"type": "Recreate"});
    let check = |set: &Value, gate: &str| {
        let file = folder.objects("set.yaml", std::slice::from_ref(set));
        let gate = format!("CPMSRecreate={gate}");
        capstan(
            &[
                "check",
                "-o",
                "json",
                "--feature-gates",
                &gate,
                "--with",
                path(&machines),
                path(&file),
            ],
            "",
        )
    };
    assert_eq!(check(&set, "false").status.code(), Some(1));
    assert_eq!(
        check(&set, "true").status.code(),
        Some(1),
        "the set does not acknowledge the risk"
    );
    set["metadata"]["annotations"] = json!({"capstan.dev/recreate-acknowledged": "etcd-quorum-at-risk"});
    assert_eq!(check(&set, "false").status.code(), Some(1));
    let allowed = check(&set, "true");
    assert_eq!(allowed.status.code(), Some(0), "{}", stdout(&allowed));
}

#[test]
fn each_document_gets_a_row_and_one_refusal_causes_exit_code_1() {
    let mut other = set();
    other["metadata"]["name"] = json!("other");
    let text = format!("{}\n---\n{}\n", set(), other);
    let output = capstan(&["check", "-o", "json", "-"], &text);
    assert_eq!(output.status.code(), Some(1));
    let rows: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let allowed: Vec<&Value> = rows.as_array().unwrap().iter().map(|row| &row["allowed"]).collect();
    assert_eq!(allowed, [&json!(true), &json!(false)]);
}

#[test]
fn sarif_contains_file_and_line() {
    let folder = Folder::new();
    let mut other = set();
    other["metadata"]["name"] = json!("other");
    let file = folder.objects("sets.yaml", &[set(), other]);
    let output = capstan(
        &["check", "-o", "sarif", "--with", path(&folder.machines()), path(&file)],
        "",
    );
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let result = &report["runs"][0]["results"][0];
    assert_eq!(
        (&result["ruleId"], &result["level"]),
        (&json!("cpms-name"), &json!("error"))
    );
    let location = &result["locations"][0]["physicalLocation"];
    assert!(
        location["artifactLocation"]["uri"]
            .as_str()
            .unwrap()
            .ends_with("sets.yaml")
    );
    assert!(location["region"]["startLine"].as_u64().unwrap() > 40);
}

fn review(object: &Value, old: &Value) -> String {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "b1e0",
        "kind": {"group": "machine.openshift.io", "version": "v1", "kind": "ControlPlaneMachineSet"},
        "resource": {"group": "machine.openshift.io", "version": "v1", "resource": "controlplanemachinesets"},
        "name": "cluster", "namespace": "openshift-machine-api", "operation": "UPDATE",
        "userInfo": {"username": "admin"}, "object": object, "oldObject": old,
    }})
    .to_string()
}

#[test]
fn review_exits_with_0_for_every_verdict() {
    let mut new = set();
    new["spec"]["state"] = json!("Inactive");
    let output = capstan(&["review"], &review(&new, &set()));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        (&answer["response"]["uid"], &answer["response"]["allowed"]),
        (&json!("b1e0"), &json!(false))
    );
    assert_eq!(answer["response"]["status"]["code"], 422);
    let output = capstan(&["review", "-"], "{}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_rules_are_listed_with_id_kind_path_message_operations_and_enforcers() {
    let output = capstan(&["rules", "-o", "json"], "");
    let rules: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let rule = rules
        .as_array()
        .unwrap()
        .iter()
        .find(|rule| rule["id"] == "cpms-replicas-immutable")
        .unwrap();
    assert_eq!(
        rule,
        &json!({
            "id": "cpms-replicas-immutable",
            "kind": "ControlPlaneMachineSet",
            "path": "spec.replicas",
            "message": "replicas is immutable",
            "operations": ["UPDATE"],
            "enforcedBy": ["schema", "policy", "webhook", "offline"],
            "link": "https://github.com/capstan-dev/capstan/blob/main/docs/rules.md#cpms-replicas-immutable",
        })
    );
    assert!(stdout(&capstan(&["rules", "-o", "markdown"], "")).contains("</a>`cpms-foreground-deletion` |"));
}

#[test]
fn the_link_of_each_rule_leads_to_a_line_of_the_documentation() {
    let rules: Value = serde_json::from_str(&stdout(&capstan(&["rules", "-o", "json"], ""))).unwrap();
    let rules = rules.as_array().unwrap();
    assert!(rules.len() > 150, "{}", rules.len());
    let repository = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");
    for rule in rules {
        let link = rule["link"].as_str().unwrap();
        let (page, anchor) = link.strip_prefix(repository).unwrap().split_once('#').unwrap();
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
        let text = std::fs::read_to_string(page).unwrap();
        assert_eq!(text.matches(&format!("<a id=\"{anchor}\"></a>")).count(), 1, "{link}");
    }
}

/// A refusal ends with one link, and the machine-readable outputs have one for each rule.
#[test]
fn a_refusal_ends_with_a_link() {
    let folder = Folder::new();
    let old = folder.objects("old.yaml", &[set()]);
    let mut edited = set();
    edited["spec"]["replicas"] = json!(5);
    let one = folder.objects("one.yaml", &[edited]);
    let page = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/rules.md");
    let check = |format: &str, file: &Path| {
        let output = capstan(&["check", "-o", format, "--old", path(&old), path(file)], "");
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        stdout(&output)
    };
    let text = check("text", &one);
    assert_eq!(text.matches("https://").count(), 1, "{text}");
    assert!(
        text.contains(&format!("  see {page}#cpms-replicas-immutable\n")),
        "{text}"
    );
    let rows: Value = serde_json::from_str(&check("json", &one)).unwrap();
    assert_eq!(
        rows[0]["links"]["cpms-replicas-immutable"],
        format!("{page}#cpms-replicas-immutable")
    );
    let message = rows[0]["message"].as_str().unwrap();
    assert!(
        message.ends_with(&format!("[cpms-replicas-immutable] ({page}#cpms-replicas-immutable)")),
        "{message}"
    );
    let report: Value = serde_json::from_str(&check("sarif", &one)).unwrap();
    let rules = report["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    assert!(
        rules
            .iter()
            .all(|rule| rule["helpUri"].as_str().unwrap().starts_with(page)),
        "{rules:?}"
    );
}

#[test]
fn docs_rules_md_is_the_output_of_the_command() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/rules.md")).unwrap();
    let printed = stdout(&capstan(&["rules", "-o", "markdown"], ""));
    assert_eq!(
        page, printed,
        "update it: cargo run -p capstan -- rules -o markdown > docs/rules.md"
    );
}

#[test]
fn check_parses_all_printed_manifests() {
    for what in ["crds", "webhooks", "policies"] {
        let output = capstan(&["manifests", what], "");
        assert_eq!(output.status.code(), Some(0), "{what}");
        let again = capstan(&["check", "-"], &stdout(&output));
        assert_eq!(again.status.code(), Some(0), "{what}: {}", stderr(&again));
    }
}

#[test]
fn check_finds_the_control_plane_of_a_scale() {
    let folder = Folder::new();
    let control_plane = json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmControlPlane",
        "metadata": {"name": "cp", "namespace": "ns"},
        "spec": {"replicas": 3, "version": "v1.33.1"},
    });
    let scale = json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "cp", "namespace": "ns"},
        "spec": {"replicas": 4},
    });
    let file = folder.file("control-plane.yaml", &control_plane.to_string());
    for flag in ["--with", "--old"] {
        let output = capstan(&["check", "-o", "json", flag, path(&file), "-"], &scale.to_string());
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let rows: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(rows[0]["operation"], "update");
        assert_eq!(rows[0]["causes"][0]["field"], "spec.replicas");
        assert_eq!(rows[0]["causes"][0]["rule"], "kcp-replicas-odd");
    }
}
