//! The verdict that a cluster would give, without one: decoding, the mutating pass, the schema, the
//! validating pass, in the order of an API server.
//!
//! An API server stops at the first step that refuses. Here the mutating pass and the schema are
//! reported together, since whoever corrects a file wants to hear of everything at once; the
//! verdict is the same.

use std::borrow::Cow;
use std::collections::BTreeMap;

use json_patch::Patch;
use serde_json::{Map, Value};
use thiserror::Error;

use super::mirrored;
use super::response::{Status, deny_status};
use super::{Admission, Phase, Snapshot};
use crate::cel::rules::{RuleError, RuleFile};
use crate::model::{Edit, FieldPath, Operation, Propagation, Stored, User, Verdict, Violation, Warning};
use crate::schema::Schema;
use crate::schema::crd::{self, CrdError};

/// Why nothing can be checked: one of our own definitions is broken. A test makes sure that none
/// is.
#[derive(Debug, Error)]
pub enum CheckError {
    /// The rules.
    #[error(transparent)]
    Rules(#[from] RuleError),
    /// The CRDs.
    #[error(transparent)]
    Crds(#[from] CrdError),
    /// The schema of a CRD.
    #[error("the schema of {name}: {reason}")]
    Schema {
        /// The CRD.
        name: String,
        /// What is wrong.
        reason: String,
    },
}

/// A kind whose schema is known.
#[derive(Debug)]
struct Kind {
    group: String,
    version: String,
    plural: String,
    schema: Schema,
}

/// Our CRDs and our rules, ready to check objects.
#[derive(Debug)]
pub struct Checker {
    admission: Admission,
    kinds: BTreeMap<(String, String), Kind>,
}

/// What is checked.
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    /// What is done to the object.
    pub operation: Operation,
    /// The object as it would be; for a deletion, as it is.
    pub object: &'a Value,
    /// For an update, the object as it is.
    pub old: Option<&'a Value>,
    /// For a deletion, what becomes of the dependants.
    pub propagation: Option<Propagation>,
    /// Who asks.
    pub user: &'a User,
}

/// What the check gave.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Why the object is refused; `None` when it is allowed.
    pub status: Option<Status>,
    /// The refusals that the status is made of, with the rules that they come from.
    pub violations: Vec<Violation>,
    /// What whoever makes the edit should know.
    pub warnings: Vec<Warning>,
    /// What the mutating webhook fills in.
    pub patch: Option<Patch>,
}

