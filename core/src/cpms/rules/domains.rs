//! The failure domains of a set, compared with the domains of its machines, and with the spread
//! before the edit.
//!
//! The enhancement requires that the failure domains agree with the cluster before a set becomes
//! active, so that a control plane is not moved from three zones into one by accident. Here, every
//! edit that removes a domain is judged.

mod in_use;
mod spread;

use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::cpms::domains::{FailureDomain, extract};
use crate::cpms::spec::Spec;
use crate::model::{Operation, RuleInfo, Verdict, Warning};

use super::{Judged, Lookup, TEMPLATE};

/// Lists the failure domains that the user accepts, separated by commas.
pub const ACKNOWLEDGE: &str = "capstan.dev/acknowledge-failure-domains";

/// The acknowledgement of an empty list.
const NONE: &str = "none";

pub(super) const REPEATED: &str = "cpms-failure-domain-repeated";

/// The labels of domains, as an acknowledgement lists them.
fn labels(domains: &[FailureDomain]) -> String {
    if domains.is_empty() {
        return String::from(NONE);
    }
    domains.iter().map(FailureDomain::label).collect::<Vec<_>>().join(",")
}

/// Warns once of entries that are listed more than once. The parse counts each once.
pub(super) fn warn_of_repeats(old: Option<&Judged<'_>>, new: &Judged<'_>, spec: &Spec, verdict: &mut Verdict) {
    let listed = new.listed_domains();
    if listed > spec.failure_domains.len() && old.is_none_or(|old| old.listed_domains() != listed) {
        let text = format!("{}: an entry is listed more than once; it counts once", path());
        verdict.warn(Warning::new(REPEATED, text));
    }
}

/// What the rules about failure domains ask of an edit, apart from the domains.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// The number of machines after the edit.
    pub(super) replicas: usize,
    /// Whether the edit activates a set. Its domains are then judged as those of a new one.
    pub(super) activated: bool,
    /// Whether the controller moves a machine out of a crowded domain at once.
    pub(super) rebalances: bool,
}

/// Judges the failure domains of an edit. `known` is the valid object before it.
pub(super) fn judge(
    known: Option<&Spec>,
    new: &Judged<'_>,
    spec: &Spec,
    change: Change,
    lookup: &Lookup<'_>,
    verdict: &mut Verdict,
) {
    let domains = spec.failure_domains.as_slice();
    let before = known.map(|known| known.failure_domains.as_slice());
    if before == Some(domains) && !change.activated {
        return;
    }
    // The annotation lists all domains, so that it does not acknowledge a later edit of the list.
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
        // Without domains and without a place in the template, machines cannot be created at all.
        let nowhere = domains.is_empty() && place_of_template(spec, lookup).is_none();
        spread::judge(before, domains, change.replicas, acknowledged, nowhere, verdict);
    }
    spread::warn_of_shared_zones(domains, change.replicas, verdict);
    let moves = change.rebalances && (before.is_none() || change.activated);
    in_use::judge(domains, spec, moves, acknowledged, lookup, verdict);
}

fn path() -> String {
    format!("{TEMPLATE}.failureDomains")
}

fn acknowledge(domains: &[FailureDomain]) -> String {
    format!(
        "or set the annotation {ACKNOWLEDGE}: \"{}\" to accept the change",
        labels(domains)
    )
}

/// The place of the machines of a set without failure domains.
fn place_of_template(spec: &Spec, lookup: &Lookup<'_>) -> Option<FailureDomain> {
    extract(&spec.template.provider_spec, lookup.infrastructure())
}

pub(super) fn table() -> Vec<RuleInfo> {
    const BOTH: &[Operation] = &[Operation::Create, Operation::Update];
    let rule = |id, operations, message| RuleInfo::webhook(id, KIND, &path(), operations, message);
    vec![
        rule(
            in_use::IN_USE,
            BOTH,
            "every failure domain that a machine is in is listed, unless the change is acknowledged",
        ),
        rule(
            in_use::DUPLICATED,
            BOTH,
            "a set that becomes active does not leave a listed failure domain empty while another is crowded",
        ),
        rule(
            spread::REDUCED,
            &[Operation::Update],
            "machines are not spread over fewer zones, unless that is acknowledged",
        ),
        rule(spread::SHARED, BOTH, "warns if several failure domains are in one zone"),
        rule(
            REPEATED,
            BOTH,
            "warns of a failure domain that is listed more than once",
        ),
    ]
}

/// The rules that also apply to a template whose controller moves no machine to balance domains.
pub(super) fn table_of_template() -> impl Iterator<Item = RuleInfo> {
    table().into_iter().filter(|rule| rule.id != in_use::DUPLICATED)
}
