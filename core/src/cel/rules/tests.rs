//! When a rule is evaluated, and with which values: paths, transitions, unchanged values, keys and
//! variables.

use serde_json::{Value, json};

use super::file::{every_enforcer, field_value_invalid};
use super::*;
use crate::cel::{CelError, Program, VariableOverride};
use crate::model::{Edit, Operation, Propagation, Stored, User};

fn rules(path: &str, expression: &str) -> RuleSet {
    let rule = Rule {
        id: "r".into(),
        scope: Scope::Field,
        operations: Vec::new(),
        path: path.into(),
        expression: expression.into(),
        keys: None,
        key_expression: String::new(),
        message: "m".into(),
        reason: field_value_invalid(),
        advice: String::new(),
        enforced_by: every_enforcer(),
        cases: Cases::default(),
    };
    RuleSet::compile(vec![RuleFile {
        group: "g".into(),
        kind: "K".into(),
        rules: vec![rule],
        ..RuleFile::default()
    }])
    .unwrap()
}

fn stored(old: Option<&Value>) -> Option<&dyn Stored> {
    old.map(|old| old as &dyn Stored)
}

fn paths(rules: &RuleSet, object: &Value, old: Option<&Value>) -> Vec<String> {
    rules
        .findings("K.g", Enforcer::Webhook, object, stored(old))
        .into_iter()
        .map(|finding| finding.path)
        .collect()
}

#[test]
fn a_rule_does_not_apply_if_its_path_does_not_exist() {
    let rules = rules("spec.a.b", "false");
    assert_eq!(paths(&rules, &json!({"spec": {}}), None), Vec::<String>::new());
    assert_eq!(paths(&rules, &json!({"spec": {"a": {"b": 1}}}), None), ["spec.a.b"]);
}

#[test]
fn a_transition_rule_does_not_apply_without_an_old_value() {
    let rules = rules("spec.a", "self == oldSelf");
    let (one, two) = (json!({"spec": {"a": 1}}), json!({"spec": {"a": 2}}));
    assert_eq!(paths(&rules, &two, None), Vec::<String>::new());
    assert_eq!(paths(&rules, &two, Some(&json!({"spec": {}}))), Vec::<String>::new());
    assert_eq!(paths(&rules, &two, Some(&two)), Vec::<String>::new());
    assert_eq!(paths(&rules, &two, Some(&one)), ["spec.a"]);
}

#[test]
fn each_item_of_a_list_is_judged_and_named_by_position() {
    let rules = rules("spec.list[].x", "self > 0");
    let object = json!({"spec": {"list": [{"x": 1}, {"x": 0}, {}, {"x": -1}]}});
    assert_eq!(paths(&rules, &object, None), ["spec.list[1].x", "spec.list[3].x"]);
}

#[test]
fn an_invalid_value_that_an_update_did_not_change_is_not_judged_again() {
    let rules = rules("spec.list[name].x", "self > 0");
    let old = json!({"spec": {"list": [{"name": "a", "x": 0}, {"name": "b", "x": 1}]}});
    let moved = json!({"spec": {"list": [{"name": "b", "x": 2}, {"name": "a", "x": 0}]}});
    assert_eq!(paths(&rules, &moved, Some(&old)), Vec::<String>::new());
    let worse = json!({"spec": {"list": [{"name": "b", "x": -2}, {"name": "a", "x": 0}]}});
    assert_eq!(paths(&rules, &worse, Some(&old)), ["spec.list[0].x"]);
}

#[test]
fn a_variable_may_name_the_variables_before_it() {
    let text = "{name: n, kinds: [A.g, B.h.i], variables: [{name: a, expression: 'self > 1'}, \
                {name: ab, expression: 'variables.a && self < 5'}], \
                rules: [{id: r, path: x, expression: 'variables.ab', message: m}]}";
    let file = RuleFile::parse("test", text).unwrap();
    assert_eq!(file.kinds(), [("g", "A"), ("h.i", "B")]);
    assert_eq!(
        file.expand("variables.ab || variables.a"),
        "((self > 1) && self < 5) || (self > 1)"
    );
    let rules = RuleSet::compile(vec![file]).unwrap();
    for (kind, value, findings) in [("A.g", 3, 0), ("B.h.i", 7, 1), ("B.g", 7, 0)] {
        let object = json!({"x": value});
        assert_eq!(
            rules.findings(kind, Enforcer::Webhook, &object, None).len(),
            findings,
            "{kind}"
        );
    }
}

