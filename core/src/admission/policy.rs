//! ValidatingAdmissionPolicies out of the CEL rules: what the API server refuses by itself while
//! the webhook is down.
//!
//! A rule about a field is rewritten from `self` at its path to `object`: absent fields on the way
//! make it hold, and so does a value that the update left as it was, unless the rule compares with
//! it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cel::rules::{Enforcer, Rule, RuleFile, Scope, Segment};

/// A policy and its binding for each rule file, in the order in which they are applied.
pub fn policies(files: &[RuleFile]) -> Vec<Value> {
    files.iter().flat_map(policy).collect()
}

fn policy(file: &RuleFile) -> Vec<Value> {
    let name = if file.name.is_empty() {
        format!("capstan-{}", plural(&file.kind))
    } else {
        format!("capstan-{}", file.name)
    };
    let rules = file
        .rules
        .iter()
        .filter(|rule| rule.enforced_by.contains(&Enforcer::Policy));
    let validations: Vec<Value> = rules
        .map(|rule| {
            let at = if rule.path.is_empty() {
                String::new()
            } else {
                format!("{}: ", rule.path)
            };
            let advice = if rule.advice.is_empty() {
                String::new()
            } else {
                format!("; {}", rule.advice)
            };
            json!({
                "expression": expression(rule),
                "message": format!("{at}{}{advice} [{}]", rule.message.trim_end_matches('.'), rule.id),
                "reason": if rule.scope == Scope::Request { "Forbidden" } else { "Invalid" },
            })
        })
        .collect();
    if validations.is_empty() {
        return Vec::new();
    }
    let mut resources: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (group, kind) in file.kinds() {
        let plural = plural(kind);
        let below = file.subresources.iter().map(|part| format!("{plural}/{part}"));
        resources
            .entry(group)
            .or_default()
            .extend(std::iter::once(plural.clone()).chain(below));
    }
    let resource_rules: Vec<Value> = resources
        .into_iter()
        .map(|(group, resources)| {
            json!({
                "apiGroups": [group],
                "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
                "resources": resources,
            })
        })
        .collect();
    let mut policy = vec![
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": name },
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": { "resourceRules": resource_rules },
                "validations": validations,
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": name },
            "spec": { "policyName": name, "validationActions": ["Deny"] },
        }),
    ];
    let variables: Vec<Value> = file
        .variables
        .iter()
        .map(|variable| json!({ "name": variable.name, "expression": variable.expression }))
        .collect();
    if let Some(spec) = policy
        .first_mut()
        .and_then(|policy| policy.get_mut("spec"))
        .and_then(Value::as_object_mut)
        .filter(|_| !variables.is_empty())
    {
        spec.insert("variables".into(), variables.into());
    }
    policy
}

/// The plural of a kind. All of ours are regular.
fn plural(kind: &str) -> String {
    format!("{}s", kind.to_lowercase())
}

/// The rule as an expression over `object`, `oldObject` and `request`.
fn expression(rule: &Rule) -> String {
    if rule.scope == Scope::Request {
        let operations: Vec<String> = rule
            .operations
            .iter()
            .map(|operation| format!("'{operation}'"))
            .collect();
        return format!(
            "!(request.operation in [{}]) || ({})",
            operations.join(", "),
            rule.expression
        );
    }
    format!(
        "object == null || {}",
        descend(rule, &rule.segments(), "object", Some("oldObject"), 0)
    )
}

