//! The rules for edits of a MachinePool.
//!
//! The rules are those of Cluster API's webhooks, and two more: an annotation with a strategy must
//! be readable, because an unreadable one stops every deletion, and the limits of the cluster
//! autoscaler must be numbers in order. A value that was stored may stay. An update of an object
//! that is being deleted passes if it leaves the spec as it is, so that finalizers can be removed.
//! The warnings say what an accepted edit does to the machines.

mod advice;
mod defaults;
mod table;

use json_patch::Patch;
use serde::Deserialize;
use serde_json::Value;

use super::strategy::{REMEDIATION, ROLLOUT, strategy};
use crate::api::cluster_x_k8s_io::machine_pool::MachinePool;
use crate::model::{
    Edit, FieldPath, Operation, RuleInfo, Stored, Verdict, Violation, ViolationKind, is_label_key, is_label_value,
};
use table::{BOOTSTRAP, CLUSTER_NAME, IMMUTABLE_CLUSTER, LIMITS, METADATA, REPLICAS, STRATEGY, TYPE, VERSION};

/// Every rule.
pub fn table() -> Vec<RuleInfo> {
    table::all()
}

/// The mutating pass: fills in defaults.
pub fn mutate(edit: &Edit<'_>) -> (Verdict, Option<Patch>) {
    let object = edit.object.filter(|_| edit.subresource.is_empty());
    let Some(object) = object else {
        return (Verdict::default(), None);
    };
    let old = edit.old.map(Stored::whole);
    let mut verdict = Verdict::default();
    match defaults::patch(object, old.as_deref()) {
        Ok(patch) => (verdict, Some(patch)),
        Err(violation) => {
            verdict.deny(*violation);
            (verdict, None)
        }
    }
}

/// The validating pass. A scale is judged with the stored pool.
pub fn validate(edit: &Edit<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let whole = edit.old.map(Stored::whole);
    let old = whole.as_deref().and_then(|old| MachinePool::deserialize(old).ok());
    match (edit.operation, edit.object, edit.subresource) {
        (Operation::Delete, ..) => {
            if let Some(old) = &old {
                verdict.warnings.extend(advice::deletion(old));
            }
        }
        (_, Some(scale), "scale") => {
            let wanted = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
            verdict.violations.extend(negative(wanted));
            if let Some(old) = old.as_ref().filter(|_| wanted >= 0) {
                verdict.warnings.extend(advice::scale(old, wanted));
            }
        }
        (_, Some(object), "") => judge(object, whole.as_deref(), old.as_ref(), &mut verdict),
        _ => {}
    }
    verdict.finish()
}

fn judge(object: &Value, whole: Option<&Value>, old: Option<&MachinePool>, verdict: &mut Verdict) {
    let new = match serde_path_to_error::deserialize::<_, MachinePool>(object) {
        Ok(new) => new,
        // What is stored may stay.
        Err(_) if whole.is_some_and(|old| old.get("spec") == object.get("spec")) => return,
        Err(error) => {
            let path = FieldPath::new(error.path().to_string());
            let allowed = error.inner().to_string();
            return verdict.deny(Violation::new(TYPE.id, path, ViolationKind::TypeInvalid, allowed));
        }
    };
    let is_same_spec = whole.is_some_and(|old| old.get("spec") == object.get("spec"));
    if new.metadata.is_deleting() && is_same_spec {
        return;
    }
    let mut found = violations(&new, old);
    if let Some(old) = old {
        // A rule does not apply to stored values that stay.
        let stored = violations(old, None);
        found.retain(|violation| !stored.contains(violation));
    }
    verdict.violations.extend(found);
    if verdict.allowed() {
        verdict
            .warnings
            .extend(old.into_iter().flat_map(|old| advice::update(old, &new)));
        verdict.warnings.extend(advice::strategy_of(old, &new));
    }
}

fn violations(new: &MachinePool, old: Option<&MachinePool>) -> Vec<Violation> {
    let mut found: Vec<Violation> = new
        .spec
        .replicas
        .and_then(|replicas| negative(replicas.into()))
        .into_iter()
        .collect();
    references(new, old, &mut found);
    found.extend(version(new));
    metadata(new, &mut found);
    annotations(new, old, &mut found);
    found
}

/// The violation of a negative number of machines.
fn negative(replicas: i64) -> Option<Violation> {
    let violation = REPLICAS.violation(ViolationKind::Invalid);
    let violation = violation.got(&Value::from(replicas)).advice("use 0 for no machine");
    (replicas < 0).then_some(violation)
}

