//! The caches of one replica. Each kind lags by itself, can stop, and can go back in time when it is listed again.
//!
//! A cache decides only when a replica sees a change. It must not drop or merge changes on its own: a watch delivers every
//! change in order, and only a new list skips some.

use std::collections::{BTreeMap, VecDeque};

use super::kinds::{KindId, ObjectKey, Objects, Typed};

/// A change that a watch delivers at a time; without an object if the object is gone.
type WatchEvent = (i64, ObjectKey, Option<Typed>);

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
    objects: Objects,
    streams: BTreeMap<KindId, Stream>,
    revision: u64,
}

impl Cache {
    /// The objects that the replica sees.
    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// A number that grows with every change of the objects.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Queues a change for delivery at `due`, or later if the watch is frozen or an earlier change is still queued. Returns
    /// the time of the delivery.
    pub(crate) fn push(&mut self, due: i64, key: ObjectKey, typed: Option<Typed>) -> i64 {
        let stream = self.streams.entry(key.kind).or_default();
        let last = stream.events.back().map_or(0, |last| last.0);
        let due = due.max(stream.frozen_until).max(last);
        stream.events.push_back((due, key, typed));
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

    /// Delivers the changes that are due. Returns whether there were any, and when the next one is due.
    pub(crate) fn deliver(&mut self, kind: KindId, now: i64) -> (bool, Option<i64>) {
        let mut any = false;
        let Some(stream) = self.streams.get_mut(&kind) else {
            return (any, None);
        };
        while let Some((due, ..)) = stream.events.front() {
            if *due > now {
                return (any, Some(*due));
            }
            if let Some((_, key, typed)) = stream.events.pop_front() {
                self.objects.put(key, typed);
                self.revision += 1;
                any = true;
            }
        }
        (any, None)
    }

    /// Replaces all objects of a kind by a list, and forgets the changes that were queued: the list is at least as new.
    pub(crate) fn replace(&mut self, kind: KindId, list: Vec<(ObjectKey, Typed)>) {
        self.objects.remove_kind(kind);
        if let Some(stream) = self.streams.get_mut(&kind) {
            stream.events.clear();
        }
        for (key, typed) in list {
            self.objects.put(key, Some(typed));
        }
        self.revision += 1;
    }
}
