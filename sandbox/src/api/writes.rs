//! Writes: create, update and patch, in the order of the API server.
//!
//! A write is decoded, defaulted and pruned, mutated by admission, validated, judged by admission
//! again, and stored.

mod create;
mod replace;
mod schema;

use std::sync::Arc;

use capstan_core::admission::Phase;
use capstan_core::model::{Edit, Operation, Stored, ViolationKind};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::failure::Failure;
use super::kinds::{Kind, Scope, Shape};
use super::managed::{self, Writer};
use super::metadata;
use super::object::Object;
use super::patch::{patched, unrecognised};
use super::reply::Reply;
use super::request::{Part, PatchKind, Request, Target, WriteOptions};
use super::store::{Admit, Api};
use replace::Replacement;
use schema::{prune, settle, strict};

/// The object that a component of admission returned, with defaults and without unknown fields.
pub(super) fn settled(kind: &Kind, value: Value) -> Result<Value, Failure> {
    let mut object = Object::of(value).ok_or_else(unrecognised)?;
    let _removed = settle(kind, &mut object, None);
    Ok(object.to_value())
}

impl Api {
    /// The admission that judges writes to a part of a kind; none if such writes are not judged.
    pub(super) fn admission_of(&self, kind: &Kind, part: Part) -> Option<Arc<dyn Admit>> {
        self.admission.clone().filter(|admission| admission.asks(kind, part))
    }

    /// Runs one pass of admission. Returns the mutated object if the pass changed it.
    fn admit(
        &self,
        admission: &dyn Admit,
        kind: &Kind,
        phase: Phase,
        edit: Edit<'_>,
        object: &Object,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Value>, Failure> {
        let whole = object.to_value();
        let edit = Edit {
            object: Some(&whole),
            ..edit
        };
        admission.judge(self, kind, phase, &edit, warnings)
    }

    pub(super) fn update(
        &mut self,
        kind: usize,
        request: &Request,
        object: &Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<Reply, Failure> {
        let target = &request.target;
        let described = self.kind(kind)?;
        if target.part == Part::Scale {
            let replicas = object.pointer("/spec/replicas");
            if replicas.is_some_and(|replicas| !replicas.is_i64()) {
                return Err(Failure::bad_request("no kind is registered for the type v1.Scale"));
            }
            let old = self.existing(kind, target)?;
            let new = self.scaled(kind, &old, object)?;
            let replacement = Replacement {
                kind,
                request,
                old: &old,
                options,
                now,
                is_apply: false,
            };
            return self.replace(replacement, new);
        }
        let mut object = Object::of(object.clone()).ok_or_else(unrecognised)?;
        decode(described, &mut object, None)?;
        let name = metadata::text(&object, "name");
        if name.is_empty() {
            return Err(Failure::bad_request("name must be provided"));
        }
        if name != target.name {
            return Err(Failure::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                target.name
            )));
        }
        agree(target, &object)?;
        let old = match self.existing(kind, target) {
            Ok(old) => old,
            Err(_) if described.create_on_update && target.part == Part::Main => {
                if !metadata::text(&object, "uid").is_empty() {
                    let why = "Precondition failed: UID in precondition: , UID in object meta: ";
                    return Err(Failure::conflict(described, &target.name, why));
                }
                metadata::set(&mut object, "resourceVersion", Value::Null);
                return self.create_object(kind, request, object, options, None, now);
            }
            Err(failure) => return Err(failure),
        };
        if described.scope == Scope::Namespaced {
            metadata::set(&mut object, "namespace", target.namespace.clone().into());
        }
        object.share(&old);
        let replacement = Replacement {
            kind,
            request,
            old: &old,
            options,
            now,
            is_apply: false,
        };
        self.replace(replacement, object)
    }

