//! The caches of one replica. Each kind lags by itself, can stop, and can go back in time when it
//! is listed again.
//!
//! A cache decides only when a replica sees a change. It must not drop or merge changes on its own:
//! a watch delivers every change in order, and only a new list skips some.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::kinds::{KindId, ObjectKey, ObjectMap, Version};

/// A change that a watch delivers at a time; without an object if the object is gone.
type WatchEvent = (i64, ObjectKey, Option<Version>);

/// The watch of one kind.
#[derive(Debug, Default)]
struct Stream {
    events: VecDeque<WatchEvent>,
    /// The watch delivers nothing before this time.
    frozen_until: i64,
}

/// What a replica has seen.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    objects: ObjectMap,
    streams: BTreeMap<KindId, Stream>,
    /// The objects that changed since they were shown.
    unshown: BTreeSet<ObjectKey>,
}

impl Cache {
    /// The objects that the replica sees.
    pub(crate) fn objects(&self) -> &ObjectMap {
        &self.objects
    }

    /// The objects that changed since the last call.
    pub(crate) fn take_unshown(&mut self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.unshown)
    }

    /// Whether changes of a kind are queued that the replica does not see yet.
    pub(crate) fn is_behind(&self, kind: KindId) -> bool {
        self.streams.get(&kind).is_some_and(|stream| !stream.events.is_empty())
    }

    /// Queues a change for delivery at `due`, or later if the watch is frozen or an earlier change
    /// is still queued. Returns the time of the delivery.
    pub(crate) fn push(&mut self, due: i64, key: ObjectKey, version: Option<Version>) -> i64 {
        let stream = self.streams.entry(key.kind).or_default();
        let last = stream.events.back().map_or(0, |last| last.0);
        let due = due.max(stream.frozen_until).max(last);
        stream.events.push_back((due, key, version));
        due
    }

    /// Delivers nothing of a kind before a time.
    pub(crate) fn freeze(&mut self, kind: KindId, until: i64) {
        let stream = self.streams.entry(kind).or_default();
        stream.frozen_until = until.max(stream.frozen_until);
        for event in &mut stream.events {
            event.0 = event.0.max(until);
        }
    }

    /// Delivers the changes that are due. Returns the objects that changed, and when the next
    /// change is due.
    pub(crate) fn deliver(&mut self, kind: KindId, now: i64) -> (BTreeSet<ObjectKey>, Option<i64>) {
        let mut changed = BTreeSet::new();
        let Some(stream) = self.streams.get_mut(&kind) else {
            return (changed, None);
        };
        while let Some((due, ..)) = stream.events.front() {
            if *due > now {
                return (changed, Some(*due));
            }
            if let Some((_, key, version)) = stream.events.pop_front() {
                self.objects.put(key.clone(), version);
                self.unshown.insert(key.clone());
                changed.insert(key);
            }
        }
        (changed, None)
    }

    /// Replaces all objects of a kind by a list, and forgets the changes that were queued: the list
    /// is at least as new.
    pub(crate) fn replace(&mut self, kind: KindId, list: Vec<(ObjectKey, Version)>) {
        self.unshown
            .extend(self.objects.of_kind(kind).map(|(key, _)| key.clone()));
        self.objects.remove_kind(kind);
        if let Some(stream) = self.streams.get_mut(&kind) {
            stream.events.clear();
        }
        for (key, version) in list {
            self.unshown.insert(key.clone());
            self.objects.put(key, Some(version));
        }
    }
}
