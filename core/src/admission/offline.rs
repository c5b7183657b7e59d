//! The offline check: the verdict that a cluster would give, without a cluster.
//!
//! An object passes the steps of an API server in their order: decoding, the mutating pass, the
//! schema, the validating pass. An API server stops at the first step that refuses. This check
//! reports the mutating pass and the schema together, so that one run shows everything to correct;
//! the verdict is the same. It must never refuse what a cluster allows.

mod metadata;
mod object;
mod steps;

use std::borrow::Cow;
use std::collections::BTreeMap;

use json_patch::Patch;
use serde_json::Value;
use thiserror::Error;

use self::object::{decoded, text};
use self::steps::{StatusChange, Steps};
use super::judge::Admission;
use super::response::Status;
use super::snapshot::Snapshot;
use crate::api::kind::KindInfo;
use crate::api::machine_openshift_io::control_plane_machine_set;
use crate::api::{cluster_x_k8s_io, config_openshift_io, infrastructure_cluster_x_k8s_io, kinds, machine_openshift_io};
use crate::cel::rules::{RuleError, RuleFile};
use crate::model::distance;
use crate::model::{Operation, Propagation, User, Violation, Warning};
use crate::schema::Schema;
use crate::schema::crd::{self, CrdError};

/// Why no object can be checked: a built-in rule file or CRD is broken. A test makes a [`Checker`].
#[derive(Debug, Error)]
pub enum CheckError {
    /// A rule file.
    #[error(transparent)]
    Rules(#[from] RuleError),
    /// A CRD.
    #[error(transparent)]
    Crds(#[from] CrdError),
    /// The schema of a CRD.
    #[error("the schema of {name}: {reason}")]
    Schema {
        /// The name of the CRD.
        name: String,
        /// The reason.
        reason: String,
    },
}

/// A kind with its schemas.
#[derive(Debug)]
struct KnownKind {
    /// The kind in its stored version.
    kind: KindInfo,
    /// The schemas, by version.
    schemas: BTreeMap<String, Schema>,
}

/// The CRDs and rules of Capstan, ready to check objects.
#[derive(Debug)]
pub struct Checker {
    admission: Admission,
    /// The kinds with a schema, by group and kind.
    kinds: BTreeMap<(String, String), KnownKind>,
}

/// An edit to check.
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    /// The operation.
    pub operation: Operation,
    /// The object after the operation; for a deletion, the stored object.
    pub object: &'a Value,
    /// For an update, the stored object; for a Scale, the object that it scales.
    pub old: Option<&'a Value>,
    /// For a deletion, what happens to the dependents.
    pub propagation: Option<Propagation>,
    /// The user who makes the edit.
    pub user: &'a User,
}

/// Group and version, and kind, of the subresource `scale`.
const SCALE: (&str, &str) = ("autoscaling/v1", "Scale");

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// The status of the refusal; `None` if the edit is allowed.
    pub status: Option<Status>,
    /// The refusals in the status, with the ids of their rules.
    pub violations: Vec<Violation>,
    /// The warnings for the user.
    pub warnings: Vec<Warning>,
    /// The fields that the mutating webhook sets.
    pub patch: Option<Patch>,
}

impl Checker {
    /// Compiles the schemas of the CRDs.
    ///
    /// # Errors
    /// A built-in CRD or rule file is broken.
    pub fn new(admission: Admission) -> Result<Self, CheckError> {
        let mut known = BTreeMap::new();
        let mut definitions = crd::crds(admission.files())?;
        definitions.extend(crd::kubeadm_crds(admission.files())?);
        definitions.extend(crd::control_plane_crds(admission.files())?);
        for definition in definitions {
            let (kind, group) = (text(&definition, "/spec/names/kind"), text(&definition, "/spec/group"));
            let broken = |reason: String| CheckError::Schema {
                name: crd::name(&definition).to_owned(),
                reason,
            };
            let entry = kinds::find(group, kind).ok_or_else(|| broken(String::from("it is not in the kind table")))?;
            let no_rules = RuleFile::default();
            let mut files = admission.files().iter();
            let rules = files.find(|file| file.judges(group, kind)).unwrap_or(&no_rules);
            let schemas = crd::schemas(&definition).map(|(version, schema)| {
                let schema = Schema::parse(schema, rules).map_err(|error| broken(error.to_string()))?;
                Ok((version.to_owned(), schema))
            });
            let kind = KnownKind {
                kind: KindInfo::clone(&entry.kind),
                schemas: schemas.collect::<Result<_, CheckError>>()?,
            };
            known.insert((kind.kind.group.to_string(), kind.kind.kind.to_string()), kind);
        }
        Ok(Self {
            admission,
            kinds: known,
        })
    }

