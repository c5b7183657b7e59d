//! Creations that may still take effect, as one process knows them.
//!
//! A creation that was sent and never answered may still be carried out minutes later. It is
//! remembered until its machine is observed, so that the next plan asks for the same machine; and
//! for some minutes in any case, because the machine that was observed may come from a later
//! request, and after that machine is gone the first request may make it again. A creation that
//! another process recorded in the set counts a little longer, from when this process first reads
//! it: no clock but its own is compared.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::cpms::observed::{Observed, PendingCreate, UnansweredCreate};
use capstan_core::model::{PendingCreation, UnreadablePendingCreations};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::runtime::{FRESH, order};

/// How long after its sender gave up a request may still be carried out. An API server works on a
/// request for a minute, and a system resends what was written to a closed connection for less than
/// two.
const LATE: SignedDuration = SignedDuration::from_mins(3);

/// How long after it was recorded the creation of another process may be carried out. It is sent
/// while the live read behind it is fresh.
pub(super) const LATE_OF_OTHERS: SignedDuration = SignedDuration::from_mins(LATE.as_mins() + FRESH.as_mins());

/// A creation that was never answered.
#[derive(Clone, Debug)]
struct Sent {
    index: u32,
    machine: Arc<Machine>,
    /// When its sender gave up.
    at: Instant,
    observed: bool,
}

/// The creations that may still take effect.
#[derive(Debug, Default)]
pub(super) struct PendingCreates {
    /// Creations that were never answered, the last one last.
    unanswered: Vec<Sent>,
    /// What this process recorded in the set, and when.
    own: BTreeMap<PendingCreation, Instant>,
    /// What other processes recorded, and when it was first read.
    others: BTreeMap<PendingCreation, Instant>,
    /// The version of the set at the last live read.
    live: String,
    /// The machines that this process requested: when, and whether they were observed since.
    requested: BTreeMap<String, (Instant, bool)>,
}

impl PendingCreates {
    /// The creation of a machine for an index may or may not have been carried out.
    pub(super) fn never_answered(&mut self, index: u32, machine: &Machine, now: Instant) {
        let name = machine.metadata.name();
        self.unanswered.retain(|sent| sent.machine.metadata.name() != name);
        self.unanswered.push(Sent {
            index,
            machine: Arc::new(machine.clone()),
            at: now,
            observed: false,
        });
    }

    /// A machine of this name is about to be requested.
    pub(super) fn request(&mut self, name: &str, now: Instant) {
        self.requested.insert(name.to_owned(), (now, false));
    }

    /// A creation is about to be recorded in the set, in the place of earlier records of this
    /// process for the same machine.
    pub(super) fn record(&mut self, creation: PendingCreation, now: Instant) {
        self.own.insert(creation, now);
    }

    /// Whether a record in the set is superseded by a new one of this process: both are for the
    /// same machine, and this process made the first. A record of the process of the same name
    /// before this one stays until it is over, because its request may still arrive.
    pub(super) fn is_superseded_by(&self, record: &PendingCreation, new: &PendingCreation) -> bool {
        self.own.contains_key(record) && record.is_for_machine_of(new)
    }

    /// Whether `new` needs no record of its own: the set records the same creation so that other
    /// processes would still count it if this process sent it now. A record of the process of the
    /// same name before this one is enough, because no process is left that could remove it. A
    /// record of any other process is not.
    pub(super) fn is_recorded(&self, new: &PendingCreation, recorded: &[PendingCreation], now: Instant) -> bool {
        let fresh = |began: &Instant| left(*began, now, FRESH).is_some();
        let time = new.requested_at;
        let mut same = recorded.iter().filter(|record| record.is_for_machine_of(new));
        same.any(|record| {
            if let Some(at) = self.own.get(record) {
                return fresh(at);
            }
            let at = record.requested_at;
            let lately = at <= time && time.duration_since(at) < FRESH;
            record.requested_by == new.requested_by && lately && self.others.get(record).is_some_and(fresh)
        })
    }

    /// Takes note of what the set records at this version, read live or from the cache. A cache
    /// that is behind the last live read is ignored: it may lack a new record, or still show a
    /// removed one. Records that cannot be decoded change nothing.
    pub(super) fn read(
        &mut self,
        recorded: Result<Vec<PendingCreation>, UnreadablePendingCreations>,
        version: &str,
        live: bool,
        now: Instant,
    ) {
        if live {
            version.clone_into(&mut self.live);
        } else if order(version, &self.live) == Some(Ordering::Less) {
            return;
        }
        let Ok(recorded) = recorded else { return };
        // The caches may not show a record yet that was written just now.
        self.own
            .retain(|creation, at| left(*at, now, LATE).is_some() || recorded.contains(creation));
        self.others.retain(|creation, _| recorded.contains(creation));
        for creation in recorded {
            if !self.own.contains_key(&creation) {
                self.others.entry(creation).or_insert(now);
            }
        }
    }

