//! Rules in CEL: data under `webhooks/rules/`, compiled once, and evaluated at their paths in an
//! object.
//!
//! One rule is the source of the validation in the CRD schema, of the ValidatingAdmissionPolicy, of
//! the verdict of the webhook and of the offline check. A rule states what must hold for the value
//! at its path. If the path does not exist in an object, the rule does not apply.
//!
//! This module evaluates rules. It must never contain one.

mod compiled;
mod edited;
mod file;
mod keys;
mod set;
mod walk;

pub use compiled::{CompiledRule, Finding};
pub use file::{Case, Cases, Enforcer, Rule, RuleError, RuleFile, Scope, Segment, Variable};
pub use keys::Keys;
pub use set::RuleSet;

#[cfg(test)]
mod tests;
