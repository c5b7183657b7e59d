//! A machine that was created from a template, and that the webhooks of the Machine API stored, is
//! up to date. Checked for every field of the provider specs.

use std::sync::Arc;

use capstan_core::cpms::observed::{Observed, Settings};
use capstan_core::cpms::spec::{ParseContext, parse};
use capstan_core::cpms::state::State;
use capstan_core::cpms::{changes, created_from::CREATED_FROM, plan};
use capstan_core::platforms::schema::{self, Type};
use capstan_sandbox::neighbours::machine_webhook::{Case, run};
use serde_json::{Value, json};

use crate::machine_webhook::{cluster, pairs};

/// Values of a type: zeros, absent parts, and others.
fn samples(type_: Type) -> Vec<Value> {
    match type_ {
        Type::Text => vec![json!(""), json!("x"), Value::Null],
        Type::Flag | Type::OptionalFlag => vec![json!(false), json!(true)],
        Type::Number | Type::OptionalNumber => vec![json!(0), json!(1)],
        Type::Quantity => vec![json!("1024Mi"), json!(1 << 30), json!("1.5Gi")],
        Type::NumberOrText => vec![json!(1), json!("1"), json!("0.5"), json!("")],
        Type::Map => vec![json!({}), json!({"a": "b"})],
        Type::Json => Vec::new(),
        Type::Object(fields) | Type::OptionalObject(fields) => {
            let of_field = |(name, type_): &schema::Field| {
                let samples = samples(*type_).into_iter();
                samples.map(|sample| json!({ *name: sample })).collect::<Vec<_>>()
            };
            let unknown = json!({"unknown": 1});
            [json!({}), unknown]
                .into_iter()
                .chain(fields.iter().flat_map(of_field))
                .collect()
        }
        Type::List(item) => {
            let items = samples(*item).into_iter().map(|sample| json!([sample]));
            [json!([]), Value::Null].into_iter().chain(items).collect()
        }
    }
}

/// Variants of a provider spec: each field absent, in another case, and with each sample of its
/// type, by itself and beside the fields that are there.
fn variants(base: &Value) -> Vec<Value> {
    let mut variants = vec![base.clone()];
    let with = |field: &str, value: Value| {
        let mut variant = base.clone();
        variant[field] = value;
        variant
    };
    let kind = base["kind"].as_str().unwrap_or_default();
    for (field, type_) in schema::of_kind(kind).unwrap_or_default() {
        if ["apiVersion", "kind", "metadata"].contains(field) {
            continue;
        }
        let mut without = base.clone();
        if let Some(value) = without.as_object_mut().unwrap().remove(*field) {
            let mut renamed = without.clone();
            renamed[field.to_uppercase()] = value.clone();
            variants.extend([without, renamed]);
            if let Some(parts) = value.as_object() {
                for part in parts.keys() {
                    let mut less = value.clone();
                    less.as_object_mut().unwrap().remove(part);
                    variants.push(with(field, less));
                }
            }
        }
        for sample in samples(*type_) {
            if let (Some(present), Some(parts)) = (base[*field].as_object(), sample.as_object()) {
                let mut merged = present.clone();
                merged.extend(parts.clone());
                variants.push(with(field, Value::Object(merged)));
            }
            variants.push(with(field, sample));
        }
    }
    variants.push(with("unknown", json!({"a": 1})));
    variants
}

/// The provider specs to check, by platform: variants of one recorded provider spec of each.
fn cases() -> Vec<(String, Value)> {
    let mut cases: Vec<(String, Value)> = Vec::new();
    for pair in pairs() {
        let platform = pair["platform"].as_str().unwrap().to_owned();
        if cases.iter().any(|(known, _)| *known == platform) {
            cases.push((platform, pair["sent"].clone()));
        } else {
            let variants = variants(&pair["sent"]).into_iter();
            cases.extend(variants.map(|variant| (platform.clone(), variant)));
        }
    }
    cases
}

fn stored(cases: &[(String, Value)]) -> Vec<Option<Value>> {
    let cases: Vec<Case> = cases
        .iter()
        .map(|(platform, value)| Case {
            cluster: cluster(platform),
            labels: json!({"machine.openshift.io/cluster-api-machine-role": "master"}),
            value: value.clone(),
        })
        .collect();
    run(&cases).unwrap().into_iter().map(|outcome| outcome.stored).collect()
}

