//! Rules in CEL: data under `webhooks/rules/`, compiled once, evaluated at their paths in an object.
//!
//! From the same data come the validations in the CRD schema, the ValidatingAdmissionPolicies, the webhook's verdict
//! and the offline check. A rule says what *must hold* of the value at its path; where the path leads nowhere, it says
//! nothing.

use std::cell::{LazyCell, OnceCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::request::{Asked, Variables};
use super::{CelError, Program, Told};
use crate::model::{Edit, Operation, Stored, is_same};

/// A file under `webhooks/rules/`: the rules of one kind, or of several that are judged alike.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RuleFile {
    /// What the file is about, for the names of what is made from it; by default the kind.
    #[serde(default)]
    pub name: String,
    /// API group of the kind.
    #[serde(default)]
    pub group: String,
    /// The kind.
    #[serde(default)]
    pub kind: String,
    /// Instead of one kind: several, each as `Kind.group`.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// The subresources of which writes are judged too.
    #[serde(default = "scale")]
    pub subresources: Vec<String>,
    /// Names for parts of expressions, as in an admission policy: a rule says `variables.NAME`.
    #[serde(default)]
    pub variables: Vec<Variable>,
    /// The rules.
    pub rules: Vec<Rule>,
}

fn scale() -> Vec<String> {
    vec![String::from("scale")]
}

/// A name for a part of expressions.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// The name.
    pub name: String,
    /// What it stands for; it may name variables before it.
    pub expression: String,
}

/// One rule, as it stands in its file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// Stable and greppable: it labels the metric, the test, the page and the line in a denial.
    pub id: String,
    /// What the expression is about.
    #[serde(default)]
    pub scope: Scope,
    /// The operations that a rule about a request judges; empty for a rule about a field.
    #[serde(default)]
    pub operations: Vec<String>,
    /// Where `self` is: dotted from the object's root; `[]` is each item of a list, `[name]` each item of a list that is
    /// a map with that key. Empty for the object itself.
    #[serde(default)]
    pub path: String,
    /// What must hold of `self`, and of `oldSelf` in a transition rule. In a file it is what must hold of a `key`, where the
    /// rule has keys: then what must hold of the request is made from it.
    pub expression: String,
    /// What must hold of a `key`, where the rule has keys.
    #[serde(skip)]
    pub of_key: String,
    /// For a rule about a request whose path leads to a map: it is asked of each `key` of these that the update adds, changes
    /// or removes.
    #[serde(default)]
    pub keys: Option<Keys>,
    /// What is allowed, as the API server says it.
    pub message: String,
    /// The reason of the cause: `FieldValueInvalid`, `FieldValueRequired`, `FieldValueForbidden`, `FieldValueDuplicate`.
    #[serde(default = "field_value_invalid")]
    pub reason: String,
    /// What to do instead.
    #[serde(default)]
    pub advice: String,
    /// Who enforces the rule.
    #[serde(default = "everybody")]
    pub enforced_by: Vec<Enforcer>,
    /// Values that pass and values that do not; a test runs them.
    #[serde(default)]
    pub cases: Cases,
}

fn field_value_invalid() -> String {
    String::from("FieldValueInvalid")
}

fn everybody() -> Vec<Enforcer> {
    vec![Enforcer::Schema, Enforcer::Policy, Enforcer::Webhook, Enforcer::Offline]
}

/// Keys of a map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    /// Those of these domains and of all below: `DOMAIN/…` and `….DOMAIN/…`.
    pub domains: Vec<String>,
    /// And those with these names.
    #[serde(default)]
    pub and: Vec<String>,
    /// But not those with these names.
    #[serde(default)]
    pub but: Vec<String>,
}

