//! Applies the rules of a platform to one machine, in one direction.
//!
//! A rule takes its fields out of the source and writes the target. What is left of the source at
//! the end has no rule, at whatever depth it stands, and becomes an issue.
//!
//! Must never: read a field without taking it.

pub(super) mod keep;
pub(super) mod rule;

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::carried::Carried;
use super::shape::{Fault, NO_TEXT};
use super::tree::{self, Tree};
use super::{Api, Context, Issue, Lookup, Severity};
use crate::model::FieldPath;
use crate::model::distance;
use rule::{Literal, Rule};

/// What the rules read besides the source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Env<'a> {
    /// The other objects.
    pub(super) context: &'a Context<'a>,
    /// The API to convert to.
    pub(super) to: Api,
    /// Whether the source is the template of a MachineSet.
    pub(super) template: bool,
    /// Whether the machine belongs to the control plane.
    pub(super) control_plane: bool,
    /// `spec.providerID` of the Machine.
    pub(super) provider_id: Option<&'a str>,
    /// The kind of the infrastructure cluster.
    pub(super) cluster_kind: &'static str,
    /// What the source carries. `None` if nothing is to be restored.
    pub(super) restored: Option<&'a Carried>,
}

impl Env<'_> {
    /// The API to convert from.
    pub(super) fn from(&self) -> Api {
        self.to.other()
    }
}

/// One application of a list of rules.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    /// What the rules read besides the source.
    pub(super) env: Env<'a>,
    /// What is left of the provider spec, of the spec of the infrastructure machine, or of an item
    /// of a list.
    pub(super) source: Tree,
    /// What is left of the spec of the Machine of Cluster API, if that is the source.
    pub(super) machine: Tree,
    /// The counterpart of `source`.
    pub(super) target: Map<String, Value>,
    /// The spec of the Machine of Cluster API, if that is the target.
    pub(super) machine_target: Map<String, Value>,
    /// What cannot be converted.
    pub(super) issues: Vec<Issue>,
    /// What the converted object will carry.
    kept: Vec<keep::Kept>,
}

impl<'a> Pass<'a> {
    /// A pass over `source`; `machine` is the spec of the Machine of Cluster API, if that is the
    /// source.
    pub(super) fn new(env: Env<'a>, source: Tree, machine: Tree) -> Self {
        Self {
            env,
            source,
            machine,
            target: Map::new(),
            machine_target: Map::new(),
            issues: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// The tree of a path, and the path in it.
    fn tree<'p>(&mut self, path: &'p str) -> (&mut Tree, &'p str) {
        match path.strip_prefix("Machine.") {
            Some(rest) => (&mut self.machine, rest),
            None => (&mut self.source, path),
        }
    }

    /// Takes a field of the source.
    pub(super) fn take(&mut self, path: &str) -> Option<Value> {
        let (tree, path) = self.tree(path);
        tree.take(path)
    }

    /// Takes a string of the source. A value of another type is an issue.
    pub(super) fn take_text(&mut self, path: &str) -> Option<String> {
        match self.take(path)? {
            Value::String(text) => Some(text).filter(|text| !text.is_empty()),
            other => {
                self.fault(path, NO_TEXT.of(&other));
                None
            }
        }
    }

    /// Takes a list of the source, as one tree for each item. A value of another type is an issue.
    pub(super) fn take_list(&mut self, path: &str) -> Vec<Tree> {
        let (tree, inner) = self.tree(path);
        tree.take_items(inner).unwrap_or_else(|_| {
            self.block(path, "must be a list", "correct the value");
            Vec::new()
        })
    }

    /// Writes a field of the target.
    pub(super) fn put(&mut self, path: &str, value: Value) {
        match path.strip_prefix("Machine.") {
            Some(rest) => tree::put(&mut self.machine_target, rest, value),
            None => tree::put(&mut self.target, path, value),
        }
    }

    /// Writes a field of the target if the source does not set its own field. The two APIs have
    /// other values for an absent field, so that the target needs the one of the source.
    pub(super) fn put_default(&mut self, at: &str, to: &str, default: Value) {
        let (tree, path) = self.tree(at);
        let is_absent = |value: &Value| is_empty(value) || value.as_i64() == Some(0);
        if tree.get(path).is_none_or(is_absent) {
            self.put(to, default);
        }
    }

    /// The full path of a field of the source.
    pub(super) fn path(&mut self, path: &str) -> String {
        let (tree, path) = self.tree(path);
        tree.path(path)
    }

    /// Reports that a field of the source prevents the conversion.
    pub(super) fn block(
        &mut self,
        path: &str,
        reason: impl Into<Cow<'static, str>>,
        way_out: impl Into<Cow<'static, str>>,
    ) {
        let path = self.path(path);
        self.report(Severity::Blocks, path, reason, way_out);
    }

    /// Reports an issue at a full path.
    pub(super) fn report(
        &mut self,
        severity: Severity,
        path: String,
        reason: impl Into<Cow<'static, str>>,
        way_out: impl Into<Cow<'static, str>>,
    ) {
        self.issues.push(Issue {
            severity,
            path: FieldPath::new(path),
            reason: reason.into().into_owned(),
            way_out: way_out.into().into_owned(),
        });
    }

    fn fault(&mut self, path: &str, fault: Fault) {
        let path = format!("{}{}", self.path(path), fault.within);
        self.report(Severity::Blocks, path, fault.reason, fault.way_out);
    }

    /// The spec of the infrastructure cluster.
    pub(super) fn cluster(&self) -> Lookup<'a> {
        self.env.context.cluster_spec(self.env.cluster_kind)
    }