    /// Adds the creations that may still take effect to what was observed, and forgets those that
    /// cannot any more. `now` and `time` are the same moment by the two clocks.
    pub(super) fn add_to(&mut self, observed: &mut Observed, now: Instant, time: Timestamp) {
        let pending = self.others.iter().filter_map(|(creation, first_read)| {
            let until = time.checked_add(left(*first_read, now, LATE_OF_OTHERS)?).ok()?;
            let creation = creation.clone();
            Some(PendingCreate { creation, until })
        });
        observed.pending = pending.collect();
        let machines = observed.machines.iter().map(|machine| machine.metadata.name());
        let names: BTreeSet<&str> = machines.collect();
        self.requested.retain(|name, (at, observed)| {
            let exists = names.contains(name.as_str());
            *observed |= exists;
            exists || (!*observed && left(*at, now, LATE).is_some())
        });
        observed.requested = self.requested.keys().cloned().collect();
        for sent in &mut self.unanswered {
            let name = sent.machine.metadata.name();
            sent.observed |= observed.machines.iter().any(|machine| machine.metadata.name() == name);
        }
        self.unanswered
            .retain(|sent| !sent.observed || left(sent.at, now, LATE).is_some());
        let known = self.unanswered.iter().map(|sent| UnansweredCreate {
            index: sent.index,
            machine: Arc::clone(&sent.machine),
            until: left(sent.at, now, LATE).and_then(|left| time.checked_add(left).ok()),
        });
        observed.unanswered = known.collect();
    }
}

