//! The kinds that a world caches, the keys of their objects, and objects that have been read into wire types.
//!
//! An environment lists its kinds once, as [`CachedKind`]s. Caches, live reads, lists after a restart, and permissions are
//! keyed by [`KindId`], so a new kind is one entry in that list. This module must not know any particular kind.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::api::{Object, Part, Target};

/// A kind of objects, as the API server serves it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindId {
    kind: &'static str,
    group: &'static str,
    plural: &'static str,
}

impl KindId {
    /// A kind of an API group, which is empty for the core group, with the plural that URLs contain.
    pub const fn new(group: &'static str, kind: &'static str, plural: &'static str) -> Self {
        Self { kind, group, plural }
    }

    /// The API group; empty for the core group.
    pub(crate) fn group(self) -> &'static str {
        self.group
    }

    /// The plural that URLs contain.
    pub(crate) fn plural(self) -> &'static str {
        self.plural
    }
}

impl fmt::Debug for KindId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)
    }
}

/// The key of an object: its kind, its namespace, which is empty for a cluster-scoped kind, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The kind.
    pub kind: KindId,
    /// The namespace; empty for a cluster-scoped kind.
    pub namespace: String,
    /// The name; empty where the key stands for all objects of the kind.
    pub name: String,
}

impl ObjectKey {
    /// The key of an object.
    pub fn new(kind: KindId, namespace: &str, name: &str) -> Self {
        Self {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The target of a request to the API server for this object.
    pub(crate) fn target(&self, part: Part) -> Target {
        Target {
            group: self.kind.group.to_owned(),
            plural: self.kind.plural.to_owned(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            part,
        }
    }
}

/// An object that has been read into the wire type of its kind. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Typed(Arc<dyn Any + Send + Sync>);

impl Typed {
    /// An object of a wire type.
    pub(crate) fn new<T: Any + Send + Sync>(object: Arc<T>) -> Self {
        Self(object)
    }

    /// The object, if it is of this wire type.
    pub(crate) fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// A shared reference to the object, if it is of this wire type.
    pub(crate) fn shared<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.0).downcast().ok()
    }
}

/// Reads an object into the wire type of its kind. The second argument is the version before it, stored and read: fields
/// that both versions share need not be read again. `None` for an object that cannot be read.
pub(crate) type Read = fn(&Object, Option<(&Object, &Typed)>) -> Option<Typed>;

/// A kind that every replica caches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedKind {
    /// The kind.
    pub(crate) id: KindId,
    /// How its objects are read.
    pub(crate) read: Read,
    /// Whether its objects own others, so that their deletion starts the garbage collector.
    pub(crate) owns: bool,
}

/// Objects by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects(BTreeMap<ObjectKey, Typed>);

impl Objects {
    /// An object.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Typed> {
        self.0.get(key)
    }

    /// All objects of a kind, by namespace and name.
    pub(crate) fn of_kind(&self, kind: KindId) -> impl Iterator<Item = (&ObjectKey, &Typed)> {
        self.0
            .range(ObjectKey::new(kind, "", "")..)
            .take_while(move |(key, _)| key.kind == kind)
    }

    /// All objects of a kind that are of this wire type.
    pub(crate) fn all<T: Any + Send + Sync>(&self, kind: KindId) -> impl Iterator<Item = (&str, Arc<T>)> {
        let all = self.of_kind(kind);
        all.filter_map(|(key, typed)| Some((key.name.as_str(), typed.shared()?)))
    }

    /// Stores a version of an object; `None` if the object is gone.
    pub(crate) fn put(&mut self, key: ObjectKey, typed: Option<Typed>) {
        match typed {
            Some(typed) => drop(self.0.insert(key, typed)),
            None => drop(self.0.remove(&key)),
        }
    }

    /// Removes all objects of a kind.
    pub(crate) fn remove_kind(&mut self, kind: KindId) {
        self.0.retain(|key, _| key.kind != kind);
    }
}
