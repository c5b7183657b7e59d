//! Replace: stores a new state of an existing object, whichever request it comes from.

use std::sync::Arc;

use capstan_core::admission::Phase;
use capstan_core::model::Operation;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::edit;
use super::schema::{settle, strict, validate};
use crate::api::failure::Failure;
use crate::api::kinds::{Kind, Scope};
use crate::api::managed::{self, Writer};
use crate::api::metadata;
use crate::api::object::Object;
use crate::api::patch::unrecognised;
use crate::api::reply::Reply;
use crate::api::request::{Part, Request, Verb, WriteOptions};
use crate::api::store::Api;

/// The request for a replacement.
#[derive(Clone, Copy)]
pub(super) struct Replacement<'a> {
    /// The position of the kind.
    pub(super) kind: usize,
    pub(super) request: &'a Request,
    /// The stored object.
    pub(super) old: &'a Arc<Object>,
    pub(super) options: &'a WriteOptions,
    pub(super) now: Timestamp,
    /// Whether the new state comes from an apply patch, which has computed `managedFields` and
    /// reported unknown fields.
    pub(super) is_apply: bool,
}

impl Api {
    /// Replaces the stored object by `new`, in the order of the API server: defaults, admission,
    /// validation, storage.
    pub(super) fn replace(&mut self, replacement: Replacement<'_>, mut new: Object) -> Result<Reply, Failure> {
        let Replacement {
            request, old, options, ..
        } = replacement;
        let described = self.kind(replacement.kind)?;
        let part = request.target.part;
        let mut warnings = Vec::new();
        let (unknown, mut settled) = settle(described, &mut new, Some(old));
        if !replacement.is_apply {
            strict(described, &unknown, options, &mut warnings).map_err(|failure| {
                if is_patch(request) {
                    unprocessable(failure)
                } else {
                    failure
                }
            })?;
        }
        check_uid(described, request, old, &new)?;
        let admission = self.admission_of(described, part);
        let edit = edit(
            request,
            Operation::Update,
            &request.target.name,
            Some(&**old),
            options.dry_run,
        );
        if let Some(admission) = &admission
            && let Some(mutated) = self.admit(&**admission, described, Phase::Mutate, edit, &new, &mut warnings)?
        {
            new = Object::of(mutated).ok_or_else(unrecognised)?;
            settled = settle(described, &mut new, Some(old)).1;
        }
        if part == Part::Scale {
            self.check_scale(replacement.kind, &new)?;
        }
        if !new.has_same(old, "metadata") {
            check_version(described, request, old, &new)?;
        }
        if !replacement.is_apply {
            new = self.with_managed_fields(replacement, new)?;
        }
        carry_over(described, old, &mut new, part);
        if settled && described.is_custom() && admission.is_none() && !self.options.managed_fields {
            // Only metadata was written after the fields were shared.
            new.share_field(old, "metadata");
        } else {
            new.share(old);
        }
        let mut touched = new.differing(old);
        if described.has_generation() && part != Part::Status && changes_spec(described, &touched) {
            let generation = metadata::field(old, "generation").and_then(Value::as_i64).unwrap_or(0);
            metadata::set(&mut new, "generation", json!(generation + 1));
            touched.push("metadata".into());
        }
        validate(described, &new, Some((old, &touched)), settled).map_err(|failure| {
            if failure.code == 400 && is_patch(request) {
                unprocessable(failure)
            } else {
                failure
            }
        })?;
        if let Some(admission) = &admission {
            self.admit(&**admission, described, Phase::Validate, edit, &new, &mut warnings)?;
        }
        if !new.has_same(old, "metadata") {
            keep_metadata(described, old, &mut new);
        }
        let object = self.store_replaced(replacement, new)?;
        let object = match part {
            Part::Scale => self.scale_of(replacement.kind, &object)?,
            Part::Main | Part::Status => object,
        };
        Ok(Reply::Object {
            code: 200,
            object,
            warnings,
        })
    }

    /// The new state with `managedFields` as this write leaves them.
    fn with_managed_fields(&self, replacement: Replacement<'_>, mut new: Object) -> Result<Object, Failure> {
        let Replacement {
            request, old, options, ..
        } = replacement;
        if self.options.managed_fields {
            let described = self.kind(replacement.kind)?;
            let writer = Writer::of(described, options, request.target.part);
            let (mut whole, before) = (new.to_value(), old.to_value());
            managed::update(described, Some(&before), &mut whole, &writer, replacement.now);
            return Object::of(whole).ok_or_else(unrecognised);
        }
        if !new.has_same(old, "metadata") {
            let stored = metadata::field(old, "managedFields").cloned().unwrap_or_default();
            metadata::set(&mut new, "managedFields", stored);
        }
        Ok(new)
    }

