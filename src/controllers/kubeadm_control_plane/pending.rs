//! Creations that one process sent, or that it found recorded, and how long it has seen machines
//! being deleted.
//!
//! A record of this process is over when every request was answered. A record of another process,
//! and a request without an answer, count for some minutes by this process's own clock (decision
//! 46).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::api::cluster_x_k8s_io::control_plane::Machine;
use capstan_core::kcp::pending::Recorded;
use capstan_core::model::{PendingCreation, UnreadablePendingCreations};
use jiff::SignedDuration;
use tokio::time::Instant;

use crate::controllers::pending_creates::LATE_OF_OTHERS;
use crate::runtime::Moment;

/// The creations of one control plane.
#[derive(Debug, Default)]
pub(super) struct Creations {
    /// The records that this process read, and when first.
    seen: BTreeMap<PendingCreation, Instant>,
    /// The machines that this process requested, with whether the last request was answered.
    requested: BTreeMap<String, bool>,
    /// The machines with a request that was never answered.
    unanswered: BTreeSet<String>,
}

impl Creations {
    /// The objects of a machine are about to be requested. A record that this process did not make
    /// is of a former process of the same name: its request may still arrive, also after a new
    /// record took the place of the old one.
    pub(super) fn request(&mut self, new: &PendingCreation, recorded: &[PendingCreation]) {
        let earlier = self.requested.insert(new.machine.clone(), false);
        if earlier.is_none() && of_same_name(new, recorded).next().is_some() {
            self.never_answered(&new.machine);
        }
    }

    /// The API server created the machine, or refused it.
    pub(super) fn answered(&mut self, machine: &str) {
        if let Some(answered) = self.requested.get_mut(machine) {
            *answered = true;
        }
    }

    /// Whether the machine was created is unknown.
    pub(super) fn never_answered(&mut self, machine: &str) {
        self.unanswered.insert(machine.to_owned());
    }

    /// Whether a creation needs no new record: this process, or the process of the same name before
    /// it, recorded the same a short time ago. No process is left that could remove that record.
    pub(super) fn is_recorded(new: &PendingCreation, recorded: &[PendingCreation], fresh: SignedDuration) -> bool {
        of_same_name(new, recorded).any(|record| {
            let age = new.requested_at.duration_since(record.requested_at);
            !age.is_negative() && age < fresh
        })
    }

    /// What the control plane records at this moment.
    ///
    /// # Errors
    /// The records cannot be read.
    pub(super) fn read(
        &mut self,
        recorded: Result<Vec<PendingCreation>, UnreadablePendingCreations>,
        identity: &str,
        moment: Moment,
    ) -> Result<Vec<Recorded>, UnreadablePendingCreations> {
        let recorded = recorded?;
        self.seen.retain(|record, _| recorded.contains(record));
        let names: BTreeSet<&str> = recorded.iter().map(|record| record.machine.as_str()).collect();
        self.unanswered.retain(|machine| names.contains(machine.as_str()));
        let known = recorded.into_iter().map(|creation| {
            let first = *self.seen.entry(creation.clone()).or_insert(moment.seen);
            let is_own = creation.requested_by == identity;
            let is_answered = self.requested.get(&creation.machine) == Some(&true);
            let left = match is_own && is_answered && !self.unanswered.contains(&creation.machine) {
                true => None,
                false => left(first, moment.instant),
            };
            let until = left.and_then(|left| moment.time.checked_add(left).ok());
            Recorded { creation, until }
        });
        Ok(known.collect())
    }
}

/// The records of the same machine by processes of the same name.
fn of_same_name<'r>(
    new: &PendingCreation,
    recorded: &'r [PendingCreation],
) -> impl Iterator<Item = &'r PendingCreation> {
    let is_same = |record: &&PendingCreation| record.requested_by == new.requested_by && record.is_for_machine_of(new);
    recorded.iter().filter(is_same)
}

/// The machines that this process saw being deleted, by their uids, and since when.
#[derive(Debug, Default)]
pub(super) struct Leaving(BTreeMap<String, Instant>);

impl Leaving {
    /// How long each machine that is being deleted has been seen so, by this process's own clock.
    pub(super) fn ages(&mut self, machines: &[Arc<Machine>], moment: Moment) -> BTreeMap<String, SignedDuration> {
        let leaving = machines.iter().filter(|machine| machine.metadata.is_deleting());
        let leaving: BTreeSet<&str> = leaving.map(|machine| machine.metadata.uid()).collect();
        self.0.retain(|uid, _| leaving.contains(uid.as_str()));
        let age = |uid: &str| {
            let first = *self.0.entry(uid.to_owned()).or_insert(moment.seen);
            let age = SignedDuration::try_from(moment.instant.saturating_duration_since(first));
            (uid.to_owned(), age.unwrap_or(SignedDuration::ZERO))
        };
        leaving.into_iter().map(age).collect()
    }
}

