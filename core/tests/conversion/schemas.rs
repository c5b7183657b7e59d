//! The results of conversions without issues, against the schemas of the providers' CRDs.
//!
//! The CRDs are not part of this repository. The test looks for them in the folder that
//! `PROVIDER_CRDS` names, or beside the repository, and prints the platforms that it could not
//! check.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use capstan_core::cel::rules::RuleFile;
use capstan_core::conversion::{Context, Lookup, convert};
use capstan_core::schema::Definition;
use serde_json::Value;

use super::random::{Random, cluster_api, machine_api};
use super::samples::samples;

/// Machines that are generated for each platform and direction.
const RUNS: u64 = 500;

fn folders() -> Vec<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/reference/crds");
    let named = std::env::var_os("PROVIDER_CRDS").map(|all| std::env::split_paths(&all).collect());
    named.unwrap_or_else(|| vec![beside])
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
}

/// The definitions by `apiVersion kind`.
fn definitions() -> BTreeMap<String, Definition> {
    let mut paths = Vec::new();
    for folder in folders() {
        files(&folder, &mut paths);
    }
    paths.sort();
    let mut found = BTreeMap::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let Ok(crd) = serde_saphyr::from_str::<Value>(&text) else {
            continue;
        };
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
        let group = crd["spec"]["group"].as_str().unwrap_or_default().to_owned();
        for version in crd["spec"]["versions"].as_array().into_iter().flatten() {
            let version = version["name"].as_str().unwrap_or_default();
            match Definition::parse(&crd, Some(version), &RuleFile::default()) {
                Ok(definition) => {
                    found.insert(format!("{group}/{version} {kind}"), definition);
                }
                Err(error) => println!("not checked: {kind} {version}: {error}"),
            }
        }
    }
    found
}

fn key(object: &Value) -> String {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    format!("{} {}", text("apiVersion"), text("kind"))
}

fn check(definitions: &BTreeMap<String, Definition>, objects: &[Value], source: &Value) -> usize {
    let mut checked = 0;
    for object in objects {
        let Some(definition) = definitions.get(&key(object)) else {
            continue;
        };
        let outcome = definition.apply(object, None);
        assert!(
            outcome.violations.is_empty() && outcome.unknown.is_empty(),
            "{:#?} {:?}\n{object:#}\nfrom\n{source:#}",
            outcome.violations,
            outcome.unknown
        );
        checked += 1;
    }
    checked
}

#[test]
fn every_result_without_issues_is_accepted_by_the_schema_of_its_provider() {
    let definitions = definitions();
    for sample in samples() {
        let mut checked = 0;
        for seed in 0..RUNS {
            let mut random = Random(seed + 7);
            let source = machine_api(&sample, &mut random);
            let there = convert(&source, &sample.context());
            if there.issues.is_empty() {
                checked += check(&definitions, &there.objects, &source);
            }
            let (object, infrastructure) = cluster_api(&sample, &mut random);
            let context = Context {
                infrastructure_machine: Lookup::Found(&infrastructure),
                ..sample.context()
            };
            let back = convert(&object, &context);
            if back.issues.is_empty() {
                checked += check(&definitions, &back.objects, &object);
            }
        }
        if checked == 0 {
            println!("not checked: no CRD of {} was found", sample.machine);
        }
    }
}