    pub(super) fn patch(
        &mut self,
        kind: usize,
        request: &Request,
        how: PatchKind,
        patch: Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<Reply, Failure> {
        let target = &request.target;
        if how == PatchKind::Apply {
            return self.apply_patch(kind, request, &patch, options, now);
        }
        let described = self.kind(kind)?;
        if how == PatchKind::Strategic && described.is_custom() {
            return Err(super::patch::no_strategic());
        }
        let old = self.existing(kind, target)?;
        let replacement = Replacement {
            kind,
            request,
            old: &old,
            options,
            now,
            is_apply: false,
        };
        if target.part == Part::Scale {
            let scale = patched(described, how, &*self.scale_of(kind, &old)?, patch)?;
            let new = self.scaled(kind, &old, &scale.to_value())?;
            return self.replace(replacement, new);
        }
        let mut new = patched(described, how, &old, patch)?;
        decode(described, &mut new, Some(&old))?;
        if let Shape::BuiltIn(schema) = &described.shape
            && !new.changed(&old).all(|(name, value)| schema.settles(name, value))
        {
            let found = schema.validate(&new.to_value(), None);
            if let Some(wrong) = found
                .iter()
                .find(|violation| violation.kind == ViolationKind::TypeInvalid)
            {
                let text = format!(" \"\" is invalid: patch: {}", wrong.plainly());
                return Err(Failure::new(422, "Invalid", text));
            }
        }
        let name = metadata::text(&new, "name");
        if name != target.name {
            return Err(Failure::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                target.name
            )));
        }
        agree(target, &new)?;
        self.replace(replacement, new)
    }

    fn apply_patch(
        &mut self,
        kind: usize,
        request: &Request,
        patch: &Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<Reply, Failure> {
        let target = &request.target;
        let described = self.kind(kind)?;
        if options.manager.is_empty() {
            let cause = (
                "fieldManager".to_owned(),
                "Required value: is required for apply patch".to_owned(),
                "FieldValueRequired",
            );
            let mut failure = Failure::invalid(described, "", &[cause]);
            failure.message =
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
                    .into();
            return Err(failure);
        }
        let mut wanted = Object::of(patch.clone()).ok_or_else(unrecognised)?;
        decode(described, &mut wanted, None)?;
        if wanted.pointer("/metadata/managedFields").is_some() {
            return Err(Failure::bad_request("metadata.managedFields must be nil"));
        }
        let name = metadata::text(&wanted, "name");
        if !name.is_empty() && name != target.name {
            return Err(Failure::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                target.name
            )));
        }
        metadata::set(&mut wanted, "name", target.name.clone().into());
        agree(target, &wanted)?;
        let mut warnings = Vec::new();
        let mut wanted = wanted.to_value();
        let unknown = prune(described, &mut wanted);
        strict(described, &unknown, options, &mut warnings)?;
        let writer = Writer::of(described, options, target.part);
        let old = self.existing(kind, target).ok();
        let Some(old) = old else {
            if target.part != Part::Main {
                return Err(Failure::not_found(described, &target.name));
            }
            return self.create_applied(kind, request, &wanted, options, now);
        };
        let new = managed::apply(described, Some(&old.to_value()), &wanted, &writer, options.force, now)
            .map_err(|conflicts| conflict(described, &target.name, &conflicts))?;
        let mut new = Object::of(new).ok_or_else(unrecognised)?;
        new.share(&old);
        let replacement = Replacement {
            kind,
            request,
            old: &old,
            options,
            now,
            is_apply: true,
        };
        self.replace(replacement, new)
    }
}

/// The edit that admission judges, without the new object, which differs between the passes.
pub(super) fn edit<'a>(
    request: &'a Request,
    operation: Operation,
    name: &'a str,
    old: Option<&'a dyn Stored>,
    dry_run: bool,
) -> Edit<'a> {
    Edit {
        operation,
        subresource: request.target.part.as_str(),
        namespace: &request.target.namespace,
        name,
        object: None,
        old,
        propagation: None,
        user: &request.user,
        dry_run,
    }
}

/// The failure of an apply patch that would take fields from other managers; `conflicts` are
/// managers and paths.
fn conflict(kind: &Kind, name: &str, conflicts: &[(String, String)]) -> Failure {
    let text: Vec<String> = conflicts
        .iter()
        .map(|(manager, path)| format!("conflict with {manager:?}: {path}"))
        .collect();
    let mut failure = Failure::conflict(kind, name, "");
    failure.message = format!(
        "Apply failed with {} conflict{}: {}",
        conflicts.len(),
        if conflicts.len() == 1 { "" } else { "s" },
        text.join(", ")
    );
    let causes: Vec<Value> = conflicts
        .iter()
        .map(|(manager, path)| json!({"reason": "FieldManagerConflict", "message": format!("conflict with {manager:?}"), "field": path}))
        .collect();
    failure.details = json!({ "causes": causes });
    failure
}

/// Checks that the object is of the kind of the request, and decodes its metadata. Metadata that is
/// shared with the old object was decoded before.
fn decode(kind: &Kind, object: &mut Object, old: Option<&Object>) -> Result<(), Failure> {
    for (field, wanted) in [("apiVersion", kind.api_version.as_str()), ("kind", kind.kind.as_str())] {
        match object.get(field) {
            Some(Value::String(text)) if text == wanted => {}
            // A built-in kind without apiVersion and kind gets those of the URL.
            None if !kind.is_custom() => object.insert(field, Value::from(wanted)),
            None => return Err(Failure::bad_request(format!("Object '{field}' is missing"))),
            Some(other) if kind.is_custom() && field == "kind" => {
                let text = format!("Invalid value: {other}: must be {wanted}");
                let cause = ("kind".to_owned(), text, "FieldValueInvalid");
                return Err(Failure::invalid(kind, "", &[cause]));
            }
            Some(other) => {
                let text = format!("the API version in the data ({other}) does not match the expected ({wanted})");
                return Err(Failure::bad_request(text));
            }
        }
    }
    if old.is_some_and(|old| object.has_same(old, "metadata")) {
        return Ok(());
    }
    metadata::decode(object)
}

/// Checks that the namespace of the object is that of the request.
fn agree(target: &Target, object: &Object) -> Result<(), Failure> {
    if target.namespace.is_empty() {
        return Ok(());
    }
    let namespace = metadata::text(object, "namespace");
    if !namespace.is_empty() && namespace != target.namespace {
        let text = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Failure::bad_request(text));
    }
    Ok(())
}