    /// The rules that are checked.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Checks an edit.
    pub fn check(&self, check: &Check<'_>, snapshot: &Snapshot) -> Checked {
        let (object, old) = (decoded(check.object), check.old.map(decoded));
        let object = match &old {
            Some(old) if is_scale_of_set(&object, old) => Cow::Owned(with_replicas(old, &object)),
            _ => object,
        };
        let check = Check {
            object: &object,
            old: old.as_deref(),
            ..*check
        };
        let is_scale = (text(&object, "/apiVersion"), text(&object, "/kind")) == SCALE;
        // A Scale is judged by the rules of the object that it scales.
        let judged = match &old {
            Some(old) if is_scale => old,
            None if is_scale => return unknown_scale(),
            _ => &object,
        };
        let (api_version, kind) = (text(judged, "/apiVersion"), text(judged, "/kind"));
        let (group, version) = api_version.split_once('/').unwrap_or((api_version, ""));
        let known = self.kinds.get(&(group.to_owned(), kind.to_owned()));
        let reads_status = self.admission.reads_status(group, kind);
        let steps = Steps {
            admission: &self.admission,
            check: &check,
            snapshot,
            group,
            kind,
            name: text(&object, "/metadata/name"),
            reads_status: reads_status.unwrap_or(false),
        };
        // An API server converts one of the two, and this command cannot.
        let other = old.as_deref().map(|old| text(old, "/apiVersion"));
        let other = other.filter(|other| *other != api_version && group == cluster_x_k8s_io::GROUP);
        let is_written = check.operation != Operation::Delete;
        let undecodable = is_written.then(|| metadata::undecodable(&object)).flatten();
        let checked = match known.map(|known| (known, known.schemas.get(version))) {
            Some((known, None)) => wrong_version(known, api_version),
            None if reads_status.is_none() || !has_rules(group, version) => unknown_kind(group, kind, api_version),
            None if other.is_some() => other_version(kind, api_version, other.unwrap_or_default()),
            _ if undecodable.is_some() => undecodable.unwrap_or_default(),
            _ if is_scale => steps.scale(),
            _ if check.operation == Operation::Delete => steps.deletion(),
            Some((known, Some(schema))) => {
                let kind = KindInfo {
                    version: version.to_owned().into(),
                    ..known.kind.clone()
                };
                match steps.status_change() {
                    StatusChange::Only => steps.status(Some((&kind, schema))),
                    _ => steps.with_schema(&kind, schema),
                }
            }
            None if steps.status_change() == StatusChange::Only => steps.status(None),
            None => steps.without_schema(),
        };
        steps.with_note_about_status(checked)
    }
}

/// The answer of an API server to a version that it does not serve.
fn wrong_version(known: &KnownKind, api_version: &str) -> Checked {
    let message = format!(
        "no matches for kind {:?} in version {api_version:?}: use {}",
        known.kind.kind,
        known.kind.api_version()
    );
    Checked {
        status: Some(Status::plain(404, "NotFound", message)),
        ..Checked::default()
    }
}

/// Whether the rules know the fields of a version. Those of Cluster API know two versions, and have
/// no schema that would tell the others.
fn has_rules(group: &str, version: &str) -> bool {
    group != cluster_x_k8s_io::GROUP || ["v1beta1", "v1beta2"].contains(&version)
}

