//! The laws of the conversion over generated machines of every platform, in both directions.

use serde_json::Value;

use super::generated::{Places, hostile, leaves, plant, plant_in_infrastructure, round_trip};
use super::random::{Random, cluster_api, machine_api};
use super::samples::{Sample, samples};
use crate::conversion::{Context, Lookup, convert, normalise};

/// How many machines are generated for each platform and direction, unless the variable
/// `CONVERSION_RUNS` has another number: `make test` sets 10,000.
const RUNS: u64 = 1_000;

fn runs() -> u64 {
    let set = std::env::var("CONVERSION_RUNS").ok();
    set.and_then(|runs| runs.parse().ok()).unwrap_or(RUNS)
}

fn check_cluster_api(sample: &Sample, random: &mut Random) -> bool {
    let (object, infrastructure) = cluster_api(sample, random);
    let context = Context {
        infrastructure_machine: Lookup::Found(&infrastructure),
        ..sample.context()
    };
    check_back(&object, &infrastructure, &context)
}

/// Converts a machine of Cluster API there and back, and compares normal forms. Returns whether it
/// has no issues.
fn check_back(object: &Value, infrastructure: &Value, context: &Context<'_>) -> bool {
    let there = convert(object, context);
    if !there.issues.is_empty() {
        return false;
    }
    let back = convert(&there.objects[0], context);
    assert_eq!(
        back.issues,
        [],
        "{object:#}\n{infrastructure:#}\n{:#}",
        there.objects[0]
    );
    let originals = [object, infrastructure];
    for (back, original) in back.objects.iter().zip(originals) {
        let (mut back, mut original) = (normalise(back, context), normalise(original, context));
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

/// Without issues the way back restores every generated machine of a platform.
fn the_way_back_restores(platform: &str) {
    let samples = samples();
    let sample = samples.iter().find(|sample| sample.platform == platform).unwrap();
    let mut restored = [0_u64; 2];
    for seed in 0..runs() {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let object = machine_api(sample, &mut random);
        let (_, back) = round_trip(&object, &sample.context());
        restored[0] += u64::from(back.is_some());
        restored[1] += u64::from(check_cluster_api(sample, &mut random));
    }
    let enough = restored.iter().all(|restored| restored * 10 > runs());
    assert!(enough, "{platform}: {restored:?} of {} convert", runs());
}

#[test]
fn the_way_back_restores_every_generated_aws_machine() {
    the_way_back_restores("aws");
}

#[test]
fn the_way_back_restores_every_generated_azure_machine() {
    the_way_back_restores("azure");
}

#[test]
fn the_way_back_restores_every_generated_bare_metal_machine() {
    the_way_back_restores("bare-metal");
}

#[test]
fn the_way_back_restores_every_generated_gcp_machine() {
    the_way_back_restores("gcp");
}

#[test]
fn the_way_back_restores_every_generated_ibm_vpc_machine() {
    the_way_back_restores("ibm-vpc");
}

#[test]
fn the_way_back_restores_every_generated_nutanix_machine() {
    the_way_back_restores("nutanix");
}

#[test]
fn the_way_back_restores_every_generated_openstack_machine() {
    the_way_back_restores("openstack");
}

#[test]
fn the_way_back_restores_every_generated_power_vs_machine() {
    the_way_back_restores("power-vs");
}

#[test]
fn the_way_back_restores_every_generated_vsphere_machine() {
    the_way_back_restores("vsphere");
}

/// Reverses the lists whose order means nothing: tags with names, and hooks.
fn reverse(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (field, inner) in fields {
                reverse(inner);
                let has_names = inner.get(0).is_some_and(|item| item.get("name").is_some());
                if let Value::Array(items) = inner
                    && has_names
                    && ["tags", "preDrain", "preTerminate"].contains(&field.as_str())
                {
                    items.reverse();
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(reverse),
        _ => {}
    }
}

#[test]
fn equal_inputs_in_another_order_give_equal_outputs_and_a_second_round_trip_changes_nothing() {
    for sample in samples() {
        for seed in 0..runs() {
            let object = machine_api(&sample, &mut Random(seed));
            let mut reversed = object.clone();
            reverse(&mut reversed);
            let (there, back) = round_trip(&object, &sample.context());
            let other = convert(&reversed, &sample.context());
            let Some(back) = back else { continue };
            assert_eq!(
                Value::from(there.objects.clone()).to_string(),
                Value::from(other.objects).to_string(),
                "{object:#}"
            );
            let again = convert(&back.objects[0], &sample.context());
            assert_eq!(again.issues, [], "{object:#}");
            assert_eq!(again.objects, there.objects, "{object:#}");
            let with_infrastructure = Context {
                infrastructure_machine: Lookup::Found(&again.objects[1]),
                ..sample.context()
            };
            let second = convert(&again.objects[0], &with_infrastructure);
            assert_eq!(second, back, "{object:#}");
        }
    }
}

/// Of so many generated machines, one gets a field in each of its objects, and each other one gets
/// a field in a random object of it. A machine with issues is left out: another issue may come
/// before that of the planted field.
const PLACES: u64 = 100;

fn places<'a>(seed: u64, random: &'a mut Random) -> Places<'a> {
    match seed % PLACES {
        0 => Places::All,
        _ => Places::One(random),
    }
}

#[test]
fn a_field_planted_in_a_generated_machine_is_an_issue_or_there_afterwards() {
    for sample in samples() {
        for seed in 0..runs() {
            let mut random = Random(seed + 11);
            let object = machine_api(&sample, &mut random);
            if convert(&object, &sample.context()).issues.is_empty() {
                plant(&sample, &object, &sample.context(), places(seed, &mut random));
            }
            let (object, infrastructure) = cluster_api(&sample, &mut random);
            let context = Context {
                infrastructure_machine: Lookup::Found(&infrastructure),
                ..sample.context()
            };
            if convert(&object, &context).issues.is_empty() {
                plant(&sample, &object, &context, places(seed, &mut random));
                plant_in_infrastructure(&sample, &object, &infrastructure, places(seed, &mut random));
            }
        }
    }
}

/// The value with a random part replaced by a hostile value. Labels and selectors are left alone:
/// both APIs refuse a MachineSet whose selector does not select its own machines.
fn attacked(object: &Value, values: &[Value], random: &mut Random) -> Value {
    let mut paths = Vec::new();
    leaves(object, "", &mut paths);
    paths.retain(|path| !path.contains("/labels/") && !path.contains("/selector/"));
    let mut changed = object.clone();
    let path = &paths[random.below(paths.len())];
    *changed.pointer_mut(path).unwrap() = values[random.below(values.len())].clone();
    changed
}

#[test]
fn a_value_of_a_wrong_type_in_a_generated_machine_is_an_issue_or_kept_and_never_a_panic() {
    let values = hostile();
    for sample in samples() {
        for seed in 0..runs() {
            let mut random = Random(seed + 13);
            let object = machine_api(&sample, &mut random);
            round_trip(&attacked(&object, &values, &mut random), &sample.context());
            let (object, infrastructure) = cluster_api(&sample, &mut random);
            let changed = attacked(&infrastructure, &values, &mut random);
            for (object, infrastructure) in [
                (&object, &changed),
                (&attacked(&object, &values, &mut random), &infrastructure),
            ] {
                let context = Context {
                    infrastructure_machine: Lookup::Found(infrastructure),
                    ..sample.context()
                };
                check_back(object, infrastructure, &context);
            }
        }
    }
}
