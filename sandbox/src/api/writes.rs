//! Create, update, patch: decoding, defaults, admission, validation, storage, in the order of the API server.

use std::sync::Arc;

use capstan_core::model::{Edit, Operation, ViolationKind};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::failure::Failure;
use super::kinds::{Kind, Scope, Shape};
use super::managed::{self, Writer};
use super::metadata;
use super::patch::patched;
use super::request::{Part, PatchKind, Request, Target, Verb, WriteOptions};
use super::store::{Api, Reply};

/// A time as objects have it: whole seconds.
pub(super) fn seconds(now: Timestamp) -> Value {
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    whole.to_string().into()
}

impl Api {
    pub(super) fn create(
        &mut self,
        kind: usize,
        request: &Request,
        object: Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<Reply, Failure> {
        self.create_owned(kind, request, object, options, None, now)
    }

    /// Makes an object; `owners` are its `managedFields` where an apply has computed them.
    fn create_owned(
        &mut self,
        kind: usize,
        request: &Request,
        mut object: Value,
        options: &WriteOptions,
        owners: Option<Value>,
        now: Timestamp,
    ) -> Result<Reply, Failure> {
        let target = &request.target;
        let described = self.kind(kind)?;
        if target.part != Part::Main {
            return Err(Failure::new(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            ));
        }
        decode(described, &mut object)?;
        self.place(described, target, &mut object)?;
        let generated = metadata::text(&object, "name").is_empty();
        if generated && !metadata::text(&object, "generateName").is_empty() {
            let prefix: String = metadata::text(&object, "generateName").chars().take(58).collect();
            let name = prefix + &self.next_suffix();
            metadata::set(&mut object, "name", name.into());
        }
        let name = metadata::text(&object, "name").to_owned();
        let mut warnings = Vec::new();
        let described = self.kind(kind)?;
        let (unknown, _) = settle(described, &mut object, None);
        strict(described, &unknown, options, &mut warnings)?;
        let writer = Writer::of(described, options, Part::Main);
        if let Some(admission) = self.admission.clone() {
            let edit = self.edit(request, Operation::Create, &name, Some(&object), None, options.dry_run);
            if let Some(new) = admission.mutate(self, described, &edit, &mut warnings)? {
                object = new;
                settle(described, &mut object, None);
            }
        }
        metadata::set(&mut object, "managedFields", Value::Null);
        if let Some(owners) = owners {
            metadata::set(&mut object, "managedFields", owners);
        } else if self.options.managed_fields {
            managed::update(described, None, &mut object, &writer, now);
        }
        let uid = self.next_uid();
        let described = self.kind(kind)?;
        described.on_create(&mut object);
        metadata::set(&mut object, "uid", uid.into());
        metadata::set(&mut object, "creationTimestamp", seconds(now));
        if described.has_generation() {
            metadata::set(&mut object, "generation", json!(1));
        }
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            metadata::set(&mut object, field, Value::Null);
        }
        if described.is_custom()
            && described.status
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
        validate(described, &object, None)?;
        if let Some(admission) = self.admission.clone() {
            let edit = self.edit(request, Operation::Create, &name, Some(&object), None, options.dry_run);
            admission.validate(self, described, &edit, &mut warnings)?;
        }
        let key = self.key(kind, metadata::text(&object, "namespace"), &name);
        if !metadata::text(&object, "resourceVersion").is_empty() && !options.dry_run {
            let text = "resourceVersion should not be set on objects to be created";
            return Err(Failure::new(500, "", text));
        }
        if self.objects.contains_key(&key) {
            return Err(Failure::already_exists(described, &name));
        }
        let object = if options.dry_run {
            Arc::new(object)
        } else {
            self.store(key, Some(object))
        };
        Ok(Reply::Object {
            code: 201,
            object,
            warnings,
        })
    }

