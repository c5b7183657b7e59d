//! The result of admission for an edit: refusals, warnings, and the rules that they come from.

use super::{Operation, Violation, sort_violations};

/// The length in bytes to which the API server shortens each warning if all warnings together
/// exceed [`LONGEST_WARNINGS`].
pub const LONGEST_WARNING: usize = 256;
/// The length in bytes of all warnings that the API server returns.
pub const LONGEST_WARNINGS: usize = 4096;

/// How many warnings are collected. A response shows fewer. An object must not cause any number of
/// them.
pub(super) const MOST_WARNINGS: usize = 256;

/// A warning about an edit that is allowed and has a risk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The rule that warns.
    pub rule: String,
    /// The consequence of the edit, the most important part first.
    pub text: String,
    /// Whether the rule did not judge the edit, because an object that it needs is unknown.
    pub not_judged: bool,
}

impl Warning {
    /// A warning of `rule`, shortened to the length that an API server returns.
    pub fn new(rule: &str, text: impl Into<String>) -> Self {
        let mut text: String = text.into();
        if text.len() > LONGEST_WARNING {
            let mut end = LONGEST_WARNING - "…".len();
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push('…');
        }
        Self {
            rule: rule.to_owned(),
            text,
            not_judged: false,
        }
    }

    /// A warning that `rule` did not judge the edit. The text names what is missing.
    pub fn not_judged(rule: &str, text: impl Into<String>) -> Self {
        Self {
            not_judged: true,
            ..Self::new(rule, text)
        }
    }
}

/// The result of admission for an edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Why the edit is refused; empty when it is allowed.
    pub violations: Vec<Violation>,
    /// The warnings for the user.
    pub warnings: Vec<Warning>,
}

impl Verdict {
    /// Whether the edit is allowed.
    pub fn allowed(&self) -> bool {
        self.violations.is_empty()
    }

    /// Refuses the edit.
    pub fn deny(&mut self, violation: Violation) {
        self.violations.push(violation);
    }

    /// Adds a warning, unless the verdict already has it, or has the largest number of warnings.
    pub fn warn(&mut self, warning: Warning) {
        if self.warnings.len() < MOST_WARNINGS && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Sorts the violations, and keeps all warnings. For results that no API server returns.
    #[must_use]
    pub fn finish_in_full(mut self) -> Self {
        sort_violations(&mut self.violations);
        self
    }

    /// Sorts the violations, and drops the warnings that exceed the limit.
    #[must_use]
    pub fn finish(mut self) -> Self {
        sort_violations(&mut self.violations);
        let mut total = 0;
        self.warnings.retain(|warning| {
            total += warning.text.len();
            total <= LONGEST_WARNINGS
        });
        self
    }
}

/// A rule, as `capstan rules` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleInfo {
    /// Stable id.
    pub id: String,
    /// Kind of the objects that it applies to.
    pub kind: String,
    /// The field that it applies to.
    pub path: String,
    /// What it requires.
    pub message: String,
    /// The operations that it applies to.
    pub operations: Vec<Operation>,
    /// `schema`, `policy`, `webhook`, `offline`.
    pub enforced_by: Vec<&'static str>,
}

impl RuleInfo {
    /// A rule in Rust, which the webhook and the offline check enforce.
    pub fn webhook(id: &str, kind: &str, path: &str, operations: &[Operation], message: &str) -> Self {
        Self {
            id: id.to_owned(),
            kind: kind.to_owned(),
            path: path.to_owned(),
            message: message.to_owned(),
            operations: operations.to_vec(),
            enforced_by: vec!["webhook", "offline"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_shortened_to_the_length_that_an_api_server_returns() {
        let warning = Warning::new("r", "ü".repeat(400));
        assert!(warning.text.len() <= LONGEST_WARNING);
        assert!(warning.text.ends_with('…'));
    }

    #[test]
    fn n2_the_number_of_collected_warnings_is_bounded() {
        let mut verdict = Verdict::default();
        for number in 0..10_000 {
            verdict.warn(Warning::new("r", number.to_string()));
        }
        assert_eq!(verdict.warnings.len(), MOST_WARNINGS);
    }

    #[test]
    fn warnings_that_exceed_the_limit_together_are_dropped_from_the_end() {
        let mut verdict = Verdict::default();
        for number in 0..100 {
            verdict.warn(Warning::new("r", format!("{number:0200}")));
        }
        let verdict = verdict.finish();
        assert_eq!(verdict.warnings.len(), LONGEST_WARNINGS / 200);
        assert!(verdict.warnings.first().is_some_and(|first| first.text.ends_with("00")));
    }
}
