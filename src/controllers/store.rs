//! What is known of one kind: nothing yet, that the cluster does not serve it, or its objects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::object::WatchedObject;

/// The objects of one kind by name, as the last event left them.
#[derive(Debug)]
pub(super) struct Store<T> {
    inner: Mutex<Inner<T>>,
    changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct Inner<T> {
    known: Known,
    /// Shared with the pictures that were made of it; written as a copy while one holds it.
    objects: Arc<BTreeMap<String, Arc<T>>>,
    /// Objects that cannot be read, with the reason.
    unreadable: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    /// Not read yet; with what went wrong last.
    Unknown(Option<String>),
    /// The cluster does not serve the kind.
    Absent,
    /// The cluster serves the kind in other versions only, so its objects are not known.
    OtherVersion,
    /// Everything was read once, and is followed since.
    Synced,
}

/// The objects of one kind at one moment.
#[derive(Clone, Debug)]
pub(super) struct Contents<T> {
    /// Objects by name.
    pub(super) objects: Arc<BTreeMap<String, Arc<T>>>,
    /// Objects that cannot be read, by name, with the reason.
    pub(super) unreadable: BTreeMap<String, String>,
    /// Whether the cluster serves the kind.
    pub(super) served: bool,
}

impl<T: PartialEq> Store<T> {
    /// Knows nothing yet; `changed` counts what changes.
    pub(super) fn new(changed: watch::Sender<u64>) -> Self {
        let inner = Inner {
            known: Known::Unknown(None),
            objects: Arc::default(),
            unreadable: BTreeMap::new(),
        };
        Self {
            inner: Mutex::new(inner),
            changed,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        // Every change below is a single assignment or a map operation: a panic leaves nothing half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// What is known; `None` before everything was read once.
    pub(super) fn contents(&self) -> Option<Contents<T>> {
        let inner = self.lock();
        (!matches!(inner.known, Known::Unknown(_) | Known::OtherVersion)).then(|| Contents {
            objects: Arc::clone(&inner.objects),
            unreadable: inner.unreadable.clone(),
            served: inner.known == Known::Synced,
        })
    }

    /// Whether the kind is known, or what went wrong so far.
    pub(super) fn synced(&self) -> Result<(), Option<String>> {
        match &self.lock().known {
            Known::Unknown(reason) => Err(reason.clone()),
            // More waiting would not make a kind in another version known.
            Known::Absent | Known::OtherVersion | Known::Synced => Ok(()),
        }
    }

    /// The kind is not served.
    pub(super) fn absent(&self) {
        self.not_served(Known::Absent);
    }

    /// The kind is served in other versions only.
    pub(super) fn other_version(&self) {
        self.not_served(Known::OtherVersion);
    }

    fn not_served(&self, known: Known) {
        let mut inner = self.lock();
        if inner.known != known {
            inner.known = known;
            inner.objects = Arc::default();
            inner.unreadable.clear();
            drop(inner);
            self.notify();
        }
    }

    /// A read failed. What is known stays known.
    pub(super) fn failed(&self, reason: String) {
        let mut inner = self.lock();
        if let Known::Unknown(last) = &mut inner.known {
            *last = Some(reason);
        }
    }

    /// Everything, as one read gave it.
    pub(super) fn replace(&self, all: Vec<WatchedObject<T>>) {
        let mut inner = self.lock();
        inner.objects = Arc::default();
        inner.unreadable.clear();
        for seen in all {
            inner.put(seen);
        }
        inner.known = Known::Synced;
        drop(inner);
        self.notify();
    }

    /// An object was added or changed.
    pub(super) fn apply(&self, seen: WatchedObject<T>) {
        let changed = self.lock().put(seen);
        if changed {
            self.notify();
        }
    }

    /// An object is gone.
    pub(super) fn remove(&self, name: &str) {
        let mut inner = self.lock();
        let known = Arc::make_mut(&mut inner.objects).remove(name).is_some();
        let unreadable = inner.unreadable.remove(name).is_some();
        drop(inner);
        if known || unreadable {
            self.notify();
        }
    }
}

impl<T: PartialEq> Inner<T> {
    /// Returns whether anything is different now.
    fn put(&mut self, seen: WatchedObject<T>) -> bool {
        let name = seen.name().to_owned();
        match seen.content {
            Ok(object) => {
                let cured = self.unreadable.remove(&name).is_some();
                let before = Arc::make_mut(&mut self.objects).insert(name, Arc::clone(&object));
                cured || before.is_none_or(|before| before != object)
            }
            Err(reason) => {
                // What it held before it could not be read is no longer true. Whatever changed in it now may matter, such as
                // that it is being deleted, and nobody could tell here.
                Arc::make_mut(&mut self.objects).remove(&name);
                self.unreadable.insert(name, reason);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use capstan_core::api::machine_openshift_io::machine::Machine;
    use serde_json::{Value, json};
    use tokio::sync::watch;

    use super::*;

    fn seen(object: &Value) -> WatchedObject<Machine> {
        serde_json::from_value(object.clone()).unwrap()
    }

    #[test]
    fn nothing_is_known_before_everything_was_read_and_failures_do_not_unlearn() {
        let (sender, receiver) = watch::channel(0);
        let store: Store<Machine> = Store::new(sender);
        assert!(store.contents().is_none());
        store.failed("no route".into());
        assert_eq!(store.synced(), Err(Some("no route".into())));
        store.replace(vec![seen(&json!({"metadata": {"name": "a"}}))]);
        store.failed("no route".into());
        assert_eq!(store.synced(), Ok(()));
        assert_eq!(store.contents().unwrap().objects.len(), 1);
        assert_eq!(*receiver.borrow(), 1);
    }

    #[test]
    fn an_event_without_a_difference_wakes_nobody() {
        let (sender, receiver) = watch::channel(0);
        let store: Store<Machine> = Store::new(sender);
        let machine = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
        store.replace(vec![seen(&machine)]);
        store.apply(seen(&machine));
        store.remove("b");
        assert_eq!(*receiver.borrow(), 1);
        store.apply(seen(&json!({"metadata": {"name": "a", "resourceVersion": "2"}})));
        assert_eq!(*receiver.borrow(), 2);
    }

    #[test]
    fn an_object_that_breaks_moves_to_the_unreadable_and_back() {
        let (sender, receiver) = watch::channel(0);
        let store: Store<Machine> = Store::new(sender);
        let broken = json!({"metadata": {"name": "a"}, "spec": {"taints": 1}});
        store.replace(vec![
            seen(&json!({"metadata": {"name": "a"}})),
            seen(&json!({"metadata": {"name": "b"}})),
        ]);
        store.apply(seen(&broken));
        let contents = store.contents().unwrap();
        assert!(contents.unreadable.contains_key("a") && !contents.objects.contains_key("a"));
        assert!(contents.objects.contains_key("b"));
        let heard = *receiver.borrow();
        store.apply(seen(&broken));
        assert_eq!(*receiver.borrow(), heard + 1, "who knows what changed in it");
        store.apply(seen(&json!({"metadata": {"name": "a"}})));
        assert!(store.contents().unwrap().unreadable.is_empty());
    }

    #[test]
    fn a_kind_that_is_not_served_is_known_to_be_empty() {
        let store: Store<Machine> = Store::new(watch::Sender::new(0));
        store.absent();
        let contents = store.contents().unwrap();
        assert!(!contents.served && contents.objects.is_empty());
        assert_eq!(store.synced(), Ok(()));
    }
}
