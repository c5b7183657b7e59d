//! The provider spec of the template: its defaults, its types, and the fields that each platform
//! requires.
//!
//! An edit is judged for what it changes: a violation that the stored set has already is tolerated,
//! until the set is activated. Only values with which no machine starts, or which are dangerous,
//! are refused. An unknown field causes a warning, because platforms add fields before Capstan
//! knows them (defect B18).

mod platforms;
mod required;
mod types;

use json_patch::Patch;
use serde_json::Value;

use super::{Judged, Lookup, TEMPLATE};
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::cpms::defaults::provider_spec_defaults;
use crate::cpms::domains::Platform;
use crate::model::{Operation, RuleInfo, Verdict};
use crate::platforms::{ALL, ProviderSpec};

fn path(field: &str) -> String {
    format!("{TEMPLATE}.spec.providerSpec.value.{field}")
}

/// The patch that fills the defaults of the platform into a set's template; `None` if no default is
/// missing.
pub(super) fn defaults(object: &Value) -> Option<Patch> {
    let pointer = format!("/{}/spec/providerSpec/value", TEMPLATE.replace('.', "/"));
    let before = object.pointer(&pointer)?;
    let mut after = before.clone();
    provider_spec_defaults(Platform::of(before), &mut after);
    if &after == before {
        return None;
    }
    let mut patch = json_patch::diff(before, &after);
    for operation in &mut patch.0 {
        // The paths of the difference begin at the provider spec, those of the patch at the object.
        let mut whole = serde_json::to_value(&*operation).ok()?;
        let at = format!("{pointer}{}", whole.get("path")?.as_str()?);
        whole.as_object_mut()?.insert(String::from("path"), Value::from(at));
        *operation = serde_json::from_value(whole).ok()?;
    }
    Some(patch)
}

/// Judges the provider spec of an edit. A set that is activated is judged as a whole.
pub(super) fn judge(
    old: Option<&Judged<'_>>,
    new: &Judged<'_>,
    activated: bool,
    lookup: &Lookup<'_>,
    verdict: &mut Verdict,
) {
    let Some(after) = Template::of(new) else { return };
    let before = old.and_then(Template::of);
    // Another kind is refused, and nothing is to be added.
    if before.as_ref().is_some_and(|before| before.kind != after.kind) {
        return;
    }
    let before = before.filter(|_| !activated);
    if before.as_ref().is_some_and(|before| before.is_same(&after)) {
        return;
    }
    let infrastructure = lookup.infrastructure();
    let known = before.map(|before| before.findings(infrastructure));
    let mut found = after.findings(infrastructure);
    if let Some(known) = known {
        found
            .unknown_fields
            .retain(|field| !known.unknown_fields.contains(field));
        found
            .verdict
            .violations
            .retain(|violation| !known.verdict.violations.contains(violation));
        found
            .verdict
            .warnings
            .retain(|warning| !known.verdict.warnings.contains(warning));
    }
    types::warn_of_unknown_fields(after.kind, &found.unknown_fields, verdict);
    for violation in found.verdict.violations {
        verdict.deny(violation);
    }
    for warning in found.verdict.warnings {
        verdict.warn(warning);
    }
}

/// The part of a set on which the rules for provider specs depend.
struct Template<'a> {
    value: &'a Value,
    kind: ProviderSpec,
    /// `failureDomains`, as it is written.
    domains: Option<&'a Value>,
    has_domains: bool,
}

/// What the rules find in a provider spec.
#[derive(Default)]
struct Findings {
    /// Paths of fields that the platform does not know, each with a suggestion.
    unknown_fields: Vec<String>,
    verdict: Verdict,
}

impl<'a> Template<'a> {
    /// The template of a set; `None` if its provider spec is not of a known kind.
    fn of(set: &Judged<'a>) -> Option<Self> {
        let value = set.provider_spec()?;
        let kind = value.get("kind")?.as_str()?;
        Some(Self {
            value,
            kind: *ALL.iter().find(|spec| spec.kind == kind)?,
            domains: set.machine()?.get("failureDomains"),
            has_domains: set.listed_domains() > 0,
        })
    }

    fn is_same(&self, other: &Self) -> bool {
        self.value == other.value && self.domains == other.domains
    }

    fn findings(&self, infrastructure: Option<&Infrastructure>) -> Findings {
        let mut found = Findings::default();
        types::judge(self, &mut found);
        required::judge(self, &mut found.verdict);
        platforms::judge(self, infrastructure, &mut found.verdict);
        found
    }
}

pub(super) fn table() -> Vec<RuleInfo> {
    const BOTH: &[Operation] = &[Operation::Create, Operation::Update];
    let rules = [types::RULES, required::RULES, platforms::RULES].into_iter().flatten();
    rules
        .map(|(id, field, message)| RuleInfo::webhook(id, KIND, path(field).trim_end_matches('.'), BOTH, message))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(provider_spec: &Value) -> Value {
        json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": {"spec": {"providerSpec": {"value": provider_spec}}}}}})
    }

    #[test]
    fn the_patch_of_the_defaults_is_minimal_and_applied_once() {
        let mut object = set(&json!({"kind": "AWSMachineProviderConfig", "credentialsSecret": {"name": "mine"}}));
        let patch = defaults(&object).unwrap();
        assert_eq!(
            serde_json::to_value(&patch).unwrap(),
            json!([{
                "op": "add",
                "path": "/spec/template/machines_v1beta1_machine_openshift_io/spec/providerSpec/value/userDataSecret",
                "value": {"name": "master-user-data"}
            }])
        );
        json_patch::patch(&mut object, &patch).unwrap();
        assert_eq!(defaults(&object), None);
    }
}
