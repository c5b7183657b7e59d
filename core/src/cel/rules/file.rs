//! The format of the rule files under `webhooks/rules/`.
//!
//! Reading a file checks its shape only. Expressions are compiled by [`RuleSet`](super::RuleSet).

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::keys::Keys;
use crate::cel::request::{Definition, map_expression};
use crate::cel::{CelError, Program};

/// A rule file: the rules of one kind, or of several kinds that are judged alike.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RuleFile {
    /// The name of the policy and of the files that are generated from this file; by default the
    /// kind.
    #[serde(default)]
    pub name: String,
    /// The API group of the kind.
    #[serde(default)]
    pub group: String,
    /// The kind.
    #[serde(default)]
    pub kind: String,
    /// Several kinds instead of one, each as `Kind.group`.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// The subresources whose writes are judged too.
    #[serde(default = "scale")]
    pub subresources: Vec<String>,
    /// Names for parts of expressions, as in an admission policy: `variables.NAME`.
    #[serde(default)]
    pub variables: Vec<Variable>,
    /// The rules.
    pub rules: Vec<Rule>,
}

fn scale() -> Vec<String> {
    vec![String::from("scale")]
}

/// A name for a part of expressions: either an expression or a map of the object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// The name.
    pub name: String,
    /// The CEL expression. It may name the variables before it. Of a map, the expression is
    /// generated.
    #[serde(default)]
    pub expression: String,
    /// The path of a map below `object` or `oldObject`, such as `object.metadata.annotations`. The
    /// value is an empty map if the path does not exist.
    #[serde(default)]
    pub map: Option<String>,
}

/// One rule of a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// The stable id. It labels metrics, tests, documentation and refusals.
    pub id: String,
    /// What the expression is about.
    #[serde(default)]
    pub scope: Scope,
    /// The operations that a rule about a request judges; empty for a rule about a field.
    #[serde(default)]
    pub operations: Vec<String>,
    /// The path of `self`: field names with dots, from the root of the object. `[]` stands for each
    /// item of a list; `[name]` for each item of a list that is a map with the key `name`. Empty
    /// for the object itself.
    #[serde(default)]
    pub path: String,
    /// What must hold for `self`, and for `oldSelf` in a transition rule. With `keys`, the file
    /// states what must hold for a `key`, and the expression about the request is generated.
    pub expression: String,
    /// With `keys`, what must hold for a `key`.
    #[serde(skip)]
    pub key_expression: String,
    /// For a rule about a request whose path leads to a map: the rule is evaluated for each of
    /// these keys that an update adds, changes or removes.
    #[serde(default)]
    pub keys: Option<Keys>,
    /// The message of the API server if the rule does not hold.
    pub message: String,
    /// The reason of the cause: `FieldValueInvalid`, `FieldValueRequired`, `FieldValueForbidden` or
    /// `FieldValueDuplicate`.
    #[serde(default = "field_value_invalid")]
    pub reason: String,
    /// What to do instead.
    #[serde(default)]
    pub advice: String,
    /// The places where the rule is enforced.
    #[serde(default = "every_enforcer")]
    pub enforced_by: Vec<Enforcer>,
    /// Values that the rule allows and values that it denies. A test evaluates them.
    #[serde(default)]
    pub cases: Cases,
}

pub(super) fn field_value_invalid() -> String {
    String::from("FieldValueInvalid")
}

pub(super) fn every_enforcer() -> Vec<Enforcer> {
    vec![Enforcer::Schema, Enforcer::Policy, Enforcer::Webhook, Enforcer::Offline]
}

/// What an expression is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The field at the path of the rule: `self`, and `oldSelf` in a transition rule.
    #[default]
    Field,
    /// The request: `request`, `object` and `oldObject`, as in an admission policy. A CRD schema
    /// cannot contain such a rule.
    Request,
}

/// A place where a rule is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Enforcer {
    /// The validations in the schema of the CRD.
    Schema,
    /// A ValidatingAdmissionPolicy.
    Policy,
    /// The validating webhook.
    Webhook,
    /// `capstan check`.
    Offline,
}

impl Enforcer {
    /// The word in rule files and in the output of `capstan rules`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Schema => "schema",
            Self::Policy => "policy",
            Self::Webhook => "webhook",
            Self::Offline => "offline",
        }
    }
}

/// Examples of a rule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cases {
    /// Values for which the rule holds.
    #[serde(default)]
    pub allow: Vec<Case>,
    /// Values for which the rule does not hold.
    #[serde(default)]
    pub deny: Vec<Case>,
}

/// An example: the value at the path of the rule, and the value before an update.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The value; for a rule about a request, an object with `request`, `object` and `oldObject`.
    #[serde(rename = "self")]
    pub this: Value,
    /// The value before the update. A transition rule does not apply without it.
    #[serde(rename = "oldSelf", default)]
    pub old: Option<Value>,
}

/// A step of the path of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// A field of an object.
    Field(String),
    /// Each item of a list.
    Items,
    /// Each item of a list that is a map. Items with the same value of this field correspond.
    ItemsBy(String),
}

