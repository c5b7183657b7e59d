//! What holds of the schema engine for every object: pruning and defaulting settle at once, nothing
//! panics, and an update that changes nothing is not refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // Tests may fail loudly.

use std::sync::LazyLock;

use capstan_core::cel::rules::RuleFile;
use capstan_core::model::ViolationKind;
use capstan_core::schema::{Definition, crd};
use proptest::prelude::*;
use serde_json::{Value, json};

static DEFINITIONS: LazyLock<Vec<Definition>> = LazyLock::new(|| {
    let files = capstan_core::admission::rule_files().unwrap();
    let widget: Value = serde_json::from_str(include_str!("golden/schema/widget.json")).unwrap();
    let own = crd::crds(&files).unwrap();
    own.iter()
        .chain(&[widget])
        .map(|definition| Definition::parse(definition, None, &files[0]).unwrap())
        .collect()
});

/// Objects that the golden cases hold: what proptest mutates.
static SEEDS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let cases: Vec<Value> = serde_json::from_str(include_str!("golden/schema/verdicts.json")).unwrap();
    cases.into_iter().map(|mut case| case["object"].take()).collect()
});

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3_i64..8).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof![Just("master"), Just("AWS"), Just("a"), Just("Active"), Just("")].prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(
                prop_oneof![
                    Just("spec"),
                    Just("name"),
                    Just("replicas"),
                    Just("map"),
                    Just("set"),
                    Just("labels"),
                    Just("metadata"),
                    Just("status"),
                    Just("x")
                ],
                inner,
                0..4
            )
            .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

/// Puts `value` somewhere into `object`, where `choices` lead.
fn graft(object: &mut Value, choices: &[usize], value: Value) {
    let Some((choice, rest)) = choices.split_first() else {
        *object = value;
        return;
    };
    match object {
        Value::Object(map) if !map.is_empty() => {
            let at = choice % map.len();
            graft(map.values_mut().nth(at).unwrap(), rest, value);
        }
        Value::Array(list) if !list.is_empty() => {
            let at = choice % list.len();
            graft(&mut list[at], rest, value);
        }
        other => *other = value,
    }
}

fn mutated() -> impl Strategy<Value = Value> {
    let seed = (0..SEEDS.len()).prop_map(|at| SEEDS[at].clone());
    (seed, prop::collection::vec(0_usize..16, 0..9), any_json()).prop_map(|(mut object, choices, value)| {
        graft(&mut object, &choices, value);
        object
    })
}

fn some_json() -> impl Strategy<Value = Value> {
    prop_oneof![any_json(), mutated()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn whatever_is_written_over_whatever_there_is_a_verdict(new in some_json(), old in some_json()) {
        for definition in DEFINITIONS.iter() {
            definition.apply(&new, None);
            definition.apply(&new, Some(&old));
        }
    }

    #[test]
    fn what_was_pruned_and_defaulted_stays_as_it_is(object in some_json()) {
        for definition in DEFINITIONS.iter() {
            let mut once = object.clone();
            definition.schema.set_defaults(&mut once);
            definition.schema.prune(&mut once);
            let mut twice = once.clone();
            definition.schema.set_defaults(&mut twice);
            prop_assert_eq!(&twice, &once);
            prop_assert_eq!(definition.schema.prune(&mut twice), vec![]);
            prop_assert_eq!(&twice, &once);
        }
    }

    #[test]
    fn an_update_that_changes_nothing_is_refused_by_the_shape_of_the_object_for_no_new_reason(object in mutated()) {
        for definition in DEFINITIONS.iter() {
            let created = definition.apply(&object, None).violations;
            let updated = definition.apply(&object, Some(&object)).violations;
            // An update forgives an unchanged shape, so it evaluates rules that a creation does not
            // reach. A creation does not read the status.
            let of_shape = |rule: &str| rule.starts_with("schema-") && !matches!(rule, "schema-cel" | "schema-scale");
            for violation in updated.iter().filter(|violation| of_shape(&violation.rule)) {
                prop_assert!(created.contains(violation), "{violation} is new on an update that changes nothing");
            }
            prop_assert!(
                updated.iter().all(|violation| violation.rule != "schema-duplicate"),
                "duplicates were there before"
            );
        }
    }

    #[test]
    fn a_bad_field_that_the_schema_can_follow_is_forgiven_when_it_stays(value in any_json()) {
        let definition = &DEFINITIONS[DEFINITIONS.len() - 1];
        for field in ["text", "int", "colour", "few", "set", "map", "pairs", "labels", "either", "time", "outer"] {
            let old = json!({"apiVersion": "test.capstan.dev/v1", "kind": "Widget", "metadata": {}, "spec": {field: value.clone(), "one": "a"}});
            let mut new = old.clone();
            new["spec"]["one"] = json!("b");
            let mut stored = old.clone();
            definition.schema.set_defaults(&mut stored);
            definition.schema.prune(&mut stored);
            // Items that are nothing of a map, and fields that are not of the schema's, cannot be
            // followed.
            let followed = matches!(stored["spec"][field], Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_));
            if followed {
                prop_assert_eq!(definition.apply(&new, Some(&old)).violations, vec![], "{}", field);
            }
        }
    }
}

