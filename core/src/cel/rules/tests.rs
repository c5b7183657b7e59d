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
        keys: None,
        of_key: String::new(),
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
        let whole = |compiled: &CompiledRule| Program::compile(&file.expand(&compiled.rule.expression)).unwrap();
        let updates = |compiled: &CompiledRule| compiled.rule.operations.iter().any(|word| word == "UPDATE");
        for compiled in requests
            .iter()
            .filter(|compiled| updates(compiled) && !compiled.segments.is_empty())
        {
            let program = whole(compiled);
            for (position, object) in objects.iter().enumerate() {
                // Everything else changes.
                let mut old = objects[(position * 7 + 1) % objects.len()].clone();
                transplant(object, &mut old, &compiled.segments);
                for request in &requesters {
                    judged += 1;
                    assert_eq!(
                        program.evaluate_request(request, Some(object), Some(&old)),
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
                {id: told, scope: request, operations: [UPDATE], path: b, expression: '!variables.held', message: m}], \
                variables: [{name: held, expression: 'false'}]}";
    let rules = RuleSet::compile(vec![RuleFile::parse("test", text).unwrap()]).unwrap();
    let user = crate::model::User::default();
    let refused = |operation: Operation, object: Value, old: Option<Value>, told: Option<Told>| {
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
    let held = Told {
        variable: "held",
        holds: true,
    };
    let (old, new) = (json!({"b": 1, "c": 2}), json!({"b": 7, "c": 2}));
    let update = |told| refused(Operation::Update, new.clone(), Some(old.clone()), told);
    assert_eq!(update(None), ["all"]);
    assert_eq!(update(Some(held)), ["all", "told"]);
    // What is not asked about is not told about either.
    assert_eq!(refused(Operation::Update, old.clone(), Some(old), Some(held)), ["all"]);
}

/// The edit of a case of a rule about a request.
fn judged(rules: &RuleSet, kind: &str, case: &Value) -> Vec<(String, bool)> {
    let text = |pointer: &str| case.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let read = |pointer: &str| case.pointer(pointer).cloned().unwrap_or_default();
    let user = crate::model::User {
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
        propagation: crate::model::Propagation::parse(text("/request/options/propagationPolicy")),
        user: &user,
        dry_run: false,
    };
    let refusals = rules.refusals(kind, Enforcer::Webhook, &edit, || None);
    let told = |(rule, error): (&Rule, Option<CelError>)| (rule.id.clone(), error.is_some());
    refusals.into_iter().map(told).collect()
}

#[test]
fn a_request_is_judged_as_by_the_whole_expressions_with_their_variables_in_them() {
    let mut refused = 0;
    for file in built_in().unwrap() {
        let rules = RuleSet::compile(vec![file.clone()]).unwrap();
        let (group, kind) = file.kinds()[0];
        let kind = qualified(group, kind);
        let requests = || file.rules.iter().filter(|rule| rule.scope == Scope::Request);
        let expanded: Vec<(&Rule, Program)> = requests()
            .map(|rule| (rule, Program::compile(&file.expand(&rule.expression)).unwrap()))
            .collect();
        for case in requests().flat_map(|rule| rule.cases.allow.iter().chain(&rule.cases.deny)) {
            let part = |name: &str| case.this.get(name).filter(|object| !object.is_null());
            let mut request = part("request").unwrap().clone();
            // What an API server always sends, and so does the edit.
            request
                .as_object_mut()
                .unwrap()
                .entry("options")
                .or_insert_with(|| json!({}));
            let operation = request["operation"].as_str().unwrap().to_owned();
            let whole: Vec<(String, bool)> = expanded
                .iter()
                .filter(|(rule, _)| rule.operations.contains(&operation) && !left_alone(rule, &case.this))
                .filter_map(|(rule, program)| {
                    let verdict = program.evaluate_request(&request, part("object"), part("oldObject"));
                    (verdict != Ok(true)).then(|| (rule.id.clone(), verdict.is_err()))
                })
                .collect();
            refused += whole.len();
            assert_eq!(judged(&rules, &kind, &case.this), whole, "{}", case.this);
        }
    }
    assert!(refused > 50, "{refused}");
}

/// Whether the case is an update that left the path of the rule alone, of which the webhook is not asked.
fn left_alone(rule: &Rule, case: &Value) -> bool {
    let segments = rule.segments();
    let at = |name: &str| case.get(name).and_then(|object| below(object, &segments));
    case["request"]["operation"] == "UPDATE" && !segments.is_empty() && at("object") == at("oldObject")
}

#[test]
fn each_key_that_changes_is_asked_about_and_no_other() {
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
fn a_rule_that_compares_with_the_value_before_says_nothing_of_what_is_the_same() {
    let mut compared = 0;
    for file in built_in().unwrap() {
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

#[test]
fn a_variable_is_known_to_those_after_it_and_one_that_is_nothing_says_why() {
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
    let turned = "{name: b, expression: 'variables.a'}, {name: a, expression: object.a.b}";
    assert_eq!(
        judged(&file(turned, "variables.b == 'x'"), "K.g", &case),
        [("r".to_owned(), true)]
    );
    let missing = file("{name: a, expression: object.missing}", "variables.a == 'x'");
    let user = crate::model::User::default();
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
fn an_expression_without_verdict_is_a_finding() {
    let rules = rules("spec", "self.missing == 1");
    let object = json!({"spec": {}});
    let findings = rules.findings("K.g", Enforcer::Webhook, &object, None);
    assert!(findings.first().is_some_and(|finding| finding.error.is_some()));
}
