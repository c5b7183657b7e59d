//! Converts the label selectors of MachineSets and MachineHealthChecks.
//!
//! The labels of the role and the type are `node-role.kubernetes.io/<role>` in Cluster API. A
//! selector that the way back would not restore is kept in an annotation (see `carried`).
//!
//! The labels of the machines of a MachineSet are known from its template. The machines of a
//! MachineHealthCheck are not known, so its selector may use only labels that every machine keeps.
//!
//! Must never: select other machines than the source without an issue.

use serde_json::{Map, Value, json};

use super::metadata::{Entries, NODE_ROLE, is_kept, report_rest};
use super::parts::Work;
use super::tree::Tree;
use super::{Api, Issue};
use crate::api::cluster_x_k8s_io::label::CLUSTER;
use crate::api::machine_openshift_io::label::{ROLE, TYPE};
use crate::model::{FieldPath, is_label_key};

const PATH: &str = "spec.selector";

/// The machines that a selector may select.
#[derive(Clone, Copy, Debug)]
pub(super) enum Machines<'a> {
    /// Those of a template, by their labels in both APIs.
    Template {
        /// The labels in the source.
        before: &'a Entries,
        /// The labels after the conversion.
        after: &'a Entries,
    },
    /// Machines that are not known.
    Any,
}

/// A selector before and after its conversion.
#[derive(Clone, Debug)]
pub(super) struct Selector {
    source: Value,
    to: Api,
    /// Whether the other API had this selector before, and the source carries it.
    is_restored: bool,
    /// The selector of the other API.
    pub(super) converted: Value,
}

impl Selector {
    /// Takes the selector of a spec and converts it. `cluster` is the Cluster of an object of
    /// Cluster API.
    pub(super) fn convert(spec: &mut Tree, to: Api, cluster: Option<&str>, work: &mut Work) -> Self {
        let mut source = take(spec, to, &mut work.issues);
        if let Some(fields) = source.as_object_mut() {
            remove_cluster(fields, cluster);
        }
        let (forth, back): (Translate, Translate) = match to {
            Api::ClusterApi => (to_cluster_api, to_machine_api),
            Api::MachineApi => (to_machine_api, to_cluster_api),
        };
        let original = work.restored.original("selector", &source);
        let is_restored = original.is_some();
        let converted = match original {
            Some(original) => original.clone(),
            None => translated(&source, &mut work.issues, forth),
        };
        if translated(&converted, &mut Vec::new(), back) != source {
            work.carried.add("selector", source.clone(), &converted);
        }
        Self {
            source,
            to,
            is_restored,
            converted,
        }
    }

    /// Reports a selector that would select other machines after the conversion, or that Cluster
    /// API refuses.
    ///
    /// An empty selector blocks. A MachineSet of the Machine API with one selects no machine, and
    /// creates machines without end. Cluster API replaces it by a requirement on the label
    /// cluster.x-k8s.io/set-name, so that the set would delete the machines above its replicas.
    pub(super) fn check(&self, machines: Machines<'_>, issues: &mut Vec<Issue>) {
        if self.source.as_object().is_none_or(Map::is_empty) {
            let reason = match machines {
                Machines::Template { .. } => {
                    "the selector must have at least one requirement: an empty one selects no machine in the Machine \
                     API, and every machine of the set in Cluster API"
                }
                Machines::Any => {
                    "the selector must have at least one requirement: an empty one selects every machine in the \
                     Machine API, and Cluster API refuses it"
                }
            };
            issues.push(Issue::blocks(PATH, reason, "select the machines by their labels"));
            return;
        }
        if let Machines::Template { before, after } = machines {
            if !selects(&self.source, before) {
                issues.push(Issue::blocks(
                    PATH,
                    "the selector must select the machines of the template, and does not",
                    "add the labels of the selector to template.metadata.labels, or correct the selector",
                ));
            } else if !selects(&self.converted, after) {
                issues.push(Issue::blocks(
                    PATH,
                    "the selector would not select the machines of the template after the conversion, because labels \
                     of the machine and of its node differ or a label of the selector is not converted",
                    "use labels in the selector that are equal in template.metadata and template.spec.metadata",
                ));
            }
        }
        if !self.is_restored {
            self.check_keys(machines, issues);
        }
    }

