//! Paths, transitions, what is unchanged: when a rule is asked, and about what.

use serde_json::json;

use super::*;

fn rules(path: &str, expression: &str) -> RuleSet {
    let rule = Rule {
        id: "r".into(),
        scope: Scope::Field,
        operations: Vec::new(),
        path: path.into(),
        expression: expression.into(),
        message: "m".into(),
        reason: field_value_invalid(),
        advice: String::new(),
        enforced_by: everybody(),
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

fn paths(rules: &RuleSet, object: &Value, old: Option<&Value>) -> Vec<String> {
    rules
        .findings("K.g", Enforcer::Webhook, object, old)
        .into_iter()
        .map(|finding| finding.path)
        .collect()
}

#[test]
fn a_rule_is_silent_where_its_path_leads_nowhere() {
    let rules = rules("spec.a.b", "false");
    assert_eq!(paths(&rules, &json!({"spec": {}}), None), Vec::<String>::new());
    assert_eq!(paths(&rules, &json!({"spec": {"a": {"b": 1}}}), None), ["spec.a.b"]);
}

#[test]
fn a_transition_rule_is_silent_without_a_value_before() {
    let rules = rules("spec.a", "self == oldSelf");
    let (one, two) = (json!({"spec": {"a": 1}}), json!({"spec": {"a": 2}}));
    assert_eq!(paths(&rules, &two, None), Vec::<String>::new());
    assert_eq!(paths(&rules, &two, Some(&json!({"spec": {}}))), Vec::<String>::new());
    assert_eq!(paths(&rules, &two, Some(&two)), Vec::<String>::new());
    assert_eq!(paths(&rules, &two, Some(&one)), ["spec.a"]);
}

#[test]
fn each_item_of_a_list_is_judged_and_named_by_its_position() {
    let rules = rules("spec.list[].x", "self > 0");
    let object = json!({"spec": {"list": [{"x": 1}, {"x": 0}, {}, {"x": -1}]}});
    assert_eq!(paths(&rules, &object, None), ["spec.list[1].x", "spec.list[3].x"]);
}

#[test]
fn a_bad_value_that_the_update_left_alone_is_not_judged_again() {
    let rules = rules("spec.list[name].x", "self > 0");
    let old = json!({"spec": {"list": [{"name": "a", "x": 0}, {"name": "b", "x": 1}]}});
    let moved = json!({"spec": {"list": [{"name": "b", "x": 2}, {"name": "a", "x": 0}]}});
    assert_eq!(paths(&rules, &moved, Some(&old)), Vec::<String>::new());
    let worse = json!({"spec": {"list": [{"name": "b", "x": -2}, {"name": "a", "x": 0}]}});
    assert_eq!(paths(&rules, &worse, Some(&old)), ["spec.list[0].x"]);
}

#[test]
fn a_variable_stands_for_its_expression_and_may_name_those_before_it() {
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
fn a_rule_about_a_request_holds_of_an_update_that_leaves_its_path_alone() {
    let files = built_in().unwrap();
    let rules = RuleSet::compile(files.clone()).unwrap();
    let mut judged = 0;
    for file in &files {
        let (group, kind) = file.kinds()[0];
        let requests = rules.of_kind(&qualified(group, kind)).iter();
        let requests: Vec<_> = requests
            .filter(|compiled| compiled.rule.scope == Scope::Request)
            .collect();
        // Objects of every shape that any rule of the kind is about, asked for by everybody who is in an example.
        let cases = || {
            requests
                .iter()
                .flat_map(|compiled| compiled.rule.cases.allow.iter().chain(&compiled.rule.cases.deny))
        };
        let distinct = |parts: &[&str]| {
            let mut found: Vec<Value> = Vec::new();
            for part in cases().flat_map(|case| parts.iter().filter_map(|part| case.this.get(*part))) {
                if !found.contains(part) {
                    found.push(part.clone());
                }
            }
            found
        };
        let (mut objects, requesters) = (distinct(&["object", "oldObject"]), distinct(&["request"]));
        objects.retain(Value::is_object);
        for object in &mut objects {
            // Every object has it.
            object
                .as_object_mut()
                .unwrap()
                .entry("metadata")
                .or_insert_with(|| json!({}));
        }
        let updates = |compiled: &CompiledRule| compiled.rule.operations.iter().any(|word| word == "UPDATE");
        for compiled in requests
            .iter()
            .filter(|compiled| updates(compiled) && !compiled.segments.is_empty())
        {
            for (position, object) in objects.iter().enumerate() {
                // Everything else changes.
                let mut old = objects[(position * 7 + 1) % objects.len()].clone();
                transplant(object, &mut old, &compiled.segments);
                for request in &requesters {
                    judged += 1;
                    assert_eq!(
                        compiled.program.evaluate_request(request, Some(object), Some(&old)),
                        Ok(true),
                        "{}: {request} {object} {old}",
                        compiled.rule.id
                    );
                }
            }
        }
    }
    assert!(judged > 3000, "{judged}");
}

/// Puts what stands at a path of an object into another, also where that is nothing.
fn transplant(from: &Value, into: &mut Value, segments: &[Segment]) {
    let [Segment::Field(field), rest @ ..] = segments else {
        *into = from.clone();
        return;
    };
    let fields = into.as_object_mut().unwrap();
    match from.get(field) {
        None => drop(fields.remove(field)),
        Some(part) => transplant(part, fields.entry(field).or_insert_with(|| json!({})), rest),
    }
}

#[test]
fn a_rule_about_a_request_is_not_asked_about_what_an_update_left_alone() {
    let text = "{name: n, kinds: [K.g], rules: [\
                {id: a, scope: request, operations: [CREATE, UPDATE], path: spec.a, expression: 'false', message: m}, \
                {id: all, scope: request, operations: [UPDATE], expression: 'false', message: m}, \
                {id: told, scope: request, operations: [UPDATE], path: b, expression: 'object.b == 1 && object.c == 2 && oldObject.b == 3 && !has(oldObject.c)', message: m}]}";
    let rules = RuleSet::compile(vec![RuleFile::parse("test", text).unwrap()]).unwrap();
    let user = crate::model::User::default();
    let refused = |operation: Operation, object: Value, old: Option<Value>, told: Option<Instead>| {
        let edit = Edit {
            operation,
            subresource: "",
            namespace: "",
            name: "",
            object: Some(&object),
            old: old.as_ref(),
            propagation: None,
            user: &user,
            dry_run: false,
        };
        let refusals = rules.refusals("K.g", Enforcer::Webhook, &edit, || told);
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
    let instead = Instead {
        field: "b",
        object: json!(1),
        old: json!(3),
    };
    assert_eq!(
        refused(
            Operation::Update,
            json!({"b": 7, "c": 2}),
            Some(json!({})),
            Some(instead)
        ),
        ["all"]
    );
    assert_eq!(
        refused(Operation::Update, json!({"b": 1, "c": 2}), Some(json!({"b": 3})), None),
        ["all"]
    );
    assert_eq!(
        refused(Operation::Update, json!({"b": 7, "c": 2}), Some(json!({"b": 3})), None),
        ["all", "told"]
    );
}

#[test]
fn a_variable_that_is_a_map_of_an_object_is_looked_up_and_means_what_its_expression_says() {
    let mut looked_up = 0;
    for file in built_in().unwrap() {
        let map = |variable: &Variable| MapVariable::of(&variable.name, &variable.expression);
        looked_up += file.variables.iter().filter_map(map).count();
        for rule in file.rules.iter().filter(|rule| rule.scope == Scope::Request) {
            let expanded = Program::compile(&file.expand(&rule.expression)).unwrap();
            let compiled = file.compile(rule).unwrap();
            for case in rule.cases.allow.iter().chain(&rule.cases.deny) {
                let part = |name: &str| case.this.get(name);
                let judge = |program: &Program| {
                    program.evaluate_request(part("request").unwrap(), part("object"), part("oldObject"))
                };
                assert_eq!(
                    judge(&compiled).ok(),
                    judge(&expanded).ok(),
                    "{} {}",
                    rule.id,
                    case.this
                );
            }
        }
    }
    assert_eq!(looked_up, 8);
    for other in [
        "has(object.a) ? object.b : {}",
        "has(object.a) ? object.a : ''",
        "has(request.a) ? request.a : {}",
        "object.a",
    ] {
        assert_eq!(MapVariable::of("a", other), None, "{other}");
    }
}

#[test]
fn an_expression_without_verdict_is_a_finding() {
    let rules = rules("spec", "self.missing == 1");
    let object = json!({"spec": {}});
    let findings = rules.findings("K.g", Enforcer::Webhook, &object, None);
    assert!(findings.first().is_some_and(|finding| finding.error.is_some()));
}
