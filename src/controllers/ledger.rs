//! What was written and is not yet seen in the caches.
//!
//! A plan made from a cache that does not show the last write would make that write again. So nothing is planned until
//! the caches have caught up, or until it has taken so long that only a live read can tell. Deletions are writes too.
//!
//! A creation that was sent and never answered may still come, minutes later. It is remembered until its machine is
//! seen, so that whoever fills the index meanwhile asks for the same machine. A restart forgets it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::cpms::state::Observed;
use tokio::time::Instant;

use super::cluster::Object;

/// After this, a write that does not show is no longer waited for: the object may be gone again, with both events
/// folded into one list.
const PATIENCE: Duration = Duration::from_secs(5);

/// How an object looks in the caches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight<'a> {
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

/// Writes that the caches do not show yet.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    entries: BTreeMap<Object, Entry>,
    /// By index: machines whose creation was never answered.
    unanswered: BTreeMap<u32, Arc<Machine>>,
}

impl Ledger {
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
    pub(super) fn never_answered(&mut self, index: u32, machine: &Machine) {
        self.unanswered.insert(index, Arc::new(machine.clone()));
    }

    /// Adds to what was observed the machines that may still come, and forgets those that came.
    pub(super) fn recall(&mut self, observed: &mut Observed) {
        let came = |name: &str| observed.machines.iter().any(|machine| machine.metadata.name() == name);
        self.unanswered.retain(|_, sent| !came(sent.metadata.name()));
        observed.unanswered.clone_from(&self.unanswered);
    }

    /// Forgets what the caches show, and what took too long.
    pub(super) fn settle<'a>(&mut self, now: Instant, look: impl Fn(&Object) -> Option<Sight<'a>>) {
        self.entries.retain(|object, entry| {
            if now.duration_since(entry.at) >= PATIENCE {
                tracing::warn!(?object, "a write does not show in the caches; going on without it");
                return false;
            }
            match look(object) {
                // Another object of the same name came after ours.
                Some(sight) if sight.uid != entry.uid => false,
                Some(sight) => is_older(sight.version, &entry.version),
                None => entry.created,
            }
        });
    }

    /// When to stop waiting; `None`: nothing is waited for.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        self.entries.values().map(|entry| entry.at + PATIENCE).min()
    }
}

/// Whether a version comes before another. Versions of one kind are numbers that grow; one that is not is older until it
/// is equal.
fn is_older(version: &str, than: &str) -> bool {
    match (version.parse::<u128>(), than.parse::<u128>()) {
        (Ok(version), Ok(than)) => version < than,
        _ => version != than,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Object {
        Object::Machine("a".into())
    }

    fn sees(version: &'static str) -> impl Fn(&Object) -> Option<Sight<'static>> {
        move |_| Some(Sight { uid: "u", version })
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_waited_for_until_it_shows() {
        let mut ledger = Ledger::default();
        ledger.changed(machine(), "u", "12", Instant::now());
        ledger.settle(Instant::now(), sees("9"));
        assert!(ledger.waits_until().is_some());
        ledger.settle(Instant::now(), sees("12"));
        assert!(ledger.waits_until().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_creation_that_is_not_seen_is_waited_for_and_a_deletion_is_not() {
        let mut ledger = Ledger::default();
        ledger.created(machine(), "u", "12", Instant::now());
        // A change of the new object does not make it an old one.
        ledger.changed(machine(), "u", "13", Instant::now());
        ledger.settle(Instant::now(), |_| None);
        assert!(ledger.waits_until().is_some());
        ledger.settle(Instant::now(), sees("13"));
        ledger.changed(machine(), "u", "14", Instant::now());
        ledger.settle(Instant::now(), |_| None);
        assert!(ledger.waits_until().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_namesake_and_a_long_wait_end_the_waiting() {
        let mut ledger = Ledger::default();
        ledger.created(machine(), "other", "12", Instant::now());
        ledger.settle(Instant::now(), sees("1"));
        assert!(ledger.waits_until().is_none());
        ledger.created(machine(), "u", "12", Instant::now());
        tokio::time::advance(PATIENCE).await;
        ledger.settle(Instant::now(), |_| None);
        assert!(ledger.waits_until().is_none());
    }
}
