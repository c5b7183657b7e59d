//! Stores objects and the history of their changes. One counter numbers all changes, as in etcd.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use capstan_core::admission::Phase;
use capstan_core::model::Edit;
use jiff::Timestamp;
use serde_json::Value;

use super::failure::Failure;
use super::kinds::Kind;
use super::object::Object;
use super::reply::Reply;
use super::request::{Part, Request, Verb};

/// Identifies an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The position of the kind in [`Api::kinds`].
    pub kind: usize,
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// How a change affected an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The object was created.
    Added,
    /// The object was changed.
    Modified,
    /// The object was removed.
    Deleted,
}

impl ChangeKind {
    /// The type of the event in a watch.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// A change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The version of the change.
    pub revision: u64,
    /// The time of the request that caused it.
    pub at: Timestamp,
    /// The object.
    pub key: Key,
    /// How the object was affected.
    pub kind: ChangeKind,
    /// The object after the change. After a deletion, it is the last stored object with the version
    /// of the deletion.
    pub object: Arc<Object>,
    /// The object before the change.
    pub old: Option<Arc<Object>>,
}

/// Options of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether writes other than server-side apply keep `managedFields`.
    pub managed_fields: bool,
    /// How many changes are kept for watches and pages. Requests for older ones are answered with
    /// 410 Expired.
    pub history: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            managed_fields: true,
            history: 10_000,
        }
    }
}

/// Judges writes, as admission webhooks do.
pub trait Admit: Send + Sync {
    /// Whether writes to a part of a kind are judged.
    fn asks(&self, kind: &Kind, part: Part) -> bool;

    /// Judges one write in one pass. The mutating pass may return another object; `None` leaves the
    /// object as it is.
    ///
    /// # Errors
    /// The write is refused.
    fn judge(
        &self,
        api: &Api,
        kind: &Kind,
        phase: Phase,
        edit: &Edit<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Value>, Failure>;
}

/// The API server.
pub struct Api {
    pub(super) kinds: Arc<Vec<Kind>>,
    pub(super) objects: BTreeMap<Key, Arc<Object>>,
    pub(super) revision: u64,
    pub(super) log: VecDeque<Change>,
    /// The changes up to this version are no longer kept.
    pub(super) compacted: u64,
    pub(super) names: u64,
    pub(super) options: Options,
    pub(super) admission: Option<Arc<dyn Admit>>,
    /// The changes of the request that is being answered.
    pub(super) fresh: Vec<Change>,
    /// The time of the request that is being answered.
    pub(super) now: Timestamp,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api")
            .field("revision", &self.revision)
            .field("objects", &self.objects.len())
            .finish_non_exhaustive()
    }
}

impl Api {
    /// An API without objects that serves these kinds.
    pub fn new(kinds: Arc<Vec<Kind>>, options: Options) -> Self {
        Self {
            kinds,
            objects: BTreeMap::new(),
            revision: 1,
            log: VecDeque::new(),
            compacted: 0,
            names: 0,
            options,
            admission: None,
            fresh: Vec::new(),
            now: Timestamp::UNIX_EPOCH,
        }
    }

    /// Judges writes by `admission`.
    #[must_use]
    pub fn with_admission(mut self, admission: Arc<dyn Admit>) -> Self {
        self.admission = Some(admission);
        self
    }

    /// The options.
    pub fn options(&self) -> Options {
        self.options
    }

    /// Becomes a copy of another API, but keeps its own admission.
    pub fn become_copy_of(&mut self, other: &Self) {
        *self = Self {
            kinds: Arc::clone(&other.kinds),
            objects: other.objects.clone(),
            revision: other.revision,
            log: other.log.clone(),
            compacted: other.compacted,
            names: other.names,
            options: other.options,
            admission: self.admission.take(),
            fresh: other.fresh.clone(),
            now: other.now,
        };
    }

    /// Serves other definitions of the same kinds, in the same order. Stored objects change only
    /// when they are written.
    pub fn serve(&mut self, kinds: Arc<Vec<Kind>>) {
        self.kinds = kinds;
    }

    /// Answers a request, and returns the changes that it caused.
    pub fn apply(&mut self, request: &Request, now: Timestamp) -> (Result<Reply, Failure>, Vec<Change>) {
        let patch = match &request.verb {
            Verb::Patch(_, patch, _) => patch.clone(),
            _ => Value::Null,
        };
        self.apply_patch_of(request, patch, now)
    }

    /// Like [`Api::apply`], but moves the patch out of the request instead of copying it.
    pub fn apply_taking(&mut self, request: &mut Request, now: Timestamp) -> (Result<Reply, Failure>, Vec<Change>) {
        let patch = match &mut request.verb {
            Verb::Patch(_, patch, _) => patch.take(),
            _ => Value::Null,
        };
        self.apply_patch_of(request, patch, now)
    }

