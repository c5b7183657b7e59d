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

    /// The next request of the collector; none if it has nothing to do.
    pub fn next(&self, api: &Api) -> Option<Request> {
        self.objects
            .iter()
            .find_map(|(key, seen)| dependant(api, key, seen).or_else(|| self.owner(api, key, seen)))
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
        let dependants = || {
            self.objects
                .iter()
                .filter(|(_, object)| owners(object).any(|owner| owner.uid == uid))
        };
        for finalizer in ["orphan", "foregroundDeletion"] {
            if !list.iter().any(|current| current == finalizer) {
                continue;
            }
            for (dependant, object) in dependants() {
                let Some(current) = api.object(dependant) else { continue };
                if finalizer == "orphan" {
                    if let Some(request) = without_owner(api, dependant, current, uid) {
                        return Some(request);
                    }
                } else if owners(object).any(|owner| owner.uid == uid && owner.blocks) {
                    if is_deleting(current) {
                        return None;
                    }
                    return Some(delete(api, dependant, current, Propagation::Foreground));
                }
            }
            let remaining: Vec<&String> = list.iter().filter(|current| *current != finalizer).collect();
            return Some(patch(api, key, live, &json!({"metadata": {"finalizers": remaining}})));
        }
        None
    }
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

/// Deletes an object whose owners no longer exist, or removes the references to those owners if
/// another owner exists.
fn dependant(api: &Api, key: &Key, seen: &Object) -> Option<Request> {
    owners(seen).next()?;
    let live = api.object(key)?;
    if is_deleting(live) || metadata::text(live, "uid") != metadata::text(seen, "uid") {
        return None;
    }
    let (mut existing, mut absent, mut waiting) = (0, Vec::new(), false);
    for owner in owners(live) {
        match find(api, key, &owner) {
            None => absent.push(owner.uid),
            Some(current) if metadata::text(current, "uid") != owner.uid => absent.push(owner.uid),
            Some(current) => {
                let foreground = is_deleting(current) && finalizers(current).iter().any(|f| f == "foregroundDeletion");
                if foreground && owner.blocks {
                    waiting = true;
                } else {
                    existing += 1;
                }
            }
        }
    }
    if existing > 0 {
        let first = absent.first()?;
        return without_owner(api, key, live, first);
    }
    if waiting {
        return Some(delete(api, key, live, Propagation::Foreground));
    }
    (!absent.is_empty()).then(|| {
        let list = finalizers(live);
        let has = |name: &str| list.iter().any(|finalizer| finalizer == name);
        let how = if has("orphan") {
            Propagation::Orphan
        } else if has("foregroundDeletion") {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        delete(api, key, live, how)
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

fn without_owner(api: &Api, key: &Key, live: &Object, uid: &str) -> Option<Request> {
    let list = live.pointer("/metadata/ownerReferences")?.as_array()?;
    let remaining: Vec<&Value> = list
        .iter()
        .filter(|owner| owner.get("uid").and_then(Value::as_str) != Some(uid))
        .collect();
    (remaining.len() < list.len()).then(|| patch(api, key, live, &json!({"metadata": {"ownerReferences": remaining}})))
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
