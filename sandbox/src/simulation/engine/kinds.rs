//! The kinds that a world caches, the keys of their objects, and objects that have been read into
//! wire types.
//!
//! An environment lists its kinds once, as [`CachedKind`]s. Caches, live reads, lists after a
//! restart, and permissions are keyed by [`KindId`], so a new kind is one entry in that list. This
//! module must not know any particular kind.

use std::any::Any;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use capstan::runtime::{View, WatchedObject};
use capstan_core::api::kind::{KindInfo, Scope};
use capstan_core::api::kinds::KINDS;
use capstan_core::api::objects::CachedObject;
use capstan_core::model::NamespacedName;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::api::{Object, Part, Target};

/// A kind of objects, as the API server serves it.
#[derive(Clone, Copy)]
pub struct KindId {
    /// A hash of group and plural. Keys are compared all the time, and the hash decides alone.
    hash: u64,
    info: &'static KindInfo,
}

impl KindId {
    /// The id of a kind.
    pub const fn of(info: &'static KindInfo) -> Self {
        Self { hash: hash(info), info }
    }

    /// The hash of a kind that may be known at run time only.
    pub(crate) fn hash(info: &KindInfo) -> u64 {
        hash(info)
    }

    /// Whether the kind has this hash.
    pub(crate) fn has_hash(self, hash: u64) -> bool {
        self.hash == hash
    }

    /// What clients know of the kind.
    pub(crate) fn info(self) -> &'static KindInfo {
        self.info
    }

    /// The API group; empty for the core group.
    pub(crate) fn group(self) -> &'static str {
        &self.info.group
    }

    /// The plural that URLs contain.
    pub(crate) fn plural(self) -> &'static str {
        &self.info.plural
    }

    /// The key of an object of this kind. The namespace is ignored for a cluster-scoped kind.
    pub(crate) fn key(self, namespace: &str, name: &str) -> ObjectKey {
        let namespace = match self.info.scope {
            Scope::Namespaced => namespace,
            Scope::Cluster => "",
        };
        ObjectKey::new(self, namespace, name)
    }
}

const fn hash(info: &KindInfo) -> u64 {
    let hash = fnv(0xcbf2_9ce4_8422_2325, bytes(&info.group));
    fnv(hash, bytes(&info.plural))
}

#[expect(clippy::ptr_arg, reason = "a constant function cannot dereference a Cow")]
const fn bytes<'a>(text: &'a Cow<'static, str>) -> &'a [u8] {
    match text {
        Cow::Borrowed(text) => text.as_bytes(),
        Cow::Owned(text) => text.as_bytes(),
    }
}

/// FNV-1a, from a start value on.
const fn fnv(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut rest = bytes;
    while let Some((first, others)) = rest.split_first() {
        hash = (hash ^ *first as u64).wrapping_mul(0x0100_0000_01b3);
        rest = others;
    }
    hash
}

impl PartialEq for KindId {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl Eq for KindId {}

impl Ord for KindId {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.hash.cmp(&other.hash)
    }
}

impl PartialOrd for KindId {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A kind is serialized as `kubectl` names it: `machines.machine.openshift.io`, `nodes`.
impl Serialize for KindId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.info.title())
    }
}

/// Only the kinds of the kind table can be read.
impl<'de> Deserialize<'de> for KindId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let title = String::deserialize(deserializer)?;
        let mut kinds = KINDS.iter().filter_map(|entry| match &entry.kind {
            Cow::Borrowed(info) => Some(*info),
            Cow::Owned(_) => None,
        });
        let found = kinds.find(|info| info.title() == title);
        found
            .map(Self::of)
            .ok_or_else(|| D::Error::custom(format!("{title} must be in the kind table")))
    }
}

impl fmt::Debug for KindId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.info.kind)
    }
}

/// The key of an object: its kind, its namespace, which is empty for a cluster-scoped kind, and its
/// name.
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
            group: self.kind.group().to_owned(),
            plural: self.kind.plural().to_owned(),
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

/// A version of an object: as it is stored, and read. Clones share both.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// The object in the type that the environment caches.
    pub(crate) typed: Typed,
    /// The object as it is stored.
    pub(crate) stored: Arc<Object>,
}

