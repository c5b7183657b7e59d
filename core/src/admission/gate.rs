//! The seam between admission and a feature module: a [`Gate`].
//!
//! A gate names the kinds that a module judges, the routes of their reviews, their rules, and the
//! function that judges an edit. It must never read an AdmissionReview.

use json_patch::Patch;
use serde_json::Value;

use super::feature::Feature;
use super::options::Options;
use super::snapshot::Snapshot;
use crate::api::kind::KindInfo;
use crate::authority::live::LiveRead;
use crate::cel::rules::{RuleFile, RuleSet};
use crate::model::{Edit, RuleInfo, Verdict};

/// The two passes of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before the API server checks the schema. This pass sets fields, and refuses what the schema
    /// would refuse, with advice.
    Mutate,
    /// After the API server has checked the schema. This pass judges the object as it will be
    /// stored.
    Validate,
}

/// A path of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The path to which the API server sends reviews.
    pub path: &'static str,
    /// The pass.
    pub phase: Phase,
    /// The API group of the resources.
    pub group: &'static str,
    /// The lower-case plurals of the resources.
    pub resources: Vec<&'static str>,
    /// The subresources whose writes are judged too, such as `machinesets/scale`.
    pub subresources: Vec<String>,
    /// Those of the resources of which only deletions are judged.
    pub only_deletions: Vec<&'static str>,
}

impl Route {
    /// The two routes of one resource with a scale subresource.
    pub(super) fn both_passes(
        group: &'static str,
        plural: &'static str,
        mutate: &'static str,
        validate: &'static str,
    ) -> Vec<Self> {
        let route = |path, phase| Self {
            path,
            phase,
            group,
            resources: vec![plural],
            subresources: vec![format!("{plural}/scale")],
            only_deletions: Vec::new(),
        };
        vec![route(mutate, Phase::Mutate), route(validate, Phase::Validate)]
    }
}

/// The judgement of an edit.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Refusals and warnings.
    pub verdict: Verdict,
    /// The fields that the mutating pass sets; `None` in the validating pass.
    pub patch: Option<Patch>,
}

/// A rule file, compiled into the binary.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleSource {
    /// The path of the file in the repository.
    pub(super) path: &'static str,
    /// The content of the file.
    pub(super) text: &'static str,
    /// The kinds of the file, as a list of rules names them.
    pub(super) kinds: &'static str,
}

/// What a gate may read to judge an edit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    /// The configuration.
    pub(super) options: &'a Options,
    /// The compiled rules of all gates.
    pub(super) rules: &'a RuleSet,
    /// The cluster around the object.
    pub(super) snapshot: &'a Snapshot,
}

/// The kinds that one feature module judges.
pub(super) trait Gate: Sync {
    /// The kinds.
    fn kinds(&self) -> Vec<KindInfo>;

    /// The feature that the gate belongs to. Its routes are registered and served with that
    /// feature only.
    fn feature(&self) -> Feature;

    /// The routes of the reviews of these kinds.
    fn routes(&self) -> Vec<Route>;

    /// The rules in CEL.
    fn rule_sources(&self) -> &'static [RuleSource];

    /// Sets the variables of a rule file of this gate that depend on the configuration.
    fn configure(&self, _file: &mut RuleFile, _options: &Options) {}

    /// The rules in Rust, for a list of rules.
    fn rules(&self) -> Vec<RuleInfo>;

    /// Whether the rules read the status of an object.
    fn reads_status(&self) -> bool;

    /// The namespace of an object of `kind` in a file that does not name one; empty if the gate
    /// does not care.
    fn default_namespace<'o>(&self, _kind: &KindInfo, _options: &'o Options) -> &'o str {
        ""
    }

    /// Whether the rules for a Scale read the object that it is about.
    fn reads_scaled(&self) -> bool {
        false
    }

    /// The objects of pairs to read from the API server before an edit may be allowed.
    fn live_reads(&self, _kind: &KindInfo, _edit: &Edit<'_>, _context: &Context<'_>) -> Vec<LiveRead> {
        Vec::new()
    }

    /// An object of one of the kinds in another version; `None` if it cannot be converted.
    fn convert(&self, _object: &Value, _api_version: &str) -> Option<Value> {
        None
    }

    /// Judges an edit of one of the kinds.
    fn judge(&self, phase: Phase, kind: &KindInfo, edit: &Edit<'_>, context: &Context<'_>) -> Outcome;
}