    /// Stores the new state. A write that removes the last finalizer of an object that is being
    /// deleted removes the object.
    fn store_replaced(&mut self, replacement: Replacement<'_>, new: Object) -> Result<Arc<Object>, Failure> {
        let Replacement {
            kind,
            request,
            old,
            options,
            ..
        } = replacement;
        let key = self.key(kind, metadata::text(&new, "namespace"), &request.target.name);
        let is_same = new.is_same(old);
        let is_last_finalizer = metadata::is_deleting(old)
            && metadata::finalizers(&new).is_empty()
            && (!metadata::finalizers(old).is_empty() || !is_same);
        Ok(if options.dry_run || is_same {
            Arc::new(new)
        } else if is_last_finalizer && self.kind(kind)?.plural != "namespaces" {
            self.store(key, None);
            Arc::new(new)
        } else {
            self.store(key, Some(new))
        })
    }
}

fn is_patch(request: &Request) -> bool {
    matches!(request.verb, Verb::Patch(..))
}

/// The same failure as 422 Invalid, with which the API server answers a patch.
fn unprocessable(failure: Failure) -> Failure {
    Failure {
        code: 422,
        reason: "Invalid",
        ..failure
    }
}

/// Checks that the uid of an update is that of the stored object. The API server does so before it
/// calls webhooks.
fn check_uid(kind: &Kind, request: &Request, old: &Object, new: &Object) -> Result<(), Failure> {
    let (given, uid) = (metadata::text(new, "uid"), metadata::text(old, "uid"));
    if given.is_empty() || given == uid || is_patch(request) {
        return Ok(());
    }
    let why = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {uid}");
    Err(Failure::conflict(kind, &request.target.name, &why))
}

/// Checks that the new state comes from the stored version. The API server does so after the
/// mutating webhooks and before the validating ones.
fn check_version(kind: &Kind, request: &Request, old: &Object, new: &Object) -> Result<(), Failure> {
    let name = &request.target.name;
    let (given_version, version) = (
        metadata::text(new, "resourceVersion"),
        metadata::text(old, "resourceVersion"),
    );
    if given_version.is_empty() && !kind.unconditional {
        let cause = (
            "metadata.resourceVersion".to_owned(),
            "Invalid value: 0x0: must be specified for an update".to_owned(),
            "FieldValueInvalid",
        );
        return Err(Failure::invalid(kind, name, &[cause]));
    }
    if !given_version.is_empty() && given_version != version {
        return Err(Failure::modified(kind, name));
    }
    Ok(())
}

/// Copies from the old object what a write through this part cannot change.
fn carry_over(kind: &Kind, old: &Object, new: &mut Object, part: Part) {
    if part == Part::Status && kind.is_custom() {
        keep_all_but_status(old, new);
    } else if kind.status || part == Part::Status {
        let field = if part == Part::Status { "spec" } else { "status" };
        match old.shared(field) {
            Some(value) => new.insert(field, Arc::clone(value)),
            None => drop(new.remove(field)),
        }
    }
    if new.has_same(old, "metadata") {
        return;
    }
    for field in ["uid", "creationTimestamp"] {
        if metadata::text(new, field).is_empty() && !metadata::text(old, field).is_empty() {
            let value = metadata::text(old, field).to_owned();
            metadata::set(new, field, value.into());
        }
    }
    for field in ["generation", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let value = metadata::field(old, field);
        if metadata::field(new, field) != value {
            metadata::set(new, field, value.cloned().unwrap_or_default());
        }
    }
}

/// A write through the status of a custom object changes the status and `managedFields` only.
fn keep_all_but_status(old: &Object, new: &mut Object) {
    let status = new.remove("status");
    let managed = metadata::field(new, "managedFields").cloned();
    *new = old.clone();
    match status {
        Some(status) => new.insert("status", status),
        None => drop(new.remove("status")),
    }
    metadata::set(new, "managedFields", managed.unwrap_or_default());
}

/// Whether a changed field counts towards the generation: any but metadata, and but the status of a
/// kind whose status is a subresource.
fn changes_spec(kind: &Kind, touched: &[Arc<str>]) -> bool {
    let mut touched = touched.iter().map(|field| &**field);
    touched.any(|field| field != "metadata" && !(kind.status && field == "status"))
}

/// Keeps the stored resource version, and the stored `metadata` if nothing else in it changed.
fn keep_metadata(kind: &Kind, old: &Object, new: &mut Object) {
    let version = metadata::text(old, "resourceVersion").to_owned();
    metadata::set(new, "resourceVersion", version.into());
    if kind.scope == Scope::Cluster {
        metadata::set(new, "namespace", Value::Null);
    }
    managed::keep_times(old, new);
    new.share_field(old, "metadata");
}