impl Checker {
    /// Compiles the schemas of our CRDs.
    ///
    /// # Errors
    /// When one of our definitions is broken.
    pub fn new(admission: Admission) -> Result<Self, CheckError> {
        let mut kinds = BTreeMap::new();
        for definition in crd::crds(admission.files())? {
            let text = |pointer: &str| {
                definition
                    .pointer(pointer)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            let (kind, group) = (text("/spec/names/kind"), text("/spec/group"));
            let none = RuleFile {
                group: group.clone(),
                kind: kind.clone(),
                ..RuleFile::default()
            };
            let rules = admission
                .files()
                .iter()
                .find(|file| file.judges(&group, &kind))
                .unwrap_or(&none);
            let broken = |reason: String| CheckError::Schema {
                name: text("/metadata/name"),
                reason,
            };
            let schema = crd::schema(&definition).ok_or_else(|| broken(String::from("there is none")))?;
            let schema = Schema::parse(schema, rules).map_err(|error| broken(error.to_string()))?;
            let plural = text("/spec/names/plural");
            kinds.insert(
                (group.clone(), kind),
                Kind {
                    group,
                    version: text("/spec/versions/0/name"),
                    plural,
                    schema,
                },
            );
        }
        Ok(Self { admission, kinds })
    }

    /// The rules that are checked.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Checks one object.
    pub fn check(&self, check: &Check<'_>, snapshot: &Snapshot) -> Checked {
        let (object, old) = (decoded(check.object), check.old.map(decoded));
        let check = &Check {
            object: &object,
            old: old.as_deref(),
            ..*check
        };
        let text = |pointer: &str| {
            check
                .object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (api_version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        let group = api_version.split('/').next().unwrap_or_default();
        let reads_status = self.admission.reads_status(group, kind);
        let Some(known) = self.kinds.get(&(group.to_owned(), kind.to_owned())) else {
            return match reads_status {
                None => unknown_kind(kind, api_version),
                Some(_) => self.judge_without_schema(check, group, kind, name, snapshot),
            };
        };
        if api_version != format!("{}/{}", known.group, known.version) {
            let message = format!(
                "no matches for kind {kind:?} in version {api_version:?}: use {}/{}",
                known.group, known.version
            );
            return refused(Status::plain(404, "NotFound", message), Vec::new());
        }
        if check.operation == Operation::Delete {
            return self.judge_deletion(check, group, kind, name, snapshot);
        }
        let mut object = without_status(check.object);
        let unknown = known.schema.prune(&mut object);
        if !unknown.is_empty() {
            return unknown_fields(kind, known, &unknown);
        }
        known.schema.set_defaults(&mut object);
        let old = check.old.map(|old| {
            let mut old = without_status(old);
            known.schema.prune(&mut old);
            known.schema.set_defaults(&mut old);
            old
        });
        let reads_status = reads_status.unwrap_or(false);
        // The first pass sees the status that was sent; what is stored has the one that was there.
        let sent = if reads_status {
            with_status_of(&object, check.object)
        } else {
            object.clone()
        };
        let stored_old = match (&old, check.old) {
            (Some(old), Some(before)) if reads_status => Some(with_status_of(old, before)),
            _ => old.clone(),
        };
        let mutated = self.pass(Phase::Mutate, check, group, kind, &sent, stored_old.as_ref(), snapshot);
        if let Some(patch) = &mutated.1
            && let Err(error) = json_patch::patch(&mut object, patch)
        {
            return refused(
                Status::plain(500, "InternalError", format!("the patch does not apply: {error}")),
                Vec::new(),
            );
        }
        let mut violations = mutated.0.violations;
        for violation in known.schema.validate(&object, old.as_ref()) {
            // The mutating pass says what the schema's rules say, and what to do about it.
            if !violations
                .iter()
                .any(|said| said.path == violation.path && said.rule == violation.rule)
            {
                violations.push(violation);
            }
        }
        let mut warnings = mutated.0.warnings;
        if violations.is_empty() {
            let stored = match check.old.filter(|_| reads_status) {
                Some(before) => with_status_of(&object, before),
                None => object,
            };
            let (verdict, _) = self.pass(
                Phase::Validate,
                check,
                group,
                kind,
                &stored,
                stored_old.as_ref(),
                snapshot,
            );
            violations = verdict.violations;
            for warning in verdict.warnings {
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
        }
        crate::model::sort_violations(&mut violations);
        let status =
            (!violations.is_empty()).then(|| deny_status(&known.group, kind, &known.plural, name, &violations));
        let patch = mutated.1.filter(|_| status.is_none());
        Checked {
            status,
            violations,
            warnings,
            patch,
        }
    }

    /// A kind of somebody else, whose schema is not known here: its rules are ours all the same.
    fn judge_without_schema(
        &self,
        check: &Check<'_>,
        group: &str,
        kind: &str,
        name: &str,
        snapshot: &Snapshot,
    ) -> Checked {
        if check.operation == Operation::Delete {
            return self.judge_deletion(check, group, kind, name, snapshot);
        }
        let object = match check.old {
            Some(old) => with_status_of(check.object, old),
            None => without_status(check.object),
        };
        let (verdict, _) = self.pass(Phase::Validate, check, group, kind, &object, check.old, snapshot);
        let status = self.admission.status(group, kind, name, &verdict);
        Checked {
            status,
            violations: verdict.violations,
            warnings: verdict.warnings,
            patch: None,
        }
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "both passes say what they judge, and nothing else"
    )]
    fn pass(
        &self,
        phase: Phase,
        check: &Check<'_>,
        group: &str,
        kind: &str,
        object: &Value,
        old: Option<&Value>,
        snapshot: &Snapshot,
    ) -> (Verdict, Option<Patch>) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let edit = Edit {
            operation: check.operation,
            subresource: "",
            namespace: self.namespace(group, kind, object),
            name: text("/metadata/name"),
            object: Some(object),
            old: old.map(|old| old as &dyn Stored),
            propagation: None,
            user: check.user,
            dry_run: true,
        };
        let outcome = self
            .admission
            .judge(phase, group, kind, &edit, snapshot)
            .unwrap_or_default();
        (outcome.verdict, outcome.patch)
    }

    /// The namespace of an object. A document of what exists in both APIs that names none is meant
    /// for where its API lives: elsewhere nothing would be judged, in silence.
    fn namespace<'a>(&'a self, group: &str, kind: &str, object: &'a Value) -> &'a str {
        let said = object.pointer("/metadata/namespace").and_then(Value::as_str);
        match (
            said.filter(|namespace| !namespace.is_empty()),
            mirrored::subject(group, kind),
        ) {
            (Some(namespace), _) => namespace,
            (None, Some(subject)) => self.admission.options().authority.namespace(subject.api),
            (None, None) => "",
        }
    }

    fn judge_deletion(&self, check: &Check<'_>, group: &str, kind: &str, name: &str, snapshot: &Snapshot) -> Checked {
        let edit = Edit {
            operation: Operation::Delete,
            subresource: "",
            namespace: self.namespace(group, kind, check.object),
            name,
            object: None,
            old: Some(check.object),
            propagation: check.propagation,
            user: check.user,
            dry_run: true,
        };
        let verdict = self
            .admission
            .judge(Phase::Validate, group, kind, &edit, snapshot)
            .unwrap_or_default()
            .verdict;
        let status = self.admission.status(group, kind, name, &verdict);
        Checked {
            status,
            violations: verdict.violations,
            warnings: verdict.warnings,
            patch: None,
        }
    }
}

/// An object with its metadata as an API server takes it in, before anybody is asked: null says
/// nothing.
fn decoded(object: &Value) -> Cow<'_, Value> {
    let says_null = match object.get("metadata") {
        Some(Value::Object(fields)) => fields.values().any(Value::is_null),
        metadata => metadata.is_none_or(Value::is_null),
    };
    if !says_null {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    if let Value::Object(fields) = &mut object {
        let metadata = fields.entry("metadata").or_insert(Value::Null);
        match metadata {
            Value::Object(fields) => fields.retain(|_, value| !value.is_null()),
            other => *other = Value::Object(Map::new()),
        }
    }
    Cow::Owned(object)
}

/// A request for an object does not write its status, whatever it holds.
fn without_status(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object
}

/// An object with the status of another.
fn with_status_of(object: &Value, other: &Value) -> Value {
    let mut object = without_status(object);
    if let (Some(fields), Some(status)) = (object.as_object_mut(), other.get("status")) {
        fields.insert(String::from("status"), status.clone());
    }
    object
}

fn refused(status: Status, violations: Vec<Violation>) -> Checked {
    Checked {
        status: Some(status),
        violations,
        ..Checked::default()
    }
}

/// What a cluster does with it, nobody here knows: that is said, and nothing is refused.
fn unknown_kind(kind: &str, api_version: &str) -> Checked {
    let text = format!("not judged: Capstan has no rules for {kind} of {api_version}");
    Checked {
        warnings: vec![Warning::new("check-unknown-kind", text)],
        ..Checked::default()
    }
}

/// As an API server answers a request with strict field validation, which kubectl asks for.
fn unknown_fields(kind: &str, known: &Kind, fields: &[FieldPath]) -> Checked {
    let list: Vec<String> = fields
        .iter()
        .map(|field| format!("unknown field {:?}", field.as_str()))
        .collect();
    let message = format!(
        "{kind} in version {:?} cannot be handled as a {kind}: strict decoding error: {}",
        known.version,
        list.join(", ")
    );
    let violations = fields
        .iter()
        .map(|field| {
            Violation::new(
                "schema-unknown-field",
                field.clone(),
                crate::model::ViolationKind::Invalid,
                "unknown field",
            )
            .advice(format!(
                "correct a misspelling, or remove it; kubectl explain {} lists the fields",
                known.plural
            ))
        })
        .collect();
    refused(Status::plain(400, "BadRequest", message), violations)
}
