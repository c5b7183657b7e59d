//! Hostile input for everything in core that reads some: bytes of reviews, sets, rule files, selectors, provider specs. No input
//! may panic, and every review that can be answered is answered under its uid.
//!
//! `FUZZ_RUNS=1000000 cargo test --release -p capstan-core --test fuzz -- --nocapture` runs longer.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that cannot read its own answer should stop, and says how much it ran"
)]

use capstan_core::admission::{Admission, Options, ROUTES, Snapshot, Source};
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::meta::LabelSelector;
use capstan_core::cel::Program;
use capstan_core::cel::rules::{RuleFile, RuleSet};
use capstan_core::cpms::changes::{Comparison, canonical, changes};
use capstan_core::cpms::domains::{Platform, extract, strip};
use capstan_core::cpms::selector::Selector;
use capstan_core::cpms::spec::{ParseContext, parse};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

/// Executions of each target.
fn runs() -> u32 {
    std::env::var("FUZZ_RUNS")
        .ok()
        .and_then(|runs| runs.parse().ok())
        .unwrap_or(2_000)
}

fn fuzz<S: Strategy>(target: &str, strategy: &S, run: impl Fn(S::Value)) {
    let config = Config {
        cases: runs(),
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let outcome = runner.run(strategy, |input| {
        run(input);
        Ok(())
    });
    outcome.unwrap();
    println!("{target}: {} executions, no panic", runs());
}

/// Words that mean something somewhere, and some that mean nothing.
fn word() -> impl Strategy<Value = String> {
    let known = [
        "spec",
        "metadata",
        "name",
        "cluster",
        "labels",
        "annotations",
        "finalizers",
        "replicas",
        "state",
        "Active",
        "strategy",
        "type",
        "selector",
        "matchLabels",
        "matchExpressions",
        "template",
        "machineType",
        "providerSpec",
        "value",
        "kind",
        "machines_v1beta1_machine_openshift_io",
        "failureDomains",
        "platform",
        "aws",
        "azure",
        "gcp",
        "vsphere",
        "nutanix",
        "AWSMachineProviderConfig",
        "VSphereMachineProviderSpec",
        "NutanixMachineProviderConfig",
        "placement",
        "subnet",
        "workspace",
        "network",
        "devices",
        "disks",
        "deletionTimestamp",
        "capstan.dev/rollout-limit",
        "status",
    ];
    prop_oneof![4 => prop::sample::select(known.to_vec()).prop_map(str::to_owned), 1 => ".{0,12}"]
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(word(), inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A set whose parts are anything.
fn set() -> impl Strategy<Value = Value> {
    (json_value(), json_value(), json_value(), json_value(), json_value()).prop_map(
        |(metadata, spec, machine, provider, domains)| {
            let machine = match machine {
                Value::Null => json!({
                    "metadata": {"labels": {}}, "failureDomains": domains, "spec": {"providerSpec": {"value": provider}}
                }),
                other => other,
            };
            let spec = match spec {
                Value::Null => json!({
                    "replicas": 3, "state": "Active", "selector": {},
                    "template": {
                        "machineType": "machines_v1beta1_machine_openshift_io",
                        "machines_v1beta1_machine_openshift_io": machine,
                    },
                }),
                other => other,
            };
            json!({
                "apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet", "metadata": metadata, "spec": spec
            })
        },
    )
}

fn review(object: &Value, old: &Value, operation: &str) -> Vec<u8> {
    serde_json::to_vec(
        &json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u-1",
            "kind": {"group": "machine.openshift.io", "version": "v1", "kind": "ControlPlaneMachineSet"},
            "resource": {"group": "machine.openshift.io", "version": "v1", "resource": "controlplanemachinesets"},
            "operation": operation, "userInfo": {}, "object": object, "oldObject": old,
        }}),
    )
    .unwrap()
}