impl Keys {
    /// Whether a key is one of them.
    fn hold(&self, key: &str) -> bool {
        let ends = |text: &str, domain: &str| {
            let before = text.strip_suffix(domain);
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        let slashes = key.match_indices('/').filter_map(|(slash, _)| key.get(..slash));
        let is_of = |domain: &String| slashes.clone().any(|text| ends(text, domain));
        let named = |names: &[String]| names.iter().any(|name| name == key);
        (self.domains.iter().any(is_of) || named(&self.and)) && !named(&self.but)
    }

    /// The same in CEL, of `key`.
    fn expression(&self) -> String {
        let list = |names: Vec<String>| format!("[{}]", names.join(", "));
        let quoted = |names: &[String]| list(names.iter().map(|name| format!("'{name}'")).collect());
        let domains = list(self.domains.iter().map(|domain| format!("'.{domain}/'")).collect());
        let mut expression = format!("{domains}.exists(domain, ('.' + key).contains(domain))");
        if !self.and.is_empty() {
            expression = format!("({expression} || key in {})", quoted(&self.and));
        }
        if !self.but.is_empty() {
            expression = format!("{expression} && !(key in {})", quoted(&self.but));
        }
        expression
    }
}

/// What an expression is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The field at the rule's path: `self`, and `oldSelf` in a transition rule.
    #[default]
    Field,
    /// The request as a whole: `request`, `object` and `oldObject`, as in an admission policy. No schema can say it.
    Request,
}

/// A place where a rule is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Enforcer {
    /// The validations in the schema of our CRD.
    Schema,
    /// A ValidatingAdmissionPolicy inside the API server.
    Policy,
    /// The validating webhook.
    Webhook,
    /// `capstan check`.
    Offline,
}

impl Enforcer {
    /// The word for it in rule files and in `capstan rules`.
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
    /// Values of which the rule holds.
    #[serde(default)]
    pub allow: Vec<Case>,
    /// Values of which it does not.
    #[serde(default)]
    pub deny: Vec<Case>,
}

/// An example: the value at the rule's path, and the one before.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The value; for a rule about a request, an object with `request`, `object` and `oldObject`.
    #[serde(rename = "self")]
    pub this: Value,
    /// The value before the update; a transition rule says nothing without.
    #[serde(rename = "oldSelf", default)]
    pub old: Option<Value>,
}

/// A step of a rule's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// A field of an object.
    Field(String),
    /// Each item of a list.
    Items,
    /// Each item of a list that is a map: items with the same value of this field are the same item.
    ItemsBy(String),
}

/// Why rule files cannot be used.
#[derive(Debug, Error)]
pub enum RuleError {
    /// The file is no rule file.
    #[error("rule file {file}: {reason}")]
    File {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// A rule's expression is none.
    #[error("rule {id}: {source}")]
    Expression {
        /// The rule.
        id: String,
        /// What is wrong.
        source: CelError,
    },
}

/// The rule files, compiled in: the rules that are tested are the rules that run.
const BUILT_IN: &[(&str, &str)] = &[
    (
        "webhooks/rules/controlplanemachineset.yaml",
        include_str!("../../../webhooks/rules/controlplanemachineset.yaml"),
    ),
    (
        "webhooks/rules/authority-machine-api.yaml",
        include_str!("../../../webhooks/rules/authority-machine-api.yaml"),
    ),
    (
        "webhooks/rules/authority-cluster-api.yaml",
        include_str!("../../../webhooks/rules/authority-cluster-api.yaml"),
    ),
];

/// The rule files of `webhooks/rules/`.
///
/// # Errors
/// When one of them is no rule file; a test keeps that from happening.
pub fn built_in() -> Result<Vec<RuleFile>, RuleError> {
    BUILT_IN
        .iter()
        .map(|(file, text)| RuleFile::parse(file, text))
        .collect()
}

impl RuleFile {
    /// Reads a rule file.
    ///
    /// # Errors
    /// When the text is no rule file.
    pub fn parse(file: &str, text: &str) -> Result<Self, RuleError> {
        let mut parsed: Self = serde_saphyr::from_str(text).map_err(|error| RuleError::File {
            file: file.to_owned(),
            reason: error.to_string(),
        })?;
        for rule in &mut parsed.rules {
            if let Some(keys) = &rule.keys {
                rule.of_key.clone_from(&rule.expression);
                rule.expression = of_each_key(&rule.path, keys, &rule.of_key);
            }
        }
        Ok(parsed)
    }

