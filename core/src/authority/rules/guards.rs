//! Guards an update of a mirror: only the sync controller changes what must equal the
//! authoritative object.

use std::collections::BTreeMap;

use serde_json::Value;

use super::changes::{changed, listed};
use super::{Context, cluster_api, machine_api};
use crate::api::cluster_x_k8s_io::annotation;
use crate::authority;
use crate::authority::spec::{Api, PairMember};
use crate::authority::state::{Counterpart, PairAuthority};
use crate::cel::VariableOverride;
use crate::cel::rules::{Enforcer, RuleSet};
use crate::model::{FieldPath, Operation, RuleInfo, Stored as _, Verdict, Violation, ViolationKind, is_same};

const LABEL: &str = "authority-label-conflict";
const ANNOTATION: &str = "authority-annotation-conflict";
const KNOWN: &str = "authority-lead-known";
const UNMIRRORED: &str = "authority-capi-unmirrored";
const UNMIRRORED_MAPI: &str = "authority-unmirrored";
/// The variable of the rule files that is true if a lookup found that the object is a mirror.
const FOUND_MIRROR: &str = "foundMirror";

/// The rules of this file.
pub(super) fn table() -> Vec<RuleInfo> {
    use Operation::Update;
    vec![
        machine_api(
            LABEL,
            "metadata.labels",
            &[Update],
            "a label of a mirror must equal the label of the authoritative object",
        ),
        machine_api(
            ANNOTATION,
            "metadata.annotations",
            &[Update],
            "an annotation of a mirror must equal the annotation of the authoritative object",
        ),
        cluster_api(
            KNOWN,
            "spec",
            &[Update],
            "must not be written before Capstan has read which API is authoritative",
        ),
        cluster_api(
            UNMIRRORED,
            "metadata.annotations",
            &[Update],
            "must not contain capstan.dev/unmirrored while the object exists in the Machine API",
        ),
        machine_api(
            UNMIRRORED_MAPI,
            "metadata.annotations",
            &[Update],
            "must not contain capstan.dev/unmirrored while the object exists in Cluster API",
        ),
    ]
}

pub(super) fn validate(context: &Context<'_>, rules: &RuleSet, verdict: &mut Verdict) {
    let update = context.edit.operation == Operation::Update;
    let authority = if update {
        context.authority()
    } else {
        PairAuthority::Unmirrored
    };
    let by_controller = context.by_sync_controller() || context.by_api_controller();
    if update && authority == PairAuthority::Unknown && !by_controller && changes_guarded_fields(context) {
        return context.report_unknown(verdict, KNOWN, "spec", Api::MachineApi);
    }
    if update {
        refuse_release(context, verdict);
    }
    let locked = authority.locks(context.subject.api);
    // An object of the Machine API shows its authority itself, except in a scale request.
    let lookup_decides = context.subject.api == Api::ClusterApi || context.edit.subresource == "scale";
    let found_mirror = || {
        (locked && lookup_decides).then_some(VariableOverride {
            variable: FOUND_MIRROR,
            value: true,
        })
    };
    apply_cel_rules(context, rules, found_mirror, verdict);
    if update && locked && !by_controller {
        refuse_conflicts(context, verdict);
    }
}