#[test]
fn s1_no_stored_provider_spec_has_a_change_against_what_was_sent() {
    let cases = cases();
    let mut compared = 0;
    let mut failures = Vec::new();
    for ((platform, sent), stored) in cases.iter().zip(stored(&cases)) {
        let Some(stored) = stored else { continue };
        compared += 1;
        for domains in [false, true] {
            for images in [false, true] {
                let comparison = changes::Comparison { domains, images };
                let found: Vec<String> = changes::changes(sent, &stored, comparison)
                    .iter()
                    .map(ToString::to_string)
                    .collect();
                if !found.is_empty() {
                    failures.push(format!("{platform} {comparison:?}: {found:?}\n  {sent}"));
                }
            }
        }
    }
    assert!(compared > 400, "only {compared} of {} were stored", cases.len());
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// A set with a template, and the Infrastructure of its platform.
fn set(platform: &str, provider_spec: &Value) -> (Value, Value) {
    let labels = json!({
        "machine.openshift.io/cluster-api-cluster": "test-abcde",
        "machine.openshift.io/cluster-api-machine-role": "master",
        "machine.openshift.io/cluster-api-machine-type": "master",
    });
    let domains = match platform {
        "AWS" => json!({"platform": "AWS", "aws": [
            {"placement": {"availabilityZone": "us-east-1a"}},
            {"placement": {"availabilityZone": "us-east-1b"}, "subnet": {"type": "ID", "id": "subnet-b"}}]}),
        "Azure" => json!({"platform": "Azure", "azure": [{"zone": "1"}, {"zone": "2"}]}),
        "GCP" => json!({"platform": "GCP", "gcp": [{"zone": "us-central1-a"}, {"zone": "us-central1-b"}]}),
        "VSphere" => json!({"platform": "VSphere", "vsphere": [{"name": "a"}, {"name": "b"}]}),
        "Nutanix" => json!({"platform": "Nutanix", "nutanix": [{"name": "a"}, {"name": "b"}]}),
        _ => Value::Null,
    };
    let defined = ["a", "b"].map(|name| {
        json!({"name": name, "region": "r", "zone": name, "server": "vc", "cluster": {"type": "UUID", "uuid": name},
            "topology": {"computeCluster": "/dc/host/c", "datacenter": "dc", "datastore": "/dc/datastore/d",
                "networks": [name, "common"], "template": "/dc/vm/rhcos"},
            "subnets": [{"type": "Name", "name": name}]})
    });
    let set = json!({
        "metadata": {"name": "cluster", "namespace": "openshift-machine-api", "uid": "set"},
        "spec": {"replicas": 3, "state": "Active", "strategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": labels},
            "template": {"machineType": "machines_v1beta1_machine_openshift_io",
                "machines_v1beta1_machine_openshift_io": {
                    "failureDomains": domains, "metadata": {"labels": labels},
                    "spec": {"providerSpec": {"value": provider_spec}}}}},
    });
    let infrastructure = json!({"metadata": {"name": "cluster"},
        "spec": {"platformSpec": {"vsphere": {"failureDomains": defined}, "nutanix": {"failureDomains": defined}}},
        "status": {"infrastructureName": "test-abcde", "platformStatus": {"type": platform}}});
    (set, infrastructure)
}

/// The machine that the set creates for an index, and the state with a machine of this provider
/// spec. `None` for a set that is not valid.
fn made(set: &Value, infrastructure: &Value, index: u32) -> Option<Value> {
    let (spec, observed) = read(set, infrastructure)?;
    let state = State::observe(&spec, observed, Settings::default());
    let machine = plan::made_machine(&spec, &state, index, None).ok()?;
    serde_json::to_value(machine).ok()
}

fn read(set: &Value, infrastructure: &Value) -> Option<(capstan_core::cpms::spec::Spec, Observed)> {
    let infrastructure = Arc::new(serde_json::from_value(infrastructure.clone()).unwrap());
    let context = ParseContext {
        infrastructure: Some(&infrastructure),
        ..ParseContext::default()
    };
    let spec = parse(&serde_json::from_value(set.clone()).ok()?, &context).ok()?;
    let observed = Observed {
        infrastructure: Some(Arc::clone(&infrastructure)),
        ..Observed::default()
    };
    Some((spec, observed))
}

/// The property holds for machines that have a record of what they were created from, and by the
/// comparison of fields for machines without one.
#[test]
fn s1_a_machine_that_was_made_and_stored_is_up_to_date_on_every_platform() {
    let mut made_machines = Vec::new();
    for (platform, template) in cases() {
        let (set, infrastructure) = set(&platform, &template);
        for index in 0..2 {
            if let Some(machine) = made(&set, &infrastructure, index) {
                let sent = machine["spec"]["providerSpec"]["value"].clone();
                made_machines.push(((platform.clone(), sent), (set.clone(), infrastructure.clone(), machine)));
            }
        }
    }
    let (sent, made): (Vec<_>, Vec<_>) = made_machines.into_iter().unzip();
    let mut compared = 0;
    let mut failures = Vec::new();
    for (((platform, sent), stored), (set, infrastructure, machine)) in sent.iter().zip(stored(&sent)).zip(made) {
        let Some(stored) = stored else { continue };
        compared += 1;
        for recorded in [true, false] {
            let mut machine = machine.clone();
            machine["spec"]["providerSpec"]["value"] = stored.clone();
            machine["metadata"]["uid"] = json!("m");
            if !recorded {
                machine["metadata"]["annotations"]
                    .as_object_mut()
                    .unwrap()
                    .remove(CREATED_FROM);
            }
            let (spec, mut observed) = read(&set, &infrastructure).unwrap();
            observed
                .machines
                .push(Arc::new(serde_json::from_value(machine).unwrap()));
            let state = State::observe(&spec, observed, Settings::default());
            for machine in state.each_machine().filter(|machine| !machine.is_current()) {
                failures.push(format!(
                    "{platform}, recorded: {recorded}: {:?}\n  {sent}",
                    machine.changes
                ));
            }
        }
    }
    assert!(compared > 400, "only {compared} were stored");
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