fn references(new: &MachinePool, old: Option<&MachinePool>, found: &mut Vec<Violation>) {
    let (spec, template) = (&new.spec, &new.spec.template.spec);
    let has_secret = template.bootstrap.unknown_fields.contains_key("dataSecretName");
    if template.bootstrap.config_ref.name.is_empty() && !has_secret {
        let advice = "set configRef, or dataSecretName of a Secret that exists";
        found.push(BOOTSTRAP.violation(ViolationKind::Required).advice(advice));
    }
    if let Some(old) = old.filter(|old| old.spec.cluster_name != spec.cluster_name) {
        let advice = format!(
            "keep {:?}, and create another pool for another Cluster",
            old.spec.cluster_name
        );
        let violation = IMMUTABLE_CLUSTER.violation(ViolationKind::Forbidden);
        found.push(violation.advice(advice));
    }
    if spec.cluster_name != template.cluster_name {
        let violation = CLUSTER_NAME.violation(ViolationKind::Invalid);
        let got = Value::from(template.cluster_name.as_str());
        let advice = match spec.cluster_name.as_str() {
            "" => String::from("set spec.clusterName, and the same name here"),
            name => format!("set {name:?}"),
        };
        found.push(violation.got(&got).advice(advice));
    }
}

/// The version must be a semantic version with a leading `v`.
fn version(new: &MachinePool) -> Option<Violation> {
    let version = new.spec.template.spec.version.as_str();
    if version.is_empty() || version.strip_prefix('v').is_some_and(is_semantic) {
        return None;
    }
    let violation = VERSION.violation(ViolationKind::Invalid).got(&Value::from(version));
    Some(violation.advice("write a version such as v1.34.1"))
}

/// Whether a text is a semantic version, as `semver.org` defines it.
fn is_semantic(text: &str) -> bool {
    let (text, build) = text
        .split_once('+')
        .map_or((text, None), |(text, build)| (text, Some(build)));
    let (core, pre) = text
        .split_once('-')
        .map_or((text, None), |(core, pre)| (core, Some(pre)));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = |part: &str| is_digits(part) && (part.len() == 1 || !part.starts_with('0'));
    let is_word =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let numbers: Vec<&str> = core.split('.').collect();
    let is_pre = |part: &str| is_word(part) && (!is_digits(part) || is_number(part));
    numbers.len() == 3
        && numbers.into_iter().all(is_number)
        && pre.is_none_or(|pre| pre.split('.').all(is_pre))
        && build.is_none_or(|build| build.split('.').all(is_word))
}

/// The labels and annotations that the Machines get.
fn metadata(new: &MachinePool, found: &mut Vec<Violation>) {
    let template = &new.spec.template.metadata;
    let path = FieldPath::new(METADATA.path);
    for (key, value) in &template.labels {
        if !is_label_key(key) || !is_label_value(value) {
            let violation = METADATA.at(path.child("labels").key(key), ViolationKind::Invalid);
            found.push(violation.got(&Value::from(value.as_str())));
        }
    }
    for key in template
        .annotations
        .keys()
        .filter(|key| !is_label_key(&key.to_lowercase()))
    {
        found.push(METADATA.at(path.child("annotations").key(key), ViolationKind::Invalid));
    }
}

/// The strategies. An annotation that was stored unreadable may stay.
fn annotations(new: &MachinePool, old: Option<&MachinePool>, found: &mut Vec<Violation>) {
    let replicas = usize::try_from(new.spec.replicas.unwrap_or(1)).unwrap_or(0);
    for key in [ROLLOUT, REMEDIATION] {
        let Some(value) = new.metadata.annotations.get(key) else {
            continue;
        };
        if old.is_some_and(|old| old.metadata.annotations.get(key) == Some(value)) {
            continue;
        }
        let alone = [(key.to_owned(), value.clone())].into_iter().collect();
        if let Err(degradation) = strategy(&alone, replicas) {
            let path = FieldPath::new("metadata.annotations").key(key);
            let violation = STRATEGY
                .at(path, ViolationKind::Invalid)
                .got(&Value::from(value.as_str()));
            found.push(violation.advice(degradation.message));
        }
    }
    if let Err(violation) = defaults::limits(&new.metadata.annotations) {
        let is_old = old.is_some_and(|old| defaults::limits(&old.metadata.annotations).is_err());
        found.extend((!is_old).then_some(*violation));
    }
}

/// A violation of the limits of the cluster autoscaler.
fn limits_violation(key: &str, value: &str, advice: &str) -> Box<Violation> {
    let path = FieldPath::new("metadata.annotations").key(key);
    let violation = LIMITS.at(path, ViolationKind::Invalid).got(&Value::from(value));
    Box::new(violation.advice(advice))
}

#[cfg(test)]
mod tests;
