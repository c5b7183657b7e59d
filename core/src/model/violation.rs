//! A violation: why an object is refused. It is a value and not an error; an `Err` elsewhere means
//! that admission could not decide.

use std::fmt;

use super::FieldPath;

/// The kind of a violation, as in the API conventions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ViolationKind {
    /// The field is required.
    Required,
    /// The value is not allowed.
    Invalid,
    /// The value is not one of the supported values.
    NotSupported,
    /// The change is not allowed, or the field is not allowed here, with any value.
    Forbidden,
    /// The value is in a set or a map twice.
    Duplicate,
    /// The value has the wrong type.
    TypeInvalid,
    /// The string is too long.
    TooLong,
    /// The list is too long.
    TooMany,
}

impl ViolationKind {
    /// The `reason` of a cause in `status.details.causes`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }

    /// The beginning of a field error of the API server.
    pub fn text(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::Duplicate => "Duplicate value",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }

    /// Whether a message of this kind shows the value.
    fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong)
    }
}

/// The path of a violation that concerns no field, as the API server writes it.
pub const NO_FIELD: &str = "<nil>";

/// A reason to refuse an object: the field, its value, what is allowed, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The field.
    pub path: FieldPath,
    /// The kind of the violation.
    pub kind: ViolationKind,
    /// The id of the rule: stable, unique, and the label of the metric.
    pub rule: String,
    /// The value of the field as JSON; `None` if the message shows no value.
    pub got: Option<String>,
    /// What is allowed, as a clause: "must be 3 or 5".
    pub allowed: String,
    /// What to do instead; empty if `allowed` is sufficient.
    pub advice: String,
    /// Whether the rule refuses only because it does not know an object. A read of that object from
    /// the API server may change the verdict.
    pub is_provisional: bool,
}

impl Violation {
    /// A violation of `rule` at `path`.
    pub fn new(rule: &str, path: impl Into<FieldPath>, kind: ViolationKind, allowed: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            kind,
            rule: rule.to_owned(),
            got: None,
            allowed: allowed.into(),
            advice: String::new(),
            is_provisional: false,
        }
    }

    /// Marks a refusal for an object that is not known yet.
    #[must_use]
    pub fn provisional(mut self) -> Self {
        self.is_provisional = true;
        self
    }

    /// Adds the value of the field.
    #[must_use]
    pub fn got(mut self, value: &serde_json::Value) -> Self {
        self.got = Some(shorten(&value.to_string(), LONGEST_VALUE));
        self
    }

    /// Adds what to do instead.
    #[must_use]
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    /// Whether the violation names a field.
    pub fn has_field(&self) -> bool {
        self.path.as_str() != NO_FIELD
    }

    /// The message of a cause, without the path.
    pub fn detail(&self) -> String {
        self.with_clause(&self.plainly())
    }

    /// The message of a cause in the words of an API server, without advice and rule id.
    pub fn server_detail(&self) -> String {
        self.with_clause(&self.allowed)
    }

    fn with_clause(&self, clause: &str) -> String {
        let mut text = String::from(self.kind.text());
        let got = self.got.as_deref().filter(|_| self.kind.shows_value());
        for part in got.into_iter().chain(Some(clause).filter(|clause| !clause.is_empty())) {
            text.push_str(": ");
            text.push_str(part);
        }
        text
    }

    /// What is allowed, what to do instead, and the rule id: for an operation that is refused as a
    /// whole.
    pub fn plainly(&self) -> String {
        let mut text = self.allowed.clone();
        if !self.advice.is_empty() {
            text.push_str("; ");
            text.push_str(&self.advice);
        }
        // A violation of the schema reads as the API server writes it. Other rules can be looked up
        // by their ids.
        if !self.rule.starts_with("schema-") {
            text.push_str(" [");
            text.push_str(&self.rule);
            text.push(']');
        }
        text
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_root() {
            "<object>"
        } else {
            self.path.as_str()
        };
        write!(f, "{path}: {}", self.detail())
    }
}

/// Sorts violations by path, and removes duplicates.
pub fn sort_violations(violations: &mut Vec<Violation>) {
    violations.sort();
    violations.dedup();
}

/// The length of a shown value in characters.
const LONGEST_VALUE: usize = 200;

/// Cuts a text after `longest` characters and marks the cut with "…".
pub fn shorten(text: &str, longest: usize) -> String {
    if text.chars().nth(longest).is_none() {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(longest).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_violation_reads_as_field_value_allowed_and_advice() {
        let violation = Violation::new("r", "spec.replicas", ViolationKind::Invalid, "replicas is immutable")
            .got(&json!(5))
            .advice("keep 3");
        assert_eq!(
            violation.to_string(),
            "spec.replicas: Invalid value: 5: replicas is immutable; keep 3 [r]"
        );
    }

    #[test]
    fn a_forbidden_field_does_not_show_its_value() {
        let violation = Violation::new("r", "spec.state", ViolationKind::Forbidden, "no").got(&json!("Active"));
        assert_eq!(violation.to_string(), "spec.state: Forbidden: no [r]");
    }

    #[test]
    fn a_long_value_is_cut() {
        let violation = Violation::new("r", "spec", ViolationKind::Invalid, "").got(&json!("x".repeat(1000)));
        assert!(violation.to_string().chars().count() < 250);
    }
}