/// Whether the edit changes a field that is guarded on a mirror. Finalizers of an object that is
/// being deleted are not guarded, so that every deletion can finish.
pub(super) fn changes_guarded_fields(context: &Context<'_>) -> bool {
    let deleting = context.before().is_some_and(|old| old.deleting);
    let differs = |path: &str| {
        let (old, new) = (context.edit.old, context.edit.object);
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
        || (!deleting && differs("metadata.finalizers"))
}

/// Refuses to remove the pause and the finalizer of the sync controller with the annotation
/// [`authority::UNMIRRORED`] while the object exists in the other API.
fn refuse_release(context: &Context<'_>, verdict: &mut Verdict) {
    let (Some(old), Some(new)) = (context.before(), context.after()) else {
        return;
    };
    let value = |member: &PairMember, key: &str| member.annotations.get(key).cloned();
    let differs = |key: &str| value(old, key) != value(new, key);
    let is_held = |finalizers: Option<&Value>| {
        let mut names = finalizers.and_then(Value::as_array).into_iter().flatten();
        names.any(|name| name == authority::FINALIZER)
    };
    let finalizers = "metadata.finalizers";
    let was_held = is_held(context.edit.old.and_then(|old| old.at(finalizers)));
    let is_released = was_held && !is_held(context.edit.object.and_then(|new| new.at(finalizers)));
    let claims = new.annotations.contains_key(authority::UNMIRRORED);
    let uses = differs(authority::UNMIRRORED) || differs(annotation::PAUSED) || is_released;
    if !claims || !uses || context.by_sync_controller() {
        return;
    }
    let path = FieldPath::new("metadata.annotations").key(authority::UNMIRRORED);
    let other = context.subject.api.other();
    let rule = match context.subject.api {
        Api::MachineApi => UNMIRRORED_MAPI,
        Api::ClusterApi => UNMIRRORED,
    };
    match context.find(other) {
        Counterpart::Absent => {}
        Counterpart::Unknown => context.report_unknown(verdict, rule, path.as_str(), other),
        Counterpart::Found(_) => {
            let message = format!("must not be set while {} exists", context.title(other));
            verdict.deny(
                Violation::new(rule, path, ViolationKind::Forbidden, message)
                    .advice("remove the annotation; the sync controller removes its pause and its finalizer"),
            );
        }
    }
}

/// Adds the violated CEL rules to the verdict, with the fields that the edit changes.
fn apply_cel_rules(
    context: &Context<'_>,
    rules: &RuleSet,
    found_mirror: impl FnOnce() -> Option<VariableOverride>,
    verdict: &mut Verdict,
) {
    let (kind, edit) = (context.subject.qualified, context.edit);
    for (rule, error) in rules.refusals(kind, Enforcer::Webhook, edit, found_mirror) {
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

/// Refuses labels and annotations of a mirror that differ from those of the authoritative object.
/// Keys that the authoritative object does not have are allowed, unless they are reserved.
fn refuse_conflicts(context: &Context<'_>, verdict: &mut Verdict) {
    let (Some(old), Some(new)) = (context.edit.old, context.edit.object) else {
        return;
    };
    let other = context.subject.api.other();
    for (rule, path, labels) in [
        (LABEL, "metadata.labels", true),
        (ANNOTATION, "metadata.annotations", false),
    ] {
        let reported = |violation: &Violation| violation.path.as_str().starts_with(path);
        if is_same(old.at(path), new.at(path)) || verdict.violations.iter().any(reported) {
            continue;
        }
        let (before, after) = (old.at(path), new.at(path));
        let authoritative = match context.counterpart() {
            Counterpart::Absent => continue,
            Counterpart::Unknown => {
                context.report_unknown(verdict, rule, path, other);
                continue;
            }
            Counterpart::Found(member) if labels => &member.labels,
            Counterpart::Found(member) => &member.annotations,
        };
        for (key, value) in conflicts(before, after, authoritative) {
            let message = format!(
                "must be {value:?}, the value on {}, which is authoritative",
                context.title(other)
            );
            let got = text(after, key).map_or(Value::Null, Value::from);
            let path = FieldPath::new(path).key(key);
            let advice = format!(
                "change it on the object in namespace {}",
                context.lookup.config.namespace(other)
            );
            verdict.deny(
                Violation::new(rule, path, ViolationKind::Invalid, message)
                    .got(&got)
                    .advice(advice),
            );
        }
    }
}

/// The keys that the edit writes with another value than the authoritative object has, with the
/// authoritative value.
fn conflicts<'k>(
    before: Option<&Value>,
    after: Option<&Value>,
    authoritative: &'k BTreeMap<String, String>,
) -> impl Iterator<Item = (&'k str, &'k str)> {
    let entries = authoritative.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    entries.filter(move |(key, value)| {
        let written = text(after, key);
        written != Some(*value) && written != text(before, key)
    })
}

fn text<'v>(map: Option<&'v Value>, key: &str) -> Option<&'v str> {
    map?.get(key)?.as_str()
}
