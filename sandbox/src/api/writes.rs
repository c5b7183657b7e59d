//! Create, update, patch: decoding, defaults, admission, validation, storage, in the order of the API server.

use std::sync::Arc;

use capstan_core::admission::Phase;
use capstan_core::model::{Edit, Operation, Stored, Violation, ViolationKind};
use capstan_core::schema::Touched;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::admission::Admit;
use super::failure::Failure;
use super::kinds::{Kind, Scope, Shape};
use super::managed::{self, Writer};
use super::metadata;
use super::object::Object;
use super::patch::{patched, unrecognised};
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
        let object = Object::of(object).ok_or_else(unrecognised)?;
        self.create_owned(kind, request, object, options, None, now)
    }

    /// Makes an object; `owners` are its `managedFields` where an apply has computed them.
    fn create_owned(
        &mut self,
        kind: usize,
        request: &Request,
        mut object: Object,
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
        decode(described, &mut object, None)?;
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
        let (unknown, mut settled) = settle(described, &mut object, None);
        strict(described, &unknown, options, &mut warnings)?;
        let writer = Writer::of(described, options, Part::Main);
        let admission = self.asked(described, target.part);
        let edit = edit(request, Operation::Create, &name, None, options.dry_run);
        if let Some(admission) = &admission
            && let Some(mutated) = self.judged(&**admission, described, Phase::Mutate, edit, &object, &mut warnings)?
        {
            object = Object::of(mutated).ok_or_else(unrecognised)?;
            settled = settle(described, &mut object, None).1;
        }
        metadata::set(&mut object, "managedFields", Value::Null);
        if let Some(owners) = owners {
            metadata::set(&mut object, "managedFields", owners);
        } else if self.options.managed_fields {
            let mut whole = object.to_value();
            managed::update(described, None, &mut whole, &writer, now);
            object = Object::of(whole).ok_or_else(unrecognised)?;
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
        if described.is_custom() && described.status {
            object.remove("status");
        }
        validate(described, &object, None, settled)?;
        if let Some(admission) = &admission {
            self.judged(&**admission, described, Phase::Validate, edit, &object, &mut warnings)?;
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

    /// Who judges writes of a kind through a part of it.
    pub(super) fn asked(&self, kind: &Kind, part: Part) -> Option<Arc<dyn Admit>> {
        self.admission.clone().filter(|admission| admission.asks(kind, part))
    }

    /// Asks about an edit, with the object as it is in this pass.
    fn judged(
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
            return self.replace(kind, request, &old, new, options, now);
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
                return self.create_owned(kind, request, object, options, None, now);
            }
            Err(failure) => return Err(failure),
        };
        if described.scope == Scope::Namespaced {
            metadata::set(&mut object, "namespace", target.namespace.clone().into());
        }
        object.share(&old);
        self.replace(kind, request, &old, object, options, now)
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
        if target.part == Part::Scale {
            let scale = patched(described, how, &*self.scale_of(kind, &old)?, patch)?;
            let new = self.scaled(kind, &old, &scale.to_value())?;
            return self.replace(kind, request, &old, new, options, now);
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
        self.replace_with(kind, request, &old, new, options, now, true)
    }

    fn create_applied(
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
        let owners = new.pointer("/metadata/managedFields").cloned();
        let new = Object::of(new).ok_or_else(unrecognised)?;
        self.create_owned(kind, request, new, options, owners, now)
    }

    fn replace(
        &mut self,
        kind: usize,
        request: &Request,
        old: &Arc<Object>,
        new: Object,
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
        old: &Arc<Object>,
        mut new: Object,
        options: &WriteOptions,
        now: Timestamp,
        applied: bool,
    ) -> Result<Reply, Failure> {
        let described = self.kind(kind)?;
        let target = &request.target;
        let part = target.part;
        let mut warnings = Vec::new();
        let (unknown, mut settled) = settle(described, &mut new, Some(old));
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
        if !new.has_same(old, "metadata") {
            expected(described, request, old, &new)?;
        }
        let writer = Writer::of(described, options, part);
        let admission = self.asked(described, part);
        let edit = edit(request, Operation::Update, &target.name, Some(&**old), options.dry_run);
        if let Some(admission) = &admission
            && let Some(mutated) = self.judged(&**admission, described, Phase::Mutate, edit, &new, &mut warnings)?
        {
            new = Object::of(mutated).ok_or_else(unrecognised)?;
            settled = settle(described, &mut new, Some(old)).1;
        }
        if !applied {
            if self.options.managed_fields {
                let (mut whole, before) = (new.to_value(), old.to_value());
                managed::update(described, Some(&before), &mut whole, &writer, now);
                new = Object::of(whole).ok_or_else(unrecognised)?;
            } else if !new.has_same(old, "metadata") {
                let kept = metadata::field(old, "managedFields").cloned().unwrap_or_default();
                metadata::set(&mut new, "managedFields", kept);
            }
        }
        carry_over(described, old, &mut new, part);
        if settled && described.is_custom() && admission.is_none() && !self.options.managed_fields {
            // Nothing but metadata was written since the object shared what it could.
            new.share_field(old, "metadata");
        } else {
            new.share(old);
        }
        let mut touched = new.differing(old);
        if described.has_generation() && part != Part::Status && differs(described, &touched) {
            let generation = metadata::field(old, "generation").and_then(Value::as_i64).unwrap_or(0);
            metadata::set(&mut new, "generation", json!(generation + 1));
            touched.push("metadata".into());
        }
        validate(described, &new, Some((old, &touched)), settled).map_err(|failure| match &request.verb {
            Verb::Patch(..) if failure.code == 400 => Failure {
                code: 422,
                reason: "Invalid",
                ..failure
            },
            _ => failure,
        })?;
        if let Some(admission) = &admission {
            self.judged(&**admission, described, Phase::Validate, edit, &new, &mut warnings)?;
        }
        if !new.has_same(old, "metadata") {
            let version = metadata::text(old, "resourceVersion").to_owned();
            metadata::set(&mut new, "resourceVersion", version.into());
            if described.scope == Scope::Cluster {
                metadata::set(&mut new, "namespace", Value::Null);
            }
            managed::keep_times(old, &mut new);
            new.share_field(old, "metadata");
        }
        let key = self.key(kind, metadata::text(&new, "namespace"), &target.name);
        let same = new.is_same(old);
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
            Part::Scale => self.scale_of(kind, &object)?,
            Part::Main | Part::Status => object,
        };
        Ok(Reply::Object {
            code: 200,
            object,
            warnings,
        })
    }
}

