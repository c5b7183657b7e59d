//! The rules for edits of a ControlPlaneMachineSet.
//!
//! Three passes judge an edit: the rules in CEL, the parse into the model, and the rules that
//! compute or look objects up. An update is judged as strictly as a creation, except for what it
//! leaves unchanged. Nothing here decides what the controller does next.
//!
//! Source: the ControlPlaneMachineSet enhancement; the checks of the operator that OpenShift ships,
//! and the gaps in them (defects B2, B11, B12, B17, B18).

mod annotations;
mod authority;
mod control_plane;
mod deletion;
mod domains;
mod equivalence;
mod finalizer;
mod judged;
mod lookup;
mod machine_spec;
mod outlook;
mod owners;
mod parsed;
mod provider_kind;
mod provider_spec;
mod records;
mod rollout;
mod selector_members;
mod selector_scope;
mod shared_indexes;
mod stored;
mod template;
mod template_metadata;

use json_patch::Patch;
use serde_json::Value;

use super::domains::Platform;
use super::pending_creates::LAST_CREATED;
use crate::api::machine_openshift_io::control_plane_machine_set::{KIND, QUALIFIED_KIND};
use crate::api::machine_openshift_io::machine::Machine;
use crate::cel::rules::{Enforcer, Finding, RuleSet};
use crate::model::{Edit, Operation, PENDING_CREATIONS, RuleInfo, Stored, Verdict, Violation, ViolationKind, is_same};
use judged::Judged;

pub use domains::ACKNOWLEDGE;
pub(crate) use finalizer::Finalizer;
pub use lookup::Lookup;
pub use stored::ParsedOnce;
pub use template::{TEMPLATE_PATH, judge_template, template_defaults, template_table};

/// The path of the machine template in a set.
const TEMPLATE: &str = "spec.template.machines_v1beta1_machine_openshift_io";

/// The first pass, before the schema: sets defaults that a CRD cannot express, and refuses what the
/// rules in the CRD would refuse, with advice.
///
/// The pass is idempotent.
pub fn mutate(edit: &Edit<'_>, lookup: &Lookup<'_>, rules: &RuleSet) -> (Verdict, Option<Patch>) {
    let mut verdict = Verdict::default();
    let Some(object) = edit.object else {
        return (verdict, None);
    };
    for violation in rules_in_cel(rules, Enforcer::Schema, object, edit.old) {
        verdict.deny(violation);
    }
    let _ = lookup;
    let patch = (verdict.allowed() && edit.subresource.is_empty())
        .then(|| provider_spec::defaults(object))
        .flatten();
    (verdict.finish(), patch)
}

/// The rules in CEL about requests that the webhook enforces.
pub(crate) fn refuse_in_cel(kind: &str, edit: &Edit<'_>, rules: &RuleSet, verdict: &mut Verdict) {
    for (rule, error) in rules.refusals(kind, Enforcer::Webhook, edit, || None) {
        let violation = Violation::new(&rule.id, rule.path.as_str(), ViolationKind::Forbidden, &rule.message);
        verdict.deny(violation.advice(error.map_or_else(|| rule.advice.clone(), |error| error.to_string())));
    }
}

/// The second pass: judges the object as it would be stored.
pub fn validate(edit: &Edit<'_>, lookup: &Lookup<'_>, rules: &RuleSet) -> Verdict {
    let mut verdict = Verdict::default();
    refuse_in_cel(QUALIFIED_KIND, edit, rules, &mut verdict);
    if edit.operation == Operation::Delete {
        deletion::judge(edit, lookup, &mut verdict);
        return verdict.finish();
    }
    let Some(object) = edit.object else {
        return verdict.finish();
    };
    for violation in rules_in_cel(rules, Enforcer::Webhook, object, edit.old) {
        verdict.deny(violation);
    }
    if edit.subresource.is_empty() {
        deletion::KEPT.keep(edit, object, lookup, &mut verdict);
    }
    // Other metadata does not affect machines.
    let unchanged = edit.old.is_some_and(|old| {
        is_same(old.field("spec"), object.get("spec"))
            && (edit.is_deleting() || annotations(old).eq(annotations(object)))
    });
    if edit.subresource.is_empty() && !edit.is_deleting() {
        records::judge(edit, object, &mut verdict);
        annotations::warn(edit.old, object, &mut verdict);
        owners::warn(edit.old, object, &mut verdict);
    }
    if edit.subresource.is_empty() && !unchanged {
        judge_spec(edit, object, lookup, &mut verdict);
    }
    verdict.finish()
}

