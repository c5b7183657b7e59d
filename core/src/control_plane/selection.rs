//! Which machine leaves, and where a new machine is placed.
//!
//! Nothing here decides whether a step may be taken now; see `gates`.

use std::cmp::Reverse;

use super::spec::Spec;
use super::state::MachineState;
use crate::cpms::domains::FailureDomain;

/// The failure domain of a new machine: the one with the fewest machines that stay, then the first
/// of the list. `None` without failure domains.
pub(super) fn domain_of_new<'a>(
    spec: &'a Spec,
    standing: &[&MachineState],
    leaves: Option<&MachineState>,
) -> Option<&'a FailureDomain> {
    let stays = |machine: &&&MachineState| leaves.is_none_or(|leaves| leaves.name() != machine.name());
    let count = |domain: &FailureDomain| {
        let machines = standing.iter().filter(stays);
        machines
            .filter(|machine| machine.domain.as_ref() == Some(domain))
            .count()
    };
    spec.failure_domains.iter().min_by_key(|domain| count(domain))
}

/// The machine that leaves, of these candidates: a machine outside of the listed failure domains
/// first, then the oldest machine of the failure domain with the most standing machines.
pub(super) fn to_leave<'a>(
    spec: &Spec,
    standing: &[&'a MachineState],
    candidates: &[&'a MachineState],
) -> Option<&'a MachineState> {
    let is_listed = |machine: &MachineState| match &machine.domain {
        Some(domain) => spec.failure_domains.contains(domain),
        None => false,
    };
    let crowd = |machine: &MachineState| {
        let others = standing.iter();
        others.filter(|other| other.domain == machine.domain).count()
    };
    let listed = |machine: &MachineState| !spec.failure_domains.is_empty() && is_listed(machine);
    let ordered = candidates.iter().copied();
    ordered.min_by(|left, right| {
        let key = |machine: &MachineState| (listed(machine), Reverse(crowd(machine)));
        key(left).cmp(&key(right)).then_with(|| left.age().cmp(&right.age()))
    })
}