    /// Reports requirements on labels that machines do not keep. The template of a MachineSet shows
    /// whether its machines have a label, but a label that must be absent is absent from every
    /// machine if the conversion drops it.
    fn check_keys(&self, machines: Machines<'_>, issues: &mut Vec<Issue>) {
        let labels = self.source.get("matchLabels").and_then(Value::as_object);
        for (key, value) in labels.into_iter().flatten() {
            let is_translated =
                self.to == Api::MachineApi && to_machine_api(key, value.as_str().unwrap_or_default()).is_some();
            if matches!(machines, Machines::Any) && !is_translated && !is_kept(key) {
                self.report(FieldPath::new(PATH).child("matchLabels").key(key).as_str(), key, issues);
            }
        }
        for (index, expression) in expressions(&self.source).enumerate() {
            let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
            let is_negative = matches!(text("operator"), "NotIn" | "DoesNotExist");
            if (is_negative || matches!(machines, Machines::Any)) && !is_kept(text("key")) {
                self.report(&format!("{PATH}.matchExpressions[{index}]"), text("key"), issues);
            }
        }
    }

    fn report(&self, path: &str, key: &str, issues: &mut Vec<Issue>) {
        issues.push(Issue::blocks(
            path,
            format!(
                "the selector would not select the same machines after the conversion, because machines of {} do not \
                 keep the label {key}",
                self.to.title()
            ),
            "select the machines by a label that both APIs keep, such as a label of your own",
        ));
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

/// Removes the requirement on the label of the Cluster, which the webhook of Cluster API adds.
/// Every machine of the Cluster has the label, and no machine of the Machine API has it.
pub(super) fn remove_cluster(selector: &mut Map<String, Value>, cluster: Option<&str>) {
    let Some(Value::Object(labels)) = selector.get_mut("matchLabels") else {
        return;
    };
    if cluster.is_some() && labels.get(CLUSTER).and_then(Value::as_str) == cluster {
        labels.remove(CLUSTER);
        if labels.is_empty() {
            selector.remove("matchLabels");
        }
    }
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
fn translated(selector: &Value, issues: &mut Vec<Issue>, translate: Translate) -> Value {
    let mut converted = Map::new();
    let mut found = Vec::new();
    if let Some(Value::Object(labels)) = selector.get("matchLabels") {
        converted.insert(
            String::from("matchLabels"),
            translated_labels(labels, issues, translate).into(),
        );
    }
    for (index, expression) in expressions(selector).enumerate() {
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
                    Some((key, _)) => {
                        check_role(&key, &format!("{PATH}.matchExpressions[{index}]"), issues);
                        found.push(json!({"key": key, "operator": operator}));
                    }
                    None => found.push(expression.clone()),
                }
            }
            (true, ..) if translate(text("key"), "x").is_some() => issues.push(Issue::blocks(
                format!("{PATH}.matchExpressions[{index}]"),
                "Cluster API has one label for each role, so that only In and NotIn with one value can be converted",
                "use one value",
            )),
            _ => found.push(expression.clone()),
        }
    }
    if !found.is_empty() {
        converted.insert(String::from("matchExpressions"), found.into());
    }
    converted.into()
}

/// The labels of a selector with their translation. Two labels that become one label with different
/// values cannot be converted, because the selector would lose a requirement.
fn translated_labels(labels: &Entries, issues: &mut Vec<Issue>, translate: Translate) -> Entries {
    let mut converted = Entries::new();
    for (key, value) in labels {
        let other = value.as_str().and_then(|value| translate(key, value));
        let path = FieldPath::new(PATH).child("matchLabels").key(key);
        let (key, value) = match other {
            Some((key, value)) => {
                check_role(&key, path.as_str(), issues);
                (key, value.into())
            }
            None => (key.clone(), value.clone()),
        };
        let of_key = converted.entry(key).or_insert_with(|| value.clone());
        if *of_key != value {
            issues.push(Issue::blocks(
                path.as_str(),
                "the Machine API has one label for the role of a machine, and the selector requires several roles",
                "select the machines by one role, or by a label of your own",
            ));
        }
    }
    converted
}

/// Reports a translated label with a role that is not part of a valid name.
fn check_role(key: &str, path: &str, issues: &mut Vec<Issue>) {
    if !is_label_key(key) {
        issues.push(Issue::blocks(
            path,
            format!("Cluster API stores the role in the name of the label {key:?}, which is invalid"),
            "use a role of at most 63 letters, digits, hyphens, underscores and dots",
        ));
    }
}

fn expressions(selector: &Value) -> impl Iterator<Item = &Value> {
    let list = selector.get("matchExpressions").and_then(Value::as_array);
    list.into_iter().flatten()
}

/// Whether a selector selects an object with these labels.
pub(super) fn selects(selector: &Value, labels: &Entries) -> bool {
    let exact = selector.get("matchLabels").and_then(Value::as_object);
    let all = exact.is_none_or(|exact| exact.iter().all(|(key, value)| labels.get(key) == Some(value)));
    all && expressions(selector).all(|expression| {
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
