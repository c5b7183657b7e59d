//! Over how many zones the machines are spread. Several failure domains can be in one zone: they
//! differ in the subnet only, or in the volume.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{acknowledge, labels, path};
use crate::cpms::domains::{FailureDomain, Platform};
use crate::cpms::fields::text;
use crate::model::{Verdict, Violation, ViolationKind, Warning};

pub(super) const REDUCED: &str = "cpms-spread-reduced";
pub(super) const SHARED: &str = "cpms-spread-shared-zone";

/// The zone of a domain; `None` if it is unknown, or if the platform identifies domains by name.
fn zone(domain: &FailureDomain) -> Option<&str> {
    let full = domain.full();
    match domain.platform() {
        Platform::Aws => text(full, &["placement", "availabilityZone"]),
        // A domain without a zone is the region.
        Platform::Azure => Some(text(full, &["zone"]).unwrap_or("no zone")),
        Platform::OpenStack => text(full, &["availabilityZone"]),
        Platform::Gcp => text(full, &["zone"]),
        Platform::VSphere | Platform::Nutanix => None,
    }
}

/// The zones of the domains; `None` if the zone of one of them is unknown.
fn zones(domains: &[FailureDomain]) -> Option<BTreeSet<&str>> {
    domains.iter().map(zone).collect()
}

/// Over how many zones machines are spread. A set without domains has one place, that of its
/// template.
fn spread(domains: &[FailureDomain], replicas: usize) -> usize {
    let places = zones(domains).map_or(domains.len(), |zones| zones.len());
    places.clamp(1, replicas)
}

/// Refuses an edit that reduces the spread. `nowhere` means that the template has no place for
/// machines.
pub(super) fn judge(
    before: &[FailureDomain],
    after: &[FailureDomain],
    replicas: usize,
    acknowledged: bool,
    nowhere: bool,
    verdict: &mut Verdict,
) {
    let (old, new) = (spread(before, replicas), spread(after, replicas));
    if new >= old {
        return;
    }
    let lost: Vec<String> = before
        .iter()
        .filter(|domain| !after.contains(domain))
        .map(FailureDomain::label)
        .collect();
    let lost = lost.join(", ");
    if acknowledged {
        let text = format!(
            "the {replicas} machines will be spread over {new} failure domain(s) instead of {old}, without {lost}: the loss \
             of one of them can cost etcd its quorum"
        );
        return verdict.warn(Warning::new(REDUCED, text));
    }
    let allowed = format!(
        "must spread the {replicas} machines over at least {old} failure domains, not {new}: otherwise one outage can cost \
         etcd its quorum"
    );
    let advice = if nowhere {
        format!("keep {lost}: the template has no failure domain either")
    } else {
        format!("keep {lost}, {}", acknowledge(after))
    };
    verdict.deny(
        Violation::new(REDUCED, path().as_str(), ViolationKind::Invalid, allowed)
            .got(&Value::from(labels(after)))
            .advice(advice),
    );
}

/// Warns if the domains are in fewer zones than machines could be spread over.
pub(super) fn warn_of_shared_zones(domains: &[FailureDomain], replicas: usize, verdict: &mut Verdict) {
    let Some(zones) = zones(domains).filter(|zones| !zones.is_empty() && zones.len() < domains.len().min(replicas))
    else {
        return;
    };
    let names: Vec<&str> = zones.iter().copied().take(8).collect();
    let text = format!(
        "{}: {} failure domains are in {} zone(s) ({}): the outage of one zone can cost etcd its quorum",
        path(),
        domains.len(),
        zones.len(),
        names.join(", ")
    );
    verdict.warn(Warning::new(SHARED, text));
}
