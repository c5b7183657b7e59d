//! ValidatingAdmissionPolicies from the rules in CEL: the API server enforces them itself, also
//! while the webhook is unavailable.
//!
//! Nothing here may change what a rule demands.

mod expression;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use self::expression::expression;
use crate::api::kinds;
use crate::cel::rules::{Enforcer, Rule, RuleFile, Scope};
use crate::model::rule_link;

/// A policy and its binding for each rule file, in the order in which they are applied. A file
/// without a rule that a policy enforces has none.
pub fn policies(files: &[RuleFile]) -> Vec<Value> {
    files.iter().flat_map(policy).collect()
}

fn policy(file: &RuleFile) -> Vec<Value> {
    let validations = validations(file);
    if validations.is_empty() {
        return Vec::new();
    }
    let name = if file.name.is_empty() {
        format!("capstan-{}", plural(&file.group, &file.kind))
    } else {
        format!("capstan-{}", file.name)
    };
    let mut constraints = json!({ "resourceRules": resource_rules(file) });
    // Other namespaces have no mirrored objects, and an error of a policy must not refuse an edit
    // in them. The API server sets this label, and no user can change it.
    if let (Some(fields), Some(namespace)) = (constraints.as_object_mut(), home(file)) {
        let selector = json!({ "matchLabels": { "kubernetes.io/metadata.name": namespace } });
        fields.insert("namespaceSelector".to_owned(), selector);
    }
    let mut spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": constraints,
        "validations": validations,
    });
    if let (Some(fields), false) = (spec.as_object_mut(), file.variables.is_empty()) {
        let variables = file.variables.iter();
        let variables = variables.map(|variable| json!({ "name": variable.name, "expression": variable.expression }));
        fields.insert("variables".to_owned(), variables.collect());
    }
    vec![
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": name, "labels": { "app.kubernetes.io/name": "capstan" } },
            "spec": spec,
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": name, "labels": { "app.kubernetes.io/name": "capstan" } },
            "spec": { "policyName": name, "validationActions": ["Deny"] },
        }),
    ]
}

/// The namespace of the objects that a rule file is about: its variable `home`, which is a literal.
/// `None` for a file without the variable, which is about objects in every namespace.
fn home(file: &RuleFile) -> Option<&str> {
    let home = file.variables.iter().find(|variable| variable.name == "home")?;
    home.expression.strip_prefix('\'')?.strip_suffix('\'')
}

/// The validations of the rules that a policy enforces.
fn validations(file: &RuleFile) -> Vec<Value> {
    let enforced = |rule: &&Rule| rule.enforced_by.contains(&Enforcer::Policy);
    let validation = |rule: &Rule| {
        let path = match rule.path.as_str() {
            "" => String::new(),
            path => format!("{path}: "),
        };
        let advice = match rule.advice.as_str() {
            "" => String::new(),
            advice => format!("; {advice}"),
        };
        json!({
            "expression": expression(rule),
            "message": format!(
                "{path}{}{advice} [{}] ({})",
                rule.message.trim_end_matches('.'),
                rule.id,
                rule_link(&rule.id)
            ),
            "reason": if rule.scope == Scope::Request { "Forbidden" } else { "Invalid" },
        })
    };
    file.rules.iter().filter(enforced).map(validation).collect()
}

/// The resources of the kinds of a file, one rule for each API group.
fn resource_rules(file: &RuleFile) -> Vec<Value> {
    let mut resources: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (group, kind) in file.kinds() {
        let plural = plural(group, kind);
        let below = file.subresources.iter().map(|part| format!("{plural}/{part}"));
        let of_kind = std::iter::once(plural.clone()).chain(below);
        resources.entry(group).or_default().extend(of_kind);
    }
    let rule = |(group, resources): (&str, Vec<String>)| {
        json!({
            "apiGroups": [group],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
            "resources": resources,
        })
    };
    resources.into_iter().map(rule).collect()
}

/// The lower-case plural of a kind. A kind outside the kind table has the regular one.
fn plural(group: &str, kind: &str) -> String {
    match kinds::find(group, kind) {
        Some(entry) => entry.kind.plural.to_string(),
        None => format!("{}s", kind.to_lowercase()),
    }
}