/// The annotations by which a user controls a rollout and acknowledges a risk. The records of
/// creations are not among them.
fn annotations(object: &dyn Stored) -> impl Iterator<Item = (&String, &Value)> {
    let all = object.at("metadata.annotations").and_then(Value::as_object);
    all.into_iter().flatten().filter(|(key, _)| {
        key.starts_with("capstan.dev/") && ![PENDING_CREATIONS, LAST_CREATED].contains(&key.as_str())
    })
}

/// The violations of the rules in CEL.
fn rules_in_cel(rules: &RuleSet, enforcer: Enforcer, object: &Value, old: Option<&dyn Stored>) -> Vec<Violation> {
    let violation = |finding: Finding<'_, '_>| {
        let kind = match finding.rule.reason.as_str() {
            "FieldValueRequired" => ViolationKind::Required,
            "FieldValueForbidden" => ViolationKind::Forbidden,
            "FieldValueDuplicate" => ViolationKind::Duplicate,
            _ => ViolationKind::Invalid,
        };
        let message = finding.rule.message.trim_end_matches('.');
        let violation = Violation::new(&finding.rule.id, finding.path.as_str(), kind, message).got(finding.value);
        violation.advice(
            finding
                .error
                .map_or_else(|| finding.rule.advice.clone(), |error| error.to_string()),
        )
    };
    // Before the schema is checked, a rule fails on a value of another type. The schema refuses
    // such a value.
    let counts = |finding: &Finding<'_, '_>| enforcer != Enforcer::Schema || finding.error.is_none();
    rules
        .findings(QUALIFIED_KIND, enforcer, object, old)
        .into_iter()
        .filter(counts)
        .map(violation)
        .collect()
}

fn judge_spec(edit: &Edit<'_>, object: &Value, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    let new = match Judged::read(object, lookup) {
        Ok(new) => new,
        Err(violation) => return verdict.deny(*violation),
    };
    // If the stored object cannot be decoded, the edited one is judged as a creation.
    let whole = edit.old.map(Stored::whole);
    let old = whole.as_deref().and_then(|old| Judged::read_old(old, &new, lookup));
    let activated = new.is_active() && !old.as_ref().is_some_and(Judged::is_active);

    let has_new_violations = judge_parse(old.as_ref(), &new, activated, verdict);
    if old.is_none() {
        judge_namespace(edit, lookup, verdict);
    }
    if let Some(old) = &old {
        judge_platform(old, &new, lookup, verdict);
    }
    let is_new = old.is_none();
    let is_foreign = provider_kind::judge_cluster(is_new, activated, &new, lookup, verdict);
    provider_kind::judge_activation(old.as_ref(), &new, lookup, verdict);
    provider_spec::judge(old.as_ref(), &new, activated, lookup, verdict);
    template_metadata::judge(old.as_ref(), &new, activated, verdict);
    machine_spec::judge(old.as_ref(), &new, activated, lookup, verdict);
    judge_unknown(old.as_ref(), &new, lookup, verdict);
    authority::warn(old.as_ref(), &new, activated, verdict);
    let selects = selector_members::judge(is_new, &new, activated, lookup, verdict);
    if activated {
        control_plane::judge(lookup, verdict);
        if selects {
            judge_replicas(&new, lookup, verdict);
        }
    }
    let is_foreign = is_foreign || (activated && !selects);
    let moved = is_foreign || old.as_ref().is_some_and(|old| old.platform() != new.platform());
    // A tolerated violation of the stored set must not switch off the rules below.
    if let Some(spec) = new.spec().filter(|_| !moved && !has_new_violations) {
        let known = old.as_ref().and_then(|old| old.known(&new));
        domains::warn_of_repeats(old.as_ref(), &new, spec, verdict);
        let change = domains::Change {
            replicas: spec.replicas.count(),
            activated,
            rebalances: true,
        };
        domains::judge(known, &new, spec, change, lookup, verdict);
        if new.is_active() && verdict.allowed() {
            let before = old.as_ref().and_then(Judged::provider_spec);
            rollout::warn(before, known, &new, spec, activated, lookup, verdict);
            if activated {
                selector_scope::warn(spec, lookup, verdict);
                shared_indexes::warn(spec, lookup, verdict);
            }
        }
    }
}