#[test]
fn a_rule_about_a_request_is_not_evaluated_for_an_update_that_did_not_change_its_path() {
    let text = "{name: n, kinds: [K.g], rules: [\
                {id: a, scope: request, operations: [CREATE, UPDATE], path: spec.a, expression: 'false', message: m}, \
                {id: all, scope: request, operations: [UPDATE], expression: 'false', message: m}, \
                {id: override, scope: request, operations: [UPDATE], path: b, expression: '!variables.mirror', message: m}], \
                variables: [{name: mirror, expression: 'false'}]}";
    let rules = RuleSet::compile(vec![RuleFile::parse("test", text).unwrap()]).unwrap();
    let user = User::default();
    let refused = |operation: Operation, object: Value, old: Option<Value>, overridden: Option<VariableOverride>| {
        let edit = Edit {
            operation,
            subresource: "",
            namespace: "",
            name: "",
            object: Some(&object),
            old: stored(old.as_ref()),
            propagation: None,
            user: &user,
            dry_run: false,
        };
        let refusals = rules.refusals("K.g", Enforcer::Webhook, &edit, || overridden);
        refusals
            .into_iter()
            .map(|(rule, _)| rule.id.clone())
            .collect::<Vec<_>>()
    };
    let (one, two) = (json!({"spec": {"a": 1}}), json!({"spec": {"a": 1, "b": 2}}));
    assert_eq!(refused(Operation::Update, one.clone(), Some(two), None), ["all"]);
    assert_eq!(
        refused(Operation::Update, one.clone(), Some(json!({})), None),
        ["a", "all"]
    );
    assert_eq!(refused(Operation::Create, one, None, None), ["a"]);
    let mirror = VariableOverride {
        variable: "mirror",
        value: true,
    };
    let (old, new) = (json!({"b": 1, "c": 2}), json!({"b": 7, "c": 2}));
    let update = |overridden| refused(Operation::Update, new.clone(), Some(old.clone()), overridden);
    assert_eq!(update(None), ["all"]);
    assert_eq!(update(Some(mirror)), ["all", "override"]);
    assert_eq!(
        refused(Operation::Update, old.clone(), Some(old), Some(mirror)),
        ["all"]
    );
}

/// The rules that refuse the edit of a case, and whether an error is the reason.
fn judged(rules: &RuleSet, kind: &str, case: &Value) -> Vec<(String, bool)> {
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
        old: stored(part("oldObject")),
        propagation: Propagation::parse(text("/request/options/propagationPolicy")),
        user: &user,
        dry_run: false,
    };
    let refusals = rules.refusals(kind, Enforcer::Webhook, &edit, || None);
    let refusal = |(rule, error): (&Rule, Option<CelError>)| (rule.id.clone(), error.is_some());
    refusals.into_iter().map(refusal).collect()
}

#[test]
fn a_rule_about_keys_is_evaluated_for_each_changed_key_and_for_no_other() {
    let text = "{name: n, kinds: [K.g], rules: [{id: r, scope: request, operations: [UPDATE], path: metadata.labels, \
                keys: {domains: [k.io], and: [plain], but: [x.k.io/record]}, \
                expression: 'key in request.userInfo.groups', message: m}]}";
    let file = RuleFile::parse("test", text).unwrap();
    let whole = Program::compile(&file.rules[0].expression).unwrap();
    let rules = RuleSet::compile(vec![file]).unwrap();
    let keys = [
        "k.io/a",
        "x.k.io/a",
        "plain",
        "x.k.io/record",
        "xk.io/a",
        "k.io",
        "k.io.org/a",
        "k.io.k.io/a",
        "a/k.io",
    ];
    let reserved = ["k.io/a", "x.k.io/a", "plain", "k.io.k.io/a"];
    let of = |labels: Value| json!({"metadata": {"labels": labels}});
    for key in keys {
        let maps = [
            json!({}),
            json!({key: "1"}),
            json!({key: "2", "other": "1"}),
            json!({"other": "2"}),
        ];
        let objects: Vec<Value> = maps.into_iter().map(of).chain([json!({"metadata": {}})]).collect();
        for (old, new) in objects.iter().flat_map(|old| objects.iter().map(move |new| (old, new))) {
            let label = |object: &Value| object["metadata"]["labels"][key].clone();
            for groups in [json!([]), json!([key]), json!(["other"])] {
                let request = json!({"operation": "UPDATE", "userInfo": {"username": "u", "groups": groups}});
                let case = json!({"request": request, "object": new, "oldObject": old});
                let refused = label(old) != label(new) && reserved.contains(&key) && groups != json!([key]);
                assert_eq!(
                    whole.evaluate_request(&request, Some(new), Some(old)),
                    Ok(!refused),
                    "{case}"
                );
                assert_eq!(judged(&rules, "K.g", &case).is_empty(), !refused, "{case}");
            }
        }
    }
}