fn snapshot() -> Snapshot {
    Snapshot {
        source: Source::Cluster,
        machines: Some(Vec::new()),
        ..Snapshot::default()
    }
}

#[test]
fn every_review_of_anything_is_answered_under_its_uid() {
    let admission = Admission::new(Options::default()).unwrap();
    let snapshot = snapshot();
    let operation = prop::sample::select(vec!["CREATE", "UPDATE", "DELETE", "CONNECT"]);
    fuzz(
        "review, objects",
        &(set(), set(), operation),
        |(object, old, operation)| {
            let body = review(&object, &old, operation);
            for route in ROUTES
                .iter()
                .filter(|route| route.path.ends_with("-controlplanemachineset"))
            {
                let answer = admission.answer(route, &body, &snapshot).unwrap();
                let answer: Value = serde_json::from_slice(&answer.body).unwrap();
                assert_eq!(answer["response"]["uid"], "u-1");
            }
        },
    );
}

#[test]
fn bytes_that_were_damaged_on_the_way_are_answered_or_are_no_review() {
    let admission = Admission::new(Options::default()).unwrap();
    let snapshot = snapshot();
    let object = json!({"metadata": {"name": "cluster"}, "spec": {"replicas": 3}});
    let whole = review(&object, &object, "UPDATE");
    let damage = prop::collection::vec((0..whole.len(), any::<u8>()), 0..8);
    fuzz(
        "review, bytes",
        &(damage, 0..=whole.len(), any::<bool>()),
        |(damage, cut, is_cut)| {
            let mut body = whole.clone();
            for (at, byte) in damage {
                body[at] = byte;
            }
            if is_cut {
                body.truncate(cut);
            }
            for route in ROUTES {
                if let Ok(answer) = admission.answer(route, &body, &snapshot) {
                    let told: Value = serde_json::from_slice(&answer.body).unwrap();
                    assert_eq!(told["response"]["uid"].as_str().unwrap(), answer.record.uid);
                }
            }
        },
    );
}

#[test]
fn any_set_parses_or_is_refused_with_reasons() {
    fuzz("cpms::spec::parse", &set(), |set| {
        if let Ok(set) = serde_json::from_value::<ControlPlaneMachineSet>(set)
            && let Err(violations) = parse(&set, &ParseContext::default())
        {
            assert!(!violations.is_empty());
        }
    });
}

#[test]
fn any_selector_parses_or_is_refused() {
    fuzz("selector", &json_value(), |value| {
        if let Ok(selector) = serde_json::from_value::<LabelSelector>(value) {
            let _verdict = Selector::parse(&selector);
        }
    });
}

#[test]
fn any_provider_spec_is_compared_without_panic() {
    let kinds = Platform::ALL.map(Platform::kind).to_vec();
    fuzz(
        "provider specs",
        &(json_value(), json_value(), prop::sample::select(kinds)),
        |(left, right, kind)| {
            let of_kind = |mut value: Value| {
                if let Some(fields) = value.as_object_mut() {
                    fields.insert("kind".to_owned(), json!(kind));
                }
                value
            };
            let (left, right) = (of_kind(left), of_kind(right));
            let comparison = Comparison {
                domains: true,
                images: false,
            };
            assert_eq!(changes(&left, &left, comparison), []);
            assert_eq!(canonical(&left, comparison), canonical(&left, comparison));
            let _domain = (extract(&left, None), strip(&right), changes(&left, &right, comparison));
        },
    );
}

#[test]
fn any_text_is_a_rule_file_and_an_expression_or_is_refused() {
    let text = prop_oneof![
        ".{0,200}",
        "(group|kind|rules|id|path|expression|message|: |\n|- |\\{|\\}|self|oldSelf|==|'a'| )*"
    ];
    fuzz("rule files", &text, |text| {
        if let Ok(file) = RuleFile::parse("fuzz", &text) {
            let _set = RuleSet::compile(vec![file]);
        }
        let _program = Program::compile(&text);
    });
}
