//! The results of conversions without issues, against the schemas of both APIs.
//!
//! The CRDs are not part of this repository. The test reads them from Go's module cache, from the
//! folders that `PROVIDER_CRDS` names, and from `shared/reference/crds` beside the repository. It
//! prints the kinds that it could not check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use capstan_core::cel::rules::RuleFile;
use capstan_core::conversion::{Context, Lookup, convert};
use capstan_core::schema::Definition;
use serde_json::Value;

use super::random::{Random, cluster_api, machine_api};
use super::samples::samples;

/// Machines that are generated for each platform and direction.
const RUNS: u64 = 500;

/// Folders of Go modules with CRDs. The pages in `docs/conversion` list the same versions.
const MODULES: [&str; 5] = [
    "sigs.k8s.io/cluster-api@v1.14.0/core/config/crd/bases",
    "sigs.k8s.io/cluster-api-provider-aws/v2@v2.13.0/config/crd/bases",
    "sigs.k8s.io/cluster-api-provider-gcp@v1.13.1/config/crd/bases",
    "github.com/openshift/api@v0.0.0-20260420151639-34e60874783e/machine/v1beta1/zz_generated.crd-manifests",
    "github.com/openshift/api@v0.0.0-20260420151639-34e60874783e/config/v1/zz_generated.crd-manifests",
];

/// Go's module cache.
fn module_cache() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join("go");
    let go_path = || std::env::var_os("GOPATH").map_or_else(home, PathBuf::from);
    std::env::var_os("GOMODCACHE").map_or_else(|| go_path().join("pkg/mod"), PathBuf::from)
}

fn folders() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = MODULES.iter().map(|module| module_cache().join(module)).collect();
    if let Some(named) = std::env::var_os("PROVIDER_CRDS") {
        all.extend(std::env::split_paths(&named));
    }
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    all.extend(above.map(|folder| folder.join("shared/reference/crds")));
    all
}

/// Whether a file has the CRD of all features; `openshift/api` has one for each feature set.
fn is_complete(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    !name.ends_with(".crd.yaml") || name.ends_with("s.crd.yaml") || name.ends_with("CustomNoUpgrade.crd.yaml")
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml") && is_complete(&path) {
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

/// The kinds of the objects that were checked.
#[derive(Default)]
struct Checked {
    definitions: BTreeMap<String, Definition>,
    kinds: BTreeMap<String, usize>,
    unknown: BTreeSet<String>,
}

impl Checked {
    fn check(&mut self, objects: &[Value], source: &Value) {
        for object in objects {
            let Some(definition) = self.definitions.get(&key(object)) else {
                self.unknown.insert(key(object));
                continue;
            };
            let outcome = definition.apply(object, None);
            assert!(
                outcome.violations.is_empty() && outcome.unknown.is_empty(),
                "{:#?} {:?}\n{object:#}\nfrom\n{source:#}",
                outcome.violations,
                outcome.unknown
            );
            *self.kinds.entry(key(object)).or_default() += 1;
        }
    }
}

#[test]
fn every_result_without_issues_is_accepted_by_the_schemas_of_both_apis() {
    let mut checked = Checked {
        definitions: definitions(),
        ..Checked::default()
    };
    for sample in samples() {
        for seed in 0..RUNS {
            let mut random = Random(seed + 7);
            let source = machine_api(&sample, &mut random);
            let there = convert(&source, &sample.context());
            if there.issues.is_empty() {
                checked.check(&there.objects, &source);
            }
            let (object, infrastructure) = cluster_api(&sample, &mut random);
            let context = Context {
                infrastructure_machine: Lookup::Found(&infrastructure),
                ..sample.context()
            };
            let back = convert(&object, &context);
            if back.issues.is_empty() {
                checked.check(&back.objects, &object);
            }
        }
    }
    for (kind, count) in &checked.kinds {
        println!("{kind}: {count} objects");
    }
    for kind in &checked.unknown {
        println!("not checked, because its CRD was not found: {kind}");
    }
}
