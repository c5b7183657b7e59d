//! The stand-in for the webhooks of OpenShift's Machine API stores and refuses what the real
//! webhooks do.
//!
//! `tests/fixtures/machine-webhook-pairs.jsonl` holds pairs of sent and stored provider specs that
//! were recorded on the real webhooks. `CAPSTAN_MACHINE_WEBHOOK_PAIRS` names a file with further
//! pairs. A pair without `stored` must be refused.

use std::fs;

use capstan_sandbox::control_plane::{ControlPlane, Options};
use capstan_sandbox::neighbours::machine_webhook::{Case, Cluster, MachineWebhook, Outcome, run};
use capstan_sandbox::neighbours::openshift_api::{OpenShiftApi, Variant};
use serde_json::{Value, json};

/// The cluster on which the pairs were recorded.
pub(crate) fn cluster(platform: &str) -> Cluster {
    Cluster {
        platform: platform.to_owned(),
        infrastructure_name: "test-abcde".to_owned(),
        region: "us-east-1".to_owned(),
        public_zone: false,
    }
}

pub(crate) fn pairs() -> Vec<Value> {
    let recorded = format!(
        "{}/tests/fixtures/machine-webhook-pairs.jsonl",
        env!("CARGO_MANIFEST_DIR")
    );
    let further = std::env::var("CAPSTAN_MACHINE_WEBHOOK_PAIRS").ok();
    let mut pairs = Vec::new();
    for file in [recorded].into_iter().chain(further) {
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
        pairs.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
    }
    pairs
}

#[test]
fn every_recorded_provider_spec_is_stored_as_on_openshift() {
    let pairs = pairs();
    assert!(pairs.len() >= 25, "{}", pairs.len());
    let cases: Vec<Case> = pairs
        .iter()
        .map(|pair| Case {
            cluster: cluster(pair["platform"].as_str().unwrap()),
            labels: json!({}),
            value: pair["sent"].clone(),
        })
        .collect();
    for (pair, outcome) in pairs.iter().zip(run(&cases).unwrap()) {
        let expected = pair.get("stored").filter(|stored| !stored.is_null());
        assert_eq!(
            outcome.stored.as_ref(),
            expected,
            "{} {}: refusals {:?}",
            pair["platform"],
            pair["case"],
            outcome.refusals
        );
    }
}

/// The first recorded provider spec of a platform, with a change.
fn changed(platform: &str, change: Change) -> Outcome {
    let mut value = pairs().into_iter().find(|pair| pair["platform"] == platform).unwrap()["sent"].take();
    change(&mut value);
    let case = Case {
        cluster: cluster(platform),
        labels: json!({"machine.openshift.io/cluster-api-machine-role": "master"}),
        value,
    };
    run(&[case]).unwrap().remove(0)
}

/// A change of a provider spec.
type Change = fn(&mut Value);

/// A data disk of Azure without a logical unit number.
fn data_disk(suffix: &str) -> Value {
    json!({"nameSuffix": suffix, "diskSizeGB": 4, "deletionPolicy": "Delete"})
}

fn remove(value: &mut Value, pointer: &str) {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    value
        .pointer_mut(parent)
        .unwrap()
        .as_object_mut()
        .unwrap()
        .remove(field);
}

#[test]
fn every_provider_spec_that_openshift_refuses_is_refused() {
    let cases: [(&str, &str, Change); 14] = [
        ("AWS", "ami", |value| remove(value, "/ami/id")),
        ("AWS", "placement.tenancy", |value| {
            value["placement"]["tenancy"] = json!("host");
        }),
        ("AWS", "cpuOptions", |value| value["cpuOptions"] = json!({})),
        ("AWS", "deviceIndex", |value| value["deviceIndex"] = json!("1")),
        ("Azure", "dataDisks[1].lun", |value| {
            value["dataDisks"] = json!([data_disk("a"), data_disk("b")]);
        }),
        ("Azure", "subnet", |value| {
            value["vnet"] = json!("a");
            remove(value, "/subnet");
        }),
        ("Azure", "publicIP", |value| value["publicIP"] = json!(true)),
        ("GCP", "region", |value| remove(value, "/region")),
        ("GCP", "disks[0].type", |value| {
            value["disks"][0]["type"] = json!("pd-extreme");
        }),
        ("VSphere", "workspace.folder", |value| {
            value["workspace"]["folder"] = json!("/other/vm/a");
        }),
        ("VSphere", "network.devices", |value| {
            value["network"]["devices"] = json!([]);
        }),
        ("Nutanix", "subnets", |value| value["subnets"] = json!([])),
        ("PowerVS", "keyPairName", |value| value["keyPairName"] = json!("")),
        ("PowerVS", "image", |value| {
            value["image"] = json!({"type": "RegEx", "regex": "a"});
        }),
    ];
    for (platform, field, change) in cases {
        let outcome = changed(platform, change);
        assert!(outcome.stored.is_none(), "{platform} {field}: {outcome:?}");
        assert!(outcome.refusals[0].contains(field), "{platform} {field}: {outcome:?}");
    }
}