#[test]
fn a_variable_is_visible_after_its_definition_and_its_error_is_reported() {
    let file = |variables: &str, expression: &str| {
        let text = format!(
            "{{name: n, kinds: [K.g], variables: [{variables}], rules: [{{id: r, scope: request, operations: [UPDATE], \
             expression: \"{expression}\", message: m}}]}}"
        );
        RuleSet::compile(vec![RuleFile::parse("test", &text).unwrap()]).unwrap()
    };
    let case = json!({"request": {"operation": "UPDATE"}, "object": {"a": {"b": "x"}}, "oldObject": {}});
    let two = "{name: a, expression: object.a.b}, {name: b, expression: 'variables.a + variables.a'}";
    assert!(judged(&file(two, "variables.b == 'xx' && variables.a == 'x'"), "K.g", &case).is_empty());
    let reversed = "{name: b, expression: 'variables.a'}, {name: a, expression: object.a.b}";
    assert_eq!(
        judged(&file(reversed, "variables.b == 'x'"), "K.g", &case),
        [("r".to_owned(), true)]
    );
    let missing = file("{name: a, expression: object.missing}", "variables.a == 'x'");
    let user = User::default();
    let edit = Edit {
        operation: Operation::Update,
        subresource: "",
        namespace: "",
        name: "",
        object: case.get("object"),
        old: stored(case.get("oldObject")),
        propagation: None,
        user: &user,
        dry_run: false,
    };
    let refusals = missing.refusals("K.g", Enforcer::Webhook, &edit, || None);
    let error = refusals[0].1.as_ref().unwrap().to_string();
    assert!(error.contains("object.missing"), "{error}");
}

#[test]
fn an_expression_that_cannot_be_evaluated_is_a_finding() {
    let rules = rules("spec", "self.missing == 1");
    let object = json!({"spec": {}});
    let findings = rules.findings("K.g", Enforcer::Webhook, &object, None);
    assert!(findings.first().is_some_and(|finding| finding.error.is_some()));
}

#[test]
fn a_map_variable_has_the_value_of_its_expression() {
    let file = RuleFile::parse(
        "test",
        "{name: n, kinds: [K.g], variables: [{name: labels, map: oldObject.metadata.labels}], \
         rules: [{id: r, scope: request, operations: [UPDATE], expression: \"'a' in variables.labels\", message: m}]}",
    )
    .unwrap();
    let whole = Program::compile(&file.expand(&file.rules[0].expression)).unwrap();
    let rules = RuleSet::compile(vec![file]).unwrap();
    for old in [
        json!({}),
        json!({"metadata": {}}),
        json!({"metadata": {"labels": {}}}),
        json!({"metadata": {"labels": {"a": "b"}}}),
    ] {
        let request = json!({"operation": "UPDATE"});
        let case = json!({"request": request, "object": {}, "oldObject": old});
        let holds = judged(&rules, "K.g", &case).is_empty();
        assert_eq!(holds, old.pointer("/metadata/labels/a").is_some(), "{old}");
        if old.get("metadata").is_some() {
            assert_eq!(
                whole.evaluate_request(&request, Some(&json!({})), Some(&old)),
                Ok(holds),
                "{old}"
            );
        }
    }
}

#[test]
fn a_variable_without_a_value_or_with_two_is_refused() {
    for variable in [
        "{name: a}",
        "{name: a, map: object.a, expression: 'true'}",
        "{name: a, map: object}",
        "{name: a, map: request.a}",
        "{name: a, map: 'object.a[0]'}",
    ] {
        let text = format!("{{name: n, kinds: [K.g], variables: [{variable}], rules: []}}");
        let error = RuleFile::parse("test", &text).unwrap_err().to_string();
        assert!(error.starts_with("rule file test: variable a: "), "{error}");
    }
}
