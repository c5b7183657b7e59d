//! Failure domains against those that the machines are in, and against losing spread.
//!
//! The document wants a set's failure domains to align with the cluster's before it becomes active,
//! so that nobody moves a control plane from three zones into one by accident. Here every edit that
//! takes a domain away answers for it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::TEMPLATE;
use super::judged::Judged;
use super::lookup::Lookup;
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::cpms::domains::{FailureDomain, extract};
use crate::cpms::spec::Spec;
use crate::model::{Operation, RuleInfo, Verdict, Violation, ViolationKind, Warning};

/// Names the failure domains that whoever edits accepts, separated by commas.
pub(super) const ACKNOWLEDGE: &str = "capstan.dev/acknowledge-failure-domains";

/// How an empty list is acknowledged.
const NONE: &str = "none";

const IN_USE: &str = "cpms-failure-domains-in-use";
const DUPLICATED: &str = "cpms-failure-domains-duplicated";
const SPREAD: &str = "cpms-spread-reduced";
const REPEATED: &str = "cpms-failure-domain-repeated";

fn labels(domains: &[FailureDomain]) -> String {
    if domains.is_empty() {
        return String::from(NONE);
    }
    domains.iter().map(FailureDomain::label).collect::<Vec<_>>().join(",")
}

/// Says that an entry is listed twice, once: the parse counts it once.
pub(super) fn warn_of_repeats(old: Option<&Judged<'_>>, new: &Judged<'_>, spec: &Spec, verdict: &mut Verdict) {
    let listed = new.listed_domains();
    if listed > spec.failure_domains.len() && old.is_none_or(|old| old.listed_domains() != listed) {
        let text = format!("{TEMPLATE}.failureDomains: an entry is listed more than once; it counts once");
        verdict.warn(Warning::new(REPEATED, text));
    }
}

pub(super) fn judge(
    known: Option<&Spec>,
    new: &Judged<'_>,
    spec: &Spec,
    activated: bool,
    lookup: &Lookup<'_>,
    verdict: &mut Verdict,
) {
    let domains = spec.failure_domains.as_slice();
    let before = known.map(|known| known.failure_domains.as_slice());
    if before == Some(domains) && !activated {
        return;
    }
    // Naming all of them says that the administrator looked at this list, and not at some list
    // once.
    let acknowledged = new.annotation(ACKNOWLEDGE).is_some_and(|named| {
        let listed = labels(domains);
        let sorted = |list: &str| {
            let mut names: Vec<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
            names.sort_unstable();
            names
        };
        sorted(named) == sorted(&listed)
    });
    if let Some(before) = before {
        // Nobody can acknowledge that machines are made nowhere.
        let nowhere = domains.is_empty() && place_of_template(spec, lookup).is_none();
        judge_spread(before, domains, spec, acknowledged, nowhere, verdict);
    }
    judge_use(
        domains,
        spec,
        before.is_none() || activated,
        acknowledged,
        lookup,
        verdict,
    );
}

fn path() -> String {
    format!("{TEMPLATE}.failureDomains")
}

fn acknowledge(domains: &[FailureDomain]) -> String {
    format!(
        "or, if that is meant, set the annotation {ACKNOWLEDGE}: \"{}\"",
        labels(domains)
    )
}

/// Where a set without failure domains puts its machines.
fn place_of_template(spec: &Spec, lookup: &Lookup<'_>) -> Option<FailureDomain> {
    extract(&spec.template.provider_spec, lookup.infrastructure())
}

fn judge_spread(
    before: &[FailureDomain],
    after: &[FailureDomain],
    spec: &Spec,
    acknowledged: bool,
    nowhere: bool,
    verdict: &mut Verdict,
) {
    let replicas = spec.replicas.count();
    // No domains at all is one place: wherever the template says.
    let spread = |domains: &[FailureDomain]| domains.len().clamp(1, replicas);
    if spread(after) >= spread(before) {
        return;
    }
    let lost: Vec<String> = before
        .iter()
        .filter(|domain| !after.contains(domain))
        .map(FailureDomain::label)
        .collect();
    let says = format!(
        "the {replicas} machines would be spread over {} failure domain(s) instead of {}",
        spread(after),
        spread(before)
    );
    if acknowledged {
        let text = format!(
            "{says}: losing one of them can cost etcd its quorum ({} go)",
            lost.join(", ")
        );
        return verdict.warn(Warning::new(SPREAD, text));
    }
    verdict.deny(
        Violation::new(
            SPREAD,
            path().as_str(),
            ViolationKind::Invalid,
            format!("{says}, so that one outage can cost etcd its quorum"),
        )
        .got(&Value::from(labels(after)))
        .advice(if nowhere {
            format!("keep {}: the template names no failure domain either", lost.join(", "))
        } else {
            format!("keep {}, {}", lost.join(", "), acknowledge(after))
        }),
    );
}

