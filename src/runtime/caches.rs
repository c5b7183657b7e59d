//! The caches of a process: one store for each watch, and one view of them all.
//!
//! A view is made anew after every change, or after several that came together. What was not read
//! yet is unknown in it, and never guessed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use capstan_core::api::kind::KindInfo;
use capstan_core::api::objects::{CachedObject, KindObjects, Objects};
use capstan_core::model::{NamespacedName, ObjectRef};
use kube::Client;
use tokio::sync::{Notify as Wake, watch};
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;
use super::history::{Restores, follow_history, selection};
use super::object::WatchedObject;
use super::step_error::StepError;
use super::store::{Notify, remove};
use super::watch::{AnyStore, Watch};

/// The watched objects at one moment.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// What is known, by kind.
    pub objects: Objects,
    /// Whether every kind was read once, or is known not to be served.
    pub synced: bool,
}

impl View {
    /// Puts an object that was read live in the place of what is known of it. `None`: there is no
    /// such object.
    pub fn put<T: CachedObject>(&mut self, kind: &KindInfo, key: &NamespacedName, read: Option<WatchedObject<T>>) {
        let mut known = self.objects.of::<T>(kind).cloned().unwrap_or_default();
        remove(&mut known.objects, key);
        remove(&mut known.undecodable, key);
        match read.map(|read| read.content) {
            Some(Ok(object)) => Arc::make_mut(&mut known.objects).insert_mut(key.clone(), object),
            Some(Err(undecodable)) => Arc::make_mut(&mut known.undecodable).insert_mut(key.clone(), undecodable),
            None => {}
        }
        self.objects.insert(kind, known);
    }

    /// Puts all objects of a kind that were read live in the place of what is known of the kind.
    pub fn replace<T: CachedObject>(&mut self, kind: &KindInfo, read: Vec<WatchedObject<T>>) {
        self.objects.insert(kind, KindObjects::<T>::default());
        for object in read {
            self.put(kind, &object.key(), Some(object));
        }
    }

    /// The view with one object as a live read shows it.
    ///
    /// # Errors
    /// When the API server cannot be read.
    pub async fn refreshed<T: CachedObject>(
        &self,
        cluster: &impl Cluster,
        kind: &KindInfo,
        key: &NamespacedName,
    ) -> Result<Self, StepError> {
        let read = cluster.get::<T>(kind, &key.namespace, &key.name).await;
        let read = read.map_err(|error| StepError::new(format!("reading {} {key}", kind.kind), error))?;
        let mut live = self.clone();
        live.put(kind, key, read);
        Ok(live)
    }

    /// The objects of a kind in a namespace; none while they are unknown.
    pub fn within<'v, T: CachedObject>(
        &'v self,
        kind: &KindInfo,
        namespace: &'v str,
    ) -> impl Iterator<Item = &'v Arc<T>> {
        let first = NamespacedName::new(namespace, "");
        let known = self.objects.of::<T>(kind).into_iter();
        known.flat_map(move |known| {
            let objects = known.objects.range(first.clone()..);
            let objects = objects.take_while(move |(key, _)| key.namespace == namespace);
            objects.map(|(_, object)| object)
        })
    }

    /// Keeps only the objects of a kind that fit.
    pub fn retain<T: CachedObject>(&mut self, kind: &KindInfo, fits: impl Fn(&T) -> bool) {
        let mut known = self.objects.of::<T>(kind).cloned().unwrap_or_default();
        let fitting = known.objects.iter().filter(|(_, object)| fits(object));
        known.objects = Arc::new(fitting.map(|(key, object)| (key.clone(), Arc::clone(object))).collect());
        self.objects.insert(kind, known);
    }
}

/// What changed since a subscriber last asked.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The newest view.
    pub view: Arc<View>,
    /// The objects that differ from the view before, whatever happened to them.
    pub objects: BTreeSet<ObjectRef>,
}

#[derive(Debug, Default)]
struct Pending {
    changes: Mutex<(Changes, Closed)>,
    wake: Wake,
}

/// Whether the caches are gone.
type Closed = bool;

/// Receives every changed object, however slowly it asks.
#[derive(Debug)]
pub struct Subscription(Arc<Pending>);

impl Subscription {
    /// Waits for a change; `None` once the caches are gone. The first call answers at once.
    pub async fn changed(&mut self) -> Option<Changes> {
        self.0.wake.notified().await;
        let mut pending = self.0.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let (changes, closed) = &mut *pending;
        let objects = std::mem::take(&mut changes.objects);
        let view = Arc::clone(&changes.view);
        (!*closed).then_some(Changes { view, objects })
    }
}

/// Gives views to their readers, and tells each subscriber every object that changed.
#[derive(Debug, Default)]
pub struct Publisher {
    view: watch::Sender<Arc<View>>,
    subscribers: Mutex<Vec<Weak<Pending>>>,
}

impl Publisher {
    /// The newest view, and every later one.
    pub fn views(&self) -> watch::Receiver<Arc<View>> {
        self.view.subscribe()
    }

    /// Receives every changed object from now on.
    pub fn subscribe(&self) -> Subscription {
        let pending = Arc::new(Pending::default());
        let mut subscribers = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(mut changes) = pending.changes.lock() {
            changes.0.view = Arc::clone(&self.view.borrow());
        }
        pending.wake.notify_one();
        subscribers.push(Arc::downgrade(&pending));
        Subscription(pending)
    }