fn set(edit: impl Fn(&mut Value)) -> Value {
    let mut object = SEEDS[0].clone();
    edit(&mut object);
    object
}

#[test]
fn a_bad_value_that_the_update_left_alone_is_not_held_against_it() {
    let definition = &DEFINITIONS[0];
    let old = set(|object| object["spec"]["machineNamePrefix"] = json!("Bad_"));
    assert!(!definition.apply(&old, None).violations.is_empty());
    let new = set(|object| {
        object["spec"]["machineNamePrefix"] = json!("Bad_");
        object["spec"]["strategy"]["type"] = json!("OnDelete");
    });
    assert_eq!(definition.apply(&new, Some(&old)).violations, vec![]);
    let worse = set(|object| object["spec"]["machineNamePrefix"] = json!("Worse_"));
    let violations = definition.apply(&worse, Some(&old)).violations;
    assert_eq!(violations.len(), 1, "{violations:?}");
    assert_eq!(violations[0].rule, "cpms-name-prefix-format");
}

#[test]
fn every_rule_of_ours_is_found_again_in_the_schema_by_its_id() {
    let definition = &DEFINITIONS[0];
    let old = SEEDS[0].clone();
    let new = set(|object| {
        object["spec"]["replicas"] = json!(5);
        object["spec"]["state"] = json!("Inactive");
        object["spec"]["selector"] = json!({});
        object["spec"]["template"]["machines_v1beta1_machine_openshift_io"]["metadata"]["labels"] = json!({});
    });
    let found = definition.apply(&new, Some(&old)).violations;
    let mut ids: Vec<&str> = found.iter().map(|violation| violation.rule.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(
        ids,
        [
            "cpms-label-cluster",
            "cpms-label-role",
            "cpms-label-type",
            "cpms-replicas-immutable",
            "cpms-selector-immutable",
            "cpms-state-stays-active"
        ]
    );
    assert!(found.iter().all(|violation| !violation.advice.is_empty()));
    let foreign = Definition::parse(
        &crd::crds(&capstan_core::admission::rule_files().unwrap()).unwrap()[0],
        None,
        &RuleFile::default(),
    );
    let found = foreign.unwrap().apply(&new, Some(&old)).violations;
    assert!(found.iter().all(|violation| violation.rule == "schema-cel"));
}

#[test]
fn the_status_of_a_kind_with_a_status_subresource_is_left_alone() {
    let definition = &DEFINITIONS[0];
    let mut new = SEEDS[0].clone();
    new["status"] = json!({"replicas": "many"});
    assert_eq!(definition.apply(&new, None).object.get("status"), None);
    let mut old = SEEDS[0].clone();
    old["status"] = json!({"replicas": 3});
    let outcome = definition.apply(&new, Some(&old));
    assert_eq!(outcome.object["status"], json!({"replicas": 3}));
    assert_eq!(outcome.violations, vec![]);
}

#[test]
fn rules_are_evaluated_only_if_types_and_values_are_valid() {
    let definition = &DEFINITIONS[0];
    let new = set(|object| {
        object["spec"]["state"] = json!("Paused");
        object["metadata"]["name"] = json!("other");
    });
    let found = definition.apply(&new, None).violations;
    let rules: Vec<&str> = found.iter().map(|violation| violation.rule.as_str()).collect();
    assert_eq!(rules, ["schema-incomplete", "schema-enum"]);
    assert_eq!(found[1].kind, ViolationKind::NotSupported);
}

#[test]
fn an_error_in_a_crd_names_the_path() {
    let with = |schema: Value| {
        let definition = json!({"spec": {"group": "g", "names": {"kind": "K"}, "versions": [
            {"name": "v1", "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
        Definition::parse(&definition, None, &RuleFile::default())
            .unwrap_err()
            .to_string()
    };
    let below = |schema: Value| json!({"type": "object", "properties": {"a": {"type": "array", "items": schema}}});
    assert!(with(below(json!({"type": "text"}))).starts_with("a[]: \"text\" is not a type"));
    assert!(with(below(json!({"pattern": "("}))).starts_with("a[]: "));
    assert!(with(below(json!({"x-kubernetes-validations": [{"rule": "self =="}]}))).starts_with("a[]: "));
    assert!(with(below(json!(true))).starts_with("a[]: a schema must be an object"));
    let mut deep = json!({});
    for _ in 0..100 {
        deep = json!({"items": deep});
    }
    assert!(with(deep).ends_with("the schema is too deep"));
}