    /// The kinds that the rules judge: group and kind of each.
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

    /// What the file is about, in the names of what is made from it.
    pub fn title(&self) -> String {
        if self.name.is_empty() {
            self.kind.to_lowercase()
        } else {
            self.name.clone()
        }
    }

    /// Gives a variable another meaning; a file that has no such variable stays as it is.
    pub fn configure(&mut self, name: &str, expression: &str) {
        for variable in self.variables.iter_mut().filter(|variable| variable.name == name) {
            expression.clone_into(&mut variable.expression);
        }
    }

    /// An expression with what its variables stand for in their place.
    pub fn expand(&self, expression: &str) -> String {
        let mut expanded = expression.to_owned();
        // A variable names only those before it, so one pass from the last to the first replaces all.
        for variable in self.variables.iter().rev() {
            let meaning = format!("({})", variable.expression);
            expanded = replace_word(&expanded, &format!("variables.{}", variable.name), &meaning);
        }
        expanded
    }

    /// A rule, ready to be evaluated: one about a request beside the variables of the file, another with them in it.
    fn compile(&self, rule: &Rule) -> Result<Program, CelError> {
        match rule.scope {
            Scope::Field => Program::compile(&self.expand(&rule.expression)),
            Scope::Request if rule.keys.is_some() => Program::compile(&rule.of_key),
            Scope::Request => Program::compile(&rule.expression),
        }
    }
}

/// An expression for the request out of one for each of these keys that the update adds, changes or removes.
fn of_each_key(path: &str, keys: &Keys, expression: &str) -> String {
    let [new, old] = ["object", "oldObject"].map(|root| format!("{root}.{path}"));
    let of_key = format!("!({}) || ({expression})", keys.expression());
    format!(
        "(!has({new}) || {new}.all(key, (has({old}) && key in {old} && {old}[key] == {new}[key]) || {of_key}))\n\
         && (!has({old}) || {old}.all(key, (has({new}) && key in {new}) || {of_key}))"
    )
}

/// Replaces a word where it is not the beginning of a longer one.
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

/// How a kind is called where kinds of several groups meet, as `kubectl` calls it: `Machine.cluster.x-k8s.io`.
fn qualified(group: &str, kind: &str) -> String {
    format!("{kind}.{group}")
}

impl Rule {
    /// The steps of the rule's path.
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

/// A rule that is ready to be evaluated.
#[derive(Debug)]
pub struct CompiledRule {
    /// The rule.
    pub rule: Rule,
    segments: Vec<Segment>,
    /// Those that a rule about a request judges.
    operations: Vec<Operation>,
    program: Program,
    /// Those of its file.
    variables: Arc<Variables>,
}

impl CompiledRule {
    /// Whether the rule compares with the value before an update: then it says nothing about a creation.
    pub fn is_transition(&self) -> bool {
        self.program.uses_old_self()
    }

