//! The rules for edits of a ControlPlane.
//!
//! The provider spec and the failure domains are judged by the rules of ControlPlaneMachineSets,
//! with the ids and the paths of a ControlPlane. The rules here are those that a set does not have:
//! the number of machines, the etcd quorum of a scale-in, and the set beside a ControlPlane.

mod advice;
mod neighbours;
mod quorum;
mod size;

use json_patch::Patch;
use serde_json::{Value, json};

use super::spec::{as_set, translated, translated_rule, translated_text, wrong_size};
use crate::api::machine_openshift_io::control_plane::{DEFAULT_REPLICAS, KIND, QUALIFIED_KIND};
use crate::cel::rules::{Enforcer, RuleSet};
use crate::cpms::rules::{Lookup, TEMPLATE_PATH, judge_template, refuse_in_cel, template_defaults, template_table};
use crate::model::{Edit, Operation, RuleInfo, Stored, Verdict, Violation, ViolationKind, Warning, is_same};

const NAMESPACE: &str = "cp-namespace";

/// The first pass, before the schema: sets the defaults of the platform, and refuses what the rules
/// in the CRD would refuse, with advice. The pass is idempotent.
pub fn mutate(edit: &Edit<'_>, rules: &RuleSet) -> (Verdict, Option<Patch>) {
    let mut verdict = Verdict::default();
    let Some(object) = edit.object else {
        return (verdict, None);
    };
    in_cel(rules, Enforcer::Schema, object, edit.old, &mut verdict);
    // The schema would refuse a Scale to 0 without advice: the Scale leaves the number out.
    if let (true, Some(violation)) = (edit.subresource == "scale", wrong_size(scaled_to(object)))
        && verdict.allowed()
    {
        verdict.deny(violation);
    }
    let patch = (verdict.allowed() && edit.subresource.is_empty()).then(|| {
        let patches = [default_number(object, edit.old), defaults(object)];
        Patch(patches.into_iter().flatten().flat_map(|patch| patch.0).collect())
    });
    (verdict.finish(), patch.filter(|patch| !patch.0.is_empty()))
}

/// The second pass: judges the object as it would be stored.
pub fn validate(edit: &Edit<'_>, lookup: &Lookup<'_>, rules: &RuleSet) -> Verdict {
    let mut verdict = Verdict::default();
    refuse_in_cel(QUALIFIED_KIND, edit, rules, &mut verdict);
    if edit.operation == Operation::Delete {
        if let Some(old) = edit.old
            && verdict.allowed()
        {
            neighbours::KEPT.require(edit, old, lookup, &mut verdict);
        }
        neighbours::warn_of_deletion(lookup, &mut verdict);
        return verdict.finish();
    }
    let Some(object) = edit.object else {
        return verdict.finish();
    };
    if edit.subresource.is_empty() {
        neighbours::KEPT.keep(edit, object, lookup, &mut verdict);
    }
    in_cel(rules, Enforcer::Webhook, object, edit.old, &mut verdict);
    if edit.subresource == "scale" {
        scale(object, edit.old, lookup, &mut verdict);
        return verdict.finish();
    }
    let unchanged = edit
        .old
        .is_some_and(|old| is_same(old.field("spec"), object.get("spec")));
    if !edit.subresource.is_empty() || unchanged {
        return verdict.finish();
    }
    judge_namespace(edit, lookup, &mut verdict);
    neighbours::judge(edit.old.is_some(), lookup, &mut verdict);
    let whole = edit.old.map(Stored::whole);
    let old = whole.as_deref().map(|old| as_set(old, ""));
    let replicas = usize::try_from(replicas_of(object)).unwrap_or_default();
    let template = judge_template(old.as_ref(), &as_set(object, ""), replicas, lookup, rules);
    for violation in template.violations {
        verdict.deny(translated(violation));
    }
    for warning in template.warnings {
        verdict.warn(Warning {
            rule: translated_rule(&warning.rule),
            text: translated_text(&warning.text),
            ..warning
        });
    }
    if let Some(old) = edit.old {
        quorum::judge(replicas_of(old), replicas_of(object), lookup, &mut verdict);
    } else {
        size::judge_creation(replicas_of(object), lookup, &mut verdict);
    }
    if verdict.allowed() {
        advice::warn(object, lookup, &mut verdict);
    }
    if let Some(old) = edit.old {
        size::warn_of_single(replicas_of(old), replicas_of(object), &mut verdict);
    }
    verdict.finish()
}

/// The number of machines that a Scale demands. An API server leaves out 0, and reads an absent
/// number as 0.
fn scaled_to(scale: &Value) -> i64 {
    scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0)
}