/// Refuses the violations of the parse, and returns whether there are any. A violation that the
/// stored set has already is tolerated, until the set is activated.
fn judge_parse(old: Option<&Judged<'_>>, new: &Judged<'_>, activated: bool, verdict: &mut Verdict) -> bool {
    if new.violations().is_empty() {
        return false;
    }
    let known = old.filter(|_| !activated).map_or(&[][..], Judged::violations);
    let mut any = false;
    for violation in new.violations().iter().filter(|violation| !known.contains(violation)) {
        any = true;
        // A rule in CEL may have refused the same field already.
        let is_refused = |refused: &Violation| refused.path.contains(&violation.path);
        if !verdict.violations.iter().any(is_refused) {
            verdict.deny(violation.clone());
        }
    }
    any
}

/// Refuses or warns if an object is unknown that the parse needs.
fn judge_unknown(old: Option<&Judged<'_>>, new: &Judged<'_>, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    let prefix = new.text("machineNamePrefix");
    if lookup.feature_gate_unknown && prefix.is_some() && old.and_then(|old| old.text("machineNamePrefix")) != prefix {
        let why = "a name prefix requires the feature gate CPMSMachineNamePrefix, which is on by default";
        lookup.unknown(
            verdict,
            "cpms-name-prefix-gate",
            "spec.machineNamePrefix",
            "the FeatureGate cluster",
            why,
        );
    }
    let by_name = new
        .spec()
        .is_some_and(|spec| !spec.failure_domains.is_empty() && spec.template.platform.is_some_and(Platform::by_name));
    if by_name && lookup.infrastructure.is_none() {
        let why = "it defines the failure domains that the names refer to";
        let path = format!("{TEMPLATE}.failureDomains");
        lookup.unknown(verdict, "cpms-failure-domain", &path, "the Infrastructure cluster", why);
    }
}

fn judge_namespace(edit: &Edit<'_>, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    if edit.operation == Operation::Create && !edit.namespace.is_empty() && edit.namespace != lookup.namespace {
        let allowed = format!(
            "must be {}, the namespace of the control plane Machines",
            lookup.namespace
        );
        verdict.deny(
            Violation::new("cpms-namespace", "metadata.namespace", ViolationKind::Invalid, allowed)
                .got(&Value::from(edit.namespace))
                .advice(format!("create the set in {}", lookup.namespace)),
        );
    }
}

fn judge_platform(old: &Judged<'_>, new: &Judged<'_>, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    provider_kind::judge_change(old, new, lookup, verdict);
    let values = old.platform().zip(new.platform());
    let Some((before, after)) = values.filter(|(before, after)| before != after) else {
        return;
    };
    let path = format!("{TEMPLATE}.failureDomains.platform");
    let allowed = format!("must stay {before}: the field is immutable");
    verdict.deny(
        Violation::new(
            "cpms-platform-immutable",
            path.as_str(),
            ViolationKind::Invalid,
            allowed,
        )
        .got(&Value::from(after))
        .advice("keep the value: a control plane cannot move to another platform"),
    );
}

