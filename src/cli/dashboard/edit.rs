//! Judges a manifest that was entered in the page: what admission would answer, by the rules of
//! `capstan check`, and what would follow, by `capstan plan`. Nothing is written.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, ensure};
use capstan_core::admission::{Admission, Check, Checked, Checker};
use capstan_core::model::{Operation, User};
use jiff::Timestamp;
use serde_json::Value;

use crate::cli::documents::{self, Document};
use crate::cli::machine_pool::Machinepools;
use crate::cli::observe::ObservedCluster;
use crate::cli::{gather, page_report};
use crate::dashboard::{Report, Verdict};

/// The kinds of control planes, whose rollout is shown.
const CONTROL_PLANES: [&str; 3] = ["ControlPlaneMachineSet", "ControlPlane", "KubeadmControlPlane"];

/// The kinds whose manifest a user can edit: the kinds of the cards. Others, such as Secrets, stay
/// out of the page.
const EDITABLE: [&str; 4] = [
    "ControlPlaneMachineSet",
    "ControlPlane",
    "KubeadmControlPlane",
    "MachinePool",
];

/// The objects of a live page that are followed for the page alone.
pub(super) type Followed = Arc<Mutex<Vec<Document>>>;

/// The objects that an edit is judged with.
pub(super) struct Edits {
    checker: Checker,
    /// The files; empty for a cluster.
    files: Vec<PathBuf>,
    cluster: ObservedCluster,
    followed: Option<Followed>,
}

impl Edits {
    /// Compiles the rules.
    ///
    /// # Errors
    /// A built-in rule or schema is broken.
    pub(super) fn new(
        files: &[PathBuf],
        cluster: &ObservedCluster,
        followed: Option<Followed>,
    ) -> anyhow::Result<Self> {
        let admission = Admission::new(cluster.scope().options()).context("loading the built-in rules")?;
        Ok(Self {
            checker: Checker::new(admission).context("loading the built-in schemas")?,
            files: files.to_vec(),
            cluster: cluster.clone(),
            followed,
        })
    }

    /// Judges each object of a manifest, as a plain user.
    ///
    /// # Errors
    /// The text is not a manifest, or the objects around it cannot be read.
    pub(super) fn judge(&self, manifest: &str) -> anyhow::Result<Vec<Verdict>> {
        let edited = documents::parse("the manifest", manifest)?;
        ensure!(!edited.is_empty(), "the manifest must contain an object");
        let stored = self.stored()?;
        edited
            .iter()
            .map(|document| self.judge_one(document, &stored))
            .collect()
    }

    /// All objects that an edit is judged with, as they are stored.
    fn stored(&self) -> anyhow::Result<Vec<Document>> {
        let Some(followed) = &self.followed else {
            return documents::read_surroundings(&self.files);
        };
        let mut stored = gather::objects(self.cluster.connection(), &self.cluster.scope().namespace)?;
        let known: BTreeSet<[String; 4]> = stored.iter().map(owned_identity).collect();
        let followed = followed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = |document: &&Document| !known.contains(&owned_identity(document));
        stored.extend(followed.iter().filter(is_new).cloned());
        Ok(stored)
    }