/// Why a rule file cannot be used.
#[derive(Debug, Error)]
pub enum RuleError {
    /// The text is not a rule file.
    #[error("rule file {file}: {reason}")]
    File {
        /// The name of the file.
        file: String,
        /// The reason.
        reason: String,
    },
    /// An expression does not compile.
    #[error("rule {id}: {source}")]
    Expression {
        /// The id of the rule, or the name of the file for the expression of a variable.
        id: String,
        /// The reason.
        source: CelError,
    },
}

impl RuleFile {
    /// Reads a rule file. `file` names it in an error.
    ///
    /// # Errors
    /// The text is not a rule file.
    pub fn parse(file: &str, text: &str) -> Result<Self, RuleError> {
        let wrong = |reason: String| RuleError::File {
            file: file.to_owned(),
            reason,
        };
        let mut parsed: Self = serde_saphyr::from_str(text).map_err(|error| wrong(error.to_string()))?;
        for variable in &mut parsed.variables {
            variable.complete().map_err(wrong)?;
        }
        for rule in &mut parsed.rules {
            if let Some(keys) = &rule.keys {
                rule.key_expression = std::mem::take(&mut rule.expression);
                rule.expression = keys.request_expression(&rule.path, &rule.key_expression);
            }
        }
        Ok(parsed)
    }

    /// The kinds that the rules judge, as pairs of group and kind.
    pub fn kinds(&self) -> Vec<(&str, &str)> {
        if self.kinds.is_empty() {
            return vec![(self.group.as_str(), self.kind.as_str())];
        }
        self.kinds
            .iter()
            .filter_map(|qualified| qualified.split_once('.').map(|(kind, group)| (group, kind)))
            .collect()
    }

    /// Whether the rules judge a kind.
    pub fn judges(&self, group: &str, kind: &str) -> bool {
        self.kinds().contains(&(group, kind))
    }

    /// The name of the file, by default the kind in lower case.
    pub fn title(&self) -> String {
        if self.name.is_empty() {
            self.kind.to_lowercase()
        } else {
            self.name.clone()
        }
    }

    /// Replaces the expression of a variable. A file without such a variable is not changed.
    pub fn configure(&mut self, name: &str, expression: &str) {
        for variable in self.variables.iter_mut().filter(|variable| variable.name == name) {
            variable.map = None;
            expression.clone_into(&mut variable.expression);
        }
    }

    /// An expression in which each variable is replaced by its own expression.
    pub fn expand(&self, expression: &str) -> String {
        let mut expanded = expression.to_owned();
        // A variable names only those before it, so one pass from the last to the first replaces
        // all.
        for variable in self.variables.iter().rev() {
            let value = format!("({})", variable.expression);
            expanded = replace_word(&expanded, &format!("variables.{}", variable.name), &value);
        }
        expanded
    }

    /// Compiles a rule. The variables of the file are expanded in a rule about a field. A rule
    /// about a request names them.
    pub(super) fn compile(&self, rule: &Rule) -> Result<Program, CelError> {
        match rule.scope {
            Scope::Field => Program::compile(&self.expand(&rule.expression)),
            Scope::Request if rule.keys.is_some() => Program::compile(&rule.key_expression),
            Scope::Request => Program::compile(&rule.expression),
        }
    }
}

impl Variable {
    /// Checks the variable, and generates the expression of a map.
    fn complete(&mut self) -> Result<(), String> {
        let Some(path) = &self.map else {
            return if self.expression.is_empty() {
                Err(format!("variable {}: must have an expression or a map", self.name))
            } else {
                Ok(())
            };
        };
        let plain = |part: &str| !part.is_empty() && part.chars().all(|letter| letter.is_ascii_alphanumeric());
        let (root, fields) = path.split_once('.').unwrap_or((path, ""));
        if !matches!(root, "object" | "oldObject") || !fields.split('.').all(plain) || !self.expression.is_empty() {
            return Err(format!(
                "variable {}: map must be a path such as object.metadata.labels, without an expression, not {path:?}",
                self.name
            ));
        }
        self.expression = map_expression(path);
        Ok(())
    }

    pub(super) fn definition(&self) -> Definition<'_> {
        match &self.map {
            Some(path) => Definition::Map(path),
            None => Definition::Expression(&self.expression),
        }
    }
}

impl Rule {
    /// The steps of the path of the rule.
    pub fn segments(&self) -> Vec<Segment> {
        let mut segments = Vec::new();
        for part in self.path.split('.').filter(|part| !part.is_empty()) {
            let (field, items) = part
                .split_once('[')
                .map_or((part, None), |(field, key)| (field, Some(key)));
            segments.push(Segment::Field(field.to_owned()));
            match items.map(|key| key.trim_end_matches(']')) {
                None => {}
                Some("") => segments.push(Segment::Items),
                Some(key) => segments.push(Segment::ItemsBy(key.to_owned())),
            }
        }
        segments
    }
}

/// Replaces a name, but not where it is the beginning of a longer one.
fn replace_word(text: &str, from: &str, to: &str) -> String {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(from) {
        replaced.push_str(before);
        let longer = after.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        replaced.push_str(if longer { from } else { to });
        rest = after;
    }
    replaced.push_str(rest);
    replaced
}