/// Reads an object into the wire type of its kind. The second argument is the version before it,
/// stored and read: fields that both versions share need not be read again. `None` for an object
/// that cannot be read.
pub(crate) type Read = fn(&Object, Option<(&Object, &Typed)>) -> Option<Typed>;

/// Puts an object into what a controller sees, or removes it if it has no version. Without a key,
/// only the kind becomes known.
type Show = fn(KindId, Option<(&ObjectKey, Option<&Version>)>, &mut View);

/// A kind that every replica caches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedKind {
    /// The kind.
    pub(crate) id: KindId,
    /// How its objects are read.
    read: Read,
    /// Puts one of its objects into what a controller sees.
    show: Show,
    /// Whether its objects own others, so that their deletion starts the garbage collector.
    pub(crate) owns: bool,
}

impl CachedKind {
    /// A kind whose objects are cached as `T`.
    pub(crate) const fn of<T: CachedObject>(id: KindId) -> Self {
        Self {
            id,
            read: decode::<T>,
            show: show::<T>,
            owns: false,
        }
    }

    /// The same with a faster way to read its objects.
    pub(crate) const fn read_by(mut self, read: Read) -> Self {
        self.read = read;
        self
    }

    /// The same for a kind whose objects own others.
    pub(crate) const fn owning(mut self) -> Self {
        self.owns = true;
        self
    }

    /// A version of an object; `None` if it cannot be read. What it shares with the version before
    /// is not read again.
    pub(crate) fn version(&self, stored: &Arc<Object>, before: Option<&Version>) -> Option<Version> {
        let before = before.map(|before| (&*before.stored, &before.typed));
        Some(Version {
            typed: (self.read)(stored, before)?,
            stored: Arc::clone(stored),
        })
    }

    /// Adds the kind without objects to what a controller sees.
    pub(crate) fn show_empty(&self, view: &mut View) {
        (self.show)(self.id, None, view);
    }

    /// Shows a controller the last version of an object; `None` if the object is gone.
    pub(crate) fn show(&self, key: &ObjectKey, version: Option<&Version>, view: &mut View) {
        (self.show)(self.id, Some((key, version)), view);
    }
}

/// Decodes an object as the caches of the runtime do.
pub(crate) fn decode<T: CachedObject>(object: &Object, _before: Option<(&Object, &Typed)>) -> Option<Typed> {
    WatchedObject::<T>::of(object.to_value()).content.ok().map(Typed::new)
}

fn show<T: CachedObject>(kind: KindId, changed: Option<(&ObjectKey, Option<&Version>)>, view: &mut View) {
    let mut known = view.objects.of::<T>(kind.info()).cloned().unwrap_or_default();
    if let Some((key, version)) = changed {
        let name = NamespacedName::new(key.namespace.as_str(), key.name.as_str());
        let objects = Arc::make_mut(&mut known.objects);
        match version.and_then(|version| version.typed.shared::<T>()) {
            Some(object) => objects.insert_mut(name, object),
            None => drop(objects.remove_mut(&name)),
        }
    }
    view.objects.insert(kind.info(), known);
}

/// The objects of one kind, by namespace and name.
type OfKind = BTreeMap<ObjectKey, Version>;

/// Objects by key. Clones share the kinds whose objects do not change.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectMap(BTreeMap<KindId, Arc<OfKind>>);

impl ObjectMap {
    /// An object.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Version> {
        self.0.get(&key.kind)?.get(key)
    }

    /// All objects.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Version> {
        self.0.values().flat_map(|objects| objects.values())
    }

    /// All objects of a kind, by namespace and name.
    pub(crate) fn of_kind(&self, kind: KindId) -> impl Iterator<Item = (&ObjectKey, &Version)> {
        self.0.get(&kind).into_iter().flat_map(|objects| objects.iter())
    }

    /// Stores a version of an object; `None` if the object is gone.
    pub(crate) fn put(&mut self, key: ObjectKey, version: Option<Version>) {
        let objects = Arc::make_mut(self.0.entry(key.kind).or_default());
        match version {
            Some(version) => drop(objects.insert(key, version)),
            None => drop(objects.remove(&key)),
        }
    }

    /// Removes all objects of a kind.
    pub(crate) fn remove_kind(&mut self, kind: KindId) {
        self.0.remove(&kind);
    }
}
