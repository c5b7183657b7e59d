//! The schema engine against the results of a real kube-apiserver (1.36.3) for the same objects:
//! verdict, fields, reasons, messages, pruned fields and the stored object.
//!
//! `golden/schema/verdicts.json` was captured with `dryRun=All&fieldValidation=Warn`; objects that
//! today's schema would not let in were stored under an open schema first.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // Tests may fail loudly.

use std::path::{Path, PathBuf};

use capstan_core::cel::rules::RuleFile;
use capstan_core::model::Violation;
use capstan_core::schema::{Definition, crd};
use serde_json::{Value, json};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/schema")
}

fn read(file: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(golden().join(file)).unwrap()).unwrap()
}

fn definition(kind: &str) -> Definition {
    let files = capstan_core::admission::rule_files().unwrap();
    match kind {
        "cpms" => Definition::parse(&crd::crds(&files).unwrap()[0], None, &files[0]).unwrap(),
        "widget" => Definition::parse(&read("widget.json"), None, &RuleFile::default()).unwrap(),
        other => panic!("{other}"),
    }
}

fn cause(violation: &Violation) -> Value {
    json!({
        "field": violation.path.as_str(),
        "reason": violation.kind.reason(),
        "message": violation.server_detail(),
    })
}

fn sorted(mut causes: Vec<Value>) -> Vec<Value> {
    causes.sort_by_key(|cause| (cause["field"].to_string(), cause["message"].to_string()));
    causes
}

/// Go writes 2.0 as 2.
fn as_stored(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(name, value)| (name.clone(), as_stored(value)))
            .collect(),
        Value::Array(list) => list.iter().map(as_stored).collect(),
        Value::Number(number) => match number.as_f64() {
            Some(whole) if whole.fract() == 0.0 && !number.is_i64() => json!(whole as i64),
            _ => value.clone(),
        },
        other => other.clone(),
    }
}

#[test]
fn the_engine_agrees_with_the_api_server_on_every_golden_object() {
    let (cpms, widget) = (definition("cpms"), definition("widget"));
    let cases = read("verdicts.json");
    let mut wrong = Vec::new();
    for case in cases.as_array().unwrap() {
        let definition = if case["crd"] == "cpms" { &cpms } else { &widget };
        let outcome = definition.apply(&case["object"], case.get("old"));
        let unknown: Vec<Value> = outcome.unknown.iter().map(|path| json!(path.as_str())).collect();
        let causes = sorted(outcome.violations.iter().map(cause).collect());
        let expected = sorted(
            case.get("causes")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
        );
        if Value::from(unknown.clone()) != case["unknown"] {
            wrong.push(format!(
                "{}: unknown {unknown:?}, not {}",
                case["name"], case["unknown"]
            ));
        }
        if causes != expected {
            wrong.push(format!(
                "{}:\n  engine {}\n  server {}",
                case["name"],
                Value::from(causes),
                Value::from(expected)
            ));
        } else if let Some(stored) = case
            .get("stored")
            .filter(|stored| **stored != as_stored(&outcome.object))
        {
            wrong.push(format!(
                "{}: would store\n  {}\n  not\n  {stored}",
                case["name"], outcome.object
            ));
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}
