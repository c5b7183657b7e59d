//! Guards on update: a copy changes only with its original.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::changes::{changed, listed};
use super::{Judged, at};
use crate::api::cluster_x_k8s_io::annotation;
use crate::authority::PAUSED_BY_SYNC;
use crate::authority::spec::{Api, Half};
use crate::authority::state::{Lead, Seen};
use crate::cel::rules::{Enforcer, RuleSet};
use crate::model::{Edit, FieldPath, Operation, Verdict, Violation, ViolationKind};

pub(super) const LABEL: &str = "authority-label-conflict";
pub(super) const ANNOTATION: &str = "authority-annotation-conflict";
pub(super) const LEAD: &str = "authority-lead-known";

pub(super) fn judge(judged: &Judged<'_>, rules: &RuleSet, verdict: &mut Verdict) {
    let update = judged.edit.operation == Operation::Update;
    let lead = if update { judged.lead() } else { Lead::Alone };
    if update && lead == Lead::Unknown && !judged.syncs() && !judged.controls() && writes_more_than_finalizers(judged) {
        return judged.unknown(verdict, LEAD, "spec", Api::MachineApi);
    }
    let told = lead.locks(judged.subject.api).then(|| Told::of(judged, lead)).flatten();
    let edit = told.as_ref().map_or(*judged.edit, |told| told.edit(judged.edit));
    in_cel(judged, &edit, rules, verdict);
    if update && lead.locks(judged.subject.api) && !judged.syncs() && !judged.controls() {
        judge_conflicts(judged, verdict);
    }
}

fn writes_more_than_finalizers(judged: &Judged<'_>) -> bool {
    let differs = |path: &str| {
        judged.edit.old.and_then(|object| at(object, path)) != judged.edit.object.and_then(|object| at(object, path))
    };
    [
        "spec",
        "status",
        "metadata.labels",
        "metadata.annotations",
        "metadata.ownerReferences",
    ]
    .iter()
    .any(|path| differs(path))
}

/// The objects of an edit, with what the lookup knows of who leads written where the rules in CEL look for it.
struct Told {
    old: Value,
    new: Value,
}

impl Told {
    /// `None` where the objects say it themselves.
    fn of(judged: &Judged<'_>, lead: Lead) -> Option<Self> {
        let (old, new) = (judged.edit.old?, judged.edit.object?);
        let decided = match lead {
            Lead::Decided(decided) => decided,
            Lead::Unknown | Lead::Alone => return None,
        };
        let (mut told_old, mut told_new) = (old.clone(), new.clone());
        match judged.subject.api {
            Api::MachineApi if judged.edit.subresource == "scale" => {
                for status in [&mut told_old, &mut told_new].map(|object| enter(object, "status")) {
                    status?.insert(String::from("authoritativeAPI"), json!(decided.word()));
                }
            }
            Api::MachineApi => return None,
            Api::ClusterApi => {
                let pause = |object: &Value| {
                    object
                        .pointer("/metadata/annotations")?
                        .get(annotation::PAUSED)
                        .cloned()
                };
                if pause(old).is_some_and(|pause| pause == PAUSED_BY_SYNC) {
                    return None;
                }
                let kept = pause(old) == pause(new);
                sign(&mut told_old);
                if kept {
                    sign(&mut told_new);
                }
            }
        }
        Some(Self {
            old: told_old,
            new: told_new,
        })
    }

    fn edit<'e>(&'e self, edit: &Edit<'e>) -> Edit<'e> {
        Edit {
            old: Some(&self.old),
            object: Some(&self.new),
            ..*edit
        }
    }
}

/// Signs the pause of an object.
fn sign(object: &mut Value) {
    let annotations =
        enter(object, "metadata").map(|metadata| metadata.entry("annotations").or_insert_with(|| json!({})));
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.insert(annotation::PAUSED.to_owned(), json!(PAUSED_BY_SYNC));
    }
}

/// A part of an object, made if it is not there.
fn enter<'v>(object: &'v mut Value, field: &str) -> Option<&'v mut Map<String, Value>> {
    let part = object.as_object_mut()?.entry(field).or_insert_with(|| json!({}));
    part.as_object_mut()
}