fn judge_replicas(new: &Judged<'_>, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    const RULE: &str = "cpms-replicas-match-machines";
    let Some(replicas) = new.replicas() else { return };
    let Some(machines) = lookup.control_plane() else {
        let why = "an active set must have as many replicas as there are machines";
        return lookup.unknown(verdict, RULE, "spec.replicas", "the control plane Machines", why);
    };
    let selector = new.spec().map(|spec| &spec.selector);
    let is_selected = |machine: &&&Machine| selector.is_none_or(|selector| selector.matches(&machine.metadata.labels));
    let mut names: Vec<&str> = machines.iter().map(|machine| machine.metadata.name()).collect();
    names.sort_unstable();
    let mut others: Vec<&str> = machines
        .iter()
        .filter(|machine| !is_selected(machine))
        .map(|machine| machine.metadata.name())
        .collect();
    others.sort_unstable();
    if !others.is_empty() {
        let allowed = format!(
            "must match the current number of control plane Machines; replicas is {replicas}, and the selector matches \
             {} of {} Machines: not {}",
            names.len() - others.len(),
            names.len(),
            others.join(", ")
        );
        let advice = "give these Machines the labels that spec.selector requires, or delete them first";
        return verdict.deny(Violation::new(RULE, "spec.replicas", ViolationKind::Forbidden, allowed).advice(advice));
    }
    if usize::try_from(replicas) == Ok(names.len()) {
        return;
    }
    let found = match names.as_slice() {
        [] => String::from("there are none"),
        names => format!("there are {}: {}", names.len(), names.join(", ")),
    };
    let advice = match names.len() {
        fitting @ (3 | 5) => format!(
            "delete the inactive set, and activate the one with {fitting} replicas that Capstan then generates; without \
             its controllers, create it; replicas is immutable"
        ),
        _ => String::from("create or delete Machines first, so that there are 3 or 5 of them"),
    };
    let allowed =
        format!("must match the current number of control plane Machines; replicas is {replicas}, and {found}");
    verdict.deny(Violation::new(RULE, "spec.replicas", ViolationKind::Forbidden, allowed).advice(advice));
}

/// The rules that are not written in CEL, for `capstan rules`.
pub fn table() -> Vec<RuleInfo> {
    const BOTH: &[Operation] = &[Operation::Create, Operation::Update];
    let rule = |id, path, operations, message| RuleInfo::webhook(id, KIND, path, operations, message);
    let mut table = vec![
        rule(
            "cpms-readable",
            "spec",
            BOTH,
            "every field has the type that the schema gives it",
        ),
        rule(
            "cpms-namespace",
            "metadata.namespace",
            &[Operation::Create],
            "the set is in the namespace of the Machine API",
        ),
        rule(
            "cpms-replicas-match-machines",
            "spec.replicas",
            BOTH,
            "a set that becomes active has as many replicas as there are control plane machines",
        ),
        rule(
            "cpms-platform-immutable",
            "spec.template.machines_v1beta1_machine_openshift_io.failureDomains.platform",
            &[Operation::Update],
            "the platform is immutable",
        ),
    ];
    table.extend(provider_kind::table());
    table.extend(parsed::table());
    table.extend(domains::table());
    table.extend(provider_spec::table());
    table.extend(template_metadata::table());
    table.extend(machine_spec::table());
    table.extend(owners::table());
    table.extend(records::table());
    table.extend(annotations::table());
    table.extend(authority::table());
    table.extend(control_plane::table());
    table.extend(rollout::table());
    table.extend(selector_members::table());
    table.extend(selector_scope::table());
    table.extend(shared_indexes::table());
    table.extend(deletion::table());
    table
}
