//! The queue of one controller: which object is reconciled next, and when.
//!
//! A pure value without a clock, so that the simulation runs the same queue as production. An
//! object is reconciled by one task at a time. An object that changes while it is reconciled goes
//! to the end of the queue once, so no object keeps the others from their turn. The delay after an
//! error belongs to one object.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use capstan_core::model::ObjectRef;
use jiff::Timestamp;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::reconciler::ReconcileResult;

/// What the queue knows of an object.
#[derive(Debug, Default)]
struct Entry {
    running: bool,
    /// The object changed while it was reconciled.
    again: bool,
    /// The delays after errors, since the last success.
    backoff: Option<Backoff>,
    /// When the object is reconciled although nothing changes.
    due: Option<Instant>,
}

/// The queue of one controller.
#[derive(Debug)]
pub struct Queue {
    delays: fn() -> Backoff,
    entries: BTreeMap<ObjectRef, Entry>,
    ready: VecDeque<ObjectRef>,
    is_ready: BTreeSet<ObjectRef>,
    due: BTreeSet<(Instant, ObjectRef)>,
}

impl Default for Queue {
    fn default() -> Self {
        Self::with_delays(Backoff::default)
    }
}

impl Queue {
    /// An empty queue with these delays after errors.
    pub fn with_delays(delays: fn() -> Backoff) -> Self {
        Self {
            delays,
            entries: BTreeMap::new(),
            ready: VecDeque::new(),
            is_ready: BTreeSet::new(),
            due: BTreeSet::new(),
        }
    }

    /// An object changed.
    pub fn changed(&mut self, object: ObjectRef) {
        let entry = self.entries.entry(object.clone()).or_default();
        if entry.running {
            entry.again = true;
        } else if self.is_ready.insert(object.clone()) {
            self.ready.push_back(object);
        }
    }

    /// The next object to reconcile. The caller says with [`finished`](Self::finished) what came of
    /// it.
    pub fn begin(&mut self, now: Instant) -> Option<ObjectRef> {
        while let Some((due, object)) = self.due.first().cloned()
            && due <= now
        {
            self.due.remove(&(due, object.clone()));
            self.changed(object);
        }
        let object = self.ready.pop_front()?;
        self.is_ready.remove(&object);
        let entry = self.entries.entry(object.clone()).or_default();
        entry.running = true;
        if let Some(due) = entry.due.take() {
            self.due.remove(&(due, object.clone()));
        }
        Some(object)
    }

    /// A reconcile ended, at this moment by both clocks.
    pub fn finished(&mut self, object: &ObjectRef, result: &ReconcileResult, now: Instant, time: Timestamp) {
        let Some(entry) = self.entries.get_mut(object) else {
            return;
        };
        entry.running = false;
        if result.failed {
            entry.due = Some(now + entry.backoff.get_or_insert_with(self.delays).next_delay());
        } else if result.reconciled {
            entry.backoff = None;
        }
        let requeue_at = result.requeue_at.map(|at| now + left(at, time));
        entry.due = [entry.due, requeue_at, result.behind].into_iter().flatten().min();
        if std::mem::take(&mut entry.again) {
            entry.due = None;
            self.changed(object.clone());
        } else if let Some(due) = entry.due {
            self.due.insert((due, object.clone()));
        }
    }

    /// Whether nothing is planned for an object.
    pub fn is_at_rest(&self, object: &ObjectRef) -> bool {
        let at_rest = |entry: &Entry| !entry.running && entry.due.is_none();
        self.entries.get(object).is_none_or(at_rest) && !self.is_ready.contains(object)
    }

    /// Forgets an object.
    pub fn forget(&mut self, object: &ObjectRef) {
        if let Some(due) = self.entries.remove(object).and_then(|entry| entry.due) {
            self.due.remove(&(due, object.clone()));
        }
    }

    /// Forgets what waits. Running reconciles continue.
    pub fn clear(&mut self) {
        self.ready.clear();
        self.is_ready.clear();
        self.due.clear();
        self.entries.retain(|_, entry| entry.running);
        for entry in self.entries.values_mut() {
            (entry.again, entry.due) = (false, None);
        }
    }

    /// When the next object is due, if none is ready.
    pub fn due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// How many objects are ready.
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// Whether no object is ready.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }
}

fn left(at: Timestamp, time: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(time)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thing(name: &str) -> ObjectRef {
        ObjectRef {
            group: "example.org".into(),
            kind: "Thing".into(),
            namespace: "home".to_owned(),
            name: name.to_owned(),
        }
    }

    fn done() -> ReconcileResult {
        ReconcileResult {
            reconciled: true,
            ..ReconcileResult::default()
        }
    }

    fn names(queue: &mut Queue, now: Instant) -> Vec<String> {
        std::iter::from_fn(|| queue.begin(now))
            .map(|object| object.name)
            .collect()
    }

    #[test]
    fn an_object_that_changes_while_it_is_reconciled_waits_for_all_others() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.changed(thing("a"));
        queue.changed(thing("a"));
        queue.changed(thing("b"));
        assert_eq!(queue.begin(now), Some(thing("a")));
        queue.changed(thing("a"));
        queue.changed(thing("c"));
        assert_eq!(queue.len(), 2, "it does not run twice at the same time");
        queue.finished(&thing("a"), &done(), now, Timestamp::UNIX_EPOCH);
        assert_eq!(names(&mut queue, now), ["b", "c", "a"]);
    }

    #[test]
    fn an_error_delays_its_own_object_alone_and_a_success_ends_the_delay() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let failed = ReconcileResult { failed: true, ..done() };
        for name in ["a", "b"] {
            queue.changed(thing(name));
            queue.begin(now);
        }
        queue.finished(&thing("a"), &failed, now, Timestamp::UNIX_EPOCH);
        queue.finished(&thing("b"), &done(), now, Timestamp::UNIX_EPOCH);
        assert_eq!(queue.begin(now), None);
        assert!(queue.is_at_rest(&thing("b")) && !queue.is_at_rest(&thing("a")));
        let due = queue.due().unwrap();
        assert!(due > now && due <= now + Backoff::LONGEST);
        assert_eq!(names(&mut queue, due), ["a"]);
        queue.finished(&thing("a"), &done(), due, Timestamp::UNIX_EPOCH);
        assert_eq!(queue.due(), None);
    }

    #[test]
    fn an_object_is_due_when_its_time_has_come_by_the_wall_clock() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let time: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        queue.changed(thing("a"));
        queue.begin(now);
        let later = ReconcileResult {
            requeue_at: Some(time + jiff::SignedDuration::from_secs(30)),
            ..done()
        };
        queue.finished(&thing("a"), &later, now, time);
        assert_eq!(queue.due(), Some(now + Duration::from_secs(30)));
        queue.changed(thing("a"));
        assert_eq!(names(&mut queue, now), ["a"]);
        assert_eq!(queue.due(), None, "a change comes before the timer");
    }
}
