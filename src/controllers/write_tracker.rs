//! What was written and is not yet seen in the caches.
//!
//! A plan made from a cache that does not show the last write would make that write again. So nothing is planned until
//! the caches have caught up, or until it has taken so long that only a live read can tell. Deletions are writes too.
//!
//! A creation that was sent and never answered may still come, minutes later. It is remembered until its machine is
//! seen, so that whoever fills the index meanwhile asks for the same machine; and for some minutes in any case, since a
//! machine that is seen may have come by a later request, and once it is gone the first one makes it again. What somebody
//! else wrote down in the set counts for a little longer, from when it is first seen here: no clock but the own is asked.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::cpms::observed::{Observed, PendingCreate, UnansweredCreate};
use capstan_core::model::{PendingCreation, UnreadablePendingCreations};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::cluster::Object;

/// After this, a write that does not show is no longer waited for: the object may be gone again, with both events
/// folded into one list.
const PATIENCE: Duration = Duration::from_secs(5);

/// How an object looks in the caches.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachedVersion<'a> {
    pub(super) uid: &'a str,
    pub(super) version: &'a str,
}

/// How long after its sender gave up a request may still be carried out: an API server works on it for a minute, and a
/// system goes on sending what was written to a connection that is closed for less than two.
const LATE: SignedDuration = SignedDuration::from_mins(3);

/// For how long machines are made and removed for what a live read said. Who stood still for longer may no longer lead,
/// and asks again.
pub(super) const FRESH: SignedDuration = SignedDuration::from_mins(1);

/// How long after it was written down another's creation may be carried out: it is sent while the look is fresh.
const LATE_OF_OTHERS: SignedDuration = SignedDuration::from_mins(LATE.as_mins() + FRESH.as_mins());

/// A creation that was never answered.
#[derive(Clone, Debug)]
struct Sent {
    index: u32,
    machine: Arc<Machine>,
    /// When its sender gave up.
    at: Instant,
    came: bool,
}

#[derive(Clone, Debug)]
struct Entry {
    uid: String,
    version: String,
    created: bool,
    at: Instant,
}

/// Writes that the caches do not show yet.
#[derive(Debug, Default)]
pub(super) struct WriteTracker {
    entries: BTreeMap<Object, Entry>,
    /// Creations that were never answered, the last one last.
    unanswered: Vec<Sent>,
    /// What this process recorded in the set, and when.
    own: BTreeMap<PendingCreation, Instant>,
    /// What others recorded, and when it was first seen.
    others: BTreeMap<PendingCreation, Instant>,
    /// The version of the set at the last live read.
    live: String,
}

impl WriteTracker {
    /// An object was created, and answered with this.
    pub(super) fn created(&mut self, object: Object, uid: &str, version: &str, now: Instant) {
        self.note(object, uid, version, true, now);
    }

    /// An object was changed, or its deletion begun.
    pub(super) fn changed(&mut self, object: Object, uid: &str, version: &str, now: Instant) {
        self.note(object, uid, version, false, now);
    }

    fn note(&mut self, object: Object, uid: &str, version: &str, created: bool, now: Instant) {
        // A change of what the caches have not seen yet is still waited for as a creation.
        let created = created
            || self
                .entries
                .get(&object)
                .is_some_and(|entry| entry.created && entry.uid == uid);
        let entry = Entry {
            uid: uid.to_owned(),
            version: version.to_owned(),
            created,
            at: now,
        };
        self.entries.insert(object, entry);
    }

    /// The creation of a machine for an index may or may not have been carried out.
    pub(super) fn never_answered(&mut self, index: u32, machine: &Machine, now: Instant) {
        let name = machine.metadata.name();
        self.unanswered.retain(|sent| sent.machine.metadata.name() != name);
        self.unanswered.push(Sent {
            index,
            machine: Arc::new(machine.clone()),
            at: now,
            came: false,
        });
    }

    /// A creation is about to be recorded in the set, in the place of earlier records of this process for the same machine.
    pub(super) fn records(&mut self, creation: PendingCreation, now: Instant) {
        self.own.insert(creation, now);
    }

    /// Whether a record in the set is replaced by a new one of this process: both are for the same machine, and the record
    /// is by this process or by an earlier process of the same name. Other processes count from the new record.
    pub(super) fn is_superseded_by(&self, record: &PendingCreation, new: &PendingCreation) -> bool {
        let own = record.requested_by == new.requested_by || self.own.contains_key(record);
        own && record.is_for_machine_of(new)
    }

    /// Whether `new` needs no record of its own, because a record for the same machine is in the set that other processes
    /// would still count if this process sent the creation now. A record of an earlier process of the same name will do,
    /// since no process is left that may remove it. The record of another process will not.
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