    /// A pass with the same environment over an item of a list.
    pub(super) fn nested(&self, source: Tree) -> Pass<'a> {
        Pass::new(self.env, source, Tree::default())
    }

    /// Applies the rules to an item of a list, and returns its counterpart.
    pub(super) fn item(&mut self, rules: &'static [Rule], item: Tree) -> Map<String, Value> {
        if !item.value.is_object() {
            self.report(Severity::Blocks, item.root, "must be an object", "correct the value");
            return Map::new();
        }
        let mut pass = self.nested(item);
        pass.apply(rules);
        pass.finish(rules);
        self.issues.append(&mut pass.issues);
        pass.target
    }

    /// Applies the rules.
    pub(super) fn apply(&mut self, rules: &'static [Rule]) {
        for rule in rules {
            self.rule(rule);
            if let Rule::Required { .. } = rule {
                self.counterpart(rule, rules);
            }
        }
    }

    /// Requires the counterpart of a field that the API to convert to requires, so that the way
    /// back finds no issue.
    fn counterpart(&mut self, rule: &'static Rule, rules: &'static [Rule]) {
        let (from, to) = (self.env.from(), self.env.to);
        let Rule::Required {
            api,
            at,
            severity,
            reason,
            way_out,
        } = rule
        else {
            return;
        };
        let is_counterpart = |other: &&'static Rule| {
            matches!(other, Rule::Field { .. } | Rule::List { .. }) && other.paths(to).first() == Some(at)
        };
        let here = rules
            .iter()
            .find(is_counterpart)
            .and_then(|other| other.paths(from).first().copied());
        let Some(here) = here.filter(|_| *api == to) else {
            return;
        };
        // The rule of the source has a better reason.
        let is_own = |other: &Rule| matches!(other, Rule::Required { api, at, .. } if *api == from && *at == here);
        if rules.iter().any(is_own) {
            return;
        }
        self.require(here, *severity, reason, way_out);
    }

    /// Reports a missing field, once. Returns whether it is missing. Cluster API refuses an object
    /// without the field. The Machine API stores a provider spec without a schema.
    fn require(&mut self, at: &str, severity: Severity, reason: &'static str, way_out: &'static str) -> bool {
        let (tree, path) = self.tree(at);
        let (is_missing, path) = (tree.get(path).is_none_or(is_empty), tree.path(path));
        let is_reported = self.issues.iter().any(|issue| issue.path.as_str() == path);
        if is_missing && !is_reported {
            let severity = match self.env.to {
                Api::ClusterApi => Severity::Blocks,
                Api::MachineApi => severity,
            };
            self.report(severity, path, reason, way_out);
        }
        is_missing
    }

    fn rule(&mut self, rule: &'static Rule) {
        let from = self.env.from();
        match rule {
            Rule::Field {
                machine_api,
                cluster_api,
                shape,
            } => {
                let (at, to) = pick(from, machine_api, cluster_api);
                let Some(value) = self.take(at) else { return };
                hit(rule, from);
                match shape.convert(from, &value) {
                    Ok(Some(value)) => self.put(to, value),
                    Ok(None) => {}
                    Err(fault) => self.fault(at, fault.of(&value)),
                }
            }
            Rule::Object {
                machine_api,
                cluster_api,
                rules,
            } => {
                let (at, to) = pick(from, machine_api, cluster_api);
                let inner = self.source.branch(at);
                if inner.value.is_null() {
                    return;
                }
                hit(rule, from);
                let converted = self.item(rules, inner);
                if !converted.is_empty() {
                    self.put(to, converted.into());
                }
            }
            Rule::List {
                machine_api,
                cluster_api,
                rules,
            } => {
                let (at, to) = pick(from, machine_api, cluster_api);
                let items = self.take_list(at);
                if items.is_empty() {
                    return;
                }
                hit(rule, from);
                let items = items.into_iter().map(|item| Value::Object(self.item(rules, item)));
                let items = items.collect();
                self.put(to, items);
            }
            Rule::Only { .. } | Rule::Fixed { .. } | Rule::Required { .. } => self.limit(rule),
            Rule::Inner { .. } => {}
            Rule::Shared { .. } => self.shared(rule),
            Rule::Local { api, at, .. } => {
                if *api == from && self.take(at).is_some() {
                    hit(rule, from);
                }
            }
            Rule::Hand(hand) => {
                let present = hand.paths(from).iter().any(|path| {
                    let (tree, path) = self.tree(path);
                    tree.get(path).is_some()
                });
                if present {
                    hit(rule, from);
                }
                match self.env.to {
                    Api::ClusterApi => (hand.to)(self),
                    Api::MachineApi => (hand.back)(self),
                }
            }
        }
    }

    /// Applies a rule for a field that only one API has.
    fn limit(&mut self, rule: &'static Rule) {
        let from = self.env.from();
        match rule {
            Rule::Only {
                api,
                at,
                neutral,
                severity,
                reason,
                way_out,
            } if *api == from => {
                let Some(value) = self.take(at) else { return };
                hit(rule, from);
                if !is_empty(&value) && !neutral.iter().any(|neutral| neutral.is(&value)) {
                    let path = self.path(at);
                    self.report(*severity, path, *reason, *way_out);
                }
            }
            Rule::Fixed {
                api,
                at,
                value: wanted,
                written,
                severity,
                reason,
                way_out,
            } => {
                if *api != from {
                    if *written {
                        hit(rule, from);
                        self.put(at, wanted.value());
                    }
                    return;
                }
                let Some(value) = self.take(at) else { return };
                hit(rule, from);
                if !wanted.is(&value) && value.as_str() != Some("") {
                    let path = self.path(at);
                    self.report(*severity, path, *reason, *way_out);
                }
            }
            Rule::Required {
                api,
                at,
                severity,
                reason,
                way_out,
            } if *api == from => {
                let is_missing = self.require(at, *severity, reason, way_out);
                if is_missing {
                    hit(rule, from);
                }
            }
            _ => {}
        }
    }

    /// Applies a rule for a field that the infrastructure cluster sets for all machines.
    fn shared(&mut self, rule: &'static Rule) {
        let Rule::Shared {
            at,
            cluster,
            infrastructure,
            ignores_case,
        } = rule
        else {
            return;
        };
        let from = self.env.from();
        let kind = self.env.cluster_kind;
        let of_all = self.env.context.shared(kind, cluster, infrastructure);
        if from == Api::ClusterApi {
            if let Shared::Value { value, .. } = of_all {
                hit(rule, from);
                self.put(at, value.into());
            }
            return;
        }
        let Some(value) = self.take_text(at) else { return };
        hit(rule, from);
        match of_all {
            Shared::Unknown => {}
            Shared::Absent => {
                let field = cluster.first().copied().unwrap_or_default();
                self.block(
                    at,
                    format!(
                        "Cluster API sets it in spec.{field} of the {kind} for all machines, and no {kind} that sets it was given"
                    ),
                    format!("give the {kind} of the cluster, or remove the field"),
                );
            }
            Shared::Value { value: other, place } => {
                let equal = value == other || (*ignores_case && value.eq_ignore_ascii_case(other));
                if !equal {
                    self.block(
                        at,
                        format!("it is {value:?}, but {place} is {other:?} for all machines"),
                        format!("set it to {other:?}, or keep the object in the Machine API"),
                    );
                }
            }
        }
    }

    /// Reports every field of the source that no rule has taken.
    pub(super) fn finish(&mut self, rules: &'static [Rule]) {
        let from = self.env.from();
        let value = std::mem::take(&mut self.source.value);
        if value.is_null() || value.as_object().is_some_and(Map::is_empty) {
            return;
        }
        let known: Vec<&str> = rules.iter().flat_map(|rule| rule.paths(from)).copied().collect();
        let mut left = Vec::new();
        leftovers(&value, "", &known, &mut left);
        for (path, is_known) in left {
            let full = self.source.path(&path);
            let (reason, way_out) = if is_known {
                (String::from("must be an object"), Cow::Borrowed("correct the value"))
            } else if self.source.must_be_text(&full) {
                let wrong = tree::get(&value, &path).cloned().unwrap_or_default();
                (NO_TEXT.of(&wrong).reason.into_owned(), NO_TEXT.way_out)
            } else {
                let way_out = match similar(&path, &known) {
                    Some(known) => Cow::Owned(format!("use {known}, or remove the field")),
                    None => Cow::Borrowed("correct the spelling, or remove the field"),
                };
                (unknown(self.env.to), way_out)
            };
            self.report(Severity::Blocks, full, reason, way_out);
        }
    }
}