#[test]
fn a_key_of_another_case_is_stored_in_the_case_of_the_type_and_openstack_is_stored_as_sent() {
    let outcome = changed("AWS", |value| {
        remove(value, "/instanceType");
        value["InstanceType"] = json!("m6i.large");
    });
    assert_eq!(outcome.stored.unwrap()["instanceType"], "m6i.large");
    let value = json!({"flavor": "m1", "unknown": {"a": null}});
    let case = Case {
        cluster: cluster("OpenStack"),
        labels: json!({}),
        value: value.clone(),
    };
    assert_eq!(run(&[case]).unwrap()[0].stored, Some(value));
}

#[tokio::test]
async fn the_api_server_prunes_defaults_and_refuses_machines_on_creation_and_not_on_update() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let api = OpenShiftApi::locate().unwrap();
    for plural in ["machines", "machinesets"] {
        let crd = api.crd("machine/v1beta1", plural, Variant::CustomNoUpgrade).unwrap();
        plane.apply_yaml(&crd.to_string()).await.unwrap();
    }
    let _webhook = MachineWebhook::start(&plane, &cluster("AWS")).await.unwrap();
    let mut sent = pairs()[0]["sent"].clone();
    sent["unknown"] = json!(1);
    let machine = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": "a", "namespace": "default"}, "spec": {"providerSpec": {"value": sent}}});
    let kubectl = async |arguments: &[&str], stdin: &Value| {
        let call = plane.kubectl().args(arguments.to_vec()).stdin(stdin.to_string());
        call.run().await.unwrap()
    };
    let created = kubectl(&["create", "-o", "json", "-f", "-"], &machine).await;
    let created: Value = serde_json::from_str(&created.checked().unwrap().stdout).unwrap();
    assert_eq!(created["spec"]["providerSpec"]["value"], pairs()[0]["stored"]);
    assert_eq!(
        created["metadata"]["labels"]["machine.openshift.io/cluster-api-cluster"],
        "test-abcde"
    );

    let patch = json!({"spec": {"providerSpec": {"value": {"unknown": 1}}}}).to_string();
    let patched = kubectl(
        &["patch", "machine", "a", "--type=merge", "-p", &patch, "-o", "json"],
        &Value::Null,
    )
    .await;
    assert!(
        patched.stderr.contains("Unknown field (unknown) will be ignored"),
        "{patched}"
    );
    let patched: Value = serde_json::from_str(&patched.checked().unwrap().stdout).unwrap();
    assert_eq!(patched["spec"]["providerSpec"]["value"]["unknown"], 1);
    let patch = json!({"spec": {"providerSpec": {"value": {"ami": null}}}}).to_string();
    let refused = kubectl(&["patch", "machine", "a", "--type=merge", "-p", &patch], &Value::Null).await;
    assert!(refused.stderr.contains("validation.machine.openshift.io"), "{refused}");
}

/// The recordings that the simulation replays. `CAPSTAN_UPDATE=1` records them anew.
#[test]
fn the_recordings_of_the_simulation_are_what_the_webhooks_do() {
    use capstan_sandbox::simulation::foreign::machine_webhook::{REGION, Recording, cases, read};

    let path = format!(
        "{}/sandbox/src/simulation/foreign/machine-webhook/recordings.jsonl",
        env!("CARGO_MANIFEST_DIR")
    );
    let usual = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "AWSMachineProviderConfig",
        "ami": {"id": "ami-0123"}, "instanceType": "m6i.xlarge", "userDataSecret": {"name": "master-user-data"},
        "credentialsSecret": {"name": "aws-cloud-credentials"},
        "placement": {"region": REGION, "availabilityZone": "us-east-1a"}});
    let labels = json!({"machine.openshift.io/cluster-api-machine-role": "master"});
    let sent = cases(&usual);
    let cluster = Cluster {
        region: REGION.to_owned(),
        ..cluster("AWS")
    };
    let requests: Vec<Case> = sent
        .iter()
        .map(|value| Case {
            cluster: cluster.clone(),
            labels: labels.clone(),
            value: value.clone(),
        })
        .collect();
    let recorded: Vec<Recording> = sent
        .iter()
        .zip(run(&requests).unwrap())
        .map(|(sent, outcome)| Recording {
            labels: labels.clone(),
            sent: sent.clone(),
            stored: outcome.stored,
            refusals: outcome.refusals,
            warnings: outcome.warnings,
        })
        .collect();
    if std::env::var_os("CAPSTAN_UPDATE").is_some() {
        let lines = recorded.iter().map(|one| serde_json::to_string(one).unwrap() + "\n");
        fs::write(&path, lines.collect::<String>()).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(
        read(&text).unwrap(),
        recorded,
        "CAPSTAN_UPDATE=1 records the webhooks anew"
    );
}
