//! The writes that the caches do not show yet.
//!
//! A plan that is made from a cache without the last write would make that write again. So nothing
//! is planned until the caches have caught up, or until only a live read can tell. A deletion is a
//! write too.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use capstan_core::model::ObjectRef;
use tokio::time::Instant;

/// How long a write is waited for. After this the object may be gone again, with both events folded
/// into one list.
const PATIENCE: Duration = Duration::from_secs(5);

/// The version in which the caches show an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachedVersion<'a> {
    pub(super) uid: &'a str,
    pub(super) version: &'a str,
}

#[derive(Clone, Debug)]
struct Entry {
    uid: String,
    version: String,
    created: bool,
    at: Instant,
}

/// The writes that the caches do not show yet, by object.
#[derive(Debug, Default)]
pub(super) struct WriteTracker {
    entries: BTreeMap<ObjectRef, Entry>,
}

impl WriteTracker {
    /// An object was created, with this uid and version.
    pub(super) fn created(&mut self, object: ObjectRef, uid: &str, version: &str, now: Instant) {
        self.track(object, uid, version, true, now);
    }

    /// An object was changed, or its deletion was requested.
    pub(super) fn changed(&mut self, object: ObjectRef, uid: &str, version: &str, now: Instant) {
        self.track(object, uid, version, false, now);
    }

    fn track(&mut self, object: ObjectRef, uid: &str, version: &str, created: bool, now: Instant) {
        // A change of an object that the caches do not show yet is still waited for as a creation.
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

    /// Forgets the writes that the caches show, and those that took too long.
    pub(super) fn settle<'a>(&mut self, now: Instant, cached: impl Fn(&ObjectRef) -> Option<CachedVersion<'a>>) {
        self.entries.retain(|object, entry| {
            let is_awaited = match cached(object) {
                // Another object of the same name was created after ours.
                Some(cached) if cached.uid != entry.uid => false,
                Some(cached) => is_older(cached.version, &entry.version),
                None => entry.created,
            };
            let is_overdue = is_awaited && now.duration_since(entry.at) >= PATIENCE;
            if is_overdue {
                tracing::warn!(%object, "the caches do not show a write; continuing with live reads");
            }
            is_awaited && !is_overdue
        });
    }

    /// Until when the caches are waited for; `None` when they show every write.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        self.entries.values().map(|entry| entry.at + PATIENCE).min()
    }
}

/// Whether a resource version is older than another. Versions that are not numbers are taken for
/// older until they are equal.
pub fn is_older(version: &str, than: &str) -> bool {
    order(version, than).map_or_else(|| version != than, Ordering::is_lt)
}

/// The order of two resource versions of one kind, which are numbers that grow.
pub fn order(version: &str, other: &str) -> Option<Ordering> {
    let (version, other) = (version.parse::<u128>().ok()?, other.parse::<u128>().ok()?);
    Some(version.cmp(&other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thing() -> ObjectRef {
        ObjectRef {
            group: "example.org".into(),
            kind: "Thing".into(),
            namespace: "home".to_owned(),
            name: "a".to_owned(),
        }
    }

    fn sees(version: &'static str) -> impl Fn(&ObjectRef) -> Option<CachedVersion<'static>> {
        move |_| Some(CachedVersion { uid: "u", version })
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_waited_for_until_the_caches_show_it() {
        let mut tracker = WriteTracker::default();
        tracker.changed(thing(), "u", "12", Instant::now());
        tracker.settle(Instant::now(), sees("9"));
        assert!(tracker.waits_until().is_some());
        tracker.settle(Instant::now(), sees("12"));
        assert!(tracker.waits_until().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_creation_is_waited_for_and_a_deleted_object_is_not() {
        let mut tracker = WriteTracker::default();
        tracker.created(thing(), "u", "12", Instant::now());
        // A change of the new object does not make it an old one.
        tracker.changed(thing(), "u", "13", Instant::now());
        tracker.settle(Instant::now(), |_| None);
        assert!(tracker.waits_until().is_some());
        tracker.settle(Instant::now(), sees("13"));
        tracker.changed(thing(), "u", "14", Instant::now());
        tracker.settle(Instant::now(), |_| None);
        assert!(tracker.waits_until().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_object_of_the_same_name_and_a_long_time_end_the_waiting() {
        let mut tracker = WriteTracker::default();
        tracker.created(thing(), "other", "12", Instant::now());
        tracker.settle(Instant::now(), sees("1"));
        assert!(tracker.waits_until().is_none());
        tracker.created(thing(), "u", "12", Instant::now());
        tokio::time::advance(PATIENCE).await;
        tracker.settle(Instant::now(), |_| None);
        assert!(tracker.waits_until().is_none());
    }
}
