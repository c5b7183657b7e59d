//! The garbage collector as an actor. It works on a graph of objects that may be stale, and
//! requests deletions.
//!
//! A step is a pure function of the graph and the API. Like the real garbage collector, it reads an
//! object and its owners from the API before it deletes the object. So a stale graph can delay a
//! deletion but cannot cause a wrong one.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::model::{Propagation, User};
use serde_json::{Value, json};

use super::metadata::{self, finalizers, is_deleting};
use super::object::Object;
use super::request::{DeleteOptions, Part, PatchKind, Request, Target, Verb, WriteOptions};
use super::store::{Api, Key};

/// The graph of the collector: the objects as it last read them.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    objects: BTreeMap<Key, Arc<Object>>,
}

impl Graph {
    /// Replaces the graph by the current objects.
    pub fn refresh(&mut self, api: &Api) {
        self.objects = api.objects().clone();
    }

    /// The next request of the collector; none if it has nothing to do. Dependants are handled
    /// before the finalizer of their owner is removed, because the owner no longer waits then.
    pub fn next(&self, api: &Api) -> Option<Request> {
        let mut objects = self.objects.iter();
        let of_dependant = objects.find_map(|(key, seen)| self.dependant(api, key, seen));
        let mut objects = self.objects.iter();
        of_dependant.or_else(|| objects.find_map(|(key, seen)| self.owner(api, key, seen)))
    }

    /// The objects of the graph that name this owner.
    fn dependants(&self, uid: &str) -> impl Iterator<Item = (&Key, &Arc<Object>)> {
        let is_owner = move |object: &Object| owners(object).any(|owner| owner.uid == uid);
        self.objects.iter().filter(move |(_, object)| is_owner(object))
    }

    /// Handles the dependants of an object that is deleted in the foreground or with orphans, and
    /// removes its finalizer afterwards.
    fn owner(&self, api: &Api, key: &Key, seen: &Object) -> Option<Request> {
        if !is_deleting(seen) {
            return None;
        }
        let live = api.object(key)?;
        let list = finalizers(live);
        let uid = metadata::text(live, "uid");
        for finalizer in [ORPHAN, FOREGROUND] {
            if !list.iter().any(|current| current == finalizer) {
                continue;
            }
            for (dependant, object) in self.dependants(uid) {
                let Some(current) = api.object(dependant) else { continue };
                let blocks = owners(object).any(|owner| owner.uid == uid && owner.blocks);
                if finalizer == FOREGROUND && blocks {
                    return None;
                }
                if finalizer == ORPHAN
                    && let Some(request) = without_owners(api, dependant, current, &[uid])
                {
                    return Some(request);
                }
            }
            let remaining: Vec<&String> = list.iter().filter(|current| *current != finalizer).collect();
            return Some(patch(api, key, live, &json!({"metadata": {"finalizers": remaining}})));
        }
        None
    }

    /// Deletes an object whose owners no longer exist or wait for the deletion of their dependants.
    /// If another owner exists, removes the references to those owners.
    fn dependant(&self, api: &Api, key: &Key, seen: &Object) -> Option<Request> {
        owners(seen).next()?;
        let live = api.object(key)?;
        let uid = metadata::text(live, "uid");
        if is_deleting(live) || uid != metadata::text(seen, "uid") {
            return None;
        }
        let (mut absent, mut waiting, mut is_owned) = (Vec::new(), Vec::new(), false);
        for owner in owners(live) {
            match find(api, key, &owner) {
                Some(current) if metadata::text(current, "uid") == owner.uid => {
                    if waits(current) {
                        waiting.push(owner.uid);
                    } else {
                        is_owned = true;
                    }
                }
                _ => absent.push(owner.uid),
            }
        }
        if absent.is_empty() && waiting.is_empty() {
            return None;
        }
        if is_owned {
            return without_owners(api, key, live, &[absent, waiting].concat());
        }
        let mut dependants = self.dependants(uid).peekable();
        if !waiting.is_empty() && dependants.peek().is_some() {
            let is_cycle = dependants.any(|(_, object)| waits(object));
            let unblocked = is_cycle.then(|| unblocked(api, key, live)).flatten();
            return unblocked.or_else(|| Some(delete(api, key, live, Propagation::Foreground)));
        }
        let list = finalizers(live);
        let has = |name: &str| list.iter().any(|finalizer| finalizer == name);
        let how = if has(ORPHAN) {
            Propagation::Orphan
        } else if has(FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        Some(delete(api, key, live, how))
    }
}

/// The finalizers of the collector.
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Whether an object waits for the deletion of its dependants.
fn waits(object: &Object) -> bool {
    is_deleting(object) && finalizers(object).iter().any(|finalizer| finalizer == FOREGROUND)
}

struct Owner<'v> {
    uid: &'v str,
    kind: &'v str,
    api_version: &'v str,
    name: &'v str,
    blocks: bool,
}

