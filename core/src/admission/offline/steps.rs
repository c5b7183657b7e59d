//! The steps of an API server for one edit of the offline check.

use std::borrow::Cow;

use json_patch::Patch;
use serde_json::Value;

use super::object::{text, with_status_of, without_status};
use super::{Check, Checked, metadata};
use crate::admission::gate::{Outcome, Phase};
use crate::admission::gates;
use crate::admission::judge::Admission;
use crate::admission::response::{Status, deny_status};
use crate::admission::snapshot::Snapshot;
use crate::api::kind::KindInfo;
use crate::model::{Edit, FieldPath, Operation, Stored, Verdict, Violation, ViolationKind, Warning, sort_violations};
use crate::schema::Schema;

/// An edit, and what its steps need.
pub(super) struct Steps<'a> {
    pub(super) admission: &'a Admission,
    pub(super) check: &'a Check<'a>,
    pub(super) snapshot: &'a Snapshot,
    pub(super) group: &'a str,
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
    /// Whether the rules of the kind read the status.
    pub(super) reads_status: bool,
}

/// How an update changes the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusChange {
    /// It does not.
    None,
    /// Nothing else changes, so that the update is one of the subresource.
    Only,
    /// Other fields change too.
    BesideOthers,
}

impl Steps<'_> {
    /// The verdict about a deletion.
    pub(super) fn deletion(&self) -> Checked {
        let stored = self.check.object;
        self.verdict(self.judge(Phase::Validate, None, Some(stored)).verdict)
    }

    /// The verdict about an object of a kind whose schema is unknown: its rules alone decide.
    pub(super) fn without_schema(&self) -> Checked {
        let Some(gated) = gates::by_kind(self.group, self.kind) else {
            return Checked::default();
        };
        let mut object = match self.check.old {
            Some(old) => with_status_of(self.check.object, old),
            None => without_status(self.check.object),
        };
        let mutated = if gated.is_mutated() {
            self.judge(Phase::Mutate, Some(&object), self.check.old)
        } else {
            Outcome::default()
        };
        if let Err(refusal) = apply(mutated.patch.as_ref(), &mut object) {
            return *refusal;
        }
        let mut found = Findings::of(mutated.verdict);
        found.violations.extend(metadata::violations(&object, self.check.old));
        found.add(self.judge(Phase::Validate, Some(&object), self.check.old).verdict);
        found.finish(&gated.kind, self.name, mutated.patch)
    }

    /// The verdict about a Scale. The old object is the object that it scales.
    pub(super) fn scale(&self) -> Checked {
        let edit = Edit {
            subresource: "scale",
            ..self.edit(Some(self.check.object), self.check.old)
        };
        self.verdict(self.judge_edit(Phase::Validate, &edit).verdict)
    }

    /// Whether rules judge an update of the status of the kind.
    fn judges_status(&self) -> bool {
        gates::by_kind(self.group, self.kind).is_some_and(gates::GatedKind::judges_status)
    }

    /// How an update changes the status. An object without a status does not change it.
    pub(super) fn status_change(&self) -> StatusChange {
        let status = |object: &Value| object.get("status").filter(|status| !status.is_null()).cloned();
        let (Some(old), Some(new)) = (self.check.old, status(self.check.object)) else {
            return StatusChange::None;
        };
        if self.check.operation != Operation::Update || status(old).as_ref() == Some(&new) {
            StatusChange::None
        } else if written(old) == written(self.check.object) {
            StatusChange::Only
        } else {
            StatusChange::BesideOthers
        }
    }

    /// The verdict about an update of the subresource `status`. An API server takes everything but
    /// the status from the stored object, and calls no mutating webhook.
    pub(super) fn status(&self, kind: Option<(&KindInfo, &Schema)>) -> Checked {
        let stored = self.check.old.unwrap_or(self.check.object);
        let mut object = with_status_of(stored, self.check.object);
        let mut found = Findings::of(Verdict::default());
        if let Some((kind, schema)) = kind {
            let mut old = self.in_version(kind, stored).into_owned();
            schema.prune(&mut old);
            object = with_status_of(&old, &object);
            let unknown = schema.prune(&mut object);
            if !unknown.is_empty() {
                return unknown_fields(kind, &unknown);
            }
            schema.set_defaults(&mut object);
            schema.set_defaults(&mut old);
            found.add_violations(schema.validate(&object, Some(&old)));
        }
        if self.judges_status() && found.violations.is_empty() {
            let edit = Edit {
                subresource: "status",
                ..self.edit(Some(&object), Some(stored))
            };
            return self.verdict(self.judge_edit(Phase::Validate, &edit).verdict);
        }
        match kind {
            Some((kind, _)) => found.finish(kind, self.name, None),
            None => Checked::default(),
        }
    }

    /// Adds a warning if the status changes beside other fields. One request does not write both:
    /// an update of the object keeps the stored status.
    pub(super) fn with_note_about_status(&self, mut checked: Checked) -> Checked {
        if self.status_change() == StatusChange::BesideOthers && self.judges_status() {
            let text = "status: not checked: an update of the object keeps the stored status; to check an update of \
                the status, give an object that differs from --old in its status only";
            checked.warnings.push(Warning::not_judged("check-status", text));
        }
        checked
    }

    /// The verdict about an object of a kind with a schema.
    pub(super) fn with_schema(&self, kind: &KindInfo, schema: &Schema) -> Checked {
        let mut object = without_status(self.check.object);
        let unknown = schema.prune(&mut object);
        if !unknown.is_empty() {
            return unknown_fields(kind, &unknown);
        }
        schema.set_defaults(&mut object);
        // An API server converts the stored object to the version of the request.
        let before = self.check.old.map(|old| self.in_version(kind, old));
        let old = before.as_deref().map(|old| {
            let mut old = without_status(old);
            schema.prune(&mut old);
            schema.set_defaults(&mut old);
            old
        });
        let before = before.as_deref();
        let stored_old = old.as_ref().map(|object| self.with_status(object, before));
        // The mutating pass sees the status that was sent. The stored object keeps its own.
        let sent = self.with_status(&object, Some(self.check.object));
        let mutated = self.judge(Phase::Mutate, Some(&sent), stored_old.as_ref());
        if let Err(refusal) = apply(mutated.patch.as_ref(), &mut object) {
            return *refusal;
        }
        let mut found = Findings::of(mutated.verdict);
        found.add_violations(schema.validate(&object, old.as_ref()));
        found.violations.extend(metadata::violations(&object, before));
        if found.violations.is_empty() {
            let stored = self.with_status(&object, before);
            found.add(self.judge(Phase::Validate, Some(&stored), stored_old.as_ref()).verdict);
        }
        found.finish(kind, self.name, mutated.patch)
    }

    /// A stored object in the version of the request. An object that cannot be converted stays as
    /// it is.
    fn in_version<'o>(&self, kind: &KindInfo, object: &'o Value) -> Cow<'o, Value> {
        let api_version = kind.api_version();
        let gate = gates::by_kind(self.group, self.kind).filter(|_| text(object, "/apiVersion") != api_version);
        let converted = gate.and_then(|gated| gated.gate.convert(object, &api_version));
        converted.map_or(Cow::Borrowed(object), Cow::Owned)
    }

    /// An object with the status of another one, if the rules of the kind read the status.
    fn with_status(&self, object: &Value, other: Option<&Value>) -> Value {
        match other.filter(|_| self.reads_status) {
            Some(other) => with_status_of(object, other),
            None => object.clone(),
        }
    }

    fn judge(&self, phase: Phase, object: Option<&Value>, old: Option<&Value>) -> Outcome {
        self.judge_edit(phase, &self.edit(object, old))
    }

    fn edit<'e>(&'e self, object: Option<&'e Value>, old: Option<&'e Value>) -> Edit<'e> {
        let delete = self.check.operation == Operation::Delete;
        Edit {
            operation: self.check.operation,
            subresource: "",
            namespace: self.namespace(),
            name: self.name,
            object,
            old: old.map(|old| old as &dyn Stored),
            propagation: self.check.propagation.filter(|_| delete),
            user: self.check.user,
            dry_run: true,
        }
    }

    fn judge_edit(&self, phase: Phase, edit: &Edit<'_>) -> Outcome {
        self.admission
            .judge(phase, self.group, self.kind, edit, self.snapshot)
            .unwrap_or_default()
    }

    /// The namespace of the object, or else the default of its gate.
    fn namespace(&self) -> &str {
        match text(self.check.object, "/metadata/namespace") {
            "" => gates::by_kind(self.group, self.kind).map_or("", |gated| {
                gated.gate.default_namespace(&gated.kind, self.admission.options())
            }),
            namespace => namespace,
        }
    }

    fn verdict(&self, verdict: Verdict) -> Checked {
        Checked {
            status: self.admission.status(self.group, self.kind, self.name, &verdict),
            violations: verdict.violations,
            warnings: verdict.warnings,
            patch: None,
        }
    }
}