/// Judges a Scale. `old` is the Scale before the edit, or the ControlPlane that it scales.
fn scale(object: &Value, old: Option<&dyn Stored>, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    let wanted = scaled_to(object);
    let changes = old.is_none_or(|old| replicas_of(old) != wanted);
    if changes {
        neighbours::judge(true, lookup, verdict);
    }
    if verdict.allowed()
        && let Some(violation) = wrong_size(wanted)
    {
        verdict.deny(violation);
    }
    if let Some(old) = old {
        quorum::judge(replicas_of(old), wanted, lookup, verdict);
    }
    // A webhook receives the Scale before the edit. `capstan check` is given the ControlPlane.
    let whole = old.map(Stored::whole);
    let given = whole
        .as_deref()
        .filter(|old| old.pointer("/spec/providerSpec").is_some());
    let stored = lookup.control_planes.and_then(|known| known.first());
    let stored = stored.and_then(|stored| serde_json::to_value(&**stored).ok());
    if let Some(scaled) = given.or(stored.as_ref()).filter(|_| changes && verdict.allowed()) {
        advice::warn(&advice::scaled(scaled, wanted), lookup, verdict);
    }
    if let Some(old) = old {
        size::warn_of_single(replicas_of(old), wanted, verdict);
    }
}

/// The number of machines that an object states, or else the default.
fn replicas_of(object: &dyn Stored) -> i64 {
    let stated = object.at("spec.replicas");
    let stated = stated.as_ref().and_then(|stated| stated.as_i64());
    stated.unwrap_or_else(|| i64::from(DEFAULT_REPLICAS))
}

/// The rules in CEL. Before the schema is checked, a rule fails on a value of another type; the
/// schema refuses such a value.
fn in_cel(rules: &RuleSet, enforcer: Enforcer, object: &Value, old: Option<&dyn Stored>, verdict: &mut Verdict) {
    for finding in rules.findings(QUALIFIED_KIND, enforcer, object, old) {
        if enforcer == Enforcer::Schema && finding.error.is_some() {
            continue;
        }
        let message = finding.rule.message.trim_end_matches('.');
        let violation = Violation::new(&finding.rule.id, finding.path.as_str(), ViolationKind::Invalid, message);
        let advice = finding
            .error
            .map_or_else(|| finding.rule.advice.clone(), |error| error.to_string());
        verdict.deny(violation.got(finding.value).advice(advice));
    }
}

fn judge_namespace(edit: &Edit<'_>, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    if edit.operation == Operation::Create && !edit.namespace.is_empty() && edit.namespace != lookup.namespace {
        let allowed = format!(
            "must be {}, the namespace of the control plane Machines",
            lookup.namespace
        );
        let violation = Violation::new(NAMESPACE, "metadata.namespace", ViolationKind::Invalid, allowed);
        let advice = format!("create the ControlPlane in {}", lookup.namespace);
        verdict.deny(violation.got(&Value::from(edit.namespace)).advice(advice));
    }
}

/// Sets the number of machines if the object leaves it out: 1 for a new object, and the number
/// before the edit otherwise. A default in the CRD would make every manifest without the number
/// delete machines.
fn default_number(object: &Value, old: Option<&dyn Stored>) -> Option<Patch> {
    let spec = object.get("spec")?.as_object()?;
    if spec.get("replicas").is_some_and(|stated| !stated.is_null()) {
        return None;
    }
    let number = old.map_or_else(|| i64::from(DEFAULT_REPLICAS), replicas_of);
    serde_json::from_value(json!([{"op": "add", "path": "/spec/replicas", "value": number}])).ok()
}

/// The patch that fills the defaults of the platform into the provider spec.
fn defaults(object: &Value) -> Option<Patch> {
    let patch = template_defaults(&as_set(object, ""))?;
    let mut operations = serde_json::to_value(&patch).ok()?;
    let pointer = format!("/{}/spec/providerSpec", TEMPLATE_PATH.replace('.', "/"));
    for operation in operations.as_array_mut()? {
        for field in ["path", "from"] {
            let Some(at) = operation.get(field).and_then(Value::as_str) else {
                continue;
            };
            let own = format!("/spec/providerSpec{}", at.strip_prefix(&pointer)?);
            operation.as_object_mut()?.insert(field.to_owned(), Value::from(own));
        }
    }
    serde_json::from_value(operations).ok()
}

/// The rules that are not written in CEL in the rule file of ControlPlanes.
pub fn table() -> Vec<RuleInfo> {
    let of_template = template_table().into_iter().map(shared);
    let own = RuleInfo::webhook(
        NAMESPACE,
        KIND,
        "metadata.namespace",
        &[Operation::Create],
        "the ControlPlane is in the namespace of the Machine API",
    );
    let own = std::iter::once(own)
        .chain(advice::table())
        .chain(neighbours::table())
        .chain(quorum::table())
        .chain(size::table());
    of_template.chain(own).collect()
}

/// Whether a rule of ControlPlaneMachineSets with this path also applies to ControlPlanes.
pub fn is_shared(path: &str) -> bool {
    let below = path.strip_prefix(TEMPLATE_PATH).unwrap_or_default();
    below.starts_with(".failureDomains") || below.starts_with(".spec.providerSpec")
}

/// A rule of the template of ControlPlaneMachineSets, as a rule of ControlPlanes. Only the webhook
/// and the offline check enforce it.
pub fn shared(rule: RuleInfo) -> RuleInfo {
    RuleInfo {
        id: translated_rule(&rule.id),
        kind: KIND.to_owned(),
        path: translated_text(&rule.path),
        enforced_by: vec!["webhook", "offline"],
        ..rule
    }
}