fn left(first: Instant, now: Instant) -> Option<SignedDuration> {
    let passed = SignedDuration::try_from(now.duration_since(first)).unwrap_or(LATE_OF_OTHERS);
    Some(LATE_OF_OTHERS.saturating_sub(passed)).filter(SignedDuration::is_positive)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;

    fn at(instant: Instant) -> Moment {
        Moment {
            time: Timestamp::UNIX_EPOCH,
            instant,
            seen: instant,
        }
    }

    #[test]
    fn v257_the_time_of_a_deletion_counts_from_when_this_process_first_sees_it() {
        let machine = |uid: &str, deleted: bool| {
            let mut machine = Machine::default();
            machine.metadata.uid = Some(uid.to_owned());
            machine.metadata.deletion_timestamp = deleted.then_some(Timestamp::UNIX_EPOCH);
            Arc::new(machine)
        };
        let (mut leaving, start) = (Leaving::default(), Instant::now());
        let machines = [machine("a", true), machine("b", false)];
        let ages = leaving.ages(&machines, at(start));
        assert_eq!(ages, BTreeMap::from([(String::from("a"), SignedDuration::ZERO)]));
        let later = start + Duration::from_secs(90);
        let ages = leaving.ages(&[machine("a", true), machine("b", true)], at(later));
        let expected = [("a", 90), ("b", 0)].map(|(uid, age)| (uid.to_owned(), SignedDuration::from_secs(age)));
        assert_eq!(ages, BTreeMap::from(expected));
        assert!(leaving.ages(&[], at(later)).is_empty());
        let again = leaving.ages(&[machine("a", true)], at(later));
        assert_eq!(again.get("a"), Some(&SignedDuration::ZERO));
    }

    fn record(machine: &str, by: &str) -> PendingCreation {
        PendingCreation {
            index: 0,
            machine: machine.to_owned(),
            requested_by: by.to_owned(),
            requested_at: Timestamp::UNIX_EPOCH,
            revision: None,
        }
    }

    /// The machines whose records are open.
    fn open(creations: &mut Creations, records: &[PendingCreation]) -> Vec<String> {
        let read = creations.read(Ok(records.to_vec()), "me", at(Instant::now()));
        let open = read.unwrap().into_iter().filter(|record| record.until.is_some());
        open.map(|record| record.creation.machine).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_is_over_when_the_request_was_answered_or_after_minutes() {
        let mut creations = Creations::default();
        let records = [record("a", "me"), record("b", "other"), record("c", "me")];
        creations.request(&record("a", "me"), &[]);
        assert_eq!(open(&mut creations, &records), ["a", "b", "c"]);
        creations.answered("a");
        creations.answered("b");
        creations.answered("c");
        assert_eq!(open(&mut creations, &records), ["b", "c"], "c is of a former process");
        tokio::time::advance(Duration::from_secs(240)).await;
        assert_eq!(open(&mut creations, &records), [""; 0]);
    }

    /// The process was paused for minutes between the begin of its reconcile and the end of its
    /// live read.
    #[tokio::test(start_paused = true)]
    async fn v311_a_record_counts_from_the_end_of_the_read_that_shows_it() {
        let mut creations = Creations::default();
        let records = [record("b", "other")];
        let began = at(Instant::now());
        tokio::time::advance(Duration::from_secs(271)).await;
        let seen = Instant::now();
        let read = creations.read(Ok(records.to_vec()), "me", Moment { seen, ..began });
        assert!(read.unwrap()[0].until.is_some());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(open(&mut creations, &records), ["b"]);
        tokio::time::advance(Duration::from_secs(240)).await;
        assert_eq!(open(&mut creations, &records), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_an_answer_counts_also_if_a_later_one_is_answered() {
        let mut creations = Creations::default();
        creations.request(&record("a", "me"), &[]);
        creations.never_answered("a");
        creations.request(&record("a", "me"), &[]);
        creations.answered("a");
        assert_eq!(open(&mut creations, &[record("a", "me")]), ["a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn v295_the_request_of_a_former_process_of_the_same_name_counts_after_a_new_record() {
        let mut creations = Creations::default();
        let old = record("a", "me");
        let new = PendingCreation {
            requested_at: Timestamp::UNIX_EPOCH + SignedDuration::from_mins(2),
            ..old.clone()
        };
        creations.request(&new, std::slice::from_ref(&old));
        creations.answered("a");
        assert_eq!(open(&mut creations, &[new]), ["a"]);
        let mut creations = Creations::default();
        creations.request(&old, &[record("a", "other"), record("b", "me")]);
        creations.answered("a");
        assert_eq!(open(&mut creations, &[old]), [""; 0]);
    }

    #[test]
    fn only_a_fresh_record_of_this_process_stands() {
        let minute = SignedDuration::from_mins(1);
        let new = record("a", "me");
        let stands = |by: &str| Creations::is_recorded(&new, &[record("a", by)], minute);
        assert!(stands("me") && !stands("other"));
        let later = PendingCreation {
            requested_at: Timestamp::UNIX_EPOCH + minute,
            ..new.clone()
        };
        assert!(!Creations::is_recorded(&later, &[new], minute));
    }
}
