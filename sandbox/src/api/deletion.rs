//! Deletion. An object without finalizers is removed at once; another one gets a deletion
//! timestamp.

use std::sync::Arc;

use capstan_core::admission::Phase;
use capstan_core::model::{Edit, Operation, Propagation};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::failure::Failure;
use super::metadata::{self, finalizers, is_deleting};
use super::object::{Object, put};
use super::reply::Reply;
use super::request::{DeleteOptions, ListOptions, Part, Request, Target};
use super::store::{Api, Key};
use super::writes::edit;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

impl Api {
    pub(super) fn delete(
        &mut self,
        kind: usize,
        request: &Request,
        options: &DeleteOptions,
        now: Timestamp,
    ) -> Result<Reply, Failure> {
        let target = &request.target;
        if target.part != Part::Main {
            return Err(Failure::method_not_allowed());
        }
        let old = self.existing(kind, target)?;
        let described = self.kind(kind)?;
        let (uid, version) = (metadata::text(&old, "uid"), metadata::text(&old, "resourceVersion"));
        if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
            let why = format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
            );
            return Err(Failure::conflict(described, &target.name, &why));
        }
        if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != version) {
            let why = format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
            );
            return Err(Failure::conflict(described, &target.name, &why));
        }
        let mut warnings = Vec::new();
        if let Some(admission) = self.admission_of(described, Part::Main) {
            let edit = Edit {
                subresource: "",
                propagation: options.propagation,
                ..edit(request, Operation::Delete, &target.name, Some(&*old), options.dry_run)
            };
            admission.judge(self, described, Phase::Mutate, &edit, &mut warnings)?;
            admission.judge(self, described, Phase::Validate, &edit, &mut warnings)?;
        }
        let key = self.key(kind, &target.namespace, &target.name);
        if described.plural == "namespaces" && described.group.is_empty() {
            return Ok(self.terminate_namespace(&key, &old, options, now));
        }
        let wanted = wanted_finalizers(&old, options.propagation);
        if wanted.is_empty() {
            let done = self.deleted(&key, &old)?;
            if !options.dry_run {
                self.store(key, None);
            }
            return Ok(Reply::Done(done));
        }
        let mut new = (*old).clone();
        metadata::set(&mut new, "finalizers", json!(wanted));
        if !is_deleting(&old) {
            begin_deletion(&mut new, now);
        }
        let object = if new == *old || options.dry_run {
            Arc::new(new)
        } else {
            self.store(key, Some(new))
        };
        Ok(Reply::Object {
            code: 200,
            object,
            warnings,
        })
    }

    /// Marks a namespace as terminating. The namespace controller removes its contents first.
    fn terminate_namespace(&mut self, key: &Key, old: &Arc<Object>, options: &DeleteOptions, now: Timestamp) -> Reply {
        let mut new = (**old).clone();
        if !is_deleting(old) {
            begin_deletion(&mut new, now);
            if let Some(status) = new.get_mut("status").and_then(Value::as_object_mut) {
                status.insert("phase".into(), "Terminating".into());
            }
        }
        let object = if new == **old || options.dry_run {
            Arc::new(new)
        } else {
            self.store(key.clone(), Some(new))
        };
        Reply::Object {
            code: 200,
            object,
            warnings: Vec::new(),
        }
    }

    /// The answer to a deletion that removed the object at once.
    pub(super) fn deleted(&self, key: &Key, old: &Object) -> Result<Value, Failure> {
        let kind = self.kind(key.kind)?;
        let mut details = json!({"name": key.name, "kind": kind.plural, "uid": metadata::text(old, "uid")});
        if !kind.group.is_empty() {
            put(&mut details, "group", kind.group.clone().into());
        }
        Ok(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}))
    }

    pub(super) fn delete_collection(
        &mut self,
        kind: usize,
        request: &Request,
        which: &ListOptions,
        options: &DeleteOptions,
        now: Timestamp,
    ) -> Result<Reply, Failure> {
        let Reply::List(list) = self.list(kind, &request.target, which)? else {
            return Err(Failure::bad_request("the answer is not a list"));
        };
        for object in &list.items {
            let one = Request {
                target: Target {
                    namespace: metadata::text(object, "namespace").to_owned(),
                    name: metadata::text(object, "name").to_owned(),
                    ..request.target.clone()
                },
                verb: request.verb.clone(),
                user: request.user.clone(),
            };
            match self.delete(kind, &one, options, now) {
                Ok(_) => {}
                Err(failure) if failure.code == 404 => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(Reply::List(list))
    }
}

fn begin_deletion(object: &mut Object, now: Timestamp) {
    metadata::set(object, "deletionTimestamp", metadata::seconds(now));
    metadata::set(object, "deletionGracePeriodSeconds", json!(0));
    if let Some(generation) = object.pointer("/metadata/generation").and_then(Value::as_i64) {
        metadata::set(object, "generation", json!(generation + 1));
    }
}

/// The finalizers of an object after a deletion with this propagation.
fn wanted_finalizers(object: &Object, propagation: Option<Propagation>) -> Vec<String> {
    let mut list = finalizers(object);
    let has = |list: &[String], name: &str| list.iter().any(|finalizer| finalizer == name);
    let (orphan, foreground) = match propagation {
        Some(Propagation::Orphan) => (true, false),
        Some(Propagation::Foreground) => (false, true),
        Some(Propagation::Background) => (false, false),
        // The propagation of an earlier request stays in effect.
        None => (has(&list, ORPHAN), has(&list, FOREGROUND)),
    };
    for (name, wanted) in [(ORPHAN, orphan), (FOREGROUND, foreground)] {
        if wanted && !has(&list, name) {
            list.push(name.to_owned());
        }
        if !wanted {
            list.retain(|finalizer| finalizer != name);
        }
    }
    list
}
