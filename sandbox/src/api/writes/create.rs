//! Create: an object by itself, or as the result of an apply patch.

use std::sync::Arc;

use capstan_core::admission::Phase;
use capstan_core::model::Operation;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::schema::{settle, strict, validate};
use super::{agree, conflict, decode, edit};
use crate::api::failure::Failure;
use crate::api::kinds::{Kind, Scope};
use crate::api::managed::{self, Writer};
use crate::api::metadata;
use crate::api::object::Object;
use crate::api::patch::unrecognised;
use crate::api::reply::Reply;
use crate::api::request::{Part, Request, Target, WriteOptions};
use crate::api::store::Api;

/// The longest prefix that a generated name keeps of `generateName`.
const PREFIX_LENGTH: usize = 58;

impl Api {
    pub(in crate::api) fn create(
        &mut self,
        kind: usize,
        request: &Request,
        object: Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<Reply, Failure> {
        let object = Object::of(object).ok_or_else(unrecognised)?;
        self.create_object(kind, request, object, options, None, now)
    }

    /// Creates the object that results from an apply patch to an object that does not exist.
    pub(super) fn create_applied(
        &mut self,
        kind: usize,
        request: &Request,
        wanted: &Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<Reply, Failure> {
        let described = self.kind(kind)?;
        let writer = Writer::of(described, options, request.target.part);
        if !metadata::text(wanted, "uid").is_empty() || !metadata::text(wanted, "resourceVersion").is_empty() {
            let why = "the object does not exist, and a uid or resourceVersion was given";
            return Err(Failure::conflict(described, &request.target.name, why));
        }
        let new = managed::apply(described, None, wanted, &writer, options.force, now)
            .map_err(|conflicts| conflict(described, &request.target.name, &conflicts))?;
        let managed_fields = new.pointer("/metadata/managedFields").cloned();
        let new = Object::of(new).ok_or_else(unrecognised)?;
        self.create_object(kind, request, new, options, managed_fields, now)
    }

    /// Creates an object. `managed_fields` are those that an apply has computed; other writes
    /// compute them here.
    pub(super) fn create_object(
        &mut self,
        kind: usize,
        request: &Request,
        mut object: Object,
        options: &WriteOptions,
        managed_fields: Option<Value>,
        now: Timestamp,
    ) -> Result<Reply, Failure> {
        let target = &request.target;
        let described = self.kind(kind)?;
        if target.part != Part::Main {
            return Err(Failure::method_not_allowed());
        }
        decode(described, &mut object, None)?;
        self.place(described, target, &mut object)?;
        let name = self.name_of(&mut object);
        let mut warnings = Vec::new();
        let described = self.kind(kind)?;
        let (unknown, mut settled) = settle(described, &mut object, None);
        strict(described, &unknown, options, &mut warnings)?;
        let admission = self.admission_of(described, target.part);
        let edit = edit(request, Operation::Create, &name, None, options.dry_run);
        if let Some(admission) = &admission
            && let Some(mutated) = self.admit(&**admission, described, Phase::Mutate, edit, &object, &mut warnings)?
        {
            object = Object::of(mutated).ok_or_else(unrecognised)?;
            settled = settle(described, &mut object, None).1;
        }
        metadata::set(&mut object, "managedFields", Value::Null);
        if let Some(managed_fields) = managed_fields {
            metadata::set(&mut object, "managedFields", managed_fields);
        } else if self.options.managed_fields {
            let writer = Writer::of(described, options, Part::Main);
            let mut whole = object.to_value();
            managed::update(described, None, &mut whole, &writer, now);
            object = Object::of(whole).ok_or_else(unrecognised)?;
        }
        let uid = self.next_uid();
        let described = self.kind(kind)?;
        complete(described, &mut object, uid, now);
        validate(described, &object, None, settled)?;
        if let Some(admission) = &admission {
            self.admit(&**admission, described, Phase::Validate, edit, &object, &mut warnings)?;
        }
        let object = self.store_new(kind, &name, object, options.dry_run)?;
        Ok(Reply::Object {
            code: 201,
            object,
            warnings,
        })
    }

    /// Makes the namespace of an object equal to that of the request, and checks that the namespace
    /// exists.
    fn place(&self, kind: &Kind, target: &Target, object: &mut Object) -> Result<(), Failure> {
        if kind.scope == Scope::Cluster {
            metadata::set(object, "namespace", Value::Null);
            return Ok(());
        }
        agree(target, object)?;
        metadata::set(object, "namespace", target.namespace.clone().into());
        let Some(namespaces) = self.kind_of("", "namespaces") else {
            return Ok(());
        };
        match self.objects.get(&self.key(namespaces, "", &target.namespace)) {
            None => Err(Failure::not_found(self.kind(namespaces)?, &target.namespace)),
            Some(namespace) if metadata::is_deleting(namespace) => {
                let name = metadata::text(object, "name");
                let why = format!(
                    "unable to create new content in namespace {} because it is being terminated",
                    target.namespace
                );
                Err(Failure::forbidden(kind, name, &why))
            }
            Some(_) => Ok(()),
        }
    }

    /// The name of a new object. A name is generated from `generateName` if the object has none.
    fn name_of(&mut self, object: &mut Object) -> String {
        let prefix = metadata::text(object, "generateName");
        if metadata::text(object, "name").is_empty() && !prefix.is_empty() {
            let prefix: String = prefix.chars().take(PREFIX_LENGTH).collect();
            let name = prefix + &self.next_suffix();
            metadata::set(object, "name", name.into());
        }
        metadata::text(object, "name").to_owned()
    }

    /// Stores a new object, unless the request is a dry run.
    fn store_new(&mut self, kind: usize, name: &str, object: Object, dry_run: bool) -> Result<Arc<Object>, Failure> {
        let key = self.key(kind, metadata::text(&object, "namespace"), name);
        if !metadata::text(&object, "resourceVersion").is_empty() && !dry_run {
            let text = "resourceVersion should not be set on objects to be created";
            return Err(Failure::new(500, "", text));
        }
        if self.objects.contains_key(&key) {
            return Err(Failure::already_exists(self.kind(kind)?, name));
        }
        Ok(if dry_run {
            Arc::new(object)
        } else {
            self.store(key, Some(object))
        })
    }
}

/// Sets what the API server sets in a new object, and removes what a client cannot set.
fn complete(kind: &Kind, object: &mut Object, uid: String, now: Timestamp) {
    kind.on_create(object);
    metadata::set(object, "uid", uid.into());
    metadata::set(object, "creationTimestamp", metadata::seconds(now));
    if kind.has_generation() {
        metadata::set(object, "generation", json!(1));
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata::set(object, field, Value::Null);
    }
    if kind.is_custom() && kind.status {
        object.remove("status");
    }
}
