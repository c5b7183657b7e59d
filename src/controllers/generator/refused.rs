//! Applies that a rule refused: when the set is applied again.
//!
//! A rule refuses the same content again, so a repetition changes nothing, and a steady state must
//! write nothing. But the rules read caches of their own, which may be behind for a moment, and an
//! administrator may replace the rules. So a refusal counts once it was repeated for a minute. Then
//! it stands until something changes that the content follows from, and for an hour at most.

use std::time::Duration;

use capstan_core::api::kinds;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::meta::ObjectMeta;
use capstan_core::api::objects::Objects;
use tokio::time::Instant;

use crate::controllers::observed::infrastructure;

/// How many refusals in a row count. With the delays between them they take a minute.
const ENOUGH: u32 = 10;

/// A refusal that is older no longer counts, because the rules may have changed. No timer waits for
/// this.
const LONG: Duration = Duration::from_secs(3600);

/// What the content follows from: uid and version of every object.
pub(super) type Basis = Vec<(String, String)>;

/// The last apply that a rule refused.
#[derive(Debug, Default)]
pub(super) struct Refused {
    basis: Basis,
    times: u32,
    last: Option<Instant>,
}

impl Refused {
    /// Whether an apply that follows from this would only be refused again.
    pub(super) fn stands(&self, basis: &Basis, now: Instant) -> bool {
        let recent = self.last.is_some_and(|last| now.duration_since(last) < LONG);
        self.times >= ENOUGH && recent && self.basis == *basis
    }

    /// An apply that follows from this was refused. Returns whether the refusal counts now.
    pub(super) fn again(&mut self, basis: Basis, now: Instant) -> bool {
        let known = self.basis == basis && self.times < ENOUGH;
        self.times = if known { self.times + 1 } else { 1 };
        self.basis = basis;
        self.last = Some(now);
        self.times >= ENOUGH
    }

    /// An apply was not refused by a rule.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// What the apply of a set follows from, besides the set itself, which has this hash. Nodes are
/// left out: they decide whether a set is applied, and nothing of its content.
pub(super) fn basis(objects: &Objects, hash: &str) -> Basis {
    let sets = objects.all::<ControlPlaneMachineSet>(&kinds::CONTROL_PLANE_MACHINE_SETS);
    let machines = objects.all::<Machine>(&kinds::MACHINES);
    let of = |meta: &ObjectMeta| (meta.uid().to_owned(), meta.resource_version.clone().unwrap_or_default());
    let mut basis = vec![(String::new(), hash.to_owned())];
    basis.extend(sets.into_iter().flatten().map(|set| of(&set.metadata)));
    basis.extend(machines.into_iter().flatten().map(|machine| of(&machine.metadata)));
    basis.extend(infrastructure(objects).map(|one| of(&one.metadata)));
    basis
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(version: &str) -> Basis {
        vec![("uid".to_owned(), version.to_owned())]
    }

    #[test]
    fn a_repeated_refusal_counts_until_something_changes() {
        let (mut refused, now) = (Refused::default(), Instant::now());
        for _ in 1..ENOUGH {
            assert!(!refused.again(of("1"), now));
            assert!(!refused.stands(&of("1"), now));
        }
        assert!(refused.again(of("1"), now));
        assert!(refused.stands(&of("1"), now));
        assert!(!refused.stands(&of("2"), now), "something changed");
        assert!(!refused.stands(&of("1"), now + LONG), "the rules may have changed");
        assert!(!refused.again(of("1"), now + LONG), "the count starts again");
        refused.forget();
        assert!(!refused.stands(&of("1"), now));
    }

    #[test]
    fn another_content_starts_the_count_again() {
        let (mut refused, now) = (Refused::default(), Instant::now());
        for turn in 0..2 * ENOUGH {
            assert!(!refused.again(of(&(turn % 2).to_string()), now));
        }
    }
}