fn owners(object: &Object) -> impl Iterator<Item = Owner<'_>> {
    let list = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    list.into_iter().flatten().map(|owner| {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        Owner {
            uid: text("uid"),
            kind: text("kind"),
            api_version: text("apiVersion"),
            name: text("name"),
            blocks: owner.get("blockOwnerDeletion") == Some(&Value::Bool(true)),
        }
    })
}

fn find<'a>(api: &'a Api, dependant: &Key, owner: &Owner<'_>) -> Option<&'a Object> {
    let at = api
        .kinds()
        .iter()
        .position(|kind| kind.kind == owner.kind && kind.api_version == owner.api_version)?;
    let namespace = match api.kinds().get(at)?.scope {
        super::kinds::Scope::Namespaced => dependant.namespace.clone(),
        super::kinds::Scope::Cluster => String::new(),
    };
    let key = Key {
        kind: at,
        namespace,
        name: owner.name.to_owned(),
    };
    api.object(&key).map(|object| &**object)
}

fn without_owners(api: &Api, key: &Key, live: &Object, uids: &[&str]) -> Option<Request> {
    let list = live.pointer("/metadata/ownerReferences")?.as_array()?;
    let is_kept = |owner: &&Value| {
        let uid = owner.get("uid").and_then(Value::as_str);
        uid.is_none_or(|uid| !uids.contains(&uid))
    };
    let remaining: Vec<&Value> = list.iter().filter(is_kept).collect();
    (remaining.len() < list.len()).then(|| patch(api, key, live, &json!({"metadata": {"ownerReferences": remaining}})))
}

/// The references of an object without `blockOwnerDeletion`: in a cycle, each object would wait for
/// the other one.
fn unblocked(api: &Api, key: &Key, live: &Object) -> Option<Request> {
    let mut list = live.pointer("/metadata/ownerReferences")?.clone();
    for owner in list.as_array_mut()?.iter_mut().filter_map(Value::as_object_mut) {
        owner.insert("blockOwnerDeletion".to_owned(), false.into());
    }
    let is_changed = owners(live).any(|owner| owner.blocks);
    is_changed.then(|| patch(api, key, live, &json!({"metadata": {"ownerReferences": list}})))
}

fn request(api: &Api, key: &Key, verb: Verb) -> Request {
    let (group, plural) = api
        .kinds()
        .get(key.kind)
        .map(|kind| (kind.group.clone(), kind.plural.clone()))
        .unwrap_or_default();
    Request {
        target: Target {
            group,
            plural,
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            part: Part::Main,
        },
        verb,
        user: User::named(
            "system:serviceaccount:kube-system:generic-garbage-collector",
            Vec::new(),
        ),
    }
}

fn patch(api: &Api, key: &Key, live: &Object, patch: &Value) -> Request {
    let mut patch = patch.clone();
    for field in ["uid", "resourceVersion"] {
        metadata::set(&mut patch, field, metadata::text(live, field).into());
    }
    let options = WriteOptions {
        manager: "kube-controller-manager".to_owned(),
        ..WriteOptions::default()
    };
    request(api, key, Verb::Patch(PatchKind::Merge, patch, options))
}

fn delete(api: &Api, key: &Key, live: &Object, how: Propagation) -> Request {
    let options = DeleteOptions {
        uid: Some(metadata::text(live, "uid").to_owned()),
        resource_version: Some(metadata::text(live, "resourceVersion").to_owned()),
        propagation: Some(how),
        ..DeleteOptions::default()
    };
    request(api, key, Verb::Delete(options))
}
