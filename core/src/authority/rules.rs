//! Judges an edit of an object that may exist in both APIs.
//!
//! The rule files `authority-*.yaml` hold what CEL can state. This module adds the rules that need
//! the object in the other API. Where the edited object does not show that it is a mirror, this
//! module sets a variable of the rule file, so that the same CEL rules apply.
//!
//! Must never: treat an object that was not read as absent.
//!
//! Source: the Converting Machine API to Cluster API enhancement, "Admission of non-authoritative
//! resources" and "Summary of the rules outlined above"; the gaps of the policies that OpenShift
//! ships.

mod changes;
mod clusters;
mod creation;
mod deletion;
mod guards;
mod live;
mod migration;

use std::cell::OnceCell;

use json_patch::Patch;
use serde_json::json;

pub use live::live_reads;

use super::config::Config;
use super::spec::{Api, Authority, Kind, PairMember, spec_authority};
use super::state::{Counterpart, Mirrors, PairAuthority, pair_names};
use crate::cel::rules::RuleSet;
use crate::model::{Edit, Operation, RuleInfo, Verdict, Violation, ViolationKind, Warning};

/// What the rules may look up.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    /// The objects of both APIs.
    pub mirrors: &'a Mirrors,
    /// The namespaces of both APIs, and the identities with special rights.
    pub config: &'a Config,
    /// Whether an API server sent the edit. If so, an unknown object will be known soon: a rule
    /// that needs it refuses the edit, and the response is limited in size. Otherwise the rule
    /// warns, and the response lists everything.
    pub wait_for_unknown: bool,
}

/// The kind of the edited object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its API.
    pub api: Api,
    /// The mirrored kind.
    pub kind: Kind,
    /// The kind as rule files name it: `Machine.cluster.x-k8s.io`.
    pub qualified: &'static str,
}

/// One edit with everything that the rules look up.
struct Context<'a> {
    subject: Subject,
    edit: &'a Edit<'a>,
    lookup: &'a Lookup<'a>,
    // Read on demand: most rules need only a few fields.
    old: OnceCell<PairMember>,
    new: OnceCell<PairMember>,
    pair_name: OnceCell<String>,
}

impl<'a> Context<'a> {
    fn of(subject: Subject, edit: &'a Edit<'a>, lookup: &'a Lookup<'a>) -> Self {
        Self {
            subject,
            edit,
            lookup,
            old: OnceCell::new(),
            new: OnceCell::new(),
            pair_name: OnceCell::new(),
        }
    }

    /// The stored object.
    fn before(&self) -> Option<&PairMember> {
        let old = self.edit.old?;
        Some(self.old.get_or_init(|| PairMember::read(old)))
    }

    /// The object that the edit would store.
    fn after(&self) -> Option<&PairMember> {
        let object = self.edit.object?;
        Some(self.new.get_or_init(|| PairMember::read(object)))
    }

    /// The stored object, or the object to be created.
    fn member(&self) -> Option<&PairMember> {
        self.before().or_else(|| self.after())
    }

    /// The name of the mirrored pair. If several pairs are possible, one that locks this object
    /// counts before one that exists.
    fn pair_name(&self) -> &str {
        let (name, kind) = (self.edit.name, self.subject.kind);
        if !name.is_empty() && kind.mirrored_kind() == kind {
            return name;
        }
        self.pair_name.get_or_init(|| {
            let Some(member) = self.member() else {
                return name.to_owned();
            };
            // A name that the API server generated is in the object only.
            let name = if name.is_empty() { member.name.as_str() } else { name };
            let names = pair_names(kind, member, name);
            let (mirrors, config) = (self.lookup.mirrors, self.lookup.config);
            let find = |name: &str| mirrors.find(Api::MachineApi, kind, name, config);
            let locking = || {
                names
                    .iter()
                    .find(|name| PairAuthority::of(find(name)).locks(self.subject.api))
            };
            let existing = || names.iter().find(|name| find(name).found().is_some());
            let name = locking().or_else(existing).or(names.first());
            name.map_or_else(|| member.name.clone(), |name| (*name).to_owned())
        })
    }

