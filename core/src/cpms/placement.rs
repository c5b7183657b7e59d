//! The failure domain of the machine of each index.
//!
//! An index keeps its failure domain unless the set no longer lists it, it has more than its share
//! of the machines, or all machines of the index are being deleted. The result does not depend on
//! the order of the machines. A new failure domain moves a machine only if it improves the spread,
//! also if it sorts first.
//!
//! Source: the ControlPlaneMachineSet enhancement, "Providing high availability/fault tolerance
//! within the control plane"; the mapping of the operator that OpenShift ships, made deterministic.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::domains::FailureDomain;

/// An index and the domain of its machine.
pub type Placement = BTreeMap<u32, FailureDomain>;

/// The properties of a machine that placement uses.
#[derive(Clone, Copy, Debug)]
pub struct PlacedMachine<'a> {
    /// Its index.
    pub index: u32,
    /// Its failure domain; `None` if the provider spec names none.
    pub domain: Option<&'a FailureDomain>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its name, which decides between machines of the same age.
    pub name: &'a str,
    /// Whether its deletion was requested.
    pub deleting: bool,
}

/// The indexes of a control plane: the indexes of its machines, and the lowest free indexes up to
/// `replicas`.
pub fn indexes(replicas: usize, machines: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
    let mut indexes: BTreeSet<u32> = machines.into_iter().collect();
    let mut next = 0..;
    while indexes.len() < replicas {
        indexes.extend(next.next());
    }
    indexes
}

/// The failure domain of each index. Empty without failure domains.
pub fn place(replicas: usize, domains: &[FailureDomain], machines: &[PlacedMachine<'_>]) -> Placement {
    let current = current(machines);
    let wanted = indexes(replicas, machines.iter().map(|machine| machine.index));
    let base = base(wanted.len(), domains, &current);
    reconcile(&base, &current, &deleted(machines), &wanted)
}

/// The current failure domain of each index; that of the newest machine if an index has several.
fn current(machines: &[PlacedMachine<'_>]) -> Placement {
    let mut machines: Vec<&PlacedMachine<'_>> = machines.iter().collect();
    machines.sort_by_key(|machine| (machine.created, machine.name));
    let known = machines
        .into_iter()
        .filter_map(|machine| Some((machine.index, machine.domain?.clone())));
    // A later entry replaces an earlier one.
    known.collect()
}

/// The indexes whose machines are all being deleted.
fn deleted(machines: &[PlacedMachine<'_>]) -> BTreeSet<u32> {
    let staying: BTreeSet<u32> = machines
        .iter()
        .filter(|machine| !machine.deleting)
        .map(|machine| machine.index)
        .collect();
    machines
        .iter()
        .map(|machine| machine.index)
        .filter(|index| !staying.contains(index))
        .collect()
}

/// An even spread over new indexes. Failure domains in use come first, so that a spread of the same
/// quality moves no machine.
fn base(replicas: usize, domains: &[FailureDomain], current: &Placement) -> Placement {
    let all: BTreeSet<&FailureDomain> = domains.iter().collect();
    let used: BTreeSet<&FailureDomain> = current.values().collect();
    let (first, rest): (Vec<&FailureDomain>, Vec<&FailureDomain>) =
        all.into_iter().partition(|domain| used.contains(domain));
    let order = first.into_iter().chain(rest).cycle();
    (0..)
        .zip(order)
        .take(replicas.max(current.len()))
        .map(|(index, domain)| (index, domain.clone()))
        .collect()
}

fn reconcile(base: &Placement, current: &Placement, deleted: &BTreeSet<u32>, wanted: &BTreeSet<u32>) -> Placement {
    let mut candidates = rekey(base, wanted);
    let mut matched: BTreeSet<u32> = BTreeSet::new();
    // The indexes that stay choose first. An index whose machines are being deleted keeps its
    // failure domain only if no other index needs it.
    let (staying, deleting): (Vec<_>, Vec<_>) = current.iter().partition(|(index, _)| !deleted.contains(index));
    for (index, domain) in staying.into_iter().chain(deleting) {
        let found = candidates
            .iter()
            .find(|(candidate, there)| *there == domain && !matched.contains(candidate))
            .map(|(candidate, _)| *candidate);
        if let Some(candidate) = found {
            swap(&mut candidates, *index, candidate);
            matched.insert(*index);
        }
    }
    let mut result: Placement = current.clone();
    let distinct: BTreeSet<&FailureDomain> = base.values().collect();
    let share = base.len().div_ceil(distinct.len().max(1));
    let open: Vec<u32> = candidates
        .keys()
        .filter(|index| !matched.contains(index))
        .copied()
        .collect();
    for index in open {
        let Some(candidate) = candidates.get(&index) else {
            continue;
        };
        let keep = result.get(&index).is_some_and(|there| {
            let holds = result.values().filter(|domain| *domain == there).count();
            distinct.contains(there) && holds <= share
        });
        if !keep {
            result.insert(index, candidate.clone());
        }
    }
    // An index without candidates has no failure domain.
    result.retain(|index, _| candidates.contains_key(index));
    result
}

/// Assigns the wanted indexes to the candidates. An index that is not wanted gives its failure
/// domain to another.
fn rekey(base: &Placement, wanted: &BTreeSet<u32>) -> Placement {
    let mut candidates = base.clone();
    let missing = wanted.iter().filter(|index| !base.contains_key(index));
    let spare = base.keys().filter(|index| !wanted.contains(index));
    for (missing, spare) in missing.zip(spare) {
        if let Some(domain) = candidates.remove(spare) {
            candidates.insert(*missing, domain);
        }
    }
    candidates
}

fn swap(candidates: &mut Placement, left: u32, right: u32) {
    if left == right {
        return;
    }
    let (taken_left, taken_right) = (candidates.remove(&left), candidates.remove(&right));
    if let Some(domain) = taken_right {
        candidates.insert(left, domain);
    }
    if let Some(domain) = taken_left {
        candidates.insert(right, domain);
    }
}

#[cfg(test)]
mod tests;
