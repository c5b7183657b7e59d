//! The rules for the machine template alone, for kinds that describe their machines as a set does.
//!
//! The caller gives such an object in the form of an Inactive set, and translates paths and rule
//! ids. Nothing here reads what only a set has: its state, its indexes, its rollout.

use json_patch::Patch;
use serde_json::Value;

use super::{
    Judged, Lookup, TEMPLATE, domains, judge_parse, judge_platform, judge_unknown, parsed, provider_kind,
    provider_spec, rules_in_cel,
};
use crate::cel::rules::{Enforcer, RuleSet};
use crate::model::{RuleInfo, Stored, Verdict};

/// The path of the machine template, for a caller that translates paths.
pub const TEMPLATE_PATH: &str = TEMPLATE;

/// Judges the template of a set that is not active. `old` is the set before the edit; `replicas`
/// are the machines of the kind that has this template.
pub fn judge_template(
    old: Option<&Value>,
    new: &Value,
    replicas: usize,
    lookup: &Lookup<'_>,
    rules: &RuleSet,
) -> Verdict {
    let mut verdict = Verdict::default();
    let stored = old.map(|old| old as &dyn Stored);
    for violation in rules_in_cel(rules, Enforcer::Webhook, new, stored) {
        verdict.deny(violation);
    }
    let new = match Judged::read(new, lookup) {
        Ok(new) => new,
        Err(violation) => {
            verdict.deny(*violation);
            return verdict;
        }
    };
    let old = old.and_then(|old| Judged::read_old(old, &new, lookup));
    let has_new_violations = judge_parse(old.as_ref(), &new, false, &mut verdict);
    if let Some(old) = &old {
        judge_platform(old, &new, lookup, &mut verdict);
    }
    let is_foreign = provider_kind::judge_cluster(old.is_none(), false, &new, lookup, &mut verdict);
    provider_spec::judge(old.as_ref(), &new, false, lookup, &mut verdict);
    judge_unknown(old.as_ref(), &new, lookup, &mut verdict);
    let moved = is_foreign || old.as_ref().is_some_and(|old| old.platform() != new.platform());
    if let Some(spec) = new.spec().filter(|_| !moved && !has_new_violations) {
        let known = old.as_ref().and_then(|old| old.known(&new));
        domains::warn_of_repeats(old.as_ref(), &new, spec, &mut verdict);
        let change = domains::Change {
            replicas,
            activated: false,
            rebalances: false,
        };
        domains::judge(known, &new, spec, change, lookup, &mut verdict);
    }
    verdict
}

/// The patch that fills the defaults of the platform into the template of a set; `None` if no
/// default is missing.
pub fn template_defaults(set: &Value) -> Option<Patch> {
    provider_spec::defaults(set)
}

/// The rules in Rust that [`judge_template`] applies, with the ids and paths of a set.
pub fn template_table() -> Vec<RuleInfo> {
    let is_of_template = |rule: &RuleInfo| {
        let below = rule.path.strip_prefix(TEMPLATE).unwrap_or_default();
        below.starts_with(".failureDomains") || below.starts_with(".spec.providerSpec")
    };
    let own = super::table();
    let own = own.into_iter().filter(|rule| {
        [
            "cpms-platform-immutable",
            "cpms-provider-spec-kind-immutable",
            "cpms-provider-spec-kind-of-machines",
            "cpms-readable",
        ]
        .contains(&rule.id.as_str())
    });
    let about_domains = domains::table_of_template();
    own.chain(parsed::table().into_iter().filter(is_of_template))
        .chain(provider_spec::table())
        .chain(about_domains)
        .collect()
}
