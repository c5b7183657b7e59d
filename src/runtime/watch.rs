//! What a controller or admission watches, declared as data.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use capstan_core::api::kind::KindInfo;
use capstan_core::api::objects::{CachedObject, Objects};
use futures::future::BoxFuture;
use kube::Api;
use kube::api::{DynamicObject, ListParams};

use super::client::api;
use super::follow::follow;
use super::history::Restores;
use super::selection::Selection;
use super::store::{Notify, Store};

/// A kind to watch, which of its objects, and as which Rust type they are kept.
#[derive(Clone)]
pub struct Watch {
    pub(super) selection: Selection,
    start: fn(&Selection, Notify) -> Arc<dyn AnyStore>,
}

impl Watch {
    /// All objects of a kind, in all namespaces, kept as `T`.
    pub fn of<T: CachedObject>(kind: &KindInfo) -> Self {
        Self {
            selection: Selection {
                kind: kind.clone(),
                namespace: None,
                names: Vec::new(),
                labels: None,
            },
            start: |selection, notify| Arc::new(TypedStore::<T>::new(selection.clone(), notify)),
        }
    }

    /// Only objects in this namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.selection.namespace = Some(namespace.to_owned());
        self
    }

    /// Only objects of these names.
    #[must_use]
    pub fn named(mut self, names: &[&'static str]) -> Self {
        self.selection.names = names.iter().map(|name| Cow::Borrowed(*name)).collect();
        self
    }

    /// Only objects that fit a label selector.
    #[must_use]
    pub fn labelled(mut self, selector: &str) -> Self {
        self.selection.labels = Some(selector.to_owned());
        self
    }

    /// Reads one object of each stream, to tell whether the API server answers with objects.
    ///
    /// # Errors
    /// The answer of the API server: the kind is not served, or must not be read.
    pub async fn probe(&self, client: &kube::Client) -> kube::Result<()> {
        let api: Api<DynamicObject> = api(client, self.kind(), self.selection.namespace.as_deref());
        for stream in 0..self.selection.streams() {
            let config = self.selection.config(stream);
            let parameters = ListParams {
                field_selector: config.field_selector,
                label_selector: config.label_selector,
                limit: Some(1),
                ..ListParams::default()
            };
            api.list_metadata(&parameters).await?;
        }
        Ok(())
    }

    /// The kind that is watched.
    pub fn kind(&self) -> &KindInfo {
        &self.selection.kind
    }

    pub(super) fn start(&self, notify: Notify) -> Arc<dyn AnyStore> {
        (self.start)(&self.selection, notify)
    }
}

/// A store without the type of its objects.
pub(super) trait AnyStore: Send + Sync {
    /// Follows the cluster for ever; drop the future to stop.
    fn follow(self: Arc<Self>, client: kube::Client, stream: usize, restores: Restores) -> BoxFuture<'static, ()>;

    /// How many streams the store needs.
    fn streams(&self) -> usize;

    /// For each stream its title, and whether it was read once, or what went wrong so far.
    fn synced(&self) -> Vec<(String, Result<(), Option<String>>)>;

    /// Adds what is known to `objects`.
    fn fill(&self, objects: &mut Objects);
}

struct TypedStore<T> {
    selection: Selection,
    store: Store<T>,
    marker: PhantomData<fn() -> T>,
}

impl<T: CachedObject> TypedStore<T> {
    fn new(selection: Selection, notify: Notify) -> Self {
        let store = Store::new(selection.kind.clone(), selection.streams(), notify);
        Self {
            selection,
            store,
            marker: PhantomData,
        }
    }
}

impl<T: CachedObject> AnyStore for TypedStore<T> {
    fn follow(self: Arc<Self>, client: kube::Client, stream: usize, restores: Restores) -> BoxFuture<'static, ()> {
        Box::pin(async move { follow(client, &self.selection, stream, &self.store, restores).await })
    }

    fn streams(&self) -> usize {
        self.selection.streams()
    }

    fn synced(&self) -> Vec<(String, Result<(), Option<String>>)> {
        let states = self.store.synced().into_iter().enumerate();
        states
            .map(|(stream, state)| (self.selection.title(stream), state))
            .collect()
    }

    fn fill(&self, objects: &mut Objects) {
        if let Some(known) = self.store.known() {
            objects.insert(&self.selection.kind, known);
        }
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.selection.fmt(f)
    }
}
