//! The CRDs of KubeadmControlPlane against those of Cluster API, read from its Go module.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a panic fails the test, and the test reports what it compared"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use capstan_core::admission::rule_files;
use capstan_core::schema::crd;
use serde_json::{Map, Value, json};

/// The version of Cluster API, as in `go.mod`.
const MODULE: &str = "sigs.k8s.io/cluster-api@v1.14.0";

/// Keywords that differ on purpose, by kind, version, and field, with the reason.
const DIFFERENCES: &[(&str, &str)] = &[];

/// The folder of the Go module; `None` without Go.
fn module() -> Option<PathBuf> {
    let run = |arguments: &[&str]| -> Option<Vec<u8>> {
        let output = Command::new("go").args(arguments).current_dir("/").output().ok()?;
        output.status.success().then_some(output.stdout)
    };
    let downloaded: Value = serde_json::from_slice(&run(&["mod", "download", "-json", MODULE])?).ok()?;
    downloaded["Dir"].as_str().map(PathBuf::from)
}

/// What a schema says about each field: its type, and its other keywords.
fn fields(path: &str, schema: &Value, required: bool, found: &mut BTreeMap<String, Map<String, Value>>) {
    let mut keywords = schema.as_object().unwrap().clone();
    for part in ["description", "properties", "items", "additionalProperties", "required"] {
        keywords.remove(part);
    }
    // Rules in CEL are compared by `every_field_with_a_rule_of_cluster_api_has_a_rule_here`.
    keywords.remove("x-kubernetes-validations");
    keywords.insert("required".into(), required.into());
    found.insert(path.to_owned(), keywords);
    let names = schema
        .get("required")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    for (name, field) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        fields(&format!("{path}.{name}"), field, names.contains(&json!(name)), found);
    }
    for part in ["items", "additionalProperties"] {
        if let Some(part) = schema.get(part) {
            fields(&format!("{path}[]"), part, false, found);
        }
    }
}

fn schema_of(definition: &Value, version: &str) -> Value {
    let versions = definition["spec"]["versions"].as_array().unwrap();
    let version = versions.iter().find(|one| one["name"] == version).unwrap();
    version["schema"]["openAPIV3Schema"].clone()
}

fn fields_of(definition: &Value, version: &str) -> BTreeMap<String, Map<String, Value>> {
    let mut found = BTreeMap::new();
    fields("", &schema_of(definition, version), false, &mut found);
    found
}

/// The CRD of Cluster API for the same kind.
fn theirs(module: &Path, definition: &Value) -> Value {
    let plural = definition["spec"]["names"]["plural"].as_str().unwrap();
    let path = format!("controlplane/kubeadm/config/crd/bases/controlplane.cluster.x-k8s.io_{plural}.yaml");
    serde_saphyr::from_str(&std::fs::read_to_string(module.join(path)).unwrap()).unwrap()
}

fn ours() -> Vec<Value> {
    crd::kubeadm_crds(&rule_files().unwrap()).unwrap()
}

#[test]
fn every_field_of_cluster_api_has_the_same_schema_here() {
    let Some(module) = module() else {
        println!("skipped: Go is not installed, so {MODULE} cannot be read");
        return;
    };
    let mut differences = Vec::new();
    let mut compared = 0;
    for definition in ours() {
        let plural = definition["spec"]["names"]["plural"].as_str().unwrap();
        let theirs = theirs(&module, &definition);
        for version in ["v1beta1", "v1beta2"] {
            let (mine, theirs) = (fields_of(&definition, version), fields_of(&theirs, version));
            compared += theirs.len();
            for name in theirs.keys().chain(mine.keys()) {
                let (mine, theirs) = (mine.get(name), theirs.get(name));
                let place = format!("{plural} {version} {name}");
                if mine != theirs && !differences.iter().any(|(known, _): &(String, String)| *known == place) {
                    differences.push((place, format!("{mine:?} instead of {theirs:?}")));
                }
            }
        }
        assert_eq!(definition["spec"]["names"], theirs["spec"]["names"]);
        let ours = definition["spec"]["versions"].as_array().unwrap();
        for version in theirs["spec"]["versions"].as_array().unwrap() {
            let mine = ours.iter().find(|mine| mine["name"] == version["name"]).unwrap();
            for part in ["subresources", "served", "storage", "deprecated"] {
                assert_eq!(mine.get(part), version.get(part), "{plural} {part}");
            }
            let columns = |version: &Value| -> Vec<Value> {
                let columns = version["additionalPrinterColumns"].as_array().unwrap();
                columns
                    .iter()
                    .map(|column| json!([column["name"], column["type"], column["jsonPath"], column["priority"]]))
                    .collect()
            };
            assert_eq!(columns(mine), columns(version), "{plural}");
        }
    }
    println!("{compared} fields compared");
    let mut unexplained = Vec::new();
    for (place, difference) in &differences {
        match DIFFERENCES.iter().find(|(known, _)| known == place) {
            Some((_, reason)) => println!("{place}: {difference}: {reason}"),
            None => unexplained.push(format!("{place}: {difference}")),
        }
    }
    assert!(compared > 1500, "{compared}");
    assert!(unexplained.is_empty(), "{}", unexplained.join("\n"));
}

/// The fields with rules in CEL.
fn ruled(path: &str, schema: &Value, found: &mut Vec<String>) {
    if schema.get("x-kubernetes-validations").is_some() {
        found.push(path.to_owned());
    }
    for (name, field) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        ruled(&format!("{path}.{name}"), field, found);
    }
    if let Some(items) = schema.get("items") {
        ruled(&format!("{path}[]"), items, found);
    }
}

#[test]
fn every_field_with_a_rule_of_cluster_api_has_a_rule_here() {
    let Some(module) = module() else {
        println!("skipped: Go is not installed, so {MODULE} cannot be read");
        return;
    };
    let mut compared = 0;
    for definition in ours() {
        let theirs = theirs(&module, &definition);
        for version in theirs["spec"]["versions"].as_array().unwrap() {
            let name = version["name"].as_str().unwrap();
            let (mut mine, mut theirs) = (Vec::new(), Vec::new());
            ruled("", &schema_of(&definition, name), &mut mine);
            ruled("", &version["schema"]["openAPIV3Schema"], &mut theirs);
            compared += theirs.len();
            let missing: Vec<&String> = theirs.iter().filter(|path| !mine.contains(path)).collect();
            assert!(missing.is_empty(), "{name}: {missing:?}");
        }
    }
    // Eight fields in `v1beta2`, and the type of a partition in `v1beta1`, for each of two kinds.
    assert_eq!(compared, 18);
}