fn judge_use(
    domains: &[FailureDomain],
    spec: &Spec,
    from_scratch: bool,
    acknowledged: bool,
    lookup: &Lookup<'_>,
    verdict: &mut Verdict,
) {
    let Some(machines) = lookup.control_plane() else {
        let why = "the failure domains must be those that the machines are in";
        return lookup.unknown(verdict, IN_USE, &path(), "the control plane Machines are", why);
    };
    let mut used: BTreeMap<FailureDomain, Vec<&str>> = BTreeMap::new();
    for machine in machines {
        let domain = machine
            .spec
            .provider_spec
            .value
            .as_ref()
            .and_then(|value| extract(value, lookup.infrastructure()));
        if let Some(domain) = domain {
            used.entry(domain).or_default().push(machine.metadata.name());
        }
    }
    if used.is_empty() {
        return;
    }
    if domains.is_empty() {
        return judge_without_domains(&used, spec, acknowledged, lookup, verdict);
    }
    let unlisted: Vec<_> = used.iter().filter(|(domain, _)| !domains.contains(domain)).collect();
    if !unlisted.is_empty() {
        let named: Vec<String> = unlisted
            .iter()
            .map(|(domain, names)| format!("{} ({})", domain.label(), names.join(", ")))
            .collect();
        let says = format!(
            "machines are using failure domains that are not listed: {}",
            named.join(", ")
        );
        if acknowledged {
            verdict.warn(Warning::new(
                IN_USE,
                format!("{says}: they will be replaced in the listed ones"),
            ));
        } else {
            verdict.deny(
                Violation::new(IN_USE, path().as_str(), ViolationKind::Forbidden, says)
                    .advice(format!("list them, {}", acknowledge(domains))),
            );
        }
    }
    let unused: Vec<FailureDomain> = domains
        .iter()
        .filter(|domain| !used.contains_key(domain))
        .cloned()
        .collect();
    let crowded: Vec<String> = used
        .iter()
        .filter(|(_, names)| names.len() > 1)
        .map(|(domain, names)| format!("{} ({})", domain.label(), names.join(", ")))
        .collect();
    if from_scratch && !unused.is_empty() && !crowded.is_empty() {
        let says = format!(
            "no machine is in {}, while several are in {}: the controller would move one at once",
            labels(&unused),
            crowded.join(", ")
        );
        if acknowledged {
            verdict.warn(Warning::new(DUPLICATED, says));
        } else {
            verdict.deny(
                Violation::new(DUPLICATED, path().as_str(), ViolationKind::Forbidden, says)
                    .advice(format!("list only the domains in use, {}", acknowledge(domains))),
            );
        }
    }
}

/// Without failure domains the template says where all machines are: so they must be there.
fn judge_without_domains(
    used: &BTreeMap<FailureDomain, Vec<&str>>,
    spec: &Spec,
    acknowledged: bool,
    lookup: &Lookup<'_>,
    verdict: &mut Verdict,
) {
    let place = place_of_template(spec, lookup);
    let elsewhere: Vec<String> = used
        .iter()
        .filter(|(domain, _)| Some(*domain) != place.as_ref())
        .map(|(domain, names)| format!("{} ({})", domain.label(), names.join(", ")))
        .collect();
    if elsewhere.is_empty() {
        return;
    }
    let known = place.is_some();
    let place = place.map_or_else(|| String::from("no failure domain"), |place| place.label());
    if acknowledged && known {
        let text = format!(
            "machines are in {}: they will be replaced in {place}",
            elsewhere.join(", ")
        );
        return verdict.warn(Warning::new(IN_USE, text));
    }
    verdict.deny(
        Violation::new(IN_USE, path().as_str(), ViolationKind::Invalid, format!(
            "without failure domains every machine belongs where the template says ({place}), and there are machines in {}",
            elsewhere.join(", ")
        ))
        .advice(if known {
            format!("list the failure domains that the machines are in, {}", acknowledge(&[]))
        } else {
            String::from("list the failure domains that the machines are in")
        }),
    );
}

pub(super) fn table() -> Vec<RuleInfo> {
    const BOTH: &[Operation] = &[Operation::Create, Operation::Update];
    let rule = |id, operations, message| RuleInfo::webhook(id, KIND, &path(), operations, message);
    vec![
        rule(
            IN_USE,
            BOTH,
            "every failure domain that a machine is in is listed, unless the change is acknowledged",
        ),
        rule(
            DUPLICATED,
            BOTH,
            "a set that becomes active does not leave a listed failure domain empty while another is crowded",
        ),
        rule(
            SPREAD,
            &[Operation::Update],
            "machines are not spread over fewer failure domains, unless that is acknowledged",
        ),
        rule(
            REPEATED,
            BOTH,
            "warns of a failure domain that is listed more than once",
        ),
    ]
}