    /// Takes note of what is recorded in the set, which was read at this version: live, or from the cache. A cache that is
    /// behind the last live read is ignored: it may not show a record yet, or still show one that was removed. So is a
    /// record that cannot be read.
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
        // The caches may not show yet what was recorded just now.
        self.own
            .retain(|creation, at| left(*at, now, LATE).is_some() || recorded.contains(creation));
        self.others.retain(|creation, _| recorded.contains(creation));
        for creation in recorded {
            if !self.own.contains_key(&creation) {
                self.others.entry(creation).or_insert(now);
            }
        }
    }

    /// Adds to what was observed the machines that may still come, and forgets those that came and cannot come again. It
    /// is `now`, which objects call `time`.
    pub(super) fn recall(&mut self, observed: &mut Observed, now: Instant, time: Timestamp) {
        let pending = self.others.iter().filter_map(|(creation, seen)| {
            let until = time.checked_add(left(*seen, now, LATE_OF_OTHERS)?).ok()?;
            let creation = creation.clone();
            Some(PendingCreate { creation, until })
        });
        observed.pending = pending.collect();
        for sent in &mut self.unanswered {
            let name = sent.machine.metadata.name();
            sent.came |= observed.machines.iter().any(|machine| machine.metadata.name() == name);
        }
        self.unanswered
            .retain(|sent| !sent.came || left(sent.at, now, LATE).is_some());
        let known = self.unanswered.iter().map(|sent| UnansweredCreate {
            index: sent.index,
            machine: Arc::clone(&sent.machine),
            until: left(sent.at, now, LATE).and_then(|left| time.checked_add(left).ok()),
        });
        observed.unanswered = known.collect();
    }

    /// Forgets what the caches show, and what took too long.
    pub(super) fn settle<'a>(&mut self, now: Instant, look: impl Fn(&Object) -> Option<CachedVersion<'a>>) {
        self.entries.retain(|object, entry| {
            if now.duration_since(entry.at) >= PATIENCE {
                tracing::warn!(?object, "a write does not show in the caches; going on without it");
                return false;
            }
            match look(object) {
                // Another object of the same name came after ours.
                Some(cached_version) if cached_version.uid != entry.uid => false,
                Some(cached_version) => is_older(cached_version.version, &entry.version),
                None => entry.created,
            }
        });
    }

    /// When to stop waiting; `None`: nothing is waited for.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        self.entries.values().map(|entry| entry.at + PATIENCE).min()
    }
}

/// What is left of a time that began then; `None`: nothing.
fn left(began: Instant, now: Instant, time: SignedDuration) -> Option<SignedDuration> {
    let passed = SignedDuration::try_from(now.duration_since(began)).unwrap_or(time);
    Some(time.saturating_sub(passed)).filter(SignedDuration::is_positive)
}

/// Whether a version comes before another. One that is no number is older until it is equal.
pub(super) fn is_older(version: &str, than: &str) -> bool {
    order(version, than).map_or_else(|| version != than, Ordering::is_lt)
}

