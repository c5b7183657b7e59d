//! Targets for the parsers of core.

use capstan_core::api::config_openshift_io::infrastructure::Infrastructure;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::meta::LabelSelector;
use capstan_core::cel::Program;
use capstan_core::cel::rules::{Enforcer, RuleFile, RuleSet};
use capstan_core::cpms::changes::{Comparison, canonical, changes};
use capstan_core::cpms::selector::Selector;
use capstan_core::cpms::spec::{Gates, ParseContext, parse};
use capstan_core::model::canonical_json;
use capstan_core::schema::{Definition, crd};
use proptest::prelude::*;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::inputs::{json, mutated, one_graft, spoilt};
use super::runner::fuzz;
use super::seeds::{MACHINE, sets};

#[test]
fn a_set_is_parsed_or_refused_and_its_wire_type_loses_nothing() {
    let infrastructure = Infrastructure::default();
    fuzz(
        "set",
        2000,
        &(mutated(sets()), any::<bool>(), any::<bool>()),
        |(set, known, gate)| {
            let Ok(read) = ControlPlaneMachineSet::deserialize(&set) else {
                return Ok(());
            };
            let written = serde_json::to_value(&read).unwrap();
            prop_assert_eq!(&ControlPlaneMachineSet::deserialize(&written).unwrap(), &read);
            let context = ParseContext {
                infrastructure: known.then_some(&infrastructure),
                gates: Gates {
                    recreate: gate,
                    ..Gates::default()
                },
                ignore_gated_fields: gate,
            };
            match parse(&read, &context) {
                Ok(spec) => {
                    prop_assert!([3, 5].contains(&spec.replicas.count()));
                    prop_assert!(spec.template.provider_spec.is_object());
                    prop_assert!(spec.selector.matches(&spec.template.labels));
                    prop_assert!(spec.failure_domains.is_sorted());
                }
                Err(violations) => {
                    prop_assert!(!violations.is_empty());
                    prop_assert!(violations.is_sorted());
                    prop_assert!(violations.iter().all(|violation| !violation.rule.is_empty()));
                }
            }
            Ok(())
        },
    );
}

#[test]
fn specs_of_one_canonical_form_have_no_change() {
    let specs: Vec<Value> = sets()
        .iter()
        .map(|set| set["spec"]["template"][MACHINE]["spec"]["providerSpec"]["value"].clone())
        .collect();
    let pairs = (
        prop::sample::select(specs),
        prop::collection::vec(one_graft(), 0..3),
        any::<(bool, bool)>(),
    );
    fuzz("changes", 2000, &pairs, |(machine, grafts, (domains, images))| {
        let mut template = machine.clone();
        grafts.iter().for_each(|graft| graft.apply(&mut template));
        let comparison = Comparison { domains, images };
        let found = changes(&template, &machine, comparison);
        // The reverse does not hold: fields without an effect distinguish revisions only, for
        // example fields that the type does not have.
        if canonical(&template, comparison) == canonical(&machine, comparison) {
            prop_assert!(found.is_empty(), "{:?}", found);
        }
        // What a template leaves out and a webhook fills in is no change, so the two directions
        // may differ. A machine that was stored as it was sent has no change.
        prop_assert!(changes(&template, &template, comparison).is_empty());
        prop_assert!(changes(&machine, &machine, comparison).is_empty());
        Ok(())
    });
}

#[test]
fn a_selector_is_refused_or_matches_its_own_labels() {
    let seed = json!({"matchLabels": {"role": "master", "a.b/c": "d"}, "matchExpressions": [
        {"key": "type", "operator": "In", "values": ["a", "b"]}, {"key": "zone", "operator": "DoesNotExist"}]});
    fuzz("selector", 2000, &mutated(vec![seed]), |value| {
        let Ok(wire) = LabelSelector::deserialize(&value) else {
            return Ok(());
        };
        if let Ok(selector) = Selector::parse(&wire) {
            prop_assert!(!selector.to_string().is_empty());
            if wire.match_expressions.is_empty() {
                prop_assert!(selector.matches(&wire.match_labels));
            }
        }
        Ok(())
    });
}

#[test]
fn a_rule_file_is_read_or_refused() {
    let seed = include_bytes!("../../../webhooks/rules/controlplanemachineset.yaml").to_vec();
    let short =
        b"group: g\nkind: K\nrules:\n- {id: r, path: 'spec.a[].b', expression: 'self.all(x, x > 1)', message: m}\n";
    let seeds = vec![short.to_vec(), short.to_vec(), short.to_vec(), seed];
    fuzz("rule-file", 300, &spoilt(seeds), |text| {
        let text = String::from_utf8_lossy(&text).into_owned();
        let Ok(file) = RuleFile::parse("fuzz", &text) else {
            return Ok(());
        };
        let kinds: Vec<String> = file.kinds().iter().map(|(_, kind)| (*kind).to_owned()).collect();
        if let Ok(rules) = RuleSet::compile(vec![file]) {
            let object = json!({"spec": {"a": [{"b": [1, 2]}]}, "metadata": {"name": "x"}});
            for kind in &kinds {
                rules.findings(kind, Enforcer::Webhook, &object, Some(&object));
            }
        }
        Ok(())
    });
}

#[test]
fn an_expression_of_any_text_does_not_panic() {
    let tokens = prop::sample::select(vec![
        "self",
        "oldSelf",
        ".",
        "a",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "==",
        "!=",
        "<",
        "&&",
        "||",
        "!",
        "?",
        ":",
        "+",
        "-",
        "*",
        "/",
        "%",
        "in",
        "has(self.a)",
        "1",
        "-1",
        "1.5",
        "'x'",
        "\"",
        "size()",
        ".all(x, ",
        ".exists(x, ",
        "x",
        ",",
        ".filter(x, ",
        ".map(x, ",
        "null",
        "true",
        "format.dns1123Label()",
        ".validate(",
        ".hasValue()",
        "9223372036854775807",
    ]);
    let expressions = prop::collection::vec(tokens, 1..14).prop_map(|tokens| tokens.concat());
    fuzz("expression", 1500, &(expressions, json()), |(expression, value)| {
        if let Ok(program) = Program::compile(&expression) {
            let _verdict = program.evaluate(&value, Some(&value));
            let _verdict = program.evaluate_request(&value, Some(&value), None);
        }
        Ok(())
    });
}

#[test]
fn a_schema_validates_any_object() {
    let files = capstan_core::admission::rule_files().unwrap();
    let definition = Definition::parse(&crd::crds(&files).unwrap()[0], None, &files[0]).unwrap();
    fuzz("schema", 500, &(mutated(sets()), mutated(sets())), |(new, old)| {
        let first = definition.apply(&new, None);
        definition.apply(&new, Some(&old));
        let mut again = first.object.clone();
        definition.schema.set_defaults(&mut again);
        definition.schema.prune(&mut again);
        prop_assert_eq!(again, first.object);
        Ok(())
    });
}

#[test]
fn canonical_text_is_read_back_as_the_same_value() {
    fuzz("canonical-json", 1000, &json(), |value| {
        let text = canonical_json(&value);
        // The reader may lose the last digit of a fraction. No field of an object has a fraction.
        if text.contains(['.', 'e']) && text.chars().any(|letter| letter.is_ascii_digit()) {
            return Ok(());
        }
        prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        Ok(())
    });
}
