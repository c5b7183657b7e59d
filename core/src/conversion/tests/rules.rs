//! Every rule of every map is hit by a generated machine.

use std::collections::BTreeSet;

use serde_json::Value;

use super::hits;
use super::random::{Random, cluster_api, machine_api};
use super::samples::{Sample, samples};
use crate::conversion::pass::rule::Rule;
use crate::conversion::platforms::{PLATFORMS, Platform};
use crate::conversion::tree;
use crate::conversion::{Api, Context, Lookup, convert};

#[test]
fn every_rule_of_every_map_has_something_to_do() {
    hits::take();
    for sample in samples() {
        let platform = platform_of(&sample);
        for seed in 0..300 {
            let mut random = Random(seed + 1);
            let mut object = machine_api(&sample, &mut random);
            let there = convert(&object, &sample.context());
            if seed % 3 == 0 {
                plant(provider_spec(&mut object), platform.rules, Api::MachineApi);
                convert(&object, &sample.context());
            } else if seed % 3 == 1 {
                for _ in 0..5 {
                    let mut object = object.clone();
                    drop_one(provider_spec(&mut object), &mut random);
                    convert(&object, &sample.context());
                }
            }
            let (object, infrastructure) = cluster_api(&sample, &mut random);
            hit_cluster_api(&sample, &object, infrastructure, &mut random);
            if let [object, infrastructure] = there.objects.as_slice() {
                hit_cluster_api(&sample, object, infrastructure.clone(), &mut random);
            }
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

/// Converts a machine of Cluster API, then once more with a value in each field that only Cluster
/// API has, then without a random field.
fn hit_cluster_api(sample: &Sample, object: &Value, mut infrastructure: Value, random: &mut Random) {
    let convert_with = |infrastructure: &Value| {
        let context = Context {
            infrastructure_machine: Lookup::Found(infrastructure),
            ..sample.context()
        };
        convert(object, &context);
    };
    convert_with(&infrastructure);
    let mut planted = infrastructure.clone();
    plant(machine_spec(&mut planted), platform_of(sample).rules, Api::ClusterApi);
    convert_with(&planted);
    drop_one(machine_spec(&mut infrastructure), random);
    convert_with(&infrastructure);
}

fn platform_of(sample: &Sample) -> &'static Platform {
    let mut all = PLATFORMS.iter();
    all.find(|platform| platform.id == sample.platform).unwrap()
}

fn provider_spec(object: &mut Value) -> &mut Value {
    let at = match object["kind"].as_str() {
        Some("Machine") => "/spec/providerSpec/value",
        _ => "/spec/template/spec/providerSpec/value",
    };
    object.pointer_mut(at).unwrap()
}

fn machine_spec(infrastructure: &mut Value) -> &mut Value {
    let is_template = infrastructure["kind"].as_str().unwrap().ends_with("Template");
    let at = if is_template { "/spec/template/spec" } else { "/spec" };
    infrastructure.pointer_mut(at).unwrap()
}

/// Sets each field that only this API has, in the items of lists too.
fn plant(value: &mut Value, rules: &'static [Rule], side: Api) {
    for rule in rules {
        let at = rule.paths(side).first().copied().unwrap_or_default();
        let Value::Object(fields) = &mut *value else { return };
        match rule {
            Rule::Only { api, .. } | Rule::Local { api, .. } if *api == side => tree::put(fields, at, "planted".into()),
            Rule::Fixed { api, value, .. } if *api == side => tree::put(fields, at, value.value()),
            Rule::Object { rules, .. } => {
                if tree::get(&Value::Object(fields.clone()), at).is_none() {
                    tree::put(fields, at, Value::Object(serde_json::Map::new()));
                }
                let pointer = format!("/{}", at.replace('.', "/"));
                plant(value.pointer_mut(&pointer).unwrap(), rules, side);
            }
            Rule::List { rules, .. } => {
                if tree::get(&Value::Object(fields.clone()), at).is_none() {
                    tree::put(fields, at, serde_json::json!([{}]));
                }
                let pointer = format!("/{}", at.replace('.', "/"));
                let items = value.pointer_mut(&pointer).unwrap().as_array_mut();
                for item in items.into_iter().flatten() {
                    plant(item, rules, side);
                }
            }
            Rule::Inner {
                machine_api,
                cluster_api,
                rules,
            } => {
                let path = if side == Api::MachineApi {
                    machine_api
                } else {
                    cluster_api
                };
                plant_inner(value, path, rules, side);
            }
            _ => {}
        }
    }
}

/// Plants fields in the parts of a value that a path names; `[]` is every item of a list.
fn plant_inner(value: &mut Value, path: &str, rules: &'static [Rule], side: Api) {
    let Some((list, rest)) = path.split_once("[]") else {
        let pointer = path.split('.').filter(|field| !field.is_empty());
        let pointer: String = pointer.map(|field| format!("/{field}")).collect();
        if let Some(part) = value.pointer_mut(&pointer) {
            plant(part, rules, side);
        }
        return;
    };
    let items = value.get_mut(list).and_then(Value::as_array_mut);
    for item in items.into_iter().flatten() {
        plant_inner(item, rest.trim_start_matches('.'), rules, side);
    }
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

fn collect(rules: &'static [Rule], wanted: &mut BTreeSet<String>) {
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
            Rule::Inner { .. } => {}
            _ => {
                wanted.insert(hits::name(rule, Api::MachineApi));
                wanted.insert(hits::name(rule, Api::ClusterApi));
            }
        }
        if let Rule::List { rules, .. } | Rule::Object { rules, .. } | Rule::Inner { rules, .. } = rule {
            collect(rules, wanted);
        }
    }
}