/// How versions of one kind follow each other: they are numbers that grow.
fn order(version: &str, other: &str) -> Option<Ordering> {
    let (version, other) = (version.parse::<u128>().ok()?, other.parse::<u128>().ok()?);
    Some(version.cmp(&other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Object {
        Object::Machine("a".into())
    }

    fn sees(version: &'static str) -> impl Fn(&Object) -> Option<CachedVersion<'static>> {
        move |_| Some(CachedVersion { uid: "u", version })
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_waited_for_until_it_shows() {
        let mut tracker = WriteTracker::default();
        tracker.changed(machine(), "u", "12", Instant::now());
        tracker.settle(Instant::now(), sees("9"));
        assert!(tracker.waits_until().is_some());
        tracker.settle(Instant::now(), sees("12"));
        assert!(tracker.waits_until().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_creation_that_is_not_seen_is_waited_for_and_a_deletion_is_not() {
        let mut tracker = WriteTracker::default();
        tracker.created(machine(), "u", "12", Instant::now());
        // A change of the new object does not make it an old one.
        tracker.changed(machine(), "u", "13", Instant::now());
        tracker.settle(Instant::now(), |_| None);
        assert!(tracker.waits_until().is_some());
        tracker.settle(Instant::now(), sees("13"));
        tracker.changed(machine(), "u", "14", Instant::now());
        tracker.settle(Instant::now(), |_| None);
        assert!(tracker.waits_until().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_namesake_and_a_long_wait_end_the_waiting() {
        let mut tracker = WriteTracker::default();
        tracker.created(machine(), "other", "12", Instant::now());
        tracker.settle(Instant::now(), sees("1"));
        assert!(tracker.waits_until().is_none());
        tracker.created(machine(), "u", "12", Instant::now());
        tokio::time::advance(PATIENCE).await;
        tracker.settle(Instant::now(), |_| None);
        assert!(tracker.waits_until().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn what_came_may_come_again_for_a_while_and_what_did_not_come_is_never_forgotten() {
        let named = |name: &str| -> Machine {
            serde_json::from_value(serde_json::json!({"metadata": {"name": name}})).unwrap()
        };
        let time: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut tracker = WriteTracker::default();
        tracker.never_answered(1, &named("a"), Instant::now());
        tracker.never_answered(2, &named("b"), Instant::now());
        let mut there = Observed {
            machines: vec![Arc::new(named("a"))],
            ..Observed::default()
        };
        let names = |observed: &Observed| -> Vec<(String, bool)> {
            let sent = observed.unanswered.iter();
            sent.map(|sent| (sent.machine.metadata.name().to_owned(), sent.until.is_some()))
                .collect()
        };
        tracker.recall(&mut there, Instant::now(), time);
        assert_eq!(names(&there), [("a".to_owned(), true), ("b".to_owned(), true)]);
        assert_eq!(there.unanswered[0].until, time.checked_add(LATE).ok());
        tokio::time::advance(Duration::from_secs(200)).await;
        let mut gone = Observed::default();
        tracker.recall(&mut gone, Instant::now(), time);
        assert_eq!(names(&gone), [("b".to_owned(), false)]);
    }

    /// A record of a creation.
    fn record(index: u32, machine: &str, by: &str, at: Timestamp) -> PendingCreation {
        PendingCreation {
            index,
            machine: machine.to_owned(),
            requested_by: by.to_owned(),
            requested_at: at,
        }
    }

    const NOON: Timestamp = Timestamp::UNIX_EPOCH;

    /// What others recorded and may still take effect, and for how many more seconds.
    fn pending(tracker: &mut WriteTracker, now: Instant) -> Vec<(PendingCreation, i64)> {
        let mut observed = Observed::default();
        tracker.recall(&mut observed, now, NOON);
        let pending = observed.pending.into_iter();
        pending.map(|one| (one.creation, one.until.as_second())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_record_of_another_process_counts_from_when_it_is_first_seen_and_the_own_does_not() {
        let mut tracker = WriteTracker::default();
        let (own, theirs) = (record(0, "own-0", "me", NOON), record(1, "b-1", "another", NOON));
        tracker.records(own.clone(), Instant::now());
        let both = vec![own, theirs.clone()];
        let mut after = |seconds: u64, recorded: &[PendingCreation]| {
            let now = Instant::now() + Duration::from_secs(seconds);
            tracker.read(Ok(recorded.to_vec()), "7", true, now);
            pending(&mut tracker, now)
        };
        assert_eq!(after(0, &both), [(theirs.clone(), 240)]);
        assert_eq!(after(60, &both), [(theirs, 180)]);
        assert_eq!(after(240, &both), [], "it is over, also while the record is there");
        assert_eq!(after(240, &[]), []);
        assert_eq!(after(240, &both).len(), 2, "the records were removed, and are new");
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_that_cannot_be_read_changes_nothing() {
        let mut tracker = WriteTracker::default();
        let theirs = record(1, "b-1", "another", NOON);
        tracker.read(Ok(vec![theirs.clone()]), "7", true, Instant::now());
        let garbage = [("capstan.dev/pending-creations".to_owned(), "?".to_owned())].into();
        let unreadable = capstan_core::model::pending_creations(&garbage);
        assert!(unreadable.is_err());
        tracker.read(unreadable, "8", true, Instant::now());
        assert_eq!(pending(&mut tracker, Instant::now()), [(theirs, 240)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_that_is_behind_a_live_read_neither_restarts_nor_ends_the_time_of_a_record() {
        let theirs = record(1, "b-1", "another", NOON);
        let (none, one) = (|| Ok(Vec::new()), || Ok(vec![theirs.clone()]));
        let mut tracker = WriteTracker::default();
        tracker.read(one(), "11", true, Instant::now());
        tokio::time::advance(Duration::from_secs(60)).await;
        tracker.read(none(), "9", false, Instant::now());
        assert_eq!(pending(&mut tracker, Instant::now()), [(theirs.clone(), 180)]);
        tracker.read(one(), "11", true, Instant::now());
        assert_eq!(pending(&mut tracker, Instant::now()), [(theirs.clone(), 180)]);
        tracker.read(none(), "13", true, Instant::now());
        tracker.read(one(), "11", false, Instant::now());
        assert_eq!(pending(&mut tracker, Instant::now()), []);
        tracker.read(one(), "14", false, Instant::now());
        assert_eq!(
            pending(&mut tracker, Instant::now()).len(),
            1,
            "the cache has caught up, and the machine was requested again"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_record_that_no_process_can_remove_stands_for_the_own() {
        let time: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let minute = SignedDuration::from_mins(1);
        let before = time - SignedDuration::from_secs(30);
        let (new, other) = (record(1, "a-1", "me", time), record(2, "a-2", "me", time));
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
            let mut tracker = WriteTracker::default();
            tracker.read(Ok(recorded.clone()), "7", true, Instant::now());
            let now = Instant::now() + Duration::from_secs(first_seen);
            let is = |tracker: &WriteTracker| tracker.is_recorded(&new, &recorded, now);
            assert_eq!(is(&tracker), stands, "{by} {at} {first_seen}");
            assert_eq!(tracker.is_superseded_by(&there, &new), by == "me");
            assert!(!tracker.is_superseded_by(&there, &other));
            // What this process recorded itself counts by its own clock.
            tracker.records(there.clone(), now);
            assert!(is(&tracker) && tracker.is_superseded_by(&there, &new));
        }
    }
}
