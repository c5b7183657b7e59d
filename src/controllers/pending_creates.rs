//! Creations that may still take effect, as one process knows them.
//!
//! A creation that was sent and never answered may still be carried out minutes later. It is
//! remembered until its machine is observed, so that the next plan asks for the same machine; and
//! for some minutes in any case, because the machine that was observed may come from a later
//! request, and after that machine is gone the first request may make it again. A creation that
//! another process recorded in the set counts a little longer, from when this process first reads
//! it: no clock but its own is compared.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSetStatus;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::cpms::pending_creates;
use capstan_core::cpms::state::{Asked, Observed, Unanswered};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::runtime::{FRESH, order};

/// How long after its sender gave up a request may still be carried out. An API server works on a
/// request for a minute, and a system resends what was written to a closed connection for less than
/// two.
const LATE: SignedDuration = SignedDuration::from_mins(3);

/// How long after it was recorded the creation of another process may be carried out. It is sent
/// while the live read behind it is fresh.
const LATE_OF_OTHERS: SignedDuration = SignedDuration::from_mins(LATE.as_mins() + FRESH.as_mins());

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
    own: BTreeMap<String, Instant>,
    /// What other processes recorded, and when it was first read.
    others: BTreeMap<String, Instant>,
    /// The version of the set at the last live read.
    live: String,
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

    /// A creation is about to be recorded in the set, in the place of earlier ones of this process
    /// for the same machine.
    pub(super) fn record(&mut self, request: String, now: Instant) {
        self.own.insert(request, now);
    }

    /// Whether a recorded creation is superseded by a new one of this process: both are for the
    /// same machine, and this process or the one of the same name before it recorded the first.
    pub(super) fn superseded_by(&self, request: &str, claim: &str, identity: &str) -> bool {
        let by = pending_creates::asked_by(request).is_some_and(|(by, _)| by == identity);
        pending_creates::claim_in(request) == claim && (by || self.own.contains_key(request))
    }

    /// Whether the set records the same creation so that other processes would still count it if
    /// this process sent it now. A record of the process of the same name before this one is
    /// enough, because no process is left that could remove it. A record of any other process is
    /// not.
    pub(super) fn is_recorded(
        &self,
        claim: &str,
        identity: &str,
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
                    by == identity && lately && self.others.get(request).is_some_and(fresh)
                }
                (None, None) => false,
            },
        )
    }

    /// Takes note of what the set records at this version, read live or from the cache. A cache
    /// that is behind the last live read is ignored: it may lack a new record, or still show a
    /// removed one.
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
        let recorded: Vec<&str> = pending_creates::requests(status).collect();
        // The caches may not show a record yet that was written just now.
        self.own
            .retain(|request, at| left(*at, now, LATE).is_some() || recorded.contains(&request.as_str()));
        self.others.retain(|request, _| recorded.contains(&request.as_str()));
        for request in recorded.into_iter().filter(|request| !self.own.contains_key(*request)) {
            self.others.entry(request.to_owned()).or_insert(now);
        }
    }

    /// Adds the creations that may still take effect to what was observed, and forgets those that
    /// cannot any more. `now` and `time` are the same moment by the two clocks.
    pub(super) fn add_to(&mut self, observed: &mut Observed, now: Instant, time: Timestamp) {
        let asked = self.others.iter().filter_map(|(request, first_read)| {
            let until = time.checked_add(left(*first_read, now, LATE_OF_OTHERS)?).ok()?;
            let request = request.clone();
            Some(Asked { request, until })
        });
        observed.asked = asked.collect();
        for sent in &mut self.unanswered {
            let name = sent.machine.metadata.name();
            sent.observed |= observed.machines.iter().any(|machine| machine.metadata.name() == name);
        }
        self.unanswered
            .retain(|sent| !sent.observed || left(sent.at, now, LATE).is_some());
        let known = self.unanswered.iter().map(|sent| Unanswered {
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
        let mut pending = PendingCreates::default();
        pending.never_answered(1, &named("a"), Instant::now());
        pending.never_answered(2, &named("b"), Instant::now());
        let mut there = Observed {
            machines: vec![Arc::new(named("a"))],
            ..Observed::default()
        };
        let names = |observed: &Observed| -> Vec<(String, bool)> {
            let sent = observed.unanswered.iter();
            sent.map(|sent| (sent.machine.metadata.name().to_owned(), sent.until.is_some()))
                .collect()
        };
        pending.add_to(&mut there, Instant::now(), time);
        assert_eq!(names(&there), [("a".to_owned(), true), ("b".to_owned(), true)]);
        assert_eq!(there.unanswered[0].until, time.checked_add(LATE).ok());
        tokio::time::advance(Duration::from_secs(200)).await;
        let mut gone = Observed::default();
        pending.add_to(&mut gone, Instant::now(), time);
        assert_eq!(names(&gone), [("b".to_owned(), false)]);
    }

    /// The status of a set that records this.
    fn status(message: &str) -> ControlPlaneMachineSetStatus {
        serde_json::from_value(
            serde_json::json!({"conditions": [{"type": pending_creates::CREATING, "status": "True",
            "reason": "R", "message": message, "lastTransitionTime": "2020-01-01T00:00:00Z"}]}),
        )
        .unwrap()
    }

    /// The creations that other processes recorded, with the seconds that they still count.
    fn asked(pending: &mut PendingCreates) -> Vec<(String, i64)> {
        let time: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut observed = Observed::default();
        pending.add_to(&mut observed, Instant::now(), time);
        let asked = observed.asked.into_iter();
        asked
            .map(|one| (one.request, one.until.duration_since(time).as_secs()))
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_creation_recorded_by_another_process_counts_from_when_it_is_first_read() {
        let mut pending = PendingCreates::default();
        pending.record(pending_creates::claim(0, "own-0"), Instant::now());
        let both = status("machine own-0 for index 0; machine b-1 for index 1");
        let theirs = pending_creates::claim(1, "b-1");
        let mut after = |seconds: u64, status: Option<&ControlPlaneMachineSetStatus>| {
            let now = Instant::now() + Duration::from_secs(seconds);
            let mut observed = Observed::default();
            pending.read(status, "7", true, now);
            pending.add_to(&mut observed, now, Timestamp::UNIX_EPOCH);
            let asked = observed.asked.into_iter();
            asked
                .map(|one| (one.request, one.until.as_second()))
                .collect::<Vec<_>>()
        };
        assert_eq!(after(0, Some(&both)), [(theirs.clone(), 240)]);
        assert_eq!(after(60, Some(&both)), [(theirs, 180)]);
        assert_eq!(after(240, Some(&both)), [], "it is over although it is still recorded");
        assert_eq!(after(240, None), []);
        assert_eq!(after(240, Some(&both)).len(), 2, "it was removed and recorded again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_behind_a_live_read_neither_restarts_nor_ends_a_pending_creation() {
        let (before, theirs, gone) = (status(""), status("machine b-1 for index 1"), status(""));
        let claim = pending_creates::claim(1, "b-1");
        let mut pending = PendingCreates::default();
        pending.read(Some(&theirs), "11", true, Instant::now());
        tokio::time::advance(Duration::from_secs(60)).await;
        pending.read(Some(&before), "9", false, Instant::now());
        assert_eq!(asked(&mut pending), [(claim.clone(), 180)]);
        pending.read(Some(&theirs), "11", true, Instant::now());
        assert_eq!(asked(&mut pending), [(claim, 180)]);
        pending.read(Some(&gone), "13", true, Instant::now());
        pending.read(Some(&theirs), "11", false, Instant::now());
        assert_eq!(asked(&mut pending), []);
        pending.read(Some(&theirs), "14", false, Instant::now());
        assert_eq!(
            asked(&mut pending).len(),
            1,
            "the cache has caught up, and the creation was recorded again"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_record_that_no_other_process_can_remove_stands_for_a_creation() {
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
            let mut pending = PendingCreates::default();
            pending.read(Some(&status), "7", true, Instant::now());
            let now = Instant::now() + Duration::from_secs(first_seen);
            let is = |pending: &PendingCreates| pending.is_recorded(&claim, "me", Some(&status), (now, time));
            assert_eq!(is(&pending), stands, "{who} {at} {first_seen}");
            assert_eq!(pending.superseded_by(&request, &claim, "me"), who == "me");
            assert!(!pending.superseded_by(&request, &pending_creates::claim(2, "a-2"), "me"));
            // A record of this process counts by its own clock.
            pending.record(request.clone(), now);
            assert!(is(&pending) && pending.superseded_by(&request, &claim, "me"));
        }
    }
}