/// An object without its status, and without the metadata that an API server sets.
fn written(object: &Value) -> Value {
    let mut object = without_status(object);
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["resourceVersion", "managedFields", "generation"] {
            metadata.remove(field);
        }
    }
    object
}

/// Applies the patch of the mutating webhook.
fn apply(patch: Option<&Patch>, object: &mut Value) -> Result<(), Box<Checked>> {
    let Some(patch) = patch else {
        return Ok(());
    };
    json_patch::patch(object, patch).map_err(|error| {
        let message = format!("the patch of the mutating webhook cannot be applied: {error}");
        Box::new(Checked {
            status: Some(Status::plain(500, "InternalError", message)),
            ..Checked::default()
        })
    })
}

/// The refusals and warnings of the steps so far.
struct Findings {
    violations: Vec<Violation>,
    warnings: Vec<Warning>,
}

impl Findings {
    fn of(verdict: Verdict) -> Self {
        Self {
            violations: verdict.violations,
            warnings: verdict.warnings,
        }
    }

    /// Adds the refusals of the schema. The mutating pass evaluates the rules of the schema too,
    /// and its refusals have advice, so a second refusal by the same rule is left out.
    fn add_violations(&mut self, violations: Vec<Violation>) {
        for violation in violations {
            let is_known = |known: &Violation| known.path == violation.path && known.rule == violation.rule;
            if !self.violations.iter().any(is_known) {
                self.violations.push(violation);
            }
        }
    }

