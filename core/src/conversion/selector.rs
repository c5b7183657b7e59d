//! Converts the label selectors of MachineSets and MachineHealthChecks.
//!
//! The labels of the role and the type are `node-role.kubernetes.io/<role>` in Cluster API. A
//! selector that the way back would not restore is carried along (see `carried`).
//!
//! Must never: select other machines than the source without an issue.

use serde_json::{Map, Value, json};

use super::metadata::{Entries, NODE_ROLE, report_rest};
use super::parts::Work;
use super::tree::Tree;
use super::{Api, Issue};
use crate::api::machine_openshift_io::label::{ROLE, TYPE};

/// A selector before and after its conversion.
#[derive(Clone, Debug)]
pub(super) struct Selector {
    source: Value,
    /// The selector of the other API.
    pub(super) converted: Value,
}

impl Selector {
    /// Takes the selector of a spec and converts it.
    pub(super) fn convert(spec: &mut Tree, to: Api, work: &mut Work) -> Self {
        let path = spec.path("selector");
        let source = take(spec, to, &mut work.issues);
        let (forth, back): (Translate, Translate) = match to {
            Api::ClusterApi => (to_cluster_api, to_machine_api),
            Api::MachineApi => (to_machine_api, to_cluster_api),
        };
        let converted = match work.restored.original("selector", &source) {
            Some(original) => original.clone(),
            None => translated(&source, &path, &mut work.issues, forth),
        };
        if translated(&converted, &path, &mut Vec::new(), back) != source {
            work.carried.add("selector", source.clone(), &converted);
        }
        Self { source, converted }
    }

    /// Reports that the converted selector does not select the converted machines, although the
    /// source selector selects the source machines.
    pub(super) fn check(&self, before: &Entries, after: &Entries, issues: &mut Vec<Issue>) {
        if selects(&self.source, before) && !selects(&self.converted, after) {
            issues.push(Issue::blocks(
                "spec.selector",
                "the selector would not select the machines of the template after the conversion, because labels of \
                 the machine and of its node differ or a label of the selector is not converted",
                "use labels in the selector that are equal in template.metadata and template.spec.metadata",
            ));
        }
    }
}

/// The label of the other API for a key and a value; `None` if the label is the same.
type Translate = fn(&str, &str) -> Option<(String, String)>;

fn to_cluster_api(key: &str, value: &str) -> Option<(String, String)> {
    matches!(key, ROLE | TYPE).then(|| (format!("{NODE_ROLE}{value}"), String::new()))
}

fn to_machine_api(key: &str, value: &str) -> Option<(String, String)> {
    let role = key.strip_prefix(NODE_ROLE).filter(|_| value.is_empty())?;
    Some((ROLE.to_owned(), role.to_owned()))
}

/// Takes a label selector, and reports what is not part of one.
fn take(tree: &mut Tree, to: Api, issues: &mut Vec<Issue>) -> Value {
    let original = tree.branch("selector");
    let mut rest = original.clone();
    if original.value.is_null() {
        return Value::Object(Map::new());
    }
    let mut kept = Map::new();
    match rest.take("matchLabels") {
        None => {}
        Some(Value::Object(labels)) if labels.is_empty() => {}
        Some(Value::Object(labels)) if labels.values().all(Value::is_string) => {
            kept.insert(String::from("matchLabels"), labels.into());
        }
        Some(_) => {
            let at = original.path("matchLabels");
            issues.push(Issue::blocks(at, "must be a map of strings", "correct the value"));
        }
    }
    match rest.take("matchExpressions") {
        Some(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                let at = format!("{}[{index}]", original.path("matchExpressions"));
                let mut item = Tree::new(at.clone(), item.clone());
                let key = item.take_text("key");
                let operator = item.take_text("operator");
                let values = item.take("values").unwrap_or_else(|| json!([]));
                let texts = values
                    .as_array()
                    .is_some_and(|values| values.iter().all(Value::is_string));
                report_rest(&item, to, issues);
                if key.is_none() || operator.is_none() || !texts {
                    issues.push(Issue::blocks(
                        at,
                        "must be a requirement with the strings key and operator and a list of strings values",
                        "correct the requirement",
                    ));
                }
            }
            if !items.is_empty() {
                kept.insert(String::from("matchExpressions"), items.into());
            }
        }
        None => {}
        Some(_) => {
            let at = original.path("matchExpressions");
            issues.push(Issue::blocks(at, "must be a list", "correct the value"));
        }
    }
    report_rest(&rest, to, issues);
    kept.into()
}

/// The selector with its requirements translated. A requirement of `matchExpressions` on a
/// translated label can be converted only if it has one value.
fn translated(selector: &Value, path: &str, issues: &mut Vec<Issue>, translate: Translate) -> Value {
    let mut converted = Map::new();
    let mut expressions = Vec::new();
    if let Some(Value::Object(labels)) = selector.get("matchLabels") {
        let mut translated = Map::new();
        for (key, value) in labels {
            let other = value.as_str().and_then(|value| translate(key, value));
            let (key, value) = other.map_or((key.clone(), value.clone()), |(key, value)| (key, value.into()));
            translated.insert(key, value);
        }
        converted.insert(String::from("matchLabels"), translated.into());
    }
    for (index, expression) in selector
        .get("matchExpressions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
    {
        let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
        let values = expression
            .get("values")
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        let role = matches!(text("key"), ROLE | TYPE);
        match (role, text("operator"), values) {
            (true, "In" | "NotIn", [Value::String(value)]) => {
                let operator = if text("operator") == "In" {
                    "Exists"
                } else {
                    "DoesNotExist"
                };
                match translate(text("key"), value) {
                    Some((key, _)) => expressions.push(json!({"key": key, "operator": operator})),
                    None => expressions.push(expression.clone()),
                }
            }
            (true, ..) if translate(text("key"), "x").is_some() => issues.push(Issue::blocks(
                format!("{path}.matchExpressions[{index}]"),
                "Cluster API has one label for each role, so that only In and NotIn with one value can be converted",
                "use one value",
            )),
            _ => expressions.push(expression.clone()),
        }
    }
    if !expressions.is_empty() {
        converted.insert(String::from("matchExpressions"), expressions.into());
    }
    converted.into()
}

/// Whether a selector selects an object with these labels.
pub(super) fn selects(selector: &Value, labels: &Entries) -> bool {
    let exact = selector.get("matchLabels").and_then(Value::as_object);
    let all = exact.is_none_or(|exact| exact.iter().all(|(key, value)| labels.get(key) == Some(value)));
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    all && expressions.into_iter().flatten().all(|expression| {
        let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
        let values = expression.get("values").and_then(Value::as_array);
        let found = labels.get(text("key"));
        let listed = found.is_some_and(|found| values.is_some_and(|values| values.contains(found)));
        match text("operator") {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            _ => false,
        }
    })
}