/// An edit, without the object as it would be: that is another in each pass.
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

/// The writer means the object that is there, in the version that it has.
fn expected(kind: &Kind, request: &Request, old: &Object, new: &Object) -> Result<(), Failure> {
    let name = &request.target.name;
    let (given_uid, given_version) = (metadata::text(new, "uid"), metadata::text(new, "resourceVersion"));
    let (uid, version) = (metadata::text(old, "uid"), metadata::text(old, "resourceVersion"));
    if !given_uid.is_empty() && given_uid != uid && matches!(request.verb, Verb::Update(..)) {
        let why = format!("Precondition failed: UID in precondition: {given_uid}, UID in object meta: {uid}");
        return Err(Failure::conflict(kind, name, &why));
    }
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

/// The object is of the kind that the request is about, and its metadata can be read. What it shares with the old object
/// was read before.
fn decode(kind: &Kind, object: &mut Object, old: Option<&Object>) -> Result<(), Failure> {
    for (field, wanted) in [("apiVersion", kind.api_version.as_str()), ("kind", kind.kind.as_str())] {
        match object.get(field) {
            Some(Value::String(text)) if text == wanted => {}
            // Built-in kinds are decoded into what the URL says.
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
    metadata::normalise(object)
}

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

/// Drops unknown fields, and names them.
fn prune(kind: &Kind, object: &mut Value) -> Vec<String> {
    let unknown = kind.schema().prune(object);
    unknown.into_iter().map(|path| path.as_str().to_owned()).collect()
}

/// Fills in defaults and drops unknown fields where an object differs from the old one, whose own went through this before.
/// Names what it dropped, and says whether nothing but a rule can have anything against what differs.
fn settle(kind: &Kind, object: &mut Object, old: Option<&Object>) -> (Vec<String>, bool) {
    let none = Object::default();
    let old = old.unwrap_or(&none);
    let schema = kind.schema();
    let settles = schema.has_all_defaults(|name| object.get(name).is_some())
        && object.changed(old).all(|(name, value)| schema.settles(name, value));
    let mut unknown = Vec::new();
    if !settles {
        let mut touched = serde_json::Map::new();
        for name in object.differing(old) {
            if let Some(value) = object.remove(&name) {
                touched.insert((*name).to_owned(), Arc::unwrap_or_clone(value));
            }
        }
        let mut touched = Value::Object(touched);
        schema.set_defaults(&mut touched);
        unknown = prune(kind, &mut touched);
        if let Value::Object(touched) = touched {
            for (name, value) in touched {
                if object.get(&name).is_none() {
                    object.insert(&name, value);
                }
            }
        }
    }
    kind.finish(object);
    (unknown, settles)
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
fn carry_over(kind: &Kind, old: &Object, new: &mut Object, part: Part) {
    if part == Part::Status && kind.is_custom() {
        keep_but_status(old, new);
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

/// Nothing but the status of a custom object, and who owns its fields, is written through its status.
fn keep_but_status(old: &Object, new: &mut Object) {
    let status = new.remove("status");
    let managed = metadata::field(new, "managedFields").cloned();
    *new = old.clone();
    match status {
        Some(status) => new.insert("status", status),
        None => drop(new.remove("status")),
    }
    metadata::set(new, "managedFields", managed.unwrap_or_default());
}

/// Whether anything but metadata, and the status where that is apart, is touched.
fn differs(kind: &Kind, touched: &[Arc<str>]) -> bool {
    let mut touched = touched.iter().map(|field| &**field);
    touched.any(|field| field != "metadata" && !(kind.status && field == "status"))
}

/// What is wrong with an object; of one that is replaced, with the fields that differ from the old one. `settled`: nothing
/// but a rule can have anything against what differs.
fn validate(kind: &Kind, object: &Object, old: Option<(&Object, &[Arc<str>])>, settled: bool) -> Result<(), Failure> {
    let name = metadata::text(object, "name");
    let mut causes = metadata::check(kind, object, old.map(|(old, _)| old));
    if !(settled && accepts(kind, object, old)) {
        let custom = matches!(kind.shape, Shape::Custom(_));
        let found = violations(kind, object, old);
        let wrong = found
            .iter()
            .find(|violation| !custom && violation.kind == ViolationKind::TypeInvalid);
        if let Some(wrong) = wrong {
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
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Failure::invalid(kind, name, &causes))
    }
}

/// Whether the schema surely has nothing against an object whose fields settle where they differ.
fn accepts(kind: &Kind, object: &Object, old: Option<(&Object, &[Arc<str>])>) -> bool {
    let touched: Vec<Touched<'_>> = match old {
        Some((old, touched)) => touched
            .iter()
            .map(|name| Touched {
                name,
                new: object.get(name),
                old: old.get(name),
            })
            .collect(),
        None => object
            .fields()
            .map(|(name, value)| Touched {
                name,
                new: Some(value),
                old: None,
            })
            .collect(),
    };
    // What is as it was is not judged again: the API server ratchets.
    let alone = old.is_some() && touched.iter().all(|one| one.name == "metadata");
    match &kind.shape {
        Shape::Custom(_) if alone => true,
        Shape::Custom(definition) => definition.accepts(&touched),
        Shape::BuiltIn(schema) => schema.accepts(&touched),
    }
}

/// What the schema has against an object.
fn violations(kind: &Kind, object: &Object, old: Option<(&Object, &[Arc<str>])>) -> Vec<Violation> {
    let new = object.to_value();
    let old = old.map(|(old, touched)| {
        let touched: Vec<String> = touched.iter().map(|name| (**name).to_owned()).collect();
        (old.to_value(), touched)
    });
    match (&kind.shape, &old) {
        (Shape::Custom(_), Some((_, touched))) if touched.iter().all(|field| field == "metadata") => Vec::new(),
        (Shape::Custom(definition), Some((old, touched))) => definition.check_over(&new, old, touched),
        (Shape::Custom(definition), None) => definition.check(&new, None),
        (Shape::BuiltIn(schema), Some((old, touched))) => schema.validate_over(&new, old, touched),
        (Shape::BuiltIn(schema), None) => schema.validate(&new, None),
    }
}
