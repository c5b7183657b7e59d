//! In which failure domain the machine of each index belongs.
//!
//! What stands, stays: an index moves only when its domain is no longer listed, when it holds more
//! than its share of the machines, or when its machines are all going anyway. Deterministic: the
//! order of machines in the input never matters, and a domain that is added and sorts first moves
//! nothing without improving the spread.
//!
//! Source: the ControlPlaneMachineSet enhancement, "Providing high availability/fault tolerance
//! within the control plane"; the mapping of today's operator, made deterministic.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::domains::FailureDomain;

/// An index and the domain of its machine.
pub type Placement = BTreeMap<u32, FailureDomain>;

/// A machine, as far as placement looks at it.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// Its index.
    pub index: u32,
    /// Where it stands; `None` if its provider spec does not say.
    pub domain: Option<&'a FailureDomain>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its name, to tell two of the same age apart.
    pub name: &'a str,
    /// Whether a deletion was asked for.
    pub deleting: bool,
}

/// The indexes of a control plane: those that machines have, and the lowest free ones up to
/// `replicas`.
pub fn indexes(replicas: usize, machines: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
    let mut indexes: BTreeSet<u32> = machines.into_iter().collect();
    let mut next = 0..;
    while indexes.len() < replicas {
        indexes.extend(next.next());
    }
    indexes
}

/// The domain of every index. Empty without failure domains.
pub fn place(replicas: usize, domains: &[FailureDomain], machines: &[Standing<'_>]) -> Placement {
    let standing = standing(machines);
    let wanted = indexes(replicas, machines.iter().map(|machine| machine.index));
    let base = base(wanted.len(), domains, &standing);
    reconcile(&base, &standing, &leaving(machines), &wanted)
}

/// Where the machine of each index stands; the newest speaks for an index with more than one.
fn standing(machines: &[Standing<'_>]) -> Placement {
    let mut machines: Vec<&Standing<'_>> = machines.iter().collect();
    machines.sort_by_key(|machine| (machine.created, machine.name));
    let known = machines
        .into_iter()
        .filter_map(|machine| Some((machine.index, machine.domain?.clone())));
    // Later entries replace earlier ones.
    known.collect()
}

/// The indexes whose machines are all going.
fn leaving(machines: &[Standing<'_>]) -> BTreeSet<u32> {
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

/// What an even spread over fresh indexes is: domains that are used come first, so that a spread
/// which is as good moves nothing.
fn base(replicas: usize, domains: &[FailureDomain], standing: &Placement) -> Placement {
    let all: BTreeSet<&FailureDomain> = domains.iter().collect();
    let used: BTreeSet<&FailureDomain> = standing.values().collect();
    let (first, rest): (Vec<&FailureDomain>, Vec<&FailureDomain>) =
        all.into_iter().partition(|domain| used.contains(domain));
    let order = first.into_iter().chain(rest).cycle();
    (0..)
        .zip(order)
        .take(replicas.max(standing.len()))
        .map(|(index, domain)| (index, domain.clone()))
        .collect()
}

fn reconcile(base: &Placement, standing: &Placement, leaving: &BTreeSet<u32>, wanted: &BTreeSet<u32>) -> Placement {
    let mut candidates = rekey(base, wanted);
    let mut matched: BTreeSet<u32> = BTreeSet::new();
    // Those that stay choose first; those that go keep their domain only if nobody else needs it.
    let (staying, going): (Vec<_>, Vec<_>) = standing.iter().partition(|(index, _)| !leaving.contains(index));
    for (index, domain) in staying.into_iter().chain(going) {
        let found = candidates
            .iter()
            .find(|(candidate, there)| *there == domain && !matched.contains(candidate))
            .map(|(candidate, _)| *candidate);
        if let Some(candidate) = found {
            swap(&mut candidates, *index, candidate);
            matched.insert(*index);
        }
    }
    let mut result: Placement = standing.clone();
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
    // Without candidates there is nothing to say about an index.
    result.retain(|index, _| candidates.contains_key(index));
    result
}

/// Gives the candidates the indexes that are wanted; those that are not wanted serve the others.
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
