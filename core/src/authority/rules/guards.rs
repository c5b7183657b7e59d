//! Guards on update: a copy changes only with its original.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Judged;
use super::changes::{changed, listed};
use crate::authority::spec::Api;
use crate::authority::state::{Lead, Seen};
use crate::cel::VariableOverride;
use crate::cel::rules::{Enforcer, RuleSet};
use crate::model::{FieldPath, Operation, Stored as _, Verdict, Violation, ViolationKind, is_same};

pub(super) const LABEL: &str = "authority-label-conflict";
pub(super) const ANNOTATION: &str = "authority-annotation-conflict";
/// The variable of the rule files that is true where only the lookup knows that an object is a copy.
const HELD: &str = "held";
pub(super) const LEAD: &str = "authority-lead-known";

pub(super) fn judge(judged: &Judged<'_>, rules: &RuleSet, verdict: &mut Verdict) {
    let update = judged.edit.operation == Operation::Update;
    let lead = if update { judged.lead() } else { Lead::Alone };
    if update && lead == Lead::Unknown && !judged.syncs() && !judged.controls() && writes_more_than_finalizers(judged) {
        return judged.unknown(verdict, LEAD, "spec", Api::MachineApi);
    }
    let locked = lead.locks(judged.subject.api);
    in_cel(judged, rules, || told(judged).filter(|_| locked), verdict);
    if update && locked && !judged.syncs() && !judged.controls() {
        judge_conflicts(judged, verdict);
    }
}

fn writes_more_than_finalizers(judged: &Judged<'_>) -> bool {
    let differs = |path: &str| {
        let (old, new) = (judged.edit.old, judged.edit.object);
        !is_same(old.and_then(|old| old.at(path)), new.and_then(|new| new.at(path)))
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

/// What the lookup knows of who leads, where the objects do not say it themselves.
fn told(judged: &Judged<'_>) -> Option<VariableOverride> {
    let says_itself = judged.subject.api == Api::MachineApi && judged.edit.subresource != "scale";
    let held = VariableOverride {
        variable: HELD,
        value: true,
    };
    (!says_itself).then_some(held)
}

/// The rules in CEL that do not hold, with the fields that the edit changes.
fn in_cel(
    judged: &Judged<'_>,
    rules: &RuleSet,
    told: impl FnOnce() -> Option<VariableOverride>,
    verdict: &mut Verdict,
) {
    let (kind, edit) = (judged.subject.qualified, judged.edit);
    for (rule, error) in rules.refusals(kind, Enforcer::Webhook, edit, told) {
        let old = edit.old.and_then(|old| old.at(&rule.path));
        let new = edit.object.and_then(|new| new.at(&rule.path));
        let fields: Vec<FieldPath> = changed(&rule.path, old, new)
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
    for finding in rules.findings(kind, Enforcer::Webhook, object, edit.old) {
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
    let (Some(old), Some(new)) = (judged.edit.old, judged.edit.object) else {
        return;
    };
    for (rule, path, labels) in [
        (LABEL, "metadata.labels", true),
        (ANNOTATION, "metadata.annotations", false),
    ] {
        let said = |violation: &Violation| violation.path.as_str().starts_with(path);
        if is_same(old.at(path), new.at(path)) || verdict.violations.iter().any(said) {
            continue;
        }
        let (before, after) = (old.at(path), new.at(path));
        match judged.counterpart() {
            Seen::Absent => {}
            Seen::Unknown => judged.unknown(verdict, rule, path, judged.subject.api.other()),
            Seen::There(leading) => {
                let leads = if labels { &leading.labels } else { &leading.annotations };
                for (key, wanted) in conflicts(before, after, leads) {
                    let violation = Violation::new(
                        rule,
                        FieldPath::new(path).key(key),
                        ViolationKind::Invalid,
                        format!(
                            "it is {wanted:?} on {}, which leads, and would be set back",
                            judged.title(judged.subject.api.other())
                        ),
                    );
                    let got = word(after, key).map_or(Value::Null, Value::from);
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

/// The keys that the edit writes and the leading side has otherwise, with what they are there.
fn conflicts<'k>(
    before: Option<&Value>,
    after: Option<&Value>,
    leads: &'k BTreeMap<String, String>,
) -> impl Iterator<Item = (&'k str, &'k str)> {
    let leads = leads.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    leads.filter(move |(key, value)| {
        let written = word(after, key);
        written != Some(*value) && written != word(before, key)
    })
}

fn word<'v>(map: Option<&'v Value>, key: &str) -> Option<&'v str> {
    map?.get(key)?.as_str()
}