    /// Publishes a view in which these objects differ from the view before.
    pub fn publish(&self, view: View, changed: &BTreeSet<ObjectRef>) {
        let view = Arc::new(view);
        let mut subscribers = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        self.view.send_replace(Arc::clone(&view));
        subscribers.retain(|subscriber| {
            let Some(pending) = subscriber.upgrade() else {
                return false;
            };
            let mut changes = pending.changes.lock().unwrap_or_else(PoisonError::into_inner);
            changes.0.view = Arc::clone(&view);
            changes.0.objects.extend(changed.iter().cloned());
            drop(changes);
            pending.wake.notify_one();
            true
        });
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let subscribers = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        for pending in subscribers.iter().filter_map(Weak::upgrade) {
            pending.changes.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
            pending.wake.notify_one();
        }
    }
}

/// Watches the cluster in the background until it is dropped.
pub struct Caches {
    stores: Vec<Arc<dyn AnyStore>>,
    /// Watches of kinds that became known while the process runs, by title and version.
    added: Mutex<BTreeMap<String, Added>>,
    client: Client,
    notify: Notify,
    restores: Restores,
    publisher: Publisher,
    stop: CancellationToken,
}

/// A store that was added, and what stops its watch.
struct Added {
    store: Arc<dyn AnyStore>,
    stop: CancellationToken,
}

impl Caches {
    /// Starts to watch.
    pub fn start(client: &Client, watches: &[Watch]) -> Arc<Self> {
        let (notify, stop) = (Notify::default(), CancellationToken::new());
        let stores: Vec<Arc<dyn AnyStore>> = watches.iter().map(|watch| watch.start(notify.clone())).collect();
        let (restored, restores) = watch::channel(0);
        if let Some(selection) = selection(watches.iter().map(|watch| &watch.selection)) {
            let history = follow_history(client.clone(), selection.clone(), restored);
            tokio::spawn(stop.clone().run_until_cancelled_owned(history));
        }
        for store in &stores {
            follow_all(store, client, &restores, &stop);
        }
        let caches = Arc::new(Self {
            stores,
            added: Mutex::default(),
            client: client.clone(),
            notify: notify.clone(),
            restores,
            publisher: Publisher::default(),
            stop: stop.clone(),
        });
        let publishing = Arc::downgrade(&caches);
        tokio::spawn(stop.run_until_cancelled_owned(async move {
            loop {
                // What changes while the view is made is in the next one.
                let changed = notify.take();
                let Some(caches) = publishing.upgrade() else { return };
                caches.publisher.publish(caches.view(), &changed);
                drop(caches);
                notify.wait().await;
            }
        }));
        caches
    }

    /// Watches these kinds besides those of the start (decision 61): it starts the watches that are
    /// missing, and ends those that are no longer in the list. The objects of such a kind are
    /// unknown until they were read once. They do not delay [`Self::synced`].
    pub fn watch_also(&self, watches: &[Watch]) {
        let title = |watch: &Watch| format!("{} {}", watch.kind().title(), watch.kind().version);
        let wanted: BTreeSet<String> = watches.iter().map(title).collect();
        let mut added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
        added.retain(|known, entry| {
            let is_wanted = wanted.contains(known);
            if !is_wanted {
                entry.stop.cancel();
            }
            is_wanted
        });
        for watch in watches {
            added.entry(title(watch)).or_insert_with(|| {
                let (store, stop) = (watch.start(self.notify.clone()), self.stop.child_token());
                follow_all(&store, &self.client, &self.restores, &stop);
                Added { store, stop }
            });
        }
    }

    /// The newest view, and every later one.
    pub fn views(&self) -> watch::Receiver<Arc<View>> {
        self.publisher.views()
    }

    /// Receives every changed object from now on.
    pub fn subscribe(&self) -> Subscription {
        self.publisher.subscribe()
    }

    /// Whether every kind was read once, or is known not to be served.
    ///
    /// # Errors
    /// What is missing, for the person who reads `/readyz`.
    pub fn synced(&self) -> Result<(), String> {
        let states = self.stores.iter().flat_map(|store| store.synced());
        let missing: Vec<String> = states
            .filter_map(|(title, state)| match state {
                Ok(()) => None,
                Err(None) => Some(title),
                Err(Some(reason)) => Some(format!("{title} ({reason})")),
            })
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(format!("not read yet: {}", missing.join(", ")))
        }
    }

    fn view(&self) -> View {
        let mut view = View {
            synced: self.synced().is_ok(),
            ..View::default()
        };
        for store in &self.stores {
            store.fill(&mut view.objects);
        }
        let added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in added.values() {
            entry.store.fill(&mut view.objects);
        }
        view
    }
}

/// Follows all streams of a store until `stop`.
fn follow_all(store: &Arc<dyn AnyStore>, client: &Client, restores: &Restores, stop: &CancellationToken) {
    for stream in 0..store.streams() {
        let following = Arc::clone(store).follow(client.clone(), stream, restores.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(following));
    }
}

impl Drop for Caches {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl std::fmt::Debug for Caches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caches")
            .field("synced", &self.synced())
            .finish_non_exhaustive()
    }
}