/// What is left of a period that began then; `None` once it is over.
fn left(began: Instant, now: Instant, period: SignedDuration) -> Option<SignedDuration> {
    let passed = SignedDuration::try_from(now.duration_since(began)).unwrap_or(period);
    Some(period.saturating_sub(passed)).filter(SignedDuration::is_positive)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_observed_creation_counts_for_a_while_and_an_unobserved_one_for_ever() {
        let named = |name: &str| -> Machine {
            serde_json::from_value(serde_json::json!({"metadata": {"name": name}})).unwrap()
        };
        let time: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut creates = PendingCreates::default();
        creates.never_answered(1, &named("a"), Instant::now());
        creates.never_answered(2, &named("b"), Instant::now());
        let mut there = Observed {
            machines: vec![Arc::new(named("a"))],
            ..Observed::default()
        };
        let names = |observed: &Observed| -> Vec<(String, bool)> {
            let sent = observed.unanswered.iter();
            sent.map(|sent| (sent.machine.metadata.name().to_owned(), sent.until.is_some()))
                .collect()
        };
        creates.add_to(&mut there, Instant::now(), time);
        assert_eq!(names(&there), [("a".to_owned(), true), ("b".to_owned(), true)]);
        assert_eq!(there.unanswered[0].until, time.checked_add(LATE).ok());
        tokio::time::advance(Duration::from_secs(200)).await;
        let mut gone = Observed::default();
        creates.add_to(&mut gone, Instant::now(), time);
        assert_eq!(names(&gone), [("b".to_owned(), false)]);
    }

    /// A record of a creation.
    fn record(index: u32, machine: &str, by: &str, at: Timestamp) -> PendingCreation {
        PendingCreation {
            index,
            machine: machine.to_owned(),
            requested_by: by.to_owned(),
            requested_at: at,
            revision: None,
        }
    }

    const NOON: Timestamp = Timestamp::UNIX_EPOCH;

    /// What others recorded and may still take effect, and for how many more seconds.
    fn pending(creates: &mut PendingCreates, now: Instant) -> Vec<(PendingCreation, i64)> {
        let mut observed = Observed::default();
        creates.add_to(&mut observed, now, NOON);
        let pending = observed.pending.into_iter();
        pending.map(|one| (one.creation, one.until.as_second())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_record_of_another_process_counts_from_when_it_is_first_seen_and_the_own_does_not() {
        let mut creates = PendingCreates::default();
        let (own, theirs) = (record(0, "own-0", "me", NOON), record(1, "b-1", "another", NOON));
        creates.record(own.clone(), Instant::now());
        let both = vec![own, theirs.clone()];
        let mut after = |seconds: u64, recorded: &[PendingCreation]| {
            let now = Instant::now() + Duration::from_secs(seconds);
            creates.read(Ok(recorded.to_vec()), "7", true, now);
            pending(&mut creates, now)
        };
        assert_eq!(after(0, &both), [(theirs.clone(), 240)]);
        assert_eq!(after(60, &both), [(theirs, 180)]);
        assert_eq!(after(240, &both), [], "it is over, also while the record is there");
        assert_eq!(after(240, &[]), []);
        assert_eq!(after(240, &both).len(), 2, "the records were removed, and are new");
    }

    #[tokio::test(start_paused = true)]
    async fn w20_a_record_with_a_time_in_the_far_future_counts_for_four_minutes() {
        let mut creates = PendingCreates::default();
        let future = record(1, "b-1", "another", "2999-01-01T00:00:00Z".parse().unwrap());
        creates.read(Ok(vec![future.clone()]), "7", true, Instant::now());
        assert_eq!(pending(&mut creates, Instant::now()), [(future, 240)]);
        tokio::time::advance(Duration::from_secs(240)).await;
        assert_eq!(pending(&mut creates, Instant::now()), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_that_cannot_be_read_changes_nothing() {
        let mut creates = PendingCreates::default();
        let theirs = record(1, "b-1", "another", NOON);
        creates.read(Ok(vec![theirs.clone()]), "7", true, Instant::now());
        let garbage = [("capstan.dev/pending-creations".to_owned(), "?".to_owned())].into();
        let unreadable = capstan_core::model::pending_creations(&garbage);
        assert!(unreadable.is_err());
        creates.read(unreadable, "8", true, Instant::now());
        assert_eq!(pending(&mut creates, Instant::now()), [(theirs, 240)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_that_is_behind_a_live_read_neither_restarts_nor_ends_the_time_of_a_record() {
        let theirs = record(1, "b-1", "another", NOON);
        let (none, one) = (|| Ok(Vec::new()), || Ok(vec![theirs.clone()]));
        let mut creates = PendingCreates::default();
        creates.read(one(), "11", true, Instant::now());
        tokio::time::advance(Duration::from_secs(60)).await;
        creates.read(none(), "9", false, Instant::now());
        assert_eq!(pending(&mut creates, Instant::now()), [(theirs.clone(), 180)]);
        creates.read(one(), "11", true, Instant::now());
        assert_eq!(pending(&mut creates, Instant::now()), [(theirs.clone(), 180)]);
        creates.read(none(), "13", true, Instant::now());
        creates.read(one(), "11", false, Instant::now());
        assert_eq!(pending(&mut creates, Instant::now()), []);
        creates.read(one(), "14", false, Instant::now());
        assert_eq!(
            pending(&mut creates, Instant::now()).len(),
            1,
            "the cache has caught up, and the machine was requested again"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_record_that_no_process_can_remove_stands_for_the_own() {
        let time: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let minute = SignedDuration::from_mins(1);
        let before = time - SignedDuration::from_secs(30);
        let new = record(1, "a-1", "me", time);
        for (by, at, first_seen, stands) in [
            ("me", before, 0, true),
            ("me", before, 60, false),
            ("me", time - minute, 0, false),
            // The clock went back.
            ("me", time + minute, 0, false),
            ("another", before, 0, false),
        ] {
            let there = record(1, "a-1", by, at);
            let recorded = vec![there.clone()];
            let mut creates = PendingCreates::default();
            creates.read(Ok(recorded.clone()), "7", true, Instant::now());
            let now = Instant::now() + Duration::from_secs(first_seen);
            let is = |creates: &PendingCreates| creates.is_recorded(&new, &recorded, now);
            assert_eq!(is(&creates), stands, "{by} {at} {first_seen}");
            // What this process recorded itself counts by its own clock.
            creates.record(there.clone(), now);
            assert!(is(&creates));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn v296_a_new_record_supersedes_only_those_of_this_process_for_the_same_machine() {
        let time: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let (there, new) = (record(1, "a-1", "me", time - LATE), record(1, "a-1", "me", time));
        let mut creates = PendingCreates::default();
        creates.read(Ok(vec![there.clone()]), "7", true, Instant::now());
        assert!(
            !creates.is_superseded_by(&there, &new),
            "a former process of the same name"
        );
        creates.record(there.clone(), Instant::now());
        assert!(creates.is_superseded_by(&there, &new));
        assert!(!creates.is_superseded_by(&there, &record(2, "a-2", "me", time)));
    }
}
