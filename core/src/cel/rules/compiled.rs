//! A rule that is ready to be evaluated, and the finding that it does not hold.

use std::sync::Arc;

use serde_json::Value;

use super::edited::EditedValue;
use super::file::{Rule, Segment};
use crate::cel::request::{RuleRequest, Variables};
use crate::cel::{CelError, Program};
use crate::model::Operation;

/// A rule that is ready to be evaluated.
#[derive(Debug)]
pub struct CompiledRule {
    /// The rule.
    pub rule: Rule,
    pub(super) segments: Vec<Segment>,
    /// The operations that a rule about a request judges.
    pub(super) operations: Vec<Operation>,
    pub(super) program: Program,
    /// The variables of its file.
    pub(super) variables: Arc<Variables>,
}

impl CompiledRule {
    /// Whether the rule compares with the value before an update. Such a rule does not apply to a
    /// creation.
    pub fn is_transition(&self) -> bool {
        self.program.uses_old_self()
    }

    /// Whether a rule about a field holds for a value.
    pub(super) fn evaluate(&self, this: &Value, old: Option<&Value>) -> Result<bool, CelError> {
        self.program.evaluate(this, old)
    }

    /// Whether a rule about a request holds.
    pub(super) fn holds(&self, edited: &EditedValue<'_, '_>, request: &RuleRequest<'_>) -> Result<bool, CelError> {
        let Some(keys) = &self.rule.keys else {
            return request.holds(&self.program, None);
        };
        for key in edited.changed_keys().iter().filter(|key| keys.select(key)) {
            if !request.holds(&self.program, Some(key))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A rule that does not hold.
#[derive(Clone, Debug)]
pub struct Finding<'r, 'v> {
    /// The rule.
    pub rule: &'r Rule,
    /// The path, with the positions of list items.
    pub path: String,
    /// The value at the path.
    pub value: &'v Value,
    /// The error, if the expression could not be evaluated. This refuses the edit too.
    pub error: Option<CelError>,
}