/// The field of a rule beside an unknown field whose name is most similar, if one is similar.
fn similar<'k>(path: &str, known: &[&'k str]) -> Option<&'k str> {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let beside = known.iter().filter_map(|known| {
        let rest = match parent {
            "" => known,
            parent => known.strip_prefix(parent)?.strip_prefix('.')?,
        };
        rest.split('.').next()
    });
    let found = beside.filter_map(|field| Some((distance(field, name)?, field)));
    found.min().map(|(_, field)| field)
}

/// The reason of an issue for a field without a rule.
pub(super) fn unknown(to: Api) -> String {
    format!("Capstan knows no field of {} for it", to.title())
}

/// Finds what is left of a source, at the highest level where no rule knows it. The flag tells
/// whether a rule expects an object there.
fn leftovers(value: &Value, path: &str, known: &[&str], left: &mut Vec<(String, bool)>) {
    let is_container = |path: &str| {
        path.is_empty()
            || known
                .iter()
                .any(|known| known.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
    };
    match value {
        Value::Null => {}
        Value::Object(map) if is_container(path) => {
            for (field, inner) in map {
                let inner_path = if path.is_empty() {
                    field.clone()
                } else {
                    format!("{path}.{field}")
                };
                leftovers(inner, &inner_path, known, left);
            }
        }
        _ => left.push((path.to_owned(), is_container(path))),
    }
}

/// What the cluster sets for all machines in a field.
#[derive(Debug)]
pub(super) enum Shared<'v> {
    /// The caller does not know it.
    Unknown,
    /// Neither object sets it.
    Absent,
    /// The value, and where it is set.
    Value {
        /// The value.
        value: &'v str,
        /// Where it is set.
        place: String,
    },
}

