//! Judges an edit: the compiled rules, and the gate of the kind.
//!
//! Nothing here knows a kind. The registry of gates does.

use super::gate::{Context, Outcome, Phase};
use super::gates;
use super::options::Options;
use super::response::{Status, deny_status};
use super::snapshot::Snapshot;
use crate::cel::rules::{Cases, CompiledRule, Enforcer, RuleError, RuleFile, RuleSet, Scope};
use crate::model::{Edit, Operation, RuleInfo, Verdict};

/// The compiled rules and the configuration. Made once, and shared by all requests.
#[derive(Debug)]
pub struct Admission {
    options: Options,
    /// One file for each rule source of the registry, in its order.
    files: Vec<RuleFile>,
    rules: RuleSet,
}

impl Admission {
    /// Reads and compiles the rules.
    ///
    /// # Errors
    /// A rule file cannot be used. A test compiles all built-in files.
    pub fn new(mut options: Options) -> Result<Self, RuleError> {
        options.authority.machine_api_namespace.clone_from(&options.namespace);
        let mut files = gates::rule_files()?;
        for ((gate, _), file) in gates::rule_sources().zip(&mut files) {
            gate.configure(file, &options);
            // Only tests use the examples; a server would keep them in memory.
            for rule in &mut file.rules {
                rule.cases = Cases::default();
            }
        }
        let rules = RuleSet::compile(files.clone())?;
        Ok(Self { options, files, rules })
    }

    /// The configured rule files, without their examples.
    pub fn files(&self) -> &[RuleFile] {
        &self.files
    }

    /// The configuration.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The compiled rules.
    pub fn rule_set(&self) -> &RuleSet {
        &self.rules
    }

    /// Every rule of every kind, ordered by kind and id.
    pub fn table(&self) -> Vec<RuleInfo> {
        let mut table = gates::rules();
        for ((_, source), file) in gates::rule_sources().zip(&self.files) {
            let kinds = file.kinds();
            let kind = kinds.first().map(|(group, kind)| format!("{kind}.{group}"));
            let rules = self.rules.of_kind(&kind.unwrap_or_default());
            table.extend(rules.iter().map(|compiled| rule_info(source.kinds, compiled)));
        }
        table.sort_by(|left, right| (&left.kind, &left.id).cmp(&(&right.kind, &right.id)));
        table
    }

    /// Judges an edit of a kind; `None` for a kind without a gate.
    pub fn judge(
        &self,
        phase: Phase,
        group: &str,
        kind: &str,
        edit: &Edit<'_>,
        snapshot: &Snapshot,
    ) -> Option<Outcome> {
        Some(self.judge_gated(phase, gates::by_kind(group, kind)?, edit, snapshot))
    }

    pub(super) fn judge_gated(
        &self,
        phase: Phase,
        gated: &gates::GatedKind,
        edit: &Edit<'_>,
        snapshot: &Snapshot,
    ) -> Outcome {
        let context = Context {
            options: &self.options,
            rules: &self.rules,
            snapshot,
        };
        gated.gate.judge(phase, &gated.kind, edit, &context)
    }

    /// Whether the rules of a kind read the status; `None` for a kind without a gate.
    pub fn reads_status(&self, group: &str, kind: &str) -> Option<bool> {
        gates::by_kind(group, kind).map(|gated| gated.gate.reads_status())
    }

    /// The status of a refusal of an edit; `None` if the edit is allowed, or if its kind has no
    /// gate.
    pub fn status(&self, group: &str, kind: &str, name: &str, verdict: &Verdict) -> Option<Status> {
        let gated = gates::by_kind(group, kind)?;
        (!verdict.allowed()).then(|| deny_status(&gated.kind, name, &verdict.violations))
    }
}

/// A rule in CEL as a list of rules shows it.
fn rule_info(kinds: &str, compiled: &CompiledRule) -> RuleInfo {
    let rule = &compiled.rule;
    let operations = match rule.scope {
        Scope::Request => rule
            .operations
            .iter()
            .filter_map(|word| Operation::parse(word))
            .collect(),
        Scope::Field if compiled.is_transition() => vec![Operation::Update],
        Scope::Field => vec![Operation::Create, Operation::Update],
    };
    RuleInfo {
        id: rule.id.clone(),
        kind: kinds.to_owned(),
        path: rule.path.clone(),
        message: rule.message.clone(),
        operations,
        enforced_by: rule
            .enforced_by
            .iter()
            .map(|enforcer: &Enforcer| enforcer.as_str())
            .collect(),
    }
}