/// The rules in CEL that do not hold, with the fields that the edit changes.
fn in_cel(judged: &Judged<'_>, edit: &Edit<'_>, rules: &RuleSet, verdict: &mut Verdict) {
    for (rule, error) in rules.refusals(judged.subject.qualified, Enforcer::Webhook, edit) {
        let part = |object: Option<&Value>| object.and_then(|object| at(object, &rule.path)).cloned();
        let (old, new) = (part(judged.edit.old), part(judged.edit.object));
        let fields: Vec<FieldPath> = changed(&rule.path, old.as_ref(), new.as_ref())
            .into_iter()
            .filter(|path| path.as_str() != "spec.authoritativeAPI" || rule.path == "spec.authoritativeAPI")
            .collect();
        let (path, message) = match fields.as_slice() {
            [only] => (only.clone(), rule.message.clone()),
            [] => (FieldPath::new(rule.path.as_str()), rule.message.clone()),
            many => (
                FieldPath::new(rule.path.as_str()),
                format!("{} (changed: {})", rule.message, listed(many)),
            ),
        };
        let advice = error.map_or_else(|| rule.advice.clone(), |error| error.to_string());
        verdict.deny(Violation::new(&rule.id, path, ViolationKind::Forbidden, message).advice(advice));
    }
    let Some(object) = edit.object else { return };
    for finding in rules.findings(judged.subject.qualified, Enforcer::Webhook, object, edit.old) {
        let rule = finding.rule;
        let violation = Violation::new(&rule.id, finding.path.as_str(), ViolationKind::Invalid, &rule.message);
        let advice = finding
            .error
            .map_or_else(|| rule.advice.clone(), |error| error.to_string());
        verdict.deny(violation.got(finding.value).advice(advice));
    }
}

/// Labels and annotations that are not reserved can be set on a copy, unless the object that leads says otherwise.
fn judge_conflicts(judged: &Judged<'_>, verdict: &mut Verdict) {
    let (Some(old), Some(new)) = (&judged.old, &judged.new) else {
        return;
    };
    let pick = |half: &Half, labels: bool| {
        if labels {
            half.labels.clone()
        } else {
            half.annotations.clone()
        }
    };
    for (rule, path, labels) in [
        (LABEL, "metadata.labels", true),
        (ANNOTATION, "metadata.annotations", false),
    ] {
        let (before, after) = (pick(old, labels), pick(new, labels));
        if before == after
            || verdict
                .violations
                .iter()
                .any(|said| said.path.as_str().starts_with(path))
        {
            continue;
        }
        match judged.counterpart() {
            Seen::Absent => {}
            Seen::Unknown => judged.unknown(verdict, rule, path, judged.subject.api.other()),
            Seen::There(leading) => {
                let leads = pick(leading, labels);
                for key in conflicts(&before, &after, &leads) {
                    let wanted = leads.get(key).map(String::as_str).unwrap_or_default();
                    let violation = Violation::new(
                        rule,
                        FieldPath::new(path).key(key),
                        ViolationKind::Invalid,
                        format!(
                            "it is {wanted:?} on {}, which leads, and would be set back",
                            judged.title(judged.subject.api.other())
                        ),
                    );
                    let got = after.get(key).map_or(Value::Null, |value| Value::from(value.as_str()));
                    let namespace = judged.lookup.config.namespace(judged.subject.api.other());
                    verdict.deny(
                        violation
                            .got(&got)
                            .advice(format!("change it on the object in {namespace}")),
                    );
                }
            }
        }
    }
}

/// The keys that the edit writes and the leading side has otherwise.
fn conflicts<'k>(
    before: &'k BTreeMap<String, String>,
    after: &'k BTreeMap<String, String>,
    leads: &BTreeMap<String, String>,
) -> Vec<&'k str> {
    let keys = before
        .keys()
        .chain(after.keys().filter(|key| !before.contains_key(*key)));
    keys.filter(|key| before.get(*key) != after.get(*key))
        .filter(|key| leads.get(*key).is_some_and(|value| after.get(*key) != Some(value)))
        .map(String::as_str)
        .collect()
}
