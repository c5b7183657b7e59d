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

use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSetStatus;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::cpms::pending_creates;
use capstan_core::cpms::state::{Asked, Observed, Unanswered};
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
    /// What this process wrote down in the set, and when.
    own: BTreeMap<String, Instant>,
    /// What others did, and when it was first seen.
    others: BTreeMap<String, Instant>,
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

    /// A request is about to be written down in the set, in the place of earlier ones of this process for the same machine.
    pub(super) fn writes_down(&mut self, request: String, now: Instant) {
        self.own.insert(request, now);
    }

    /// Whether a request that stands there gives way to a new one of this process, which others count from later: it is for
    /// the same, and by this process or by the one of the same name before it.
    pub(super) fn gives_way(&self, request: &str, claim: &str, who: &str) -> bool {
        let by = pending_creates::asked_by(request).is_some_and(|(by, _)| by == who);
        pending_creates::claim_in(request) == claim && (by || self.own.contains_key(request))
    }

    /// Whether a request for the same stands in the set that others would still count, if this process sent one now. One
    /// of the process before it is as good, since nobody is left who might take it away; any other's is not.
    pub(super) fn is_written_down(
        &self,
        claim: &str,
        who: &str,
        status: Option<&ControlPlaneMachineSetStatus>,
        (now, time): (Instant, Timestamp),
    ) -> bool {
        let fresh = |began: &Instant| left(*began, now, FRESH).is_some();
        let mut same = pending_creates::requests(status).filter(|request| pending_creates::claim_in(request) == claim);
        same.any(
            |request| match (self.own.get(request), pending_creates::asked_by(request)) {
                (Some(at), _) => fresh(at),
                (None, Some((by, at))) => {
                    let lately = at <= time && time.duration_since(at) < FRESH;
                    by == who && lately && self.others.get(request).is_some_and(fresh)
                }
                (None, None) => false,
            },
        )
    }

    /// Takes note of what stands in the set, which was read at this version: live, or from the cache. A cache that is
    /// behind the last live read says nothing: it may not show yet what somebody wrote down, or still show what was
    /// taken away.
    pub(super) fn read(
        &mut self,
        status: Option<&ControlPlaneMachineSetStatus>,
        version: &str,
        live: bool,
        now: Instant,
    ) {
        if live {
            version.clone_into(&mut self.live);
        } else if order(version, &self.live) == Some(Ordering::Less) {
            return;
        }
        let stands: Vec<&str> = pending_creates::requests(status).collect();
        // The caches may not show yet what was written just now.
        self.own
            .retain(|request, at| left(*at, now, LATE).is_some() || stands.contains(&request.as_str()));
        self.others.retain(|request, _| stands.contains(&request.as_str()));
        for request in stands.into_iter().filter(|request| !self.own.contains_key(*request)) {
            self.others.entry(request.to_owned()).or_insert(now);
        }
    }

    /// Adds to what was observed the machines that may still come, and forgets those that came and cannot come again. It
    /// is `now`, which objects call `time`.
    pub(super) fn recall(&mut self, observed: &mut Observed, now: Instant, time: Timestamp) {
        let asked = self.others.iter().filter_map(|(request, seen)| {
            let until = time.checked_add(left(*seen, now, LATE_OF_OTHERS)?).ok()?;
            let request = request.clone();
            Some(Asked { request, until })
        });
        observed.asked = asked.collect();
        for sent in &mut self.unanswered {
            let name = sent.machine.metadata.name();
            sent.came |= observed.machines.iter().any(|machine| machine.metadata.name() == name);
        }
        self.unanswered
            .retain(|sent| !sent.came || left(sent.at, now, LATE).is_some());
        let known = self.unanswered.iter().map(|sent| Unanswered {
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

    /// A set in which this is written down.
    fn status(message: &str) -> ControlPlaneMachineSetStatus {
        serde_json::from_value(
            serde_json::json!({"conditions": [{"type": pending_creates::CREATING, "status": "True",
            "reason": "R", "message": message, "lastTransitionTime": "2020-01-01T00:00:00Z"}]}),
        )
        .unwrap()
    }

    /// What others asked for and may still come, and for how many more seconds.
    fn asked(tracker: &mut WriteTracker) -> Vec<(String, i64)> {
        let time: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut observed = Observed::default();
        tracker.recall(&mut observed, Instant::now(), time);
        let asked = observed.asked.into_iter();
        asked
            .map(|one| (one.request, one.until.duration_since(time).as_secs()))
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_others_wrote_down_counts_from_its_first_sight_and_what_is_the_own_does_not() {
        let mut tracker = WriteTracker::default();
        tracker.writes_down(pending_creates::claim(0, "own-0"), Instant::now());
        let both = status("machine own-0 for index 0; machine b-1 for index 1");
        let theirs = pending_creates::claim(1, "b-1");
        let mut after = |seconds: u64, status: Option<&ControlPlaneMachineSetStatus>| {
            let now = Instant::now() + Duration::from_secs(seconds);
            let mut observed = Observed::default();
            tracker.read(status, "7", true, now);
            tracker.recall(&mut observed, now, Timestamp::UNIX_EPOCH);
            let asked = observed.asked.into_iter();
            asked
                .map(|one| (one.request, one.until.as_second()))
                .collect::<Vec<_>>()
        };
        assert_eq!(after(0, Some(&both)), [(theirs.clone(), 240)]);
        assert_eq!(after(60, Some(&both)), [(theirs, 180)]);
        assert_eq!(
            after(240, Some(&both)),
            [],
            "it is over, also for as long as it stands there"
        );
        assert_eq!(after(240, None), []);
        assert_eq!(after(240, Some(&both)).len(), 2, "it was taken away, and is new");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_that_is_behind_a_live_read_neither_starts_their_time_anew_nor_ends_it() {
        let (before, theirs, gone) = (status(""), status("machine b-1 for index 1"), status(""));
        let claim = pending_creates::claim(1, "b-1");
        let mut tracker = WriteTracker::default();
        tracker.read(Some(&theirs), "11", true, Instant::now());
        tokio::time::advance(Duration::from_secs(60)).await;
        tracker.read(Some(&before), "9", false, Instant::now());
        assert_eq!(asked(&mut tracker), [(claim.clone(), 180)]);
        tracker.read(Some(&theirs), "11", true, Instant::now());
        assert_eq!(asked(&mut tracker), [(claim, 180)]);
        tracker.read(Some(&gone), "13", true, Instant::now());
        tracker.read(Some(&theirs), "11", false, Instant::now());
        assert_eq!(asked(&mut tracker), []);
        tracker.read(Some(&theirs), "14", false, Instant::now());
        assert_eq!(
            asked(&mut tracker).len(),
            1,
            "the cache has caught up, and it was asked for again"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_nobody_can_take_away_any_more_stands_for_a_request() {
        let time: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let (claim, minute) = (pending_creates::claim(1, "a-1"), SignedDuration::from_mins(1));
        let before = time - SignedDuration::from_secs(30);
        for (who, at, first_seen, stands) in [
            ("me", before, 0, true),
            ("me", before, 60, false),
            ("me", time - minute, 0, false),
            // The clock went back.
            ("me", time + minute, 0, false),
            ("another", before, 0, false),
        ] {
            let request = pending_creates::request(&claim, who, at);
            let status = status(&request);
            let mut tracker = WriteTracker::default();
            tracker.read(Some(&status), "7", true, Instant::now());
            let now = Instant::now() + Duration::from_secs(first_seen);
            let is = |tracker: &WriteTracker| tracker.is_written_down(&claim, "me", Some(&status), (now, time));
            assert_eq!(is(&tracker), stands, "{who} {at} {first_seen}");
            assert_eq!(tracker.gives_way(&request, &claim, "me"), who == "me");
            assert!(!tracker.gives_way(&request, &pending_creates::claim(2, "a-2"), "me"));
            // What this process wrote itself counts by its own clock.
            tracker.writes_down(request.clone(), now);
            assert!(is(&tracker) && tracker.gives_way(&request, &claim, "me"));
        }
    }
}