    fn add(&mut self, verdict: Verdict) {
        self.violations.extend(verdict.violations);
        for warning in verdict.warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }

    fn finish(mut self, kind: &KindInfo, name: &str, patch: Option<Patch>) -> Checked {
        sort_violations(&mut self.violations);
        let status = (!self.violations.is_empty()).then(|| deny_status(kind, name, &self.violations));
        Checked {
            patch: patch.filter(|_| status.is_none()),
            status,
            violations: self.violations,
            warnings: self.warnings,
        }
    }
}

/// The answer of an API server to unknown fields with strict field validation, which `kubectl`
/// requests.
fn unknown_fields(kind: &KindInfo, fields: &[FieldPath]) -> Checked {
    let list: Vec<String> = fields
        .iter()
        .map(|field| format!("unknown field {:?}", field.as_str()))
        .collect();
    let message = format!(
        "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
        kind.kind,
        kind.version,
        kind.kind,
        list.join(", ")
    );
    let advice = format!(
        "correct the spelling, or remove the field; kubectl explain {} lists the fields",
        kind.plural
    );
    let violation = |field: &FieldPath| {
        let kind = ViolationKind::Invalid;
        Violation::new("schema-unknown-field", field.clone(), kind, "unknown field").advice(advice.as_str())
    };
    Checked {
        status: Some(Status::plain(400, "BadRequest", message)),
        violations: fields.iter().map(violation).collect(),
        ..Checked::default()
    }
}
