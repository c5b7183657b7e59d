//! Reads: single objects, lists in pages, and watches.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::failure::Failure;
use super::metadata;
use super::object::{Object, put};
use super::reply::{List, Reply};
use super::request::{ListOptions, Part, Target};
use super::selector::Selector;
use super::store::{Api, Change, ChangeKind, Key};

/// The start of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchStart {
    /// Begins with the current objects.
    Now,
    /// Begins with the current objects and a bookmark that marks the end of them.
    NowWithMark,
    /// Begins after a version.
    After(u64),
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchEvent {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`.
    pub type_: &'static str,
    /// The object.
    pub object: Arc<Object>,
}

impl Api {
    pub(super) fn get(&self, kind: usize, target: &Target) -> Result<Reply, Failure> {
        let object = self.existing(kind, target)?;
        let object = match target.part {
            Part::Scale => self.scale_of(kind, &object)?,
            Part::Main | Part::Status => object,
        };
        Ok(Reply::Object {
            code: 200,
            object,
            warnings: Vec::new(),
        })
    }

    pub(super) fn existing(&self, kind: usize, target: &Target) -> Result<Arc<Object>, Failure> {
        let key = self.key(kind, &target.namespace, &target.name);
        match self.objects.get(&key) {
            Some(object) => Ok(Arc::clone(object)),
            None => Err(Failure::not_found(self.kind(kind)?, &target.name)),
        }
    }

    pub(super) fn list(&self, kind: usize, target: &Target, options: &ListOptions) -> Result<Reply, Failure> {
        let described = self.kind(kind)?;
        let (revision, after) = if options.continue_.is_empty() {
            (self.revision, None)
        } else {
            let (revision, after) = Self::read_token(&options.continue_)?;
            if revision < self.compacted {
                let mut expired = Failure::expired();
                expired.message =
                    "The provided continue parameter is too old to display a consistent list result.".to_owned();
                return Err(expired);
            }
            (revision, Some(after))
        };
        let snapshot = self.at(kind, revision);
        let all = snapshot.into_iter().filter(|(key, object)| {
            let here = target.namespace.is_empty() || key.namespace == target.namespace;
            let reached = after
                .as_ref()
                .is_none_or(|after| (&key.namespace, &key.name) > (&after.0, &after.1));
            here && reached && options.selector.matches(object)
        });
        let mut items: Vec<(Key, Arc<Object>)> = all.collect();
        let (mut continue_, mut remaining) = (String::new(), None);
        if options.limit > 0 && items.len() > options.limit {
            let following = items.split_off(options.limit);
            if let Some((last, _)) = items.last() {
                continue_ = Self::token(revision, last);
            }
            remaining = options.selector.is_empty().then_some(following.len());
        }
        Ok(Reply::List(List {
            api_version: described.api_version.clone(),
            kind: format!("{}List", described.kind),
            resource_version: revision,
            items: items.into_iter().map(|(_, object)| object).collect(),
            typed: described.is_custom(),
            continue_,
            remaining,
        }))
    }

    /// The objects of a kind at an earlier version, which must not be compacted.
    fn at(&self, kind: usize, revision: u64) -> Vec<(Key, Arc<Object>)> {
        let now = self
            .of_kind(kind)
            .map(|(key, object)| (key.clone(), Arc::clone(object)));
        if revision >= self.revision {
            return now.collect();
        }
        let mut objects: std::collections::BTreeMap<Key, Arc<Object>> = now.collect();
        let later = self.log.iter().rev().take_while(|change| change.revision > revision);
        for change in later.filter(|change| change.key.kind == kind) {
            match &change.old {
                Some(old) => objects.insert(change.key.clone(), Arc::clone(old)),
                None => objects.remove(&change.key),
            };
        }
        objects.into_iter().collect()
    }

    fn token(revision: u64, last: &Key) -> String {
        URL_SAFE_NO_PAD.encode(format!("{revision}\n{}\n{}", last.namespace, last.name))
    }

    fn read_token(token: &str) -> Result<(u64, (String, String)), Failure> {
        let bad = || Failure::bad_request("continue key is not valid: illegal base64 data");
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| bad())?;
        let text = String::from_utf8(bytes).map_err(|_| bad())?;
        let mut parts = text.split('\n');
        let (Some(revision), Some(namespace), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(bad());
        };
        let revision = revision.parse().map_err(|_| bad())?;
        Ok((revision, (namespace.to_owned(), name.to_owned())))
    }

    /// The first events of a watch, and the version that they reach.
    ///
    /// # Errors
    /// 410 if the version is compacted.
    pub fn watch(
        &self,
        kind: usize,
        namespace: &str,
        selector: &Selector,
        start: WatchStart,
    ) -> Result<(Vec<WatchEvent>, u64), Failure> {
        let events = match start {
            WatchStart::After(revision) => {
                if revision < self.compacted {
                    return Err(Failure::expired());
                }
                let since = self.log.iter().filter(|change| change.revision > revision);
                since
                    .filter_map(|change| Self::to_event(change, kind, namespace, selector))
                    .collect()
            }
            WatchStart::Now | WatchStart::NowWithMark => {
                let here = |key: &Key| namespace.is_empty() || key.namespace == namespace;
                let mut events: Vec<WatchEvent> = self
                    .of_kind(kind)
                    .filter(|(key, object)| here(key) && selector.matches(*object))
                    .map(|(_, object)| WatchEvent {
                        type_: "ADDED",
                        object: Arc::clone(object),
                    })
                    .collect();
                if start == WatchStart::NowWithMark {
                    events.push(self.bookmark(kind, true)?);
                }
                events
            }
        };
        Ok((events, self.revision))
    }

    /// A bookmark: an event that holds the current version only.
    ///
    /// # Errors
    /// 404 if the kind is not served.
    pub fn bookmark(&self, kind: usize, initial_events_end: bool) -> Result<WatchEvent, Failure> {
        let kind = self.kind(kind)?;
        let mut meta = json!({"resourceVersion": self.revision.to_string(), "creationTimestamp": null});
        if initial_events_end {
            put(&mut meta, "annotations", json!({"k8s.io/initial-events-end": "true"}));
        }
        Ok(WatchEvent {
            type_: "BOOKMARK",
            object: Arc::new(
                Object::of(json!({"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}))
                    .unwrap_or_default(),
            ),
        })
    }

    /// A change as an event of a watch with a selector. An object that starts to match is added,
    /// one that stops matching is deleted.
    pub fn to_event(change: &Change, kind: usize, namespace: &str, selector: &Selector) -> Option<WatchEvent> {
        let here = change.key.kind == kind && (namespace.is_empty() || change.key.namespace == namespace);
        if !here {
            return None;
        }
        let before = change.old.as_ref().is_some_and(|old| selector.matches(old));
        let after = change.kind != ChangeKind::Deleted && selector.matches(&change.object);
        let (type_, object) = match (before, after) {
            (false, false) => return None,
            (false, true) => ("ADDED", Arc::clone(&change.object)),
            (true, true) => ("MODIFIED", Arc::clone(&change.object)),
            (true, false) if change.kind == ChangeKind::Deleted => ("DELETED", Arc::clone(&change.object)),
            (true, false) => {
                // The event holds the last state that matched, with the version of the change.
                let mut last = change.old.as_deref().cloned().unwrap_or_default();
                metadata::set(&mut last, "resourceVersion", change.revision.to_string().into());
                ("DELETED", Arc::new(last))
            }
        };
        Some(WatchEvent { type_, object })
    }
}

impl Api {
    /// The objects of a kind at an earlier version, which must not be compacted.
    pub fn objects_at(&self, kind: usize, revision: u64) -> Vec<(Key, Arc<Object>)> {
        self.at(kind, revision)
    }

    /// The changes of a kind after a version, as far as they are kept.
    pub fn changes_since(&self, kind: usize, revision: u64) -> impl Iterator<Item = &Change> {
        self.log
            .iter()
            .filter(move |change| change.revision > revision && change.key.kind == kind)
    }

    /// The last version at a time; the last compacted version if the time is before it.
    pub fn version_at(&self, time: jiff::Timestamp) -> u64 {
        let later = self.log.iter().position(|change| change.at > time);
        later.map_or(self.revision, |at| {
            let before = at.checked_sub(1).and_then(|at| self.log.get(at));
            before.map_or(self.compacted, |change| change.revision)
        })
    }
}