impl<'a> Context<'a> {
    /// The spec of the infrastructure cluster, if it has this kind.
    pub(super) fn cluster_spec(&self, kind: &str) -> Lookup<'a> {
        match self.infrastructure_cluster {
            Lookup::Found(cluster) if tree::text(cluster, "kind") == Some(kind) => {
                cluster.get("spec").map_or(Lookup::Absent, Lookup::Found)
            }
            Lookup::Found(_) => Lookup::Absent,
            other => other,
        }
    }

    /// What the infrastructure cluster, or else the Infrastructure, sets for all machines.
    pub(super) fn shared(&self, kind: &str, cluster: &[&str], infrastructure: &str) -> Shared<'a> {
        let of_cluster = self.cluster_spec(kind);
        if let Lookup::Found(spec) = of_cluster
            && let Some((path, value)) = cluster.iter().find_map(|path| Some((path, tree::text(spec, path)?)))
        {
            return Shared::Value {
                value,
                place: format!("spec.{path} of the {kind}"),
            };
        }
        if let Lookup::Found(object) = self.infrastructure
            && !infrastructure.is_empty()
            && let Some(platform) = tree::get(object, "status.platformStatus")
            && let Some(value) = tree::text(platform, infrastructure)
        {
            return Shared::Value {
                value,
                place: format!("status.platformStatus.{infrastructure} of the Infrastructure"),
            };
        }
        match of_cluster {
            Lookup::Unknown => Shared::Unknown,
            // The Infrastructure is known, and leaves the value open.
            Lookup::Absent if !infrastructure.is_empty() && self.infrastructure.found().is_some() => Shared::Unknown,
            _ => Shared::Absent,
        }
    }
}

impl Literal {
    /// The literal as JSON.
    pub(super) fn value(self) -> Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Int(number) => number.into(),
            Self::Bool(flag) => flag.into(),
        }
    }

    /// Whether a value is this literal.
    pub(super) fn is(self, value: &Value) -> bool {
        match self {
            Self::Text(text) => value.as_str() == Some(text),
            Self::Int(number) => value.as_i64() == Some(number),
            Self::Bool(flag) => value.as_bool() == Some(flag),
        }
    }
}

/// Whether a value means the same as an absent field, whatever its type.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The path of the source and that of the target.
fn pick(from: Api, machine_api: &'static str, cluster_api: &'static str) -> (&'static str, &'static str) {
    match from {
        Api::MachineApi => (machine_api, cluster_api),
        Api::ClusterApi => (cluster_api, machine_api),
    }
}

#[cfg(not(test))]
fn hit(_rule: &'static Rule, _from: Api) {}

/// Notes for a test that a rule had something to do.
#[cfg(test)]
fn hit(rule: &'static Rule, from: Api) {
    super::tests::hits::note(rule, from);
}
