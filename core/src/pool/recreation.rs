//! Machines that others delete while their instances stay: which creations were repeated, and when
//! the next repetition is due.
//!
//! Without delays, Capstan would fight with a user or a controller that deletes the Machines of a
//! pool as soon as they exist. All repetitions of a pool share one delay, which grows up to a
//! limit. What is known belongs to one process: after a restart the delays begin again. Nothing
//! here plans; see `deferral`.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

/// The longest delay.
pub(super) const LONGEST: SignedDuration = SignedDuration::from_mins(5);
/// The delays begin again after so long without a repetition, and not before twice the delay.
const SETTLED: SignedDuration = SignedDuration::from_mins(1);
/// From so many repetitions in a row on, a user must act.
const MANY: u32 = 3;

/// The Machines of a pool that existed, and the creations that were repeated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recreations {
    /// The names of the Machines that exist, or existed while their instances were there.
    existed: BTreeSet<String>,
    /// How many times in a row creations were repeated.
    count: u32,
    /// When creations were repeated last.
    last: Option<Timestamp>,
    /// The names of the Machines that were created again last.
    names: Vec<String>,
}

impl Recreations {
    /// Notes the names of the Machines that exist, and forgets those that no instance has.
    pub(super) fn observe<'a>(&mut self, existing: impl Iterator<Item = &'a str>, has_instance: impl Fn(&str) -> bool) {
        self.existed.retain(|name| has_instance(name));
        for name in existing {
            if !self.existed.contains(name) {
                self.existed.insert(name.to_owned());
            }
        }
    }

    /// Notes the names of the Machines that were created.
    pub(super) fn created<'a>(&mut self, names: impl Iterator<Item = &'a str>, now: Timestamp) {
        let (again, first): (Vec<&str>, Vec<&str>) = names.partition(|name| self.existed.contains(*name));
        self.existed.extend(first.into_iter().map(str::to_owned));
        if again.is_empty() {
            return;
        }
        self.count = match self.settled_at() {
            Some(settled) if now < settled => self.count.saturating_add(1),
            _ => 1,
        };
        self.last = Some(now);
        self.names = again.into_iter().map(str::to_owned).collect();
    }

    /// Whether a Machine of this name existed while its instance was there.
    pub(super) fn existed(&self, name: &str) -> bool {
        self.existed.contains(name)
    }

    /// The names of the Machines that were created again last.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Until when no creation is repeated.
    pub(super) fn deferred_until(&self, now: Timestamp) -> Option<Timestamp> {
        let due = self.last?.checked_add(self.delay()).ok();
        due.filter(|due| self.is_before(now, *due))
    }

    /// Until when the repetitions are a problem that a user must solve.
    pub(super) fn reported_until(&self, now: Timestamp) -> Option<Timestamp> {
        let settled = self.settled_at().filter(|_| self.count >= MANY);
        settled.filter(|settled| self.is_before(now, *settled))
    }

    fn delay(&self) -> SignedDuration {
        let seconds = 1_i64.checked_shl(self.count).filter(|_| self.count < 32);
        seconds.map_or(LONGEST, |seconds| SignedDuration::from_secs(seconds).min(LONGEST))
    }

    /// When the delays begin again if nothing is repeated until then.
    fn settled_at(&self) -> Option<Timestamp> {
        let after = SETTLED.max(self.delay().checked_mul(2)?);
        self.last?.checked_add(after).ok()
    }

    /// Whether a moment is before another one, and the clock was not set back since.
    fn is_before(&self, now: Timestamp, moment: Timestamp) -> bool {
        self.last.is_some_and(|last| last <= now) && now < moment
    }
}
