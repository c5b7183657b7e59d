//! The laws of the conversion, over generated machines of every platform in both directions.

use std::collections::BTreeSet;

use serde_json::Value;

use super::generated::round_trip;
use super::hits;
use super::random::{Random, cluster_api, machine_api};
use super::samples::{Sample, samples};
use crate::conversion::platforms::PLATFORMS;
use crate::conversion::rule::Rule;
use crate::conversion::{Api, Context, Lookup, convert, normalise};

/// How many machines are generated for each platform and direction; `CONVERSION_RUNS` changes it.
const RUNS: u64 = 10_000;

fn runs() -> u64 {
    option_env!("CONVERSION_RUNS")
        .and_then(|runs| runs.parse().ok())
        .unwrap_or(RUNS)
}

fn check_cluster_api(sample: &Sample, random: &mut Random) -> bool {
    let (object, infrastructure) = cluster_api(sample, random);
    let context = Context {
        infrastructure_machine: Lookup::Found(&infrastructure),
        ..sample.context()
    };
    let there = convert(&object, &context);
    if !there.issues.is_empty() {
        return false;
    }
    let back = convert(&there.objects[0], &context);
    assert_eq!(
        back.issues,
        [],
        "{object:#}\n{infrastructure:#}\n{:#}",
        there.objects[0]
    );
    let originals = [&object, &infrastructure];
    for (back, original) in back.objects.iter().zip(originals) {
        let (mut back, mut original) = (normalise(back, &context), normalise(original, &context));
        if back["kind"] != object["kind"] {
            // Labels of infrastructure follow the Machine.
            back["metadata"] = Value::Null;
            original["metadata"] = Value::Null;
        }
        assert!(
            back == original,
            "back\n{back:#}\noriginal\n{original:#}\nbetween\n{:#}",
            there.objects[0]
        );
    }
    true
}

#[test]
fn without_issues_the_way_back_restores_every_generated_machine() {
    for sample in samples() {
        let mut restored = [0_u64; 2];
        for seed in 0..runs() {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let object = machine_api(&sample, &mut random);
            let (_, back) = round_trip(&object, &sample.context());
            restored[0] += u64::from(back.is_some());
            restored[1] += u64::from(check_cluster_api(&sample, &mut random));
        }
        let enough = restored.iter().all(|restored| restored * 10 > runs());
        assert!(enough, "{}: {restored:?} of {} convert", sample.platform, runs());
    }
}

#[test]
fn every_rule_of_every_map_has_something_to_do() {
    hits::take();
    for sample in samples() {
        for seed in 0..4_000 {
            let mut random = Random(seed + 1);
            let mut object = machine_api(&sample, &mut random);
            if random.below(20) == 0 {
                drop_one(&mut object, &mut random);
            }
            convert(&object, &sample.context());
            let (object, mut infrastructure) = cluster_api(&sample, &mut random);
            if random.below(20) == 0 {
                drop_one(&mut infrastructure, &mut random);
            }
            let context = Context {
                infrastructure_machine: Lookup::Found(&infrastructure),
                ..sample.context()
            };
            convert(&object, &context);
        }
    }
    let hit = hits::take();
    let mut wanted = BTreeSet::new();
    for platform in PLATFORMS {
        collect(platform.rules, &mut wanted);
    }
    let missing: Vec<&String> = wanted.difference(&hit).collect();
    assert!(
        missing.is_empty(),
        "{} of {} rules: {missing:#?}",
        missing.len(),
        wanted.len()
    );
}

/// Removes a random value.
fn drop_one(value: &mut Value, random: &mut Random) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let keys: Vec<String> = fields.keys().cloned().collect();
            let key = &keys[random.below(keys.len())];
            if random.below(3) == 0 || !(fields[key].is_object() || fields[key].is_array()) {
                fields.remove(key);
            } else {
                drop_one(&mut fields[key], random);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let chosen = random.below(items.len());
            drop_one(&mut items[chosen], random);
        }
        _ => {}
    }
}

fn collect(rules: &[Rule], wanted: &mut BTreeSet<String>) {
    for rule in rules {
        match rule {
            Rule::Only { api, .. } | Rule::Required { api, .. } | Rule::Local { api, .. } | Rule::Fixed { api, .. } => {
                wanted.insert(hits::name(rule, *api));
            }
            Rule::Shared { .. } => {
                wanted.insert(hits::name(rule, Api::MachineApi));
            }
            Rule::Hand(hand) => {
                for (side, paths) in [(Api::MachineApi, hand.machine_api), (Api::ClusterApi, hand.cluster_api)] {
                    if !paths.is_empty() {
                        wanted.insert(hits::name(rule, side));
                    }
                }
            }
            _ => {
                wanted.insert(hits::name(rule, Api::MachineApi));
                wanted.insert(hits::name(rule, Api::ClusterApi));
            }
        }
        if let Rule::List { rules, .. } | Rule::Object { rules, .. } = rule {
            collect(rules, wanted);
        }
    }
}