    /// Namespace of an object and of its request agree, and the namespace is there.
    fn place(&self, kind: &Kind, target: &Target, object: &mut Value) -> Result<(), Failure> {
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

    fn edit<'a>(
        &self,
        request: &'a Request,
        operation: Operation,
        name: &'a str,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
        dry_run: bool,
    ) -> Edit<'a> {
        Edit {
            operation,
            subresource: request.target.part.as_str(),
            namespace: &request.target.namespace,
            name,
            object,
            old,
            propagation: None,
            user: &request.user,
            dry_run,
        }
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
        let mut object = object.clone();
        if target.part == Part::Scale {
            let replicas = object.pointer("/spec/replicas");
            if replicas.is_some_and(|replicas| !replicas.is_i64()) {
                return Err(Failure::bad_request("no kind is registered for the type v1.Scale"));
            }
            let old = self.existing(kind, target)?;
            let new = self.scaled(kind, &old, &object)?;
            return self.replace(kind, request, &old, new, options, now);
        }
        decode(described, &mut object)?;
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
                return self.create(kind, request, object, options, now);
            }
            Err(failure) => return Err(failure),
        };
        if described.scope == Scope::Namespaced {
            metadata::set(&mut object, "namespace", target.namespace.clone().into());
        }
        self.replace(kind, request, &old, object, options, now)
    }

    pub(super) fn patch(
        &mut self,
        kind: usize,
        request: &Request,
        how: PatchKind,
        patch: &Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<Reply, Failure> {
        let target = &request.target;
        if how == PatchKind::Apply {
            return self.apply_patch(kind, request, patch, options, now);
        }
        let described = self.kind(kind)?;
        if how == PatchKind::Strategic && described.is_custom() {
            return Err(super::patch::no_strategic());
        }
        let old = self.existing(kind, target)?;
        if target.part == Part::Scale {
            let scale = patched(described, how, &self.scale_of(kind, &old)?, patch)?;
            let new = self.scaled(kind, &old, &scale)?;
            return self.replace(kind, request, &old, new, options, now);
        }
        let mut new = patched(described, how, &old, patch)?;
        decode(described, &mut new)?;
        if let Shape::BuiltIn(schema) = &described.shape {
            let found = schema.validate(&new, None);
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
        self.replace(kind, request, &old, new, options, now)
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
        let mut wanted = patch.clone();
        decode(described, &mut wanted)?;
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
        let unknown = prune(described, &mut wanted);
        strict(described, &unknown, options, &mut warnings)?;
        let writer = Writer::of(described, options, target.part);
        let old = self.existing(kind, target).ok();
        let Some(old) = old else {
            if target.part != Part::Main {
                return Err(Failure::not_found(described, &target.name));
            }
            return self.create_applied(kind, request, &wanted, options, &writer, now);
        };
        let new = managed::apply(described, Some(&old), &wanted, &writer, options.force, now)
            .map_err(|conflicts| conflict(described, &target.name, &conflicts))?;
        self.replace_with(kind, request, &old, new, options, now, true)
    }

    fn create_applied(
        &mut self,
        kind: usize,
        request: &Request,
        wanted: &Value,
        options: &WriteOptions,
        writer: &Writer,
        now: Timestamp,
    ) -> Result<Reply, Failure> {
        let described = self.kind(kind)?;
        if !metadata::text(wanted, "uid").is_empty() || !metadata::text(wanted, "resourceVersion").is_empty() {
            let why = "the object does not exist, and a uid or resourceVersion was given";
            return Err(Failure::conflict(described, &request.target.name, why));
        }
        let new = managed::apply(described, None, wanted, writer, options.force, now)
            .map_err(|conflicts| conflict(described, &request.target.name, &conflicts))?;
        let owners = new.pointer("/metadata/managedFields").cloned();
        self.create_owned(kind, request, new, options, owners, now)
    }

    fn replace(
        &mut self,
        kind: usize,
        request: &Request,
        old: &Arc<Value>,
        new: Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<Reply, Failure> {
        self.replace_with(kind, request, old, new, options, now, false)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one path for all replacements; the arguments are the request"
    )]
    fn replace_with(
        &mut self,
        kind: usize,
        request: &Request,
        old: &Arc<Value>,
        mut new: Value,
        options: &WriteOptions,
        now: Timestamp,
        applied: bool,
    ) -> Result<Reply, Failure> {
        let described = self.kind(kind)?;
        let target = &request.target;
        let part = target.part;
        let mut warnings = Vec::new();
        let (unknown, mut touched) = settle(described, &mut new, Some(old));
        if !applied {
            let refused = strict(described, &unknown, options, &mut warnings);
            refused.map_err(|failure| match &request.verb {
                Verb::Patch(..) => Failure {
                    code: 422,
                    reason: "Invalid",
                    ..failure
                },
                _ => failure,
            })?;
        }
        let (given_uid, given_version) = (metadata::text(&new, "uid"), metadata::text(&new, "resourceVersion"));
        let (uid, version) = (metadata::text(old, "uid"), metadata::text(old, "resourceVersion"));
        if !given_uid.is_empty() && given_uid != uid && matches!(request.verb, Verb::Update(..)) {
            let why = format!("Precondition failed: UID in precondition: {given_uid}, UID in object meta: {uid}");
            return Err(Failure::conflict(described, &target.name, &why));
        }
        if given_version.is_empty() && !described.unconditional {
            let cause = (
                "metadata.resourceVersion".to_owned(),
                "Invalid value: 0x0: must be specified for an update".to_owned(),
                "FieldValueInvalid",
            );
            return Err(Failure::invalid(described, &target.name, &[cause]));
        }
        if !given_version.is_empty() && given_version != version {
            return Err(Failure::modified(described, &target.name));
        }
        let writer = Writer::of(described, options, part);
        if let Some(admission) = self.admission.clone() {
            let edit = self.edit(
                request,
                Operation::Update,
                &target.name,
                Some(&new),
                Some(old),
                options.dry_run,
            );
            if let Some(mutated) = admission.mutate(self, described, &edit, &mut warnings)? {
                new = mutated;
                (_, touched) = settle(described, &mut new, Some(old));
            }
        }
        if !applied {
            let kept = old.pointer("/metadata/managedFields").cloned().unwrap_or_default();
            if self.options.managed_fields {
                managed::update(described, Some(old), &mut new, &writer, now);
            } else {
                metadata::set(&mut new, "managedFields", kept);
            }
        }
        carry_over(described, old, &mut new, part, &touched);
        touched.push("metadata".to_owned());
        touched.retain(|field| new.get(field) != old.get(field));
        if described.has_generation() && part != Part::Status && differs(described, &touched) {
            let generation = metadata::field(old, "generation").and_then(Value::as_i64).unwrap_or(0);
            metadata::set(&mut new, "generation", json!(generation + 1));
            touched.push("metadata".to_owned());
        }
        validate(described, &new, Some((old, &touched))).map_err(|failure| match &request.verb {
            Verb::Patch(..) if failure.code == 400 => Failure {
                code: 422,
                reason: "Invalid",
                ..failure
            },
            _ => failure,
        })?;
        if let Some(admission) = self.admission.clone() {
            let edit = self.edit(
                request,
                Operation::Update,
                &target.name,
                Some(&new),
                Some(old),
                options.dry_run,
            );
            admission.validate(self, described, &edit, &mut warnings)?;
        }
        metadata::set(&mut new, "resourceVersion", version.into());
        managed::keep_times(old, &mut new);
        let key = self.key(kind, metadata::text(&new, "namespace"), &target.name);
        if described.scope == Scope::Cluster {
            metadata::set(&mut new, "namespace", Value::Null);
        }
        touched.push("metadata".to_owned());
        let same = touched.iter().all(|field| new.get(field) == old.get(field));
        let ends = metadata::is_deleting(old)
            && metadata::finalizers(&new).is_empty()
            && (!metadata::finalizers(old).is_empty() || !same);
        let object = if options.dry_run || same {
            Arc::new(new)
        } else if ends && described.plural != "namespaces" {
            self.store(key, None);
            Arc::new(new)
        } else {
            self.store(key, Some(new))
        };
        let object = match part {
            Part::Scale => Arc::new(self.scale_of(kind, &object)?),
            Part::Main | Part::Status => object,
        };
        Ok(Reply::Object {
            code: 200,
            object,
            warnings,
        })
    }
}

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

/// The object is of the kind that the request is about, and its metadata can be read.
fn decode(kind: &Kind, object: &mut Value) -> Result<(), Failure> {
    let Some(fields) = object.as_object_mut() else {
        return Err(Failure::bad_request(
            "the object provided is unrecognized: json: cannot unmarshal into Go value",
        ));
    };
    let api_version = kind.api_version();
    for (field, wanted) in [("apiVersion", api_version.as_str()), ("kind", kind.kind.as_str())] {
        match fields.get(field) {
            Some(Value::String(text)) if text == wanted => {}
            // Built-in kinds are decoded into what the URL says.
            None if !kind.is_custom() => drop(fields.insert(field.to_owned(), wanted.into())),
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
    metadata::normalise(object)
}

fn agree(target: &Target, object: &Value) -> Result<(), Failure> {
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

/// Drops unknown fields, and names them.
fn prune(kind: &Kind, object: &mut Value) -> Vec<String> {
    let unknown = kind.schema().prune(object);
    unknown.into_iter().map(|path| path.as_str().to_owned()).collect()
}

/// Fills in defaults and drops unknown fields, and names them; and which fields differ from the old object, whose own
/// went through this before.
fn settle(kind: &Kind, object: &mut Value, old: Option<&Value>) -> (Vec<String>, Vec<String>) {
    let mut names = Vec::new();
    let mut touched = Value::Object(serde_json::Map::new());
    if let (Some(fields), Some(touched)) = (object.as_object_mut(), touched.as_object_mut()) {
        let differing = fields
            .iter()
            .filter(|(name, value)| old.and_then(|old| old.get(name.as_str())) != Some(value));
        names.extend(differing.map(|(name, _)| name.clone()));
        touched.extend(names.iter().filter_map(|name| fields.remove_entry(name)));
    }
    kind.schema().set_defaults(&mut touched);
    let unknown = prune(kind, &mut touched);
    if let (Some(fields), Value::Object(touched)) = (object.as_object_mut(), touched) {
        for (name, value) in touched {
            fields.entry(name).or_insert(value);
        }
    }
    kind.finish(object);
    if let (Some(fields), Some(old)) = (object.as_object(), old.and_then(Value::as_object)) {
        // What went, or came with the defaults; a built-in kind may have finished anything.
        names.extend(old.keys().filter(|name| !fields.contains_key(*name)).cloned());
        names.extend(fields.keys().filter(|name| !old.contains_key(*name)).cloned());
        if !kind.is_custom() {
            names.extend(fields.keys().cloned());
        }
        names.sort_unstable();
        names.dedup();
    }
    (unknown, names)
}

fn strict(kind: &Kind, unknown: &[String], options: &WriteOptions, warnings: &mut Vec<String>) -> Result<(), Failure> {
    if unknown.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    match options.field_validation.as_str() {
        "Strict" => Err(Failure::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
            kind.kind,
            kind.version,
            kind.kind,
            texts.join(", ")
        ))),
        "Ignore" => Ok(()),
        _ => {
            warnings.extend(texts);
            Ok(())
        }
    }
}

/// What a write may not change comes from the old object, and a changed spec is counted.
fn carry_over(kind: &Kind, old: &Value, new: &mut Value, part: Part, touched: &[String]) {
    if part == Part::Status && kind.is_custom() {
        keep_but_status(old, new, touched);
    } else if kind.status || part == Part::Status {
        let field = if part == Part::Status { "spec" } else { "status" };
        if let Some(fields) = new.as_object_mut() {
            match old.get(field) {
                _ if !touched.iter().any(|touched| touched == field) => {}
                Some(value) => drop(fields.insert(field.into(), value.clone())),
                None => drop(fields.remove(field)),
            }
        }
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

/// Nothing but the status of a custom object, and who owns its fields, is written through its status. What is the same
/// already is not copied.
fn keep_but_status(old: &Value, new: &mut Value, touched: &[String]) {
    let (Some(before), Some(fields)) = (old.as_object(), new.as_object_mut()) else {
        return;
    };
    let managed = fields
        .get_mut("metadata")
        .and_then(|meta| meta.as_object_mut()?.remove("managedFields"));
    for field in touched.iter().map(String::as_str).filter(|field| *field != "status") {
        match before.get(field) {
            None => drop(fields.remove(field)),
            value if value == fields.get(field) => {}
            Some(value) => drop(fields.insert(field.to_owned(), value.clone())),
        }
    }
    if managed.is_some() || metadata::field(old, "managedFields").is_some() {
        if let Some(meta) = before.get("metadata") {
            fields.insert("metadata".to_owned(), meta.clone());
        }
        metadata::set(new, "managedFields", managed.unwrap_or_default());
    }
}

/// Whether anything but metadata, and the status where that is apart, is touched.
fn differs(kind: &Kind, touched: &[String]) -> bool {
    touched
        .iter()
        .any(|field| field != "metadata" && !(kind.status && field == "status"))
}

/// What is wrong with an object; of one that is replaced, with the fields that differ from the old one.
fn validate(kind: &Kind, object: &Value, old: Option<(&Value, &[String])>) -> Result<(), Failure> {
    let name = metadata::text(object, "name");
    let before = old.map(|(old, _)| old);
    let mut causes = metadata::check(kind, object, before);
    match &kind.shape {
        Shape::Custom(definition) => {
            let found = match old {
                // What is as it was is not judged again: the API server ratchets.
                Some((_, touched)) if touched.iter().all(|field| field == "metadata") => Vec::new(),
                Some((old, touched)) => definition.check_over(object, old, touched),
                None => definition.check(object, None),
            };
            causes.extend(found.iter().map(|violation| {
                (
                    violation.path.as_str().to_owned(),
                    violation.plainly(),
                    violation.kind.reason(),
                )
            }));
        }
        Shape::BuiltIn(schema) => {
            let found = match old {
                Some((old, touched)) => schema.validate_over(object, old, touched),
                None => schema.validate(object, None),
            };
            if let Some(wrong) = found
                .iter()
                .find(|violation| violation.kind == ViolationKind::TypeInvalid)
            {
                // A Go type cannot hold it.
                return Err(Failure::bad_request(wrong.plainly()));
            }
            causes.extend(found.iter().map(|violation| {
                (
                    violation.path.as_str().to_owned(),
                    violation.plainly(),
                    violation.kind.reason(),
                )
            }));
        }
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Failure::invalid(kind, name, &causes))
    }
}
