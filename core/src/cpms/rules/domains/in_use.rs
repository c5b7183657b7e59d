//! The failure domains that machines are in. The controller moves a machine out of a domain that
//! the set does not list.

use std::collections::BTreeMap;

use super::{acknowledge, labels, path, place_of_template};
use crate::cpms::domains::{FailureDomain, extract};
use crate::cpms::rules::Lookup;
use crate::cpms::spec::Spec;
use crate::model::{Verdict, Violation, ViolationKind, Warning};

pub(super) const IN_USE: &str = "cpms-failure-domains-in-use";
pub(super) const DUPLICATED: &str = "cpms-failure-domains-duplicated";

/// The names of the machines in each domain.
type Used<'a> = BTreeMap<FailureDomain, Vec<&'a str>>;

/// Judges the domains of an edit. `moves` is set if the controller would at once move a machine out
/// of a crowded domain.
pub(super) fn judge(
    domains: &[FailureDomain],
    spec: &Spec,
    moves: bool,
    acknowledged: bool,
    lookup: &Lookup<'_>,
    verdict: &mut Verdict,
) {
    let Some(used) = used(lookup) else {
        let why = "the failure domains that they are in must be listed";
        return lookup.unknown(verdict, IN_USE, &path(), "the control plane Machines", why);
    };
    if used.is_empty() {
        return;
    }
    if domains.is_empty() {
        return judge_without_domains(&used, spec, acknowledged, lookup, verdict);
    }
    judge_unlisted(&used, domains, acknowledged, verdict);
    if moves {
        judge_crowded(&used, domains, acknowledged, verdict);
    }
}

fn used<'a>(lookup: &Lookup<'a>) -> Option<Used<'a>> {
    let mut used = Used::new();
    for machine in lookup.control_plane()? {
        let provider_spec = machine.spec.provider_spec.value.as_ref();
        if let Some(domain) = provider_spec.and_then(|value| extract(value, lookup.infrastructure())) {
            used.entry(domain).or_default().push(machine.metadata.name());
        }
    }
    Some(used)
}

/// Domains with their machines, such as `us-east-1a (master-0, master-1)`.
fn in_words<'a, 'u: 'a>(domains: impl Iterator<Item = (&'a FailureDomain, &'a Vec<&'u str>)>) -> Option<String> {
    let named: Vec<String> = domains
        .map(|(domain, names)| format!("{} ({})", domain.label(), names.join(", ")))
        .collect();
    (!named.is_empty()).then(|| named.join(", "))
}

fn judge_unlisted(used: &Used<'_>, domains: &[FailureDomain], acknowledged: bool, verdict: &mut Verdict) {
    let Some(unlisted) = in_words(used.iter().filter(|(domain, _)| !domains.contains(domain))) else {
        return;
    };
    if acknowledged {
        let text = format!("machines in failure domains that are not listed will be replaced: {unlisted}");
        return verdict.warn(Warning::new(IN_USE, text));
    }
    let allowed = format!("must list the failure domains that machines are using: {unlisted}");
    verdict.deny(
        Violation::new(IN_USE, path().as_str(), ViolationKind::Forbidden, allowed)
            .advice(format!("list them, {}", acknowledge(domains))),
    );
}

/// Refuses a listed domain without a machine while another domain has several: the controller would
/// move a machine at once.
fn judge_crowded(used: &Used<'_>, domains: &[FailureDomain], acknowledged: bool, verdict: &mut Verdict) {
    let unused: Vec<FailureDomain> = domains
        .iter()
        .filter(|domain| !used.contains_key(domain))
        .cloned()
        .collect();
    let crowded = in_words(used.iter().filter(|(_, names)| names.len() > 1));
    let Some(crowded) = crowded.filter(|_| !unused.is_empty()) else {
        return;
    };
    let unused = labels(&unused);
    if acknowledged {
        let text = format!(
            "no machine is in {unused}, and several are in {crowded}: the controller will move one immediately"
        );
        return verdict.warn(Warning::new(DUPLICATED, text));
    }
    let allowed = format!(
        "must not list {unused} while several machines are in {crowded}: the controller would move one immediately"
    );
    verdict.deny(
        Violation::new(DUPLICATED, path().as_str(), ViolationKind::Forbidden, allowed)
            .advice(format!("list only the domains in use, {}", acknowledge(domains))),
    );
}

/// Without failure domains, all machines must be in the place of the template.
fn judge_without_domains(used: &Used<'_>, spec: &Spec, acknowledged: bool, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    let place = place_of_template(spec, lookup);
    let Some(elsewhere) = in_words(used.iter().filter(|(domain, _)| Some(*domain) != place.as_ref())) else {
        return;
    };
    let advice = "list the failure domains that machines are in";
    let (allowed, advice) = match place {
        Some(place) if acknowledged => {
            let text = format!("machines will be replaced in {}: {elsewhere}", place.label());
            return verdict.warn(Warning::new(IN_USE, text));
        }
        Some(place) => (
            format!(
                "must list the failure domains that machines are in: {elsewhere}; without a list, all machines belong in \
                 {}, as in the template",
                place.label()
            ),
            format!("{advice}, {}", acknowledge(&[])),
        ),
        None => (
            format!(
                "must list the failure domains that machines are in: {elsewhere}; the template has no failure domain"
            ),
            advice.to_owned(),
        ),
    };
    verdict.deny(Violation::new(IN_USE, path().as_str(), ViolationKind::Invalid, allowed).advice(advice));
}
