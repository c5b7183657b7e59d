//! Results of the conversion without issues are accepted by a real API server with the CRDs of
//! both APIs and of Cluster API's providers.
//!
//! The CRDs are not part of this repository. The tests read them from Go's module cache and from
//! `shared/reference/crds` beside the repository, and print the kinds that they could not check.

#[path = "../../core/src/conversion/tests/menus.rs"]
#[allow(
    clippy::needless_pass_by_value,
    reason = "a value written in place is easier to read without a reference"
)]
mod menus;
#[path = "../../core/src/conversion/tests/random.rs"]
mod random;
#[path = "../../core/src/conversion/tests/samples.rs"]
#[allow(
    clippy::needless_pass_by_value,
    reason = "a value written in place is easier to read without a reference"
)]
mod samples;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use capstan_core::conversion::{Context, Lookup, convert};
use capstan_sandbox::control_plane::{ControlPlane, Options};
use serde_json::{Value, json};

use random::{Random, cluster_api, machine_api};
use samples::{Sample, samples};

/// Machines that are generated for each platform and direction.
const RUNS: u64 = 40;

/// Folders of Go modules with CRDs. The pages in `docs/conversion` list the same versions.
const MODULES: [&str; 4] = [
    "sigs.k8s.io/cluster-api@v1.14.0/core/config/crd/bases",
    "sigs.k8s.io/cluster-api-provider-aws/v2@v2.13.0/config/crd/bases",
    "sigs.k8s.io/cluster-api-provider-gcp@v1.13.1/config/crd/bases",
    "github.com/openshift/api@v0.0.0-20260420151639-34e60874783e/machine/v1beta1/zz_generated.crd-manifests",
];

fn folders() -> Vec<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join("go/pkg/mod");
    let cache = std::env::var_os("GOMODCACHE").map_or(home, PathBuf::from);
    let mut all: Vec<PathBuf> = MODULES.iter().map(|module| cache.join(module)).collect();
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    for providers in above.map(|folder| folder.join("shared/reference/crds")) {
        let entries = std::fs::read_dir(providers).into_iter().flatten();
        all.extend(entries.map(|entry| entry.unwrap().path()));
    }
    all
}

/// The CRDs of machines by kind, without the webhooks that convert between their versions.
fn definitions() -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for folder in folders() {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let is_machine = name.contains("machine") && !name.contains("pool") && name.ends_with(".yaml");
            // `openshift/api` has a file for each feature set.
            let is_complete = !name.contains(".crd.yaml")
                || name.ends_with("s.crd.yaml")
                || name.ends_with("CustomNoUpgrade.crd.yaml");
            if !is_machine || !is_complete {
                continue;
            }
            let text = std::fs::read_to_string(&file).unwrap();
            let mut definition: Value = serde_saphyr::from_str(&text).unwrap();
            definition["spec"]["conversion"] = json!({"strategy": "None"});
            definition.as_object_mut().unwrap().remove("status");
            let names = &definition["spec"];
            let key = format!(
                "{} {}",
                names["group"].as_str().unwrap(),
                names["names"]["kind"].as_str().unwrap()
            );
            found.insert(key, definition);
        }
    }
    found
}

fn key(object: &Value) -> String {
    let group = object["apiVersion"].as_str().unwrap().split('/').next().unwrap();
    format!("{group} {}", object["kind"].as_str().unwrap())
}

/// The objects of results without issues, in both directions: of the machine as an installer makes
/// it, and of generated ones.
fn results(sample: &Sample) -> Vec<Value> {
    let mut objects = Vec::new();
    let mut add = |object: &Value, infrastructure: Option<&Value>| {
        let context = Context {
            infrastructure_machine: infrastructure.map_or(Lookup::Absent, Lookup::Found),
            ..sample.context()
        };
        let converted = convert(object, &context);
        if converted.issues.is_empty() {
            objects.extend(converted.objects.clone());
        }
        converted.objects
    };
    for object in [sample.machine(&sample.provider_spec), sample.set(&sample.provider_spec)] {
        let there = add(&object, None);
        add(&there[0], Some(&there[1]));
    }
    for seed in 0..RUNS {
        let mut random = Random(seed + 3);
        add(&machine_api(sample, &mut random), None);
        let (object, infrastructure) = cluster_api(sample, &mut random);
        add(&object, Some(&infrastructure));
    }
    objects
}

#[tokio::test]
#[allow(clippy::print_stdout, reason = "the test reports which kinds it could not check")]
async fn every_result_without_issues_is_accepted_by_the_api_server() {
    let definitions = definitions();
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    for definition in definitions.values() {
        let arguments = ["create", "-f", "-"];
        let output = plane
            .kubectl()
            .args(arguments)
            .stdin(definition.to_string())
            .run()
            .await;
        output.unwrap().checked().unwrap();
    }
    let wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
    plane.kubectl().args(wait).run().await.unwrap().checked().unwrap();
    for namespace in ["openshift-machine-api", "openshift-cluster-api"] {
        let arguments = ["create", "namespace", namespace];
        plane.kubectl().args(arguments).run().await.unwrap().checked().unwrap();
    }
    let mut unchecked = BTreeSet::new();
    for sample in samples() {
        let (known, unknown): (Vec<Value>, Vec<Value>) = results(&sample)
            .into_iter()
            .partition(|object| definitions.contains_key(&key(object)));
        unchecked.extend(unknown.iter().map(key));
        let documents: Vec<String> = known.iter().map(Value::to_string).collect();
        let arguments = [
            "create",
            "--dry-run=server",
            "--validate=strict",
            "-o",
            "name",
            "-f",
            "-",
        ];
        let output = plane
            .kubectl()
            .args(arguments)
            .stdin(documents.join("\n---\n"))
            .run()
            .await
            .unwrap();
        assert!(output.success(), "{}: {}", sample.platform, output.stderr);
        assert_eq!(output.stdout.lines().count(), known.len(), "{}", sample.platform);
    }
    for kind in unchecked {
        println!("not checked, because its CRD was not found: {kind}");
    }
}