    fn apply_patch_of(
        &mut self,
        request: &Request,
        patch: Value,
        now: Timestamp,
    ) -> (Result<Reply, Failure>, Vec<Change>) {
        self.now = now;
        let answer = self.answer(request, patch, now);
        (answer, std::mem::take(&mut self.fresh))
    }

    fn answer(&mut self, request: &Request, body: Value, now: Timestamp) -> Result<Reply, Failure> {
        let target = &request.target;
        let kind = self
            .kind_of(&target.group, &target.plural)
            .ok_or_else(Failure::unknown_resource)?;
        match &request.verb {
            Verb::Get => self.get(kind, target),
            Verb::List(options) => self.list(kind, target, options),
            Verb::Create(object, options) => self.create(kind, request, object.clone(), options, now),
            Verb::Update(object, options) => self.update(kind, request, object, options, now),
            Verb::Patch(how, _, options) => self.patch(kind, request, *how, body, options, now),
            Verb::Delete(options) => self.delete(kind, request, options, now),
            Verb::DeleteCollection(which, options) => self.delete_collection(kind, request, which, options, now),
        }
    }

    /// The kinds that the API serves.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The position of a kind in [`Api::kinds`].
    pub fn kind_of(&self, group: &str, plural: &str) -> Option<usize> {
        self.kinds
            .iter()
            .position(|kind| kind.group == group && kind.plural == plural)
    }

    pub(super) fn kind(&self, kind: usize) -> Result<&Kind, Failure> {
        self.kinds.get(kind).ok_or_else(Failure::unknown_resource)
    }

    /// The version of the last change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The current state of an object.
    pub fn object(&self, key: &Key) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    /// All objects, ordered by kind, namespace and name.
    pub fn objects(&self) -> &BTreeMap<Key, Arc<Object>> {
        &self.objects
    }

    /// The objects of a kind.
    pub fn of_kind(&self, kind: usize) -> impl Iterator<Item = (&Key, &Arc<Object>)> {
        let first = Key {
            kind,
            namespace: String::new(),
            name: String::new(),
        };
        self.objects.range(first..).take_while(move |(key, _)| key.kind == kind)
    }

    /// Drops the kept changes up to a time.
    pub fn forget_until(&mut self, time: Timestamp) {
        while let Some(first) = self.log.pop_front_if(|first| first.at <= time) {
            self.compacted = first.revision;
        }
    }

    /// Drops all kept changes. Watches and pages at an older version are answered with 410 Expired.
    pub fn compact(&mut self) {
        self.log.clear();
        self.compacted = self.revision;
    }

    pub(super) fn key(&self, kind: usize, namespace: &str, name: &str) -> Key {
        Key {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Stores an object under the next version; `None` removes the object.
    pub(super) fn store(&mut self, key: Key, object: Option<Object>) -> Arc<Object> {
        self.revision += 1;
        let old = self.objects.get(&key).cloned();
        let (kind, mut stored) = match (object, &old) {
            (Some(object), None) => (ChangeKind::Added, object),
            (Some(object), Some(_)) => (ChangeKind::Modified, object),
            (None, Some(old)) => (ChangeKind::Deleted, (**old).clone()),
            (None, None) => (ChangeKind::Deleted, Object::default()),
        };
        if let Some(meta) = stored.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.insert("resourceVersion".into(), self.revision.to_string().into());
        }
        let stored = Arc::new(stored);
        if kind == ChangeKind::Deleted {
            self.objects.remove(&key);
        } else {
            self.objects.insert(key.clone(), Arc::clone(&stored));
        }
        let change = Change {
            revision: self.revision,
            at: self.now,
            key,
            kind,
            object: Arc::clone(&stored),
            old,
        };
        self.log.push_back(change.clone());
        while self.log.len() > self.options.history {
            if let Some(first) = self.log.pop_front() {
                self.compacted = first.revision;
            }
        }
        self.fresh.push(change);
        stored
    }

    /// The next uid. It is unique, and the sequence is the same in every run.
    pub(super) fn next_uid(&mut self) -> String {
        self.names += 1;
        let mixed = mix(self.names);
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            mixed >> 32,
            (mixed >> 16) & 0xffff,
            mixed & 0xfff,
            (mixed >> 12) & 0xfff,
            self.names
        )
    }

    /// Five characters like those that the API server appends to `generateName`.
    pub(super) fn next_suffix(&mut self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        self.names += 1;
        let mut mixed = mix(self.names ^ 0x5bd1_e995);
        (0..5)
            .filter_map(|_| {
                let at = usize::try_from(mixed % ALPHABET.len() as u64).ok()?;
                mixed /= ALPHABET.len() as u64;
                Some(char::from(*ALPHABET.get(at)?))
            })
            .collect()
    }
}

/// The finalizer of SplitMix64, which spreads a counter over all bits.
fn mix(mut value: u64) -> u64 {
    value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
