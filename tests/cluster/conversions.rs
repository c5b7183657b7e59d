//! Results of the conversion without issues are accepted by a real API server with the CRDs of
//! both APIs and of Cluster API's providers.
//!
//! The CRDs are not part of this repository. The test downloads those that are in Go modules: of
//! both APIs, AWS and GCP. It reads those of the other providers from the folders that the variable
//! `PROVIDER_CRDS` names and from `shared/reference/crds` beside the repository, and prints the
//! kinds that it could not check.

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
use capstan_sandbox::neighbours::openshift_api::{OpenShiftApi, Variant};
use capstan_sandbox::neighbours::provider_crds;
use serde_json::{Value, json};

use random::{Random, cluster_api, machine_api};
use samples::{Sample, samples};

/// Machines that are generated for each platform and direction.
const RUNS: u64 = 100;

/// The kinds of the Machine API.
const MACHINE_API: [&str; 3] = ["machines", "machinesets", "machinehealthchecks"];

/// Kinds that are always checked, because their CRDs are in Go modules.
const ALWAYS_CHECKED: [&str; 10] = [
    "cluster.x-k8s.io Machine",
    "cluster.x-k8s.io MachineHealthCheck",
    "cluster.x-k8s.io MachineSet",
    "infrastructure.cluster.x-k8s.io AWSMachine",
    "infrastructure.cluster.x-k8s.io AWSMachineTemplate",
    "infrastructure.cluster.x-k8s.io GCPMachine",
    "infrastructure.cluster.x-k8s.io GCPMachineTemplate",
    "machine.openshift.io Machine",
    "machine.openshift.io MachineHealthCheck",
    "machine.openshift.io MachineSet",
];

/// Folders with CRDs of Cluster API and of its providers.
fn folders() -> Vec<PathBuf> {
    let mut all = provider_crds::folders().unwrap();
    let named = std::env::var_os("PROVIDER_CRDS").unwrap_or_default();
    all.extend(std::env::split_paths(&named).filter(|folder| folder.is_dir()));
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    for providers in above.map(|folder| folder.join("shared/reference/crds")) {
        let entries = std::fs::read_dir(providers).into_iter().flatten();
        all.extend(entries.map(|entry| entry.unwrap().path()));
    }
    all
}

/// The CRDs of machines by kind, without the webhooks that convert between their versions.
fn definitions() -> BTreeMap<String, Value> {
    let api = OpenShiftApi::locate().unwrap();
    let of_machine_api = |plural| api.crd("machine/v1beta1", plural, Variant::CustomNoUpgrade).unwrap();
    let mut all: Vec<Value> = MACHINE_API.into_iter().map(of_machine_api).collect();
    for folder in folders() {
        let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.unwrap().path())
            .filter(|file| {
                let name = file.file_name().unwrap().to_string_lossy();
                name.contains("machine") && !name.contains("pool") && name.ends_with(".yaml")
            })
            .collect();
        files.sort();
        let read = |file: PathBuf| serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        all.extend(files.into_iter().map(read));
    }
    let mut found = BTreeMap::new();
    for mut definition in all {
        definition["spec"]["conversion"] = json!({"strategy": "None"});
        definition.as_object_mut().unwrap().remove("status");
        let spec = &definition["spec"];
        let [group, kind] = [&spec["group"], &spec["names"]["kind"]].map(|name| name.as_str().unwrap());
        found.insert(format!("{group} {kind}"), definition);
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

/// The results for MachineHealthChecks, in both directions.
fn health_checks() -> Vec<Value> {
    let meta = json!({"name": "workers", "namespace": "openshift-machine-api"});
    let base = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck", "metadata": meta,
        "spec": {
            "selector": {"matchLabels": {"machine.openshift.io/cluster-api-machine-role": "worker"}},
            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": "5m"}]},
    });
    let specs = [
        json!({}),
        json!({"nodeStartupTimeout": "0", "maxUnhealthy": 1}),
        json!({"nodeStartupTimeout": "1h5m", "maxUnhealthy": "40%"}),
        json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}),
        json!({"remediationTemplate": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
            "kind": "Metal3RemediationTemplate", "name": "a", "namespace": "openshift-machine-api"}}),
    ];
    let all = samples();
    let context = all.first().unwrap().context();
    let mut objects = Vec::new();
    for spec in specs {
        let mut check = base.clone();
        check["spec"]
            .as_object_mut()
            .unwrap()
            .extend(spec.as_object().cloned().unwrap());
        let there = convert(&check, &context);
        assert_eq!(there.issues, [], "{check:#}");
        let back = convert(&there.objects[0], &context);
        assert_eq!(back.issues, [], "{check:#}");
        objects.extend([there.objects, back.objects].concat());
    }
    objects
}

#[tokio::test]
#[allow(clippy::print_stdout, reason = "the test reports what it checked")]
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
    let [mut checked, mut unchecked] = [BTreeSet::new(), BTreeSet::new()];
    let groups = samples().into_iter().map(|sample| (sample.platform, results(&sample)));
    for (name, objects) in groups.chain([("health checks", health_checks())]) {
        let (known, unknown): (Vec<Value>, Vec<Value>) = objects
            .into_iter()
            .partition(|object| definitions.contains_key(&key(object)));
        checked.extend(known.iter().map(key));
        unchecked.extend(unknown.iter().map(key));
        println!("{name}: {} objects", known.len());
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
        assert!(output.success(), "{name}: {}", output.stderr);
        assert_eq!(output.stdout.lines().count(), known.len(), "{name}");
    }
    for kind in ALWAYS_CHECKED {
        assert!(checked.contains(kind), "no {kind} was checked");
    }
    for kind in unchecked {
        println!("not checked, because its CRD was not found: {kind}");
    }
}
