//! What is known of one kind: nothing yet, that the cluster does not serve it, or its objects.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use capstan_core::api::kind::KindInfo;
use capstan_core::api::objects::{ByKey, CachedObject, Index, KindObjects, Undecodable};
use capstan_core::model::{NamespacedName, ObjectRef};
use tokio::sync::Notify as Wake;

use super::object::WatchedObject;

/// Collects the objects that changed, and wakes the task that publishes the next view.
#[derive(Clone, Debug, Default)]
pub(super) struct Notify {
    changed: Arc<Mutex<BTreeSet<ObjectRef>>>,
    wake: Arc<Wake>,
}

impl Notify {
    fn changed(&self, objects: impl IntoIterator<Item = ObjectRef>) {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        changed.extend(objects);
        drop(changed);
        self.wake.notify_one();
    }

    /// The objects that changed since the last call.
    pub(super) fn take(&self) -> BTreeSet<ObjectRef> {
        std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until something changes.
    pub(super) async fn wait(&self) {
        self.wake.notified().await;
    }
}

/// The objects of one kind, as the last event of each stream left them.
#[derive(Debug)]
pub(super) struct Store<T> {
    kind: KindInfo,
    inner: Mutex<Inner<T>>,
    notify: Notify,
}

#[derive(Debug)]
struct Inner<T> {
    /// What each stream knows.
    streams: Vec<Known>,
    /// Shared with the views that were made of it. A write copies one path of the tree.
    objects: Arc<Index<T>>,
    undecodable: Arc<ByKey<Undecodable>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    /// Not read yet; with the last error.
    Unknown(Option<String>),
    /// The cluster does not serve the kind.
    Absent,
    /// The cluster serves the kind in other versions only, so its objects are unknown.
    OtherVersion,
    /// All objects were read once, and changes are followed since.
    Synced,
}

impl<T: CachedObject> Store<T> {
    /// A store that knows nothing yet.
    pub(super) fn new(kind: KindInfo, streams: usize, notify: Notify) -> Self {
        let inner = Inner {
            streams: vec![Known::Unknown(None); streams.max(1)],
            objects: Arc::default(),
            undecodable: Arc::default(),
        };
        Self {
            kind,
            inner: Mutex::new(inner),
            notify,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        // Every change below is a single assignment or a map operation, so a panic leaves the store
        // whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self, keys: impl IntoIterator<Item = NamespacedName>) {
        let objects = keys.into_iter().map(|key| self.kind.object(&key.namespace, &key.name));
        self.notify.changed(objects);
    }

    /// What is known; `None` before every stream was read once.
    pub(super) fn known(&self) -> Option<KindObjects<T>> {
        let inner = self.lock();
        let is_unknown = |known: &Known| matches!(known, Known::Unknown(_) | Known::OtherVersion);
        let unknown = inner.streams.iter().any(is_unknown);
        (!unknown).then(|| KindObjects {
            objects: Arc::clone(&inner.objects),
            undecodable: Arc::clone(&inner.undecodable),
            served: inner.streams.contains(&Known::Synced),
        })
    }

    /// For each stream, whether it was read once, or the last error.
    pub(super) fn synced(&self) -> Vec<Result<(), Option<String>>> {
        let inner = self.lock();
        let states = inner.streams.iter().map(|known| match known {
            Known::Unknown(reason) => Err(reason.clone()),
            // A longer wait does not make a kind in another version known.
            Known::Absent | Known::OtherVersion | Known::Synced => Ok(()),
        });
        states.collect()
    }

    /// The kind is not served.
    pub(super) fn absent(&self, stream: usize) {
        self.not_served(stream, Known::Absent);
    }

    /// The kind is served in other versions only.
    pub(super) fn other_version(&self, stream: usize) {
        self.not_served(stream, Known::OtherVersion);
    }

    fn not_served(&self, stream: usize, reason: Known) {
        let mut inner = self.lock();
        let Some(known) = inner.streams.get_mut(stream) else {
            return;
        };
        if *known != reason {
            *known = reason;
            let gone: Vec<_> = inner.keys();
            inner.objects = Arc::default();
            inner.undecodable = Arc::default();
            drop(inner);
            self.notify(gone);
        }
    }

    /// A read failed. What is known stays known.
    pub(super) fn failed(&self, stream: usize, reason: String) {
        if let Some(Known::Unknown(last)) = self.lock().streams.get_mut(stream) {
            *last = Some(reason);
        }
    }

    /// What is known is older than the cluster, which was restored. It is unknown until it is read
    /// again.
    pub(super) fn outdated(&self, stream: usize) {
        let mut inner = self.lock();
        if let Some(known) = inner.streams.get_mut(stream) {
            *known = Known::Unknown(Some(String::from("etcd was restored")));
        }
        let keys = inner.keys();
        drop(inner);
        self.notify(keys);
    }

    /// All objects of a stream, as one read gave them. `name` is the only object of the stream.
    pub(super) fn replace(&self, stream: usize, name: Option<&str>, all: Vec<WatchedObject<T>>) {
        let mut inner = self.lock();
        let mut changed: BTreeSet<NamespacedName> = inner.keys().into_iter().collect();
        match name {
            None => {
                inner.objects = Arc::default();
                inner.undecodable = Arc::default();
            }
            Some(name) => {
                for key in changed.iter().filter(|key| key.name == name) {
                    inner.forget(key);
                }
            }
        }
        for watched in all {
            changed.insert(watched.key());
            inner.put(watched);
        }
        if let Some(known) = inner.streams.get_mut(stream) {
            *known = Known::Synced;
        }
        drop(inner);
        self.notify(changed);
    }

    /// An object was added or changed.
    pub(super) fn apply(&self, watched: WatchedObject<T>) {
        let key = watched.key();
        let changed = self.lock().put(watched);
        if changed {
            self.notify([key]);
        }
    }

    /// An object is gone.
    pub(super) fn remove(&self, key: &NamespacedName) {
        let mut inner = self.lock();
        let was_known = inner.forget(key);
        drop(inner);
        if was_known {
            self.notify([key.clone()]);
        }
    }
}

impl<T: CachedObject> Inner<T> {
    fn keys(&self) -> Vec<NamespacedName> {
        self.objects.keys().chain(self.undecodable.keys()).cloned().collect()
    }