/// A warning, because the stored object has another version.
fn other_version(kind: &str, api_version: &str, other: &str) -> Checked {
    let text =
        format!("not checked: the {kind} is of {api_version}, and that of --old of {other}; give both in one version");
    Checked {
        warnings: vec![Warning::not_judged("check-unknown-kind", text)],
        ..Checked::default()
    }
}

/// The answer of an API server to a known kind with a typing error. Otherwise a warning, because it
/// is unknown what a cluster does with the object.
fn unknown_kind(group: &str, kind: &str, api_version: &str) -> Checked {
    if let Some(message) = mistyped_kind(group, kind, api_version) {
        return Checked {
            status: Some(Status::plain(404, "NotFound", message)),
            ..Checked::default()
        };
    }
    let text = format!("not checked: Capstan has no rules for {kind} of {api_version}");
    Checked {
        warnings: vec![Warning::not_judged("check-unknown-kind", text)],
        ..Checked::default()
    }
}

/// The answer of an API server to a known kind that is written with a typing error, in other
/// letters, or with a version that no server has; none for another kind.
pub fn mistyped_kind(group: &str, kind: &str, api_version: &str) -> Option<String> {
    // Kinds of infrastructure providers and their groups resemble each other.
    const LONGEST_DISTANCE: usize = 2;
    let near = |left: &str, right: &str| distance(left, right).is_some_and(|edits| edits <= LONGEST_DISTANCE);
    let is_provider = |known: &KindInfo| known.group == infrastructure_cluster_x_k8s_io::GROUP;
    let is_known = |known: &kinds::KindEntry| known.kind.group == group && known.kind.kind == kind;
    let no_match = |known: &KindInfo, why: &str| {
        let (known, version) = (&known.kind, known.api_version());
        Some(format!(
            "no matches for kind {kind:?} in version {api_version:?}: {why}use {known:?} of {version}"
        ))
    };
    if let Some(known) = kinds::all().find(is_known) {
        let known = &known.kind;
        // Kubernetes and OpenShift serve one version of these kinds. Cluster API serves several.
        let has_one = ["", machine_openshift_io::GROUP, config_openshift_io::GROUP].contains(&group);
        return if has_one && known.api_version() != api_version {
            no_match(known, "")
        } else {
            None
        };
    }
    let in_other_case =
        kinds::all().find(|known| known.kind.group == group && known.kind.kind.eq_ignore_ascii_case(kind));
    if let Some(known) = in_other_case {
        return no_match(&known.kind, "upper and lower case matter; ");
    }
    let is_near = |known: &kinds::KindEntry| {
        let known = &known.kind;
        let in_group = known.group == group && near(&known.kind, kind);
        let in_near_group = known.kind == kind && !group.is_empty() && near(&known.group, group);
        !is_provider(known) && (in_group || in_near_group)
    };
    let known = kinds::all().find(is_near)?;
    no_match(&known.kind, "")
}

/// Whether an object is a Scale of a ControlPlaneMachineSet. No webhook reviews such a Scale: the
/// API server writes its number into the set, and checks the set against the CRD.
fn is_scale_of_set(object: &Value, old: &Value) -> bool {
    (text(object, "/apiVersion"), text(object, "/kind")) == SCALE
        && text(old, "/kind") == control_plane_machine_set::KIND
}

/// A set with the number of a Scale. A Scale without a number has the number 0.
fn with_replicas(set: &Value, scale: &Value) -> Value {
    let mut set = set.clone();
    if let Some(spec) = set.pointer_mut("/spec").and_then(Value::as_object_mut) {
        let replicas = scale.pointer("/spec/replicas").filter(|stated| !stated.is_null());
        spec.insert(
            String::from("replicas"),
            replicas.cloned().unwrap_or_else(|| Value::from(0)),
        );
    }
    set
}

/// A warning, because a Scale does not name the kind of the object that it scales.
fn unknown_scale() -> Checked {
    let text = "not checked: a Scale is checked only with the control plane that it scales; pass it with --with. A Scale of \
                another kind is never checked";
    Checked {
        warnings: vec![Warning::not_judged("check-unknown-kind", text)],
        ..Checked::default()
    }
}
