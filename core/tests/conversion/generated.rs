//! The laws of the conversion, over machines of every platform.

use serde_json::Value;

use super::random::Random;
use super::samples::{Sample, samples};
use crate::conversion::{Context, Converted, Lookup, convert, normalise};

/// Converts there and back, and compares normal forms. Without issues they must be equal.
pub(crate) fn round_trip(object: &Value, context: &Context<'_>) -> (Converted, Option<Converted>) {
    let there = convert(object, context);
    if !there.issues.is_empty() {
        return (there, None);
    }
    let (converted, infrastructure) = match there.objects.as_slice() {
        [converted] => (converted, None),
        [converted, infrastructure] => (converted, Some(infrastructure)),
        other => panic!("{} objects", other.len()),
    };
    let context = Context {
        infrastructure_machine: infrastructure.map_or(context.infrastructure_machine, Lookup::Found),
        ..*context
    };
    let back = convert(converted, &context);
    assert_eq!(back.issues, [], "the way back of {object:#}\n{:#?}", there.objects);
    let first = back.objects.first().unwrap();
    pretty_equal(
        &normalise(first, &context),
        &normalise(object, &context),
        &there.objects,
    );
    (there, Some(back))
}

fn pretty_equal(left: &Value, right: &Value, between: &[Value]) {
    assert!(
        left == right,
        "back\n{left:#}\noriginal\n{right:#}\nbetween\n{}",
        Value::from(between.to_vec())
    );
}

#[test]
fn a_machine_as_an_installer_makes_it_converts_without_loss_both_ways() {
    for sample in samples() {
        for object in [sample.machine(&sample.provider_spec), sample.set(&sample.provider_spec)] {
            let (there, back) = round_trip(&object, &sample.context());
            assert_eq!(there.issues, [], "{}", sample.platform);
            let back = back.unwrap();
            let again = convert(back.objects.first().unwrap(), &sample.context());
            assert_eq!(again.objects, there.objects, "{}: a second round trip", sample.platform);
        }
    }
}

/// Every object and every item of a list in a value, as JSON pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.push(at.to_owned());
            for (field, inner) in fields {
                places(
                    inner,
                    &format!("{at}/{}", field.replace('~', "~0").replace('/', "~1")),
                    found,
                );
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                places(inner, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn a_field_planted_at_any_depth_is_an_issue_or_there_afterwards() {
    for sample in samples() {
        for object in [sample.machine(&sample.provider_spec), sample.set(&sample.provider_spec)] {
            plant(&sample, &object, &sample.context(), Places::All);
            let there = convert(&object, &sample.context());
            let infrastructure = there.objects.get(1).unwrap();
            let context = Context {
                infrastructure_machine: Lookup::Found(infrastructure),
                ..sample.context()
            };
            plant(&sample, there.objects.first().unwrap(), &context, Places::All);
            plant_in_infrastructure(&sample, there.objects.first().unwrap(), infrastructure, Places::All);
        }
    }
}

const PLANTED: &str = "fieldOfTomorrow";

/// Whether an issue names the planted field, or a field around it.
fn is_reported(converted: &Converted, place: &str) -> bool {
    let mut path = String::new();
    for step in place.split('/').skip(1) {
        match step.parse::<usize>() {
            Ok(index) => path.push_str(&format!("[{index}]")),
            Err(_) if path.is_empty() => path.push_str(step),
            Err(_) => path.push_str(&format!(".{step}")),
        }
    }
    converted.issues.iter().any(|issue| {
        let at = issue.path.as_str();
        let at = at.split_once(' ').map_or(at, |(_, at)| at);
        at.contains(PLANTED)
            || path
                .strip_prefix(at)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    })
}

/// Where fields are planted: in every object of a manifest, one at a time, or in a random one.
pub(crate) enum Places<'a> {
    All,
    One(&'a mut Random),
}

impl Places<'_> {
    fn of(&mut self, object: &Value) -> Vec<String> {
        let mut all = Vec::new();
        places(object, "", &mut all);
        match self {
            Self::All => all,
            Self::One(random) => vec![all.swap_remove(random.below(all.len()))],
        }
    }
}

/// Plants fields in a Machine or MachineSet.
pub(crate) fn plant(sample: &Sample, object: &Value, context: &Context<'_>, mut places: Places<'_>) {
    for place in places.of(object) {
        let converted = convert(&planted(object, &place), context);
        check_planted(sample, &place, &converted);
    }
}

/// Plants fields in the infrastructure of a machine.
pub(crate) fn plant_in_infrastructure(
    sample: &Sample,
    machine: &Value,
    infrastructure: &Value,
    mut places: Places<'_>,
) {
    for place in places.of(infrastructure) {
        let changed = planted(infrastructure, &place);
        let context = Context {
            infrastructure_machine: Lookup::Found(&changed),
            ..sample.context()
        };
        check_planted(sample, &place, &convert(machine, &context));
    }
}

fn planted(object: &Value, place: &str) -> Value {
    let mut changed = object.clone();
    let at = changed.pointer_mut(place).unwrap().as_object_mut().unwrap();
    at.insert(PLANTED.to_owned(), "planted".into());
    changed
}

fn check_planted(sample: &Sample, place: &str, converted: &Converted) {
    let kept = converted
        .objects
        .iter()
        .any(|object| object.to_string().contains(PLANTED));
    assert!(
        kept || is_reported(converted, place),
        "{} {place}: {:?}",
        sample.platform,
        converted.issues
    );
}

/// Values that are of a wrong type or beyond the limits of most fields.
pub(crate) fn hostile() -> [Value; 9] {
    [
        Value::Null,
        Value::Bool(true),
        Value::from(i64::MAX),
        Value::from(-1),
        Value::from(0.5),
        Value::from(""),
        Value::from("x".repeat(100_000)),
        Value::Array(vec![Value::Null]),
        Value::Object(serde_json::Map::new()),
    ]
}

#[test]
fn a_value_of_a_wrong_type_is_an_issue_or_kept_and_never_a_panic() {
    let hostile = hostile();
    for sample in samples() {
        let object = sample.set(&sample.provider_spec);
        let there = convert(&object, &sample.context());
        let mut paths = Vec::new();
        leaves(&object, "", &mut paths);
        for path in &paths {
            for value in &hostile {
                let mut changed = object.clone();
                *changed.pointer_mut(path).unwrap() = value.clone();
                round_trip(&changed, &sample.context());
            }
        }
        let infrastructure = there.objects.get(1).unwrap();
        let mut paths = Vec::new();
        leaves(infrastructure, "", &mut paths);
        for path in &paths {
            for value in &hostile {
                let mut changed = infrastructure.clone();
                *changed.pointer_mut(path).unwrap() = value.clone();
                let context = Context {
                    infrastructure_machine: Lookup::Found(&changed),
                    ..sample.context()
                };
                let _converted = convert(there.objects.first().unwrap(), &context);
            }
        }
    }
}

/// All values in a value, as JSON pointers.
pub(crate) fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(field, inner)| (field.replace('~', "~0").replace('/', "~1"), inner))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, inner)| (index.to_string(), inner))
            .collect(),
        _ => return,
    };
    for (step, inner) in children {
        leaves(inner, &format!("{at}/{step}"), found);
    }
}