    /// The manifest of a stored control plane, without what a user does not edit.
    ///
    /// # Errors
    /// There is no such control plane, or the objects cannot be read.
    pub(super) fn manifest(&self, kind: &str, name: &str) -> anyhow::Result<String> {
        let stored = self.stored()?;
        let is_wanted = |document: &&Document| {
            let (other, _, other_name) = document.key();
            EDITABLE.contains(&kind) && (other, other_name) == (kind, name)
        };
        let found = stored.iter().find(is_wanted);
        let found = found.with_context(|| format!("there is no {kind} {name} to edit"))?;
        let mut object = found.object.clone();
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in [
                "managedFields",
                "uid",
                "resourceVersion",
                "generation",
                "creationTimestamp",
                "selfLink",
            ] {
                metadata.remove(field);
            }
        }
        serde_saphyr::to_string(&object).with_context(|| format!("writing {kind} {name} as YAML"))
    }

    fn judge_one(&self, edited: &Document, stored: &[Document]) -> anyhow::Result<Verdict> {
        let is_old = |other: &&Document| self.identity(other) == self.identity(edited);
        let old = stored.iter().find(is_old);
        let others: Vec<Document> = stored.iter().filter(|other| !is_old(other)).cloned().collect();
        let mut edited = edited.clone();
        keep(&mut edited.object, old, &IDENTITY);
        let check = Check {
            operation: if old.is_some() {
                Operation::Update
            } else {
                Operation::Create
            },
            object: &edited.object,
            old: old.map(|old| &old.object),
            propagation: None,
            user: &User::default(),
        };
        let checked = self.checker.check(&check, &documents::snapshot(stored)?);
        let (kind, _, name) = edited.key();
        let refusals = match &checked.status {
            Some(status) if checked.violations.is_empty() => vec![status.message.clone()],
            _ => checked.violations.iter().map(ToString::to_string).collect(),
        };
        let after = if refusals.is_empty() && CONTROL_PLANES.contains(&kind) {
            Some(self.after(&edited, old, &checked, others)?)
        } else {
            None
        };
        Ok(Verdict {
            subject: format!("{kind} {name} ({})", check.operation.as_str().to_lowercase()),
            refusals,
            incomplete: checked.warnings.iter().any(|warning| warning.not_judged),
            warnings: checked.warnings.iter().map(|warning| warning.text.clone()).collect(),
            after,
        })
    }

    /// The control plane after the edit.
    fn after(
        &self,
        edited: &Document,
        old: Option<&Document>,
        checked: &Checked,
        mut others: Vec<Document>,
    ) -> anyhow::Result<Report> {
        let mut object = edited.clone();
        if let Some(patch) = &checked.patch {
            json_patch::patch(&mut object.object, patch).context("applying the defaults")?;
        }
        // An edit of a user does not change the status.
        keep(&mut object.object, old, &["/status", "/metadata/finalizers"]);
        let (kind, _, name) = object.key();
        let (kind, name) = (kind.to_owned(), name.to_owned());
        others.push(object);
        let content = page_report::of_documents(&others, &self.cluster, Machinepools::default(), Timestamp::now())?;
        let notes = content.notes.join("; ");
        let mut reports = content.reports.into_iter();
        let edited = reports.find(|report| report.kind == kind && report.name == name);
        edited.with_context(|| format!("the rollout of {kind} {name} cannot be shown: {notes}"))
    }

    /// Group, kind, namespace and name. An object of the Machine API without a namespace is in that
    /// of the Machine API.
    fn identity<'a>(&'a self, document: &'a Document) -> (&'a str, &'a str, &'a str, &'a str) {
        let (kind, namespace, name) = document.key();
        let group = document
            .text("/apiVersion")
            .split_once('/')
            .map_or("", |(group, _)| group);
        let is_home = namespace.is_empty() && group == "machine.openshift.io";
        let namespace = if is_home {
            &self.cluster.scope().namespace
        } else {
            namespace
        };
        (group, kind, namespace, name)
    }
}

fn owned_identity(document: &Document) -> [String; 4] {
    document.identity().map(str::to_owned)
}

/// What the API server keeps in an edit. The names of new machines depend on it, so that the
/// warnings and the forecast have the same names.
const IDENTITY: [&str; 4] = [
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/creationTimestamp",
    "/metadata/generation",
];

/// Copies fields from the stored object.
fn keep(object: &mut Value, old: Option<&Document>, pointers: &[&str]) {
    for pointer in pointers {
        if let Some(value) = old.and_then(|old| old.object.pointer(pointer)) {
            put(object, pointer, value.clone());
        }
    }
}

/// Sets a field of an object.
fn put(object: &mut Value, pointer: &str, value: Value) {
    let Some((parent, field)) = pointer.rsplit_once('/') else {
        return;
    };
    if let Some(fields) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
        fields.insert(field.to_owned(), value);
    }
}