    /// Whether a rule about a request holds.
    fn holds(&self, place: &Place<'_, '_>, asked: &Asked<'_>) -> Result<bool, CelError> {
        let Some(keys) = &self.rule.keys else {
            return asked.holds(&self.program, None);
        };
        for key in place.changed().iter().filter(|key| keys.hold(key)) {
            if !asked.holds(&self.program, Some(key))? {
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
    /// Where, with the positions of list items filled in.
    pub path: String,
    /// What stands there.
    pub value: &'v Value,
    /// Set when the expression gave no verdict, which refuses like a verdict of false.
    pub error: Option<CelError>,
}

/// The rules of some kinds, compiled.
#[derive(Debug, Default)]
pub struct RuleSet {
    /// By `Kind.group`; kinds that are judged alike share their rules.
    by_kind: BTreeMap<String, Vec<Arc<CompiledRule>>>,
}

impl RuleSet {
    /// Compiles the rules of files.
    ///
    /// # Errors
    /// When an expression does not compile.
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
            let variables = variables.map(|variable| (variable.name.as_str(), variable.expression.as_str()));
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
                let rules = by_kind.entry(qualified(group, kind)).or_default();
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

    /// The rules about requests that do not hold for an edit.
    ///
    /// A rule with a path is about a change of what stands there: an update that left it as it was is not asked about it. A
    /// test holds every built-in rule to that, so that the API server, which asks, says the same.
    ///
    /// `told` is asked when a rule has to be evaluated: which variable is known better than its expression says.
    pub fn refusals(
        &self,
        kind: &str,
        enforcer: Enforcer,
        edit: &Edit<'_>,
        told: impl FnOnce() -> Option<Told>,
    ) -> Vec<(&Rule, Option<CelError>)> {
        let rules = self.enforced(kind, enforcer, Scope::Request);
        let rules = rules.filter(|compiled| compiled.operations.contains(&edit.operation));
        // Rules about one field often stand together in their file.
        let mut place: Option<Place<'_, '_>> = None;
        let told = LazyCell::new(told);
        // Rules of one file share what its variables turned out to be.
        let mut asked: Option<(&Arc<Variables>, Asked<'_>)> = None;
        let mut refusals = Vec::new();
        for compiled in rules {
            let known = place.take().filter(|place| place.path == compiled.segments);
            let place = place.insert(known.unwrap_or_else(|| Place::of(edit, &compiled.segments)));
            if place.alone {
                continue;
            }
            let known = asked
                .take()
                .filter(|(variables, _)| Arc::ptr_eq(variables, &compiled.variables));
            let of_file = || (&compiled.variables, Asked::of(edit, &compiled.variables, *told));
            let (_, asked) = asked.insert(known.unwrap_or_else(of_file));
            match compiled.holds(place, asked) {
                Ok(true) => {}
                Ok(false) => refusals.push((&compiled.rule, None)),
                Err(error) => refusals.push((&compiled.rule, Some(error))),
            }
        }
        refusals
    }

    /// The rules of `kind` that `enforcer` enforces and that do not hold for an object.
    ///
    /// As in the API server, a value that an update left as it was is not judged again. It does ask rules that compare with
    /// the value before; a test holds every built-in one to say nothing of what is the same.
    pub fn findings<'r, 'v>(
        &'r self,
        kind: &str,
        enforcer: Enforcer,
        object: &'v Value,
        old: Option<&'v dyn Stored>,
    ) -> Vec<Finding<'r, 'v>> {
        let mut findings = Vec::new();
        let rules: Vec<&CompiledRule> = self.enforced(kind, enforcer, Scope::Field).collect();
        // Rules about one field stand together in their file, and look for it together.
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

/// What stands at the path of a rule, before and after an edit.
struct Place<'s, 'e> {
    path: &'s [Segment],
    old: Option<&'e Value>,
    new: Option<&'e Value>,
    /// Whether an update left it as it was; never for the object itself.
    alone: bool,
    changed: OnceCell<Vec<&'e str>>,
}

impl<'s, 'e> Place<'s, 'e> {
    fn of(edit: &Edit<'e>, path: &'s [Segment]) -> Self {
        let (old, new) = (
            edit.old.and_then(|old| below(old, path)),
            edit.object.and_then(|new| below(new, path)),
        );
        let update = edit.operation == Operation::Update && edit.old.is_some() && edit.object.is_some();
        let fields = !path.is_empty() && path.iter().all(|segment| matches!(segment, Segment::Field(_)));
        Self {
            path,
            old,
            new,
            alone: update && fields && is_same(old, new),
            changed: OnceCell::new(),
        }
    }

    /// The keys of the map there that are added, changed or removed, each once.
    fn changed(&self) -> &[&'e str] {
        let map = |value: Option<&'e Value>| value.and_then(Value::as_object).into_iter().flatten();
        let compare = || {
            let (mut old, mut new) = (map(self.old).peekable(), map(self.new).peekable());
            let mut changed = Vec::new();
            // Both are in the order of their keys.
            loop {
                let (key, same) = match (old.peek(), new.peek()) {
                    (None, None) => return changed,
                    (Some((key, _)), None) | (None, Some((key, _))) => (*key, false),
                    (Some((key, was)), Some((other, is))) => (*key.min(other), key == other && was == is),
                };
                if !same {
                    changed.push(key.as_str());
                }
                let _was = old.next_if(|(old, _)| *old == key);
                let _is = new.next_if(|(new, _)| *new == key);
            }
        };
        self.changed.get_or_init(compare)
    }
}

/// What stands at a path of fields below an object.
fn below<'v>(object: &'v dyn Stored, segments: &[Segment]) -> Option<&'v Value> {
    let (Segment::Field(first), rest) = segments.split_first()? else {
        return None;
    };
    rest.iter()
        .try_fold(object.field(first)?, |value, segment| match segment {
            Segment::Field(field) => value.get(field),
            Segment::Items | Segment::ItemsBy(_) => None,
        })
}

struct Walk<'s, 'r, 'f, 'v> {
    /// Rules about one field.
    rules: &'s [&'r CompiledRule],
    /// Whether they compare with the value before; all do, or none.
    transitions: bool,
    findings: &'f mut Vec<Finding<'r, 'v>>,
}

impl<'v> Walk<'_, '_, '_, 'v> {
    /// The object itself, of which only what lies on the way is looked at.
    fn object(&mut self, segments: &[Segment], this: &'v Value, old: Option<&dyn Stored>) {
        let path = &mut String::new();
        if let Some((Segment::Field(field), rest)) = segments.split_first() {
            let before = old.and_then(|old| old.field(field));
            self.field(field, rest, path, this, before, old.is_some());
        } else {
            let whole = old.map(Stored::whole);
            self.step(segments, path, this, whole.as_deref(), old.is_some());
        }
    }

    fn field(
        &mut self,
        field: &str,
        rest: &[Segment],
        path: &mut String,
        this: &'v Value,
        before: Option<&Value>,
        correlated: bool,
    ) {
        let Some(next) = this.get(field).filter(|value| !value.is_null()) else {
            return;
        };
        let length = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(field);
        self.step(rest, path, next, before.filter(|value| !value.is_null()), correlated);
        path.truncate(length);
    }

    /// `correlated`: whether `old` (also an absent one) is known to be what `this` was before.
    fn step(
        &mut self,
        segments: &[Segment],
        path: &mut String,
        this: &'v Value,
        old: Option<&Value>,
        correlated: bool,
    ) {
        let Some((segment, rest)) = segments.split_first() else {
            self.judge(path, this, old);
            return;
        };
        match segment {
            Segment::Field(field) => {
                self.field(field, rest, path, this, old.and_then(|old| old.get(field)), correlated);
            }
            // What is the same as a whole is the same in every item. Objects on the way need no such look: their fields
            // are found again by name, and the last one is compared before it is judged.
            _ if !self.transitions && correlated && is_same(old, Some(this)) => {}
            Segment::Items => self.items(rest, path, this, |_| None, false),
            Segment::ItemsBy(key) => {
                let find = |item: &Value| old?.as_array()?.iter().find(|before| before.get(key) == item.get(key));
                self.items(rest, path, this, find, correlated);
            }
        }
    }

    fn items<'o>(
        &mut self,
        rest: &[Segment],
        path: &mut String,
        this: &'v Value,
        before: impl Fn(&Value) -> Option<&'o Value>,
        correlated: bool,
    ) {
        for (position, item) in this.as_array().into_iter().flatten().enumerate() {
            let length = path.len();
            path.push_str(&format!("[{position}]"));
            self.step(rest, path, item, before(item), correlated);
            path.truncate(length);
        }
    }

    fn judge(&mut self, path: &str, this: &'v Value, old: Option<&Value>) {
        // A transition rule is about a change, and is silent about what comes into being.
        if is_same(old, Some(this)) || self.transitions && old.is_none() {
            return;
        }
        for &compiled in self.rules {
            let error = match compiled.program.evaluate(this, old) {
                Ok(true) => continue,
                Ok(false) => None,
                Err(error) => Some(error),
            };
            self.findings.push(Finding {
                rule: &compiled.rule,
                path: path.to_owned(),
                value: this,
                error,
            });
        }
    }
}

#[cfg(test)]
mod tests;
