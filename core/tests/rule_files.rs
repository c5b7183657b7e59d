//! The built-in rule files: the webhook evaluates their rules as an API server does.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

use capstan_core::admission::rule_files;
use capstan_core::cel::rules::{CompiledRule, Enforcer, Rule, RuleFile, RuleSet, Scope};
use capstan_core::cel::{CelError, Program};
use capstan_core::model::{Edit, Operation, Propagation, Stored, User};
use serde_json::{Value, json};

/// The kind of a file, as a rule set names it. The kinds of one file have the same rules.
fn kind(file: &RuleFile) -> String {
    let (group, kind) = file.kinds()[0];
    format!("{kind}.{group}")
}

/// The different parts with these names in the cases of rules.
fn parts(rules: &[&CompiledRule], names: &[&str]) -> Vec<Value> {
    let cases = rules
        .iter()
        .flat_map(|compiled| compiled.rule.cases.allow.iter().chain(&compiled.rule.cases.deny));
    let mut found: Vec<Value> = Vec::new();
    for part in cases.flat_map(|case| names.iter().filter_map(|name| case.this.get(*name))) {
        if !found.contains(part) {
            found.push(part.clone());
        }
    }
    found
}

#[test]
fn a_rule_about_a_request_holds_for_an_update_that_did_not_change_its_path() {
    let files = rule_files().unwrap();
    let rules = RuleSet::compile(files.clone()).unwrap();
    let mut judged = 0;
    for file in &files {
        let requests: Vec<&CompiledRule> = rules
            .of_kind(&kind(file))
            .iter()
            .map(|compiled| &**compiled)
            .filter(|compiled| compiled.rule.scope == Scope::Request)
            .collect();
        // The objects and the requests of all cases, in all combinations.
        let (mut objects, requesters) = (
            parts(&requests, &["object", "oldObject"]),
            parts(&requests, &["request"]),
        );
        objects.retain(Value::is_object);
        for object in &mut objects {
            // Every stored object has metadata.
            let fields = object.as_object_mut().unwrap();
            fields.entry("metadata").or_insert_with(|| json!({}));
        }
        let updates = |rule: &Rule| rule.operations.iter().any(|word| word == "UPDATE");
        for rule in requests
            .iter()
            .map(|compiled| &compiled.rule)
            .filter(|rule| updates(rule) && !rule.path.is_empty())
        {
            let program = Program::compile(&file.expand(&rule.expression)).unwrap();
            let path: Vec<&str> = rule.path.split('.').collect();
            for (position, object) in objects.iter().enumerate() {
                // The old object differs everywhere except at the path of the rule.
                let mut old = objects[(position * 7 + 1) % objects.len()].clone();
                transplant(object, &mut old, &path);
                for request in &requesters {
                    judged += 1;
                    assert_eq!(
                        program.evaluate_request(request, Some(object), Some(&old)),
                        Ok(true),
                        "{}: {request} {object} {old}",
                        rule.id
                    );
                }
            }
        }
    }
    assert!(judged > 3000, "{judged}");
}

/// Copies the value at a path of one object into another, or removes it there if it is absent.
fn transplant(from: &Value, into: &mut Value, path: &[&str]) {
    let [field, rest @ ..] = path else {
        *into = from.clone();
        return;
    };
    let fields = into.as_object_mut().unwrap();
    match from.get(field) {
        None => drop(fields.remove(*field)),
        Some(part) => transplant(part, fields.entry(*field).or_insert_with(|| json!({})), rest),
    }
}

#[test]
fn the_webhook_gives_the_verdict_of_the_expanded_expressions() {
    let mut refused = 0;
    for file in rule_files().unwrap() {
        let rules = RuleSet::compile(vec![file.clone()]).unwrap();
        let requests = || file.rules.iter().filter(|rule| rule.scope == Scope::Request);
        let expanded: Vec<(&Rule, Program)> = requests()
            .map(|rule| (rule, Program::compile(&file.expand(&rule.expression)).unwrap()))
            .collect();
        for case in requests().flat_map(|rule| rule.cases.allow.iter().chain(&rule.cases.deny)) {
            let part = |name: &str| case.this.get(name).filter(|object| !object.is_null());
            let mut request = part("request").unwrap().clone();
            // An API server always sends options.
            let fields = request.as_object_mut().unwrap();
            fields.entry("options").or_insert_with(|| json!({}));
            let operation = request["operation"].as_str().unwrap().to_owned();
            let expected: Vec<(String, bool)> = expanded
                .iter()
                .filter(|(rule, _)| rule.operations.contains(&operation) && !is_unchanged(rule, &case.this))
                .filter_map(|(rule, program)| {
                    let verdict = program.evaluate_request(&request, part("object"), part("oldObject"));
                    (verdict != Ok(true)).then(|| (rule.id.clone(), verdict.is_err()))
                })
                .collect();
            refused += expected.len();
            assert_eq!(refusals(&rules, &kind(&file), &case.this), expected, "{}", case.this);
        }
    }
    assert!(refused > 50, "{refused}");
}

/// Whether a case is an update that did not change the value at the path of a rule. The webhook
/// does not evaluate the rule for it.
fn is_unchanged(rule: &Rule, case: &Value) -> bool {
    let at = |name: &str| case.get(name).and_then(|object| object.at(&rule.path));
    case["request"]["operation"] == "UPDATE" && !rule.path.is_empty() && at("object") == at("oldObject")
}

/// The rules that refuse the edit of a case, and whether an error is the reason.
fn refusals(rules: &RuleSet, kind: &str, case: &Value) -> Vec<(String, bool)> {
    let text = |pointer: &str| case.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let read = |pointer: &str| case.pointer(pointer).cloned().unwrap_or_default();
    let user = User {
        name: text("/request/userInfo/username").to_owned(),
        groups: serde_json::from_value(read("/request/userInfo/groups")).unwrap_or_default(),
        extra: serde_json::from_value(read("/request/userInfo/extra")).unwrap_or_default(),
    };
    let part = |name: &str| case.get(name).filter(|object| !object.is_null());
    let edit = Edit {
        operation: Operation::parse(text("/request/operation")).unwrap(),
        subresource: text("/request/subResource"),
        namespace: text("/request/namespace"),
        name: text("/request/name"),
        object: part("object"),
        old: part("oldObject").map(|old| old as &dyn Stored),
        propagation: Propagation::parse(text("/request/options/propagationPolicy")),
        user: &user,
        dry_run: false,
    };
    let refusals = rules.refusals(kind, Enforcer::Webhook, &edit, || None);
    let refusal = |(rule, error): (&Rule, Option<CelError>)| (rule.id.clone(), error.is_some());
    refusals.into_iter().map(refusal).collect()
}

#[test]
fn a_transition_rule_holds_for_an_unchanged_value() {
    let mut compared = 0;
    for file in rule_files().unwrap() {
        for rule in file.rules.iter().filter(|rule| rule.scope == Scope::Field) {
            let program = Program::compile(&file.expand(&rule.expression)).unwrap();
            if !program.uses_old_self() {
                continue;
            }
            let cases = rule.cases.allow.iter().chain(&rule.cases.deny);
            for value in cases.flat_map(|case| [Some(&case.this), case.old.as_ref()]).flatten() {
                compared += 1;
                assert_eq!(program.evaluate(value, Some(value)), Ok(true), "{}: {value}", rule.id);
            }
        }
    }
    assert!(compared > 20, "{compared}");
}