/// `this` and `old` are expressions for the values at the point where `segments` starts; `old` is
/// `None` once they do not correspond any more.
fn descend(rule: &Rule, segments: &[Segment], this: &str, old: Option<&str>, depth: usize) -> String {
    let fields: Vec<&str> = segments
        .iter()
        .map_while(|segment| match segment {
            Segment::Field(field) => Some(field.as_str()),
            Segment::Items | Segment::ItemsBy(_) => None,
        })
        .collect();
    let (here, absent) = select(this, &fields);
    let before = old.map(|old| select(old, &fields));
    let transition = rule.expression.contains("oldSelf");
    let judged = match segments.get(fields.len()) {
        None => {
            let expression = rename(&rule.expression, "self", &here);
            match &before {
                Some((before, _)) => rename(&expression, "oldSelf", before),
                None => expression,
            }
        }
        Some(items) => {
            let rest = segments.get(fields.len() + 1..).unwrap_or_default();
            let item = format!("item{depth}");
            let inner = descend(rule, rest, &item, None, depth + 1);
            match (items, &before) {
                (Segment::ItemsBy(_), Some((before, before_absent))) => {
                    let root = old.unwrap_or_default();
                    let known = all(&[
                        format!("{root} != null"),
                        negate(before_absent),
                        format!("{item} in {before}"),
                    ]);
                    format!("{here}.all({item}, ({known}) || ({inner}))")
                }
                _ => format!("{here}.all({item}, {inner})"),
            }
        }
    };
    let mut ways_out: Vec<String> = absent;
    if let (Some((before, before_absent)), Some(root)) = (&before, old) {
        if transition {
            ways_out.push(format!("{root} == null"));
            ways_out.extend(before_absent.iter().cloned());
        } else {
            let known = all(&[
                format!("{root} != null"),
                negate(before_absent),
                format!("{before} == {here}"),
            ]);
            ways_out.push(format!("({known})"));
        }
    }
    ways_out.push(format!("({judged})"));
    ways_out.join(" || ")
}

/// The expression for a field below `root`, and for each step the expression that it is absent.
fn select(root: &str, fields: &[&str]) -> (String, Vec<String>) {
    let mut path = root.to_owned();
    let mut absent = Vec::new();
    for field in fields {
        path = format!("{path}.{field}");
        absent.push(format!("!has({path})"));
    }
    (path, absent)
}

fn negate(absent: &[String]) -> String {
    absent
        .iter()
        .map(|absent| absent.trim_start_matches('!'))
        .collect::<Vec<_>>()
        .join(" && ")
}

fn all(conditions: &[String]) -> String {
    conditions
        .iter()
        .filter(|condition| !condition.is_empty())
        .cloned()
        .collect::<Vec<_>>()
        .join(" && ")
}

/// Replaces an identifier that stands for itself: not a part of a longer one, not a field, not in a
/// string.
fn rename(expression: &str, from: &str, to: &str) -> String {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut renamed = String::new();
    let mut quote: Option<char> = None;
    let mut rest = expression;
    while let Some(letter) = rest.chars().next() {
        let free = quote.is_none() && !renamed.ends_with(|before: char| is_word(before) || before == '.');
        if free && rest.strip_prefix(from).is_some_and(|after| !after.starts_with(is_word)) {
            renamed.push_str(to);
            rest = rest.strip_prefix(from).unwrap_or_default();
            continue;
        }
        match quote {
            Some(open) if open == letter => quote = None,
            None if letter == '\'' || letter == '"' => quote = Some(letter),
            _ => {}
        }
        renamed.push(letter);
        rest = rest.get(letter.len_utf8()..).unwrap_or_default();
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_identifier_itself_is_renamed() {
        assert_eq!(
            rename("self == oldSelf && myself.self == 'self'", "self", "object.spec"),
            "object.spec == oldSelf && myself.self == 'self'"
        );
    }

    fn rule(path: &str, expression: &str) -> Rule {
        let text = format!(
            "group: g\nkind: K\nrules:\n- {{id: r, path: '{path}', expression: \"{expression}\", message: m}}\n"
        );
        RuleFile::parse("test", &text).unwrap().rules.remove(0)
    }

    #[test]
    fn a_transition_rule_holds_where_there_was_nothing_before() {
        assert_eq!(
            expression(&rule("spec.a", "self == oldSelf")),
            "object == null || !has(object.spec) || !has(object.spec.a) || oldObject == null || !has(oldObject.spec) || \
             !has(oldObject.spec.a) || (object.spec.a == oldObject.spec.a)"
        );
    }

    #[test]
    fn a_rule_on_items_holds_for_a_list_that_did_not_change() {
        assert_eq!(
            expression(&rule("spec.list[].x", "self > 0")),
            "object == null || !has(object.spec) || !has(object.spec.list) || (oldObject != null && has(oldObject.spec) && \
             has(oldObject.spec.list) && oldObject.spec.list == object.spec.list) || \
             (object.spec.list.all(item0, !has(item0.x) || (item0.x > 0)))"
        );
    }
}
