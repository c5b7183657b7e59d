//! What was asked for and refused by a rule: when it is asked for again.
//!
//! A rule says the same of the same, so asking on is of no use, and a cluster at rest is to be left alone. But the rules look
//! at caches of their own, which may be behind for a moment, and they may be exchanged by somebody whom nobody here
//! watches. So a refusal is believed when it was repeated for a minute; then it stands until something changes that the
//! request follows from, and for an hour whatever else changes.

use std::time::Duration;

use capstan_core::api::meta::ObjectMeta;
use tokio::time::Instant;

use crate::controllers::caches::View;

/// As many refusals in a row are believed; with the pauses between them that takes a minute.
const ENOUGH: u32 = 10;

/// A refusal that is older is not believed any more: the rules may be others by now. Nothing wakes up for it.
const LONG: Duration = Duration::from_secs(3600);

/// What a request follows from: uid and version of every object.
type Basis = Vec<(String, String)>;

/// The last request that was refused by a rule.
#[derive(Debug, Default)]
pub(super) struct Refused {
    basis: Basis,
    times: u32,
    last: Option<Instant>,
}

impl Refused {
    /// Whether a request that follows from this would only be refused again.
    pub(super) fn stands(&self, basis: &Basis, now: Instant) -> bool {
        let recent = self.last.is_some_and(|last| now.duration_since(last) < LONG);
        self.times >= ENOUGH && recent && self.basis == *basis
    }

    /// A request that follows from this was refused. Returns whether that is believed now.
    pub(super) fn again(&mut self, basis: Basis, now: Instant) -> bool {
        let known = self.basis == basis && self.times < ENOUGH;
        self.times = if known { self.times + 1 } else { 1 };
        self.basis = basis;
        self.last = Some(now);
        self.times >= ENOUGH
    }

    /// A request was not refused by a rule.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// What the request for a set follows from, beside what is asked for, which has this hash. Nodes are left out: they decide
/// whether there is a request, and nothing of what is in it.
pub(super) fn basis(view: &View, hash: &str) -> Basis {
    let snapshot = &view.snapshot;
    let of = |meta: &ObjectMeta| (meta.uid().to_owned(), meta.resource_version.clone().unwrap_or_default());
    let sets = snapshot.control_plane_machine_sets.iter().flatten();
    let machines = snapshot.machines.iter().flatten();
    let mut basis = vec![(String::new(), hash.to_owned())];
    basis.extend(sets.map(|set| of(&set.metadata)));
    basis.extend(machines.map(|machine| of(&machine.metadata)));
    basis.extend(snapshot.infrastructure.iter().map(|one| of(&one.metadata)));
    basis
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(version: &str) -> Basis {
        vec![("uid".to_owned(), version.to_owned())]
    }

    #[test]
    fn a_refusal_is_believed_when_it_was_repeated_and_until_something_changes() {
        let (mut refused, now) = (Refused::default(), Instant::now());
        for _ in 1..ENOUGH {
            assert!(!refused.again(of("1"), now));
            assert!(!refused.stands(&of("1"), now));
        }
        assert!(refused.again(of("1"), now));
        assert!(refused.stands(&of("1"), now));
        assert!(!refused.stands(&of("2"), now), "something changed");
        assert!(!refused.stands(&of("1"), now + LONG), "the rules may be others");
        assert!(
            !refused.again(of("1"), now + LONG),
            "it is asked as if for the first time"
        );
        refused.forget();
        assert!(!refused.stands(&of("1"), now));
    }

    #[test]
    fn another_request_begins_anew() {
        let (mut refused, now) = (Refused::default(), Instant::now());
        for turn in 0..2 * ENOUGH {
            assert!(!refused.again(of(&(turn % 2).to_string()), now));
        }
    }
}
