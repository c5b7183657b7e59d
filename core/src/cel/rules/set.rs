//! Compiled rules by kind, and which of them do not hold.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::compiled::{CompiledRule, Finding};
use super::edited::EditedValue;
use super::file::{Enforcer, Rule, RuleError, RuleFile, Scope};
use super::walk::Walk;
use crate::cel::request::{RuleRequest, Variables};
use crate::cel::{CelError, VariableOverride};
use crate::model::{Edit, Operation, Stored};

/// The compiled rules of some kinds.
#[derive(Debug, Default)]
pub struct RuleSet {
    /// The rules by `Kind.group`. Kinds of one file share its rules.
    by_kind: BTreeMap<String, Vec<Arc<CompiledRule>>>,
}

impl RuleSet {
    /// Compiles the rules of files.
    ///
    /// # Errors
    /// An expression does not compile.
    pub fn compile(files: Vec<RuleFile>) -> Result<Self, RuleError> {
        let mut by_kind: BTreeMap<String, Vec<Arc<CompiledRule>>> = BTreeMap::new();
        for file in files {
            let mut compiled = Vec::new();
            let wrong = |id: &str, source| RuleError::Expression {
                id: id.to_owned(),
                source,
            };
            let about_requests = file.rules.iter().any(|rule| rule.scope == Scope::Request);
            let variables = file.variables.iter().filter(|_| about_requests);
            let variables = variables.map(|variable| (variable.name.as_str(), variable.definition()));
            let variables = Variables::compile(variables).map_err(|source| wrong(&file.name, source))?;
            let variables = Arc::new(variables);
            for rule in &file.rules {
                let program = file.compile(rule).map_err(|source| wrong(&rule.id, source))?;
                compiled.push(Arc::new(CompiledRule {
                    segments: rule.segments(),
                    operations: rule
                        .operations
                        .iter()
                        .filter_map(|word| Operation::parse(word))
                        .collect(),
                    rule: rule.clone(),
                    program,
                    variables: Arc::clone(&variables),
                }));
            }
            for (group, kind) in file.kinds() {
                let rules = by_kind.entry(format!("{kind}.{group}")).or_default();
                rules.extend(compiled.iter().cloned());
            }
        }
        Ok(Self { by_kind })
    }

    /// The rules of a kind, given as `Kind.group`, in the order of its file.
    pub fn of_kind(&self, kind: &str) -> &[Arc<CompiledRule>] {
        self.by_kind.get(kind).map(Vec::as_slice).unwrap_or_default()
    }

    fn enforced(&self, kind: &str, enforcer: Enforcer, scope: Scope) -> impl Iterator<Item = &CompiledRule> {
        let enforced = move |compiled: &&CompiledRule| {
            compiled.rule.enforced_by.contains(&enforcer) && compiled.rule.scope == scope
        };
        self.of_kind(kind).iter().map(Arc::as_ref).filter(enforced)
    }

    /// The rules about requests that do not hold for an edit, with the error of an expression that
    /// could not be evaluated.
    ///
    /// A rule with a path is about a change of the value there, so an update that did not change
    /// the value is not judged. The API server does judge it. A test checks that every built-in
    /// rule holds for such an update, so that both give the same verdict.
    ///
    /// `overrides` is called if a rule has to be evaluated. It may return a variable whose value
    /// the caller knows better than its expression does.
    pub fn refusals(
        &self,
        kind: &str,
        enforcer: Enforcer,
        edit: &Edit<'_>,
        overrides: impl FnOnce() -> Option<VariableOverride>,
    ) -> Vec<(&Rule, Option<CelError>)> {
        let rules = self.enforced(kind, enforcer, Scope::Request);
        let rules = rules.filter(|compiled| compiled.operations.contains(&edit.operation));
        // Consecutive rules often have the same path.
        let mut edited: Option<EditedValue<'_, '_>> = None;
        let overridden = LazyCell::new(overrides);
        // The rules of one file share the values of its variables.
        let mut request: Option<(&Arc<Variables>, RuleRequest<'_>)> = None;
        let mut refusals = Vec::new();
        for compiled in rules {
            let same_path = edited.take().filter(|edited| edited.path == compiled.segments);
            let edited = edited.insert(same_path.unwrap_or_else(|| EditedValue::of(edit, &compiled.segments)));
            if edited.unchanged {
                continue;
            }
            let same_file = request
                .take()
                .filter(|(variables, _)| Arc::ptr_eq(variables, &compiled.variables));
            let of_file = || {
                let variables = &compiled.variables;
                (variables, RuleRequest::of(edit, variables, *overridden))
            };
            let (_, request) = request.insert(same_file.unwrap_or_else(of_file));
            match compiled.holds(edited, request) {
                Ok(true) => {}
                Ok(false) => refusals.push((&compiled.rule, None)),
                Err(error) => refusals.push((&compiled.rule, Some(error))),
            }
        }
        refusals
    }

    /// The rules about fields of `kind` that `enforcer` enforces and that do not hold for an
    /// object.
    ///
    /// As in the API server, a value that an update did not change is not judged again. The API
    /// server does evaluate transition rules for it. A test checks that every built-in transition
    /// rule holds for an unchanged value.
    pub fn findings<'r, 'v>(
        &'r self,
        kind: &str,
        enforcer: Enforcer,
        object: &'v Value,
        old: Option<&'v dyn Stored>,
    ) -> Vec<Finding<'r, 'v>> {
        let mut findings = Vec::new();
        let rules: Vec<&CompiledRule> = self.enforced(kind, enforcer, Scope::Field).collect();
        // Consecutive rules with the same path share one walk.
        let together = |left: &&CompiledRule, right: &&CompiledRule| {
            left.segments == right.segments && left.is_transition() == right.is_transition()
        };
        for rules in rules.chunk_by(together) {
            let Some(first) = rules.first() else { continue };
            let mut walk = Walk {
                rules,
                transitions: first.is_transition(),
                findings: &mut findings,
            };
            walk.object(&first.segments, object, old);
        }
        findings
    }
}