    /// The object of the pair in an API.
    fn find(&self, api: Api) -> Counterpart<'a> {
        let name = self.pair_name();
        if name.is_empty() {
            // The API server will generate a name that no object has yet.
            return Counterpart::Absent;
        }
        self.lookup
            .mirrors
            .find(api, self.subject.kind, name, self.lookup.config)
    }

    /// The object of the pair in the other API.
    fn counterpart(&self) -> Counterpart<'a> {
        self.find(self.subject.api.other())
    }

    /// The authority of the pair.
    fn authority(&self) -> PairAuthority {
        match (self.subject.api, self.edit.old) {
            // The old object is newer than any cache. The object of a scale request has no status.
            (Api::MachineApi, Some(old)) if self.edit.subresource != "scale" => {
                PairAuthority::Known(Authority::of(old))
            }
            _ => PairAuthority::of(self.find(Api::MachineApi)),
        }
    }

    fn by_sync_controller(&self) -> bool {
        self.lookup.config.syncs(self.edit.user)
    }

    fn by_api_controller(&self) -> bool {
        self.lookup.config.controls(self.subject.api, self.edit.user)
    }

    /// `Machine a in Cluster API` or `Machine a in the Machine API`.
    fn title(&self, api: Api) -> String {
        format!("{} {} in {}", self.subject.kind.title(), self.pair_name(), api.title())
    }

    /// Reports that the object of an API is unknown: as a refusal if it will be known soon,
    /// otherwise as a warning.
    fn report_unknown(&self, verdict: &mut Verdict, rule: &str, path: &str, api: Api) {
        if self.lookup.wait_for_unknown {
            let message = format!(
                "must not be written before Capstan has read whether {} exists",
                self.title(api)
            );
            verdict.deny(
                Violation::new(rule, path, ViolationKind::Forbidden, message)
                    .advice("try again in a few seconds")
                    .provisional(),
            );
        } else {
            verdict.warn(Warning::new(
                rule,
                format!("{path}: not checked: {} was not given", self.title(api)),
            ));
        }
    }
}

/// The mutating pass: sets a missing `spec.authoritativeAPI`, and pauses a MachineHealthCheck that
/// is created as a mirror.
pub fn mutate(subject: Subject, edit: &Edit<'_>, lookup: &Lookup<'_>) -> (Verdict, Option<Patch>) {
    let mut verdict = Verdict::default();
    let guarded = edit.namespace == lookup.config.namespace(subject.api) && edit.subresource.is_empty();
    if subject.api != Api::MachineApi || !guarded {
        return (verdict, None);
    }
    let context = Context::of(subject, edit, lookup);
    creation::refuse_unknown_api(&context, &mut verdict);
    let api = match edit.operation {
        Operation::Create => {
            creation::warn_of_a_dropped_status(&context, &mut verdict);
            creation::default_authority(&context, &mut verdict)
        }
        // An update without the field keeps the stored value: a manifest without the field does not
        // request a migration.
        Operation::Update => match (edit.old, edit.object) {
            (Some(old), Some(new)) if spec_authority(new).is_none() => spec_authority(old),
            _ => None,
        },
        Operation::Delete | Operation::Connect => None,
    };
    let default = api.filter(|_| verdict.allowed() && edit.object.is_some_and(|object| object.get("spec").is_some()));
    let mut operations = Vec::new();
    if let Some(api) = default {
        operations.push(json!({"op": "add", "path": "/spec/authoritativeAPI", "value": api.as_str()}));
    }
    if verdict.allowed() && edit.operation == Operation::Create {
        operations.extend(creation::pause_health_check(&context, default));
    }
    let patch = (!operations.is_empty()).then(|| serde_json::from_value(operations.into()).ok());
    (verdict.finish(), patch.flatten())
}

/// The validating pass: judges the object that would be stored.
pub fn validate(subject: Subject, edit: &Edit<'_>, lookup: &Lookup<'_>, rules: &RuleSet) -> Verdict {
    let mut verdict = Verdict::default();
    // Objects in other namespaces are not mirrored.
    if edit.namespace != lookup.config.namespace(subject.api) {
        return verdict;
    }
    let context = Context::of(subject, edit, lookup);
    match edit.operation {
        Operation::Create => {
            guards::validate(&context, rules, &mut verdict);
            creation::validate(&context, &mut verdict);
        }
        Operation::Update => {
            guards::validate(&context, rules, &mut verdict);
            migration::validate(&context, &mut verdict);
        }
        Operation::Delete => deletion::validate(&context, &mut verdict),
        Operation::Connect => {}
    }
    if edit.operation != Operation::Delete && edit.subresource.is_empty() {
        creation::warn_of_the_inexpressible(&context, &mut verdict);
    }
    if lookup.wait_for_unknown {
        verdict.finish()
    } else {
        verdict.finish_in_full()
    }
}

/// Judges an edit of a Cluster or of an infrastructure cluster: one with mirrored objects must not
/// be deleted.
pub fn validate_cluster(edit: &Edit<'_>, lookup: &Lookup<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    clusters::validate(edit, lookup, &mut verdict);
    verdict.finish()
}

/// The rules of this module that are not in a rule file, as `capstan rules` lists them.
pub fn table() -> Vec<RuleInfo> {
    let mut table = creation::table();
    table.extend(guards::table());
    table.extend(migration::table());
    table.extend(deletion::table());
    table.extend(clusters::table());
    table
}

/// A row of the table about the kinds of the Machine API.
fn machine_api(id: &str, path: &str, operations: &[Operation], message: &str) -> RuleInfo {
    RuleInfo::webhook(id, "Machine, MachineSet, MachineHealthCheck", path, operations, message)
}

/// A row of the table about the kinds of Cluster API.
fn cluster_api(id: &str, path: &str, operations: &[Operation], message: &str) -> RuleInfo {
    let kinds = "Machine, MachineSet, MachineHealthCheck of Cluster API";
    RuleInfo::webhook(id, kinds, path, operations, message)
}