    /// Removes an object. Returns whether the object was known.
    fn forget(&mut self, key: &NamespacedName) -> bool {
        let known = remove(&mut self.objects, key);
        remove(&mut self.undecodable, key) || known
    }

    /// Returns whether anything is different now.
    fn put(&mut self, watched: WatchedObject<T>) -> bool {
        let key = watched.key();
        match watched.content {
            Ok(object) => {
                let repaired = remove(&mut self.undecodable, &key);
                let is_same = self.objects.get(&key) == Some(&object);
                Arc::make_mut(&mut self.objects).insert_mut(key, object);
                repaired || !is_same
            }
            Err(undecodable) => {
                // Its former content is outdated. Every event counts as a change, because whatever
                // changed in the object may matter, for example that its deletion was requested.
                self.forget(&key);
                Arc::make_mut(&mut self.undecodable).insert_mut(key, undecodable);
                true
            }
        }
    }
}

/// Removes a value from a shared map. A map that does not have the key is not copied, so that it
/// stays the same map for every reader.
pub(super) fn remove<T: Clone>(map: &mut Arc<ByKey<T>>, key: &NamespacedName) -> bool {
    map.contains_key(key) && Arc::make_mut(map).remove_mut(key)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use capstan_core::api::meta::ObjectMeta;
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    const THINGS: KindInfo = KindInfo::namespaced("example.org", "v1", "Thing", "things");

    #[derive(Clone, Debug, PartialEq, Deserialize)]
    struct Thing {
        metadata: ObjectMeta,
        #[serde(default)]
        spec: BTreeMap<String, u32>,
    }

    impl CachedObject for Thing {
        fn metadata(&self) -> Option<&ObjectMeta> {
            Some(&self.metadata)
        }
    }

    fn watched(object: &Value) -> WatchedObject<Thing> {
        serde_json::from_value(object.clone()).unwrap()
    }

    fn named(name: &str) -> NamespacedName {
        NamespacedName::new("", name)
    }

    fn store() -> (Store<Thing>, Notify) {
        let notify = Notify::default();
        (Store::new(THINGS, 1, notify.clone()), notify)
    }

    fn changes(notify: &Notify) -> Vec<String> {
        notify.take().into_iter().map(|object| object.name).collect()
    }

    #[test]
    fn f11_the_objects_of_a_kind_in_another_version_are_unknown() {
        let (store, _) = store();
        store.other_version(0);
        assert!(store.known().is_none(), "its objects must not count as absent");
        assert_eq!(store.synced(), [Ok(())], "the server does not wait for them");
        store.absent(0);
        assert!(store.known().is_some());
    }

    #[test]
    fn a_kind_is_unknown_before_it_was_read_and_stays_known_when_a_read_fails() {
        let (store, notify) = store();
        assert!(store.known().is_none());
        store.failed(0, "no route".into());
        assert_eq!(store.synced(), [Err(Some("no route".into()))]);
        store.replace(0, None, vec![watched(&json!({"metadata": {"name": "a"}}))]);
        store.failed(0, "no route".into());
        assert_eq!(store.synced(), [Ok(())]);
        assert_eq!(store.known().unwrap().objects.size(), 1);
        assert_eq!(changes(&notify), ["a"]);
    }

    #[test]
    fn an_event_without_a_difference_notifies_no_reader() {
        let (store, notify) = store();
        let thing = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
        store.replace(0, None, vec![watched(&thing)]);
        assert_eq!(changes(&notify), ["a"]);
        store.apply(watched(&thing));
        store.remove(&named("b"));
        assert!(changes(&notify).is_empty());
        store.apply(watched(&json!({"metadata": {"name": "a", "resourceVersion": "2"}})));
        assert_eq!(changes(&notify), ["a"]);
    }

    #[test]
    fn an_object_that_cannot_be_decoded_is_kept_apart_until_it_can_be() {
        let (store, notify) = store();
        let broken = json!({"metadata": {"name": "a"}, "spec": {"size": "large"}});
        store.replace(
            0,
            None,
            vec![
                watched(&json!({"metadata": {"name": "a"}})),
                watched(&json!({"metadata": {"name": "b"}})),
            ],
        );
        store.apply(watched(&broken));
        let known = store.known().unwrap();
        assert!(known.undecodable.contains_key(&named("a")) && !known.objects.contains_key(&named("a")));
        assert!(known.objects.contains_key(&named("b")));
        changes(&notify);
        store.apply(watched(&broken));
        assert_eq!(changes(&notify), ["a"], "something in it may have changed");
        store.apply(watched(&json!({"metadata": {"name": "a"}})));
        assert!(store.known().unwrap().undecodable.is_empty());
    }

    #[test]
    fn a_kind_that_is_not_served_is_known_to_be_empty() {
        let (store, _) = store();
        store.absent(0);
        let known = store.known().unwrap();
        assert!(!known.served && known.objects.is_empty());
        assert_eq!(store.synced(), [Ok(())]);
    }

    #[test]
    fn a_stream_of_one_name_leaves_the_objects_of_other_streams_alone() {
        let store: Store<Thing> = Store::new(THINGS, 2, Notify::default());
        let thing = |name: &str| watched(&json!({"metadata": {"name": name}}));
        store.replace(0, Some("a"), vec![thing("a")]);
        assert!(store.known().is_none(), "the second stream was not read yet");
        store.replace(1, Some("b"), vec![thing("b")]);
        store.replace(0, Some("a"), Vec::new());
        let names: Vec<String> = store.known().unwrap().objects.keys().map(ToString::to_string).collect();
        assert_eq!(names, ["b"]);
    }

    #[test]
    fn a_view_shares_its_objects_with_the_store_and_with_the_view_before() {
        let (store, _) = store();
        let thing = |name: &str| watched(&json!({"metadata": {"name": name}}));
        store.replace(0, None, vec![thing("a"), thing("b")]);
        let before = store.known().unwrap().objects;
        store.apply(thing("c"));
        let after = store.known().unwrap().objects;
        assert_eq!((before.size(), after.size()), (2, 3));
        assert!(before.iter().all(|(key, object)| Arc::ptr_eq(object, &after[key])));
    }
}
