//! What an edit of a ControlPlaneMachineSet may do, and what whoever makes it should know.
//!
//! Three passes over one edit: the rules in CEL; the parse into the model; and what needs a
//! computation or a look at the cluster. An update is judged as hard as a creation, save for what
//! it left as it was. Nothing here decides what the controller does next.
//!
//! Source: the ControlPlaneMachineSet enhancement; the checks of today's operator and the holes in
//! them (defects B2, B11, B12, B17, B18).

mod authority;
mod deletion;
mod domains;
mod provider_spec;
mod rollout;
mod stored;

pub use stored::ParsedOnce;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use json_patch::Patch;
use serde::Deserialize as _;
use serde_json::Value;

use super::changes::{Comparison, ROLL_ON_IMAGE_CHANGE};
use super::domains::{self as domains_of, Platform};
use super::spec::{self, Gates, ParseContext, Spec};
use crate::api::config_openshift_io::cluster_operator::ClusterOperator;
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::core_v1::node::Node;
use crate::api::machine_openshift_io::control_plane_machine_set::{
    ControlPlaneMachineSet, KIND, MACHINE_TYPE, QUALIFIED_KIND,
};
use crate::api::machine_openshift_io::label;
use crate::api::machine_openshift_io::machine::Machine;
use crate::cel::rules::{Enforcer, RuleSet};
use crate::model::{
    Edit, FieldPath, Operation, PENDING_CREATIONS, RuleInfo, Stored, Verdict, Violation, ViolationKind, Warning,
    is_same,
};

/// The path of the machine template in a set.
const TEMPLATE: &str = "spec.template.machines_v1beta1_machine_openshift_io";

/// What the rules may look up. `None` is unknown.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    /// The Machines of the Machine API.
    pub machines: Option<&'a [Arc<Machine>]>,
    /// The sets that are stored.
    pub sets: Option<&'a [Arc<ControlPlaneMachineSet>]>,
    /// The stored set, once it was parsed.
    pub parsed: &'a ParsedOnce,
    /// The Infrastructure `cluster`.
    pub infrastructure: Option<&'a Arc<Infrastructure>>,
    /// The nodes, by name.
    pub nodes: Option<&'a BTreeMap<String, Arc<Node>>>,
    /// The ClusterOperators, by name.
    pub cluster_operators: Option<&'a BTreeMap<String, Arc<ClusterOperator>>>,
    /// Feature gates.
    pub gates: Gates,
    /// Whether the cluster's FeatureGate is unknown, so that the gates are the defaults.
    pub feature_gate_unknown: bool,
    /// The namespace of the Machine API.
    pub namespace: &'a str,
    /// Whether what is unknown will be known soon: then what needs it is refused until it is;
    /// otherwise it is warned of.
    pub wait_for_unknown: bool,
}

impl<'a> Lookup<'a> {
    fn infrastructure(&self) -> Option<&'a Infrastructure> {
        self.infrastructure.map(|infrastructure| &**infrastructure)
    }

    /// The machines of the control plane, whether a set owns them or not.
    fn control_plane(&self) -> Option<Vec<&'a Machine>> {
        let is_master = |machine: &&Machine| {
            let labels = &machine.metadata.labels;
            [label::ROLE, label::TYPE]
                .iter()
                .all(|key| labels.get(*key).is_some_and(|value| value == "master"))
        };
        Some(
            self.machines?
                .iter()
                .map(|machine| &**machine)
                .filter(is_master)
                .collect(),
        )
    }

    /// Says that `what` is not known: a refusal where it will be known soon, a warning otherwise.
    fn unknown(&self, verdict: &mut Verdict, rule: &str, path: &str, what: &str, needed_for: &str) {
        if self.wait_for_unknown {
            verdict.deny(
                Violation::new(
                    rule,
                    path,
                    ViolationKind::Forbidden,
                    format!("{what} not known yet, and {needed_for}"),
                )
                .advice("try again in a moment"),
            );
        } else {
            verdict.warn(Warning::new(
                rule,
                format!("{path}: not checked: {what} not given, and {needed_for}"),
            ));
        }
    }
}

/// The first pass, before the schema: fills in what the CRD's defaults cannot say, and refuses what
/// the schema's own rules would refuse, in words that say what to do.
///
/// Running it again over its own result changes nothing.
pub fn mutate(edit: &Edit<'_>, lookup: &Lookup<'_>, rules: &RuleSet) -> (Verdict, Option<Patch>) {
    let mut verdict = Verdict::default();
    let Some(object) = edit.object else {
        return (verdict, None);
    };
    for violation in rules_in_cel(rules, Enforcer::Schema, object, edit.old) {
        verdict.deny(violation);
    }
    let _ = lookup;
    let patch = (verdict.allowed() && edit.subresource.is_empty())
        .then(|| provider_spec::defaults(object))
        .flatten();
    (verdict.finish(), patch)
}

/// The second pass: judges the object as it would be stored.
pub fn validate(edit: &Edit<'_>, lookup: &Lookup<'_>, rules: &RuleSet) -> Verdict {
    let mut verdict = Verdict::default();
    for (rule, error) in rules.refusals(QUALIFIED_KIND, Enforcer::Webhook, edit, || None) {
        let violation = Violation::new(&rule.id, rule.path.as_str(), ViolationKind::Forbidden, &rule.message);
        verdict.deny(violation.advice(error.map_or_else(|| rule.advice.clone(), |error| error.to_string())));
    }
    if edit.operation == Operation::Delete {
        deletion::judge(edit, lookup, &mut verdict);
        return verdict.finish();
    }
    let Some(object) = edit.object else {
        return verdict.finish();
    };
    for violation in rules_in_cel(rules, Enforcer::Webhook, object, edit.old) {
        verdict.deny(violation);
    }
    // A change of other metadata moves nothing; and an object that is being deleted can always lose
    // its finalizers.
    let unchanged = edit.old.is_some_and(|old| {
        is_same(old.field("spec"), object.get("spec"))
            && (edit.is_deleting() || annotations(old).eq(annotations(object)))
    });
    if edit.subresource.is_empty() && !unchanged {
        judge_spec(edit, object, lookup, &mut verdict);
    }
    verdict.finish()
}

/// The annotations by which a user controls a rollout and acknowledges a risk. The record of
/// pending creations is not one.
fn annotations(object: &dyn Stored) -> impl Iterator<Item = (&String, &Value)> {
    let all = object.at("metadata.annotations").and_then(Value::as_object);
    all.into_iter()
        .flatten()
        .filter(|(key, _)| key.starts_with("capstan.dev/") && *key != PENDING_CREATIONS)
}

/// The rules in CEL that do not hold, as violations.
fn rules_in_cel(rules: &RuleSet, enforcer: Enforcer, object: &Value, old: Option<&dyn Stored>) -> Vec<Violation> {
    let violation = |finding: crate::cel::rules::Finding<'_, '_>| {
        let kind = match finding.rule.reason.as_str() {
            "FieldValueRequired" => ViolationKind::Required,
            "FieldValueForbidden" => ViolationKind::Forbidden,
            "FieldValueDuplicate" => ViolationKind::Duplicate,
            _ => ViolationKind::Invalid,
        };
        let message = finding.rule.message.trim_end_matches('.');
        let violation = Violation::new(&finding.rule.id, finding.path.as_str(), kind, message).got(finding.value);
        violation.advice(
            finding
                .error
                .map_or_else(|| finding.rule.advice.clone(), |error| error.to_string()),
        )
    };
    // Where a rule gives no verdict before the schema is checked, the value is of another type, and
    // the schema says so.
    let says = |finding: &crate::cel::rules::Finding<'_, '_>| enforcer != Enforcer::Schema || finding.error.is_none();
    rules
        .findings(QUALIFIED_KIND, enforcer, object, old)
        .into_iter()
        .filter(says)
        .map(violation)
        .collect()
}

/// A set as the rules look at it: as it stands there, and what the parse makes of it.
pub(super) struct Judged<'a> {
    object: &'a Value,
    /// The machine template, where it is not null.
    machine: Option<&'a Value>,
    /// The provider spec in it, where it is not null.
    provider_spec: Option<&'a Value>,
    context: ParseContext<'a>,
    spec: OnceCell<Result<Spec, Vec<Violation>>>,
}

impl<'a> Judged<'a> {
    fn new(object: &'a Value, lookup: &Lookup<'a>) -> Self {
        let context = ParseContext {
            infrastructure: lookup.infrastructure(),
            gates: lookup.gates,
            ignore_gated_fields: false,
        };
        let there = |value: &&Value| !value.is_null();
        let machine = object
            .get("spec")
            .and_then(|spec| spec.get("template")?.get(MACHINE_TYPE));
        let machine = machine.filter(there);
        let provider_spec = machine.and_then(|machine| machine.get("spec")?.get("providerSpec")?.get("value"));
        Self {
            object,
            machine,
            provider_spec: provider_spec.filter(there),
            context,
            spec: OnceCell::new(),
        }
    }

    fn read(object: &'a Value, lookup: &Lookup<'a>) -> Result<Self, Box<Violation>> {
        let judged = Self::new(object, lookup);
        if let Some(spec) = lookup.parsed.spec_of(&judged, lookup) {
            judged.spec.get_or_init(|| Ok(spec));
            return Ok(judged);
        }
        let set = ControlPlaneMachineSet::deserialize(object).map_err(|_| Box::new(unreadable(object)))?;
        judged.spec.get_or_init(|| spec::into_spec(set, &judged.context));
        Ok(judged)
    }

    /// The set before an edit; `None` when it cannot be read. Where it is told from the edited one
    /// by its provider spec alone, which has no type, it can be read as that one can: then it is
    /// parsed only if somebody asks.
    fn read_old(object: &'a Value, new: &Self, lookup: &Lookup<'a>) -> Option<Self> {
        if same_but_for_provider_spec(object, new.object) {
            return Some(Self::new(object, lookup));
        }
        Self::read(object, lookup).ok()
    }

    /// What the parse says.
    fn spec(&self) -> Result<&Spec, &[Violation]> {
        let parse = || match ControlPlaneMachineSet::deserialize(self.object) {
            Ok(set) => spec::into_spec(set, &self.context),
            Err(_) => Err(Vec::new()),
        };
        self.spec.get_or_init(parse).as_ref().map_err(Vec::as_slice)
    }

    /// What the edit `new` of this set can be held against: the spec before it, or none if that was
    /// not valid.
    ///
    /// A new provider spec of the same kind that says the same of the place of its machines changes
    /// nothing else in a parsed set, and no rule looks at the provider spec of this one. So the new
    /// spec stands for the old.
    fn known<'s>(&'s self, new: &'s Self) -> Option<&'s Spec> {
        let unparsed = self.spec.get().is_none();
        let specs = self.provider_spec().zip(new.provider_spec());
        let stands = unparsed && specs.is_some_and(|(own, new)| same_place(own, new));
        match new.spec() {
            Ok(spec) if stands => Some(spec),
            _ => self.spec().ok(),
        }
    }

    fn machine(&self) -> Option<&'a Value> {
        self.machine
    }

    fn text(&self, field: &str) -> Option<&'a str> {
        self.object.get("spec")?.get(field)?.as_str()
    }

    fn is_active(&self) -> bool {
        self.text("state") == Some("Active")
    }

    fn provider_spec(&self) -> Option<&'a Value> {
        self.provider_spec
    }

    /// How many failure domains the set lists, repeats included.
    fn listed_domains(&self) -> usize {
        let domains = || self.machine()?.get("failureDomains");
        let list = |domains: &'a Value| {
            let platform = Platform::from_name(domains.get("platform")?.as_str()?)?;
            domains.get(platform.member())?.as_array()
        };
        domains().and_then(list).map_or(0, Vec::len)
    }

    /// The platform that the failure domains name, or else that of the provider spec.
    fn platform(&self) -> Option<&'a str> {
        let named = self
            .machine()?
            .get("failureDomains")
            .and_then(|domains| domains.get("platform")?.as_str());
        named
            .filter(|platform| !platform.is_empty())
            .or_else(|| self.provider_spec().and_then(Platform::of).map(Platform::name))
    }

    fn kind(&self) -> Option<&'a str> {
        self.provider_spec()?.get("kind")?.as_str()
    }

    fn annotation(&self, key: &str) -> Option<&'a str> {
        self.object.get("metadata")?.get("annotations")?.get(key)?.as_str()
    }

    /// How the template is compared with machines.
    fn comparison(&self) -> Comparison {
        Comparison {
            domains: self.spec().is_ok_and(|spec| !spec.failure_domains.is_empty()),
            images: self.annotation(ROLL_ON_IMAGE_CHANGE) == Some("true"),
        }
    }
}

/// Which field of a set that cannot be read is of another type than it should be, and what is
/// there. It is read once more for that: to keep account of the path would cost every edit.
fn unreadable(object: &Value) -> Violation {
    let (path, why) = match serde_path_to_error::deserialize::<_, ControlPlaneMachineSet>(object) {
        Ok(_) => (FieldPath::root(), String::new()),
        Err(error) => (field_path(error.path()), error.inner().to_string()),
    };
    Violation::new("cpms-readable", path, ViolationKind::TypeInvalid, why)
        .advice("correct the type of the field; kubectl explain cpms --recursive names all of them")
}

fn field_path(path: &serde_path_to_error::Path) -> FieldPath {
    use serde_path_to_error::Segment;
    path.iter().fold(FieldPath::root(), |path, segment| match segment {
        Segment::Map { key } if key.contains(['.', '/']) => path.key(key),
        Segment::Map { key } => path.child(key),
        Segment::Seq { index } => path.index(*index),
        Segment::Enum { .. } | Segment::Unknown => path,
    })
}

/// Whether two provider specs are of one platform and say the same of the place of their machines:
/// then the rest of a parsed set does not depend on which of them it has.
fn same_place(left: &Value, right: &Value) -> bool {
    Platform::of(left).is_some_and(|platform| {
        let mut fields = domains_of::completing_fields(platform).iter();
        Platform::of(right) == Some(platform) && fields.all(|field| left.get(field) == right.get(field))
    })
}

/// Whether two sets are told apart by nothing that has a type of its own: by their provider specs,
/// and by the number of their generation.
fn same_but_for_provider_spec(old: &Value, new: &Value) -> bool {
    fn fields(old: &Value, new: &Value, same: impl Fn(&str, &Value, &Value) -> bool) -> bool {
        let (Value::Object(old), Value::Object(new)) = (old, new) else {
            return old == new;
        };
        let mut pairs = old.iter().zip(new);
        old.len() == new.len() && pairs.all(|((name, old), (other, new))| name == other && same(name, old, new))
    }
    fn but_for(path: &[&str], old: &Value, new: &Value) -> bool {
        path.split_first().is_none_or(|(field, below)| {
            fields(old, new, |name, old, new| {
                if name == *field {
                    but_for(below, old, new)
                } else {
                    old == new
                }
            })
        })
    }
    let metadata =
        |name: &str, old: &Value, new: &Value| old == new || name == "generation" && old.is_i64() && new.is_i64();
    fields(old, new, |name, old, new| match name {
        "metadata" => fields(old, new, metadata),
        "spec" => but_for(&["template", MACHINE_TYPE, "spec", "providerSpec", "value"], old, new),
        _ => old == new,
    })
}

fn judge_spec(edit: &Edit<'_>, object: &Value, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    let new = match Judged::read(object, lookup) {
        Ok(new) => new,
        Err(violation) => return verdict.deny(*violation),
    };
    // An old object that cannot be read says nothing about what was allowed: the new one is judged
    // as a creation.
    let whole = edit.old.map(Stored::whole);
    let old = whole.as_deref().and_then(|old| Judged::read_old(old, &new, lookup));
    let activated = new.is_active() && !old.as_ref().is_some_and(Judged::is_active);

    if let Err(violations) = new.spec() {
        let known = match old.as_ref().map(Judged::spec) {
            // What was wrong before, and was not touched, is not this edit's fault; but a set is
            // activated as a whole.
            Some(Err(known)) if !activated => known,
            _ => &[],
        };
        for violation in violations.iter().filter(|violation| !known.contains(violation)) {
            // Where a rule in CEL spoke of a field already, the parse has nothing to add.
            if !verdict
                .violations
                .iter()
                .any(|said| said.path.contains(&violation.path))
            {
                verdict.deny(violation.clone());
            }
        }
    }
    if old.is_none() {
        judge_namespace(edit, lookup, verdict);
    }
    if let Some(old) = &old {
        judge_platform(old, &new, verdict);
    }
    provider_spec::judge(old.as_ref(), &new, lookup, verdict);
    warn_of_the_unknown(old.as_ref(), &new, lookup, verdict);
    authority::warn(old.as_ref(), &new, activated, verdict);
    if new.is_active() && activated {
        judge_replicas(&new, lookup, verdict);
    }
    let moved = old.as_ref().is_some_and(|old| old.platform() != new.platform());
    if let Some(spec) = new.spec().ok().filter(|_| !moved) {
        let known = old.as_ref().and_then(|old| old.known(&new));
        domains::warn_of_repeats(old.as_ref(), &new, spec, verdict);
        domains::judge(known, &new, spec, activated, lookup, verdict);
        if new.is_active() && verdict.allowed() {
            let before = old.as_ref().and_then(Judged::provider_spec);
            rollout::warn(before, known, &new, spec, activated, lookup, verdict);
        }
    }
}

/// What the parse would have looked up, had it been there.
fn warn_of_the_unknown(old: Option<&Judged<'_>>, new: &Judged<'_>, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    let prefix = new.text("machineNamePrefix");
    if lookup.feature_gate_unknown && prefix.is_some() && old.and_then(|old| old.text("machineNamePrefix")) != prefix {
        let why = "a name prefix needs the gate CPMSMachineNamePrefix, which is on by default";
        lookup.unknown(
            verdict,
            "cpms-name-prefix-gate",
            "spec.machineNamePrefix",
            "the FeatureGate cluster is",
            why,
        );
    }
    let by_name = new
        .spec()
        .is_ok_and(|spec| !spec.failure_domains.is_empty() && spec.template.platform.is_some_and(Platform::by_name));
    if by_name && lookup.infrastructure.is_none() {
        let why = "it defines what the names of failure domains mean";
        let path = format!("{TEMPLATE}.failureDomains");
        lookup.unknown(
            verdict,
            "cpms-failure-domain",
            &path,
            "the Infrastructure cluster is",
            why,
        );
    }
}

fn judge_namespace(edit: &Edit<'_>, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    if edit.operation == Operation::Create && !edit.namespace.is_empty() && edit.namespace != lookup.namespace {
        verdict.deny(
            Violation::new(
                "cpms-namespace",
                "metadata.namespace",
                ViolationKind::Invalid,
                format!(
                    "the machines of the control plane live in {}, and only a set in that namespace is acted on",
                    lookup.namespace
                ),
            )
            .got(&Value::from(edit.namespace))
            .advice(format!("create the set in {}", lookup.namespace)),
        );
    }
}

fn judge_platform(old: &Judged<'_>, new: &Judged<'_>, verdict: &mut Verdict) {
    if let (Some(before), Some(after)) = (old.kind(), new.kind())
        && before != after
    {
        let path = format!("{TEMPLATE}.spec.providerSpec.value.kind");
        verdict.deny(
            Violation::new(
                "cpms-provider-spec-kind-immutable",
                path.as_str(),
                ViolationKind::Invalid,
                format!("the kind of the provider spec is immutable, and was {before}"),
            )
            .got(&Value::from(after))
            .advice("a control plane cannot move to another platform: keep the kind"),
        );
    }
    if let (Some(before), Some(after)) = (old.platform(), new.platform())
        && before != after
    {
        let path = format!("{TEMPLATE}.failureDomains.platform");
        verdict.deny(
            Violation::new(
                "cpms-platform-immutable",
                path.as_str(),
                ViolationKind::Invalid,
                format!("the platform is immutable, and was {before}"),
            )
            .got(&Value::from(after))
            .advice("a control plane cannot move to another platform: keep the platform"),
        );
    }
}

fn judge_replicas(new: &Judged<'_>, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    const RULE: &str = "cpms-replicas-match-machines";
    let replicas = new.object.get("spec").and_then(|spec| spec.get("replicas")?.as_i64());
    let Some(replicas) = replicas else { return };
    let Some(machines) = lookup.control_plane() else {
        let why = "an active set must have as many replicas as there are machines";
        return lookup.unknown(verdict, RULE, "spec.replicas", "the control plane Machines are", why);
    };
    if usize::try_from(replicas) == Ok(machines.len()) {
        return;
    }
    let mut names: Vec<&str> = machines.iter().map(|machine| machine.metadata.name()).collect();
    names.sort_unstable();
    let found = match names.as_slice() {
        [] => String::from("there are no control plane machines"),
        names => format!(
            "there are {} control plane machines ({})",
            names.len(),
            names.join(", ")
        ),
    };
    let advice = match names.len() {
        fitting @ (3 | 5) => format!(
            "set spec.replicas to {fitting} and spec.state to Active in one step: since replicas is immutable, delete the \
             inactive set and create it again"
        ),
        _ => String::from("only 3 and 5 are supported: bring the number of machines to one of them first"),
    };
    verdict.deny(
        Violation::new(
            RULE,
            "spec.replicas",
            ViolationKind::Forbidden,
            format!(
                "replicas ({replicas}) does not match the current number of control plane machines ({}): {found}",
                names.len()
            ),
        )
        .advice(advice),
    );
}

/// What the parse into the model demands beyond the rules in CEL.
fn parse_table() -> Vec<RuleInfo> {
    let template = |field: &str| format!("{TEMPLATE}.{field}");
    [
        ("cpms-state", "spec.state".to_owned(), "state is Active or Inactive"),
        ("cpms-replicas", "spec.replicas".to_owned(), "replicas is 3 or 5"),
        (
            "cpms-strategy",
            "spec.strategy.type".to_owned(),
            "the strategy is one that is known, and its gate is on",
        ),
        (
            "cpms-recreate-acknowledged",
            "metadata.annotations".to_owned(),
            "Recreate is acknowledged as a risk to etcd",
        ),
        (
            "cpms-name-prefix",
            "spec.machineNamePrefix".to_owned(),
            "the name prefix is an RFC 1123 subdomain of 1 to 245 characters",
        ),
        (
            "cpms-name-prefix-gate",
            "spec.machineNamePrefix".to_owned(),
            "a name prefix needs its feature gate",
        ),
        (
            "cpms-rollout-annotations",
            "metadata.annotations".to_owned(),
            "annotations that pace a rollout can be read",
        ),
        (
            "cpms-selector-valid",
            "spec.selector".to_owned(),
            "the selector can be evaluated",
        ),
        (
            "cpms-selector-matches",
            template("metadata.labels"),
            "the selector matches the labels of the template",
        ),
        (
            "cpms-machine-type",
            "spec.template.machineType".to_owned(),
            "the machine type is one that is known",
        ),
        (
            "cpms-machine-template",
            "spec.template".to_owned(),
            "the template describes a machine",
        ),
        (
            "cpms-platform",
            template("failureDomains.platform"),
            "the platform has failure domains",
        ),
        (
            "cpms-platform-agrees",
            template("failureDomains.platform"),
            "failure domains and provider spec are of one platform",
        ),
        (
            "cpms-provider-spec",
            template("spec.providerSpec.value"),
            "the provider spec is an object of a known kind",
        ),
        (
            "cpms-failure-domains",
            template("failureDomains"),
            "failure domains that are given are not empty",
        ),
        (
            "cpms-failure-domain",
            template("failureDomains"),
            "each failure domain is complete and can be used",
        ),
    ]
    .into_iter()
    .map(|(id, path, message)| RuleInfo::webhook(id, KIND, &path, &[Operation::Create, Operation::Update], message))
    .collect()
}

/// The rules of this room that are not CEL, for `capstan rules`.
pub fn table() -> Vec<RuleInfo> {
    const BOTH: &[Operation] = &[Operation::Create, Operation::Update];
    let rule = |id, path, operations, message| RuleInfo::webhook(id, KIND, path, operations, message);
    let mut table = vec![
        rule(
            "cpms-readable",
            "spec",
            BOTH,
            "every field has the type that the schema gives it",
        ),
        rule(
            "cpms-namespace",
            "metadata.namespace",
            &[Operation::Create],
            "the set is in the namespace of the Machine API",
        ),
        rule(
            "cpms-replicas-match-machines",
            "spec.replicas",
            BOTH,
            "a set that becomes active has as many replicas as there are control plane machines",
        ),
        rule(
            "cpms-platform-immutable",
            "spec.template.machines_v1beta1_machine_openshift_io.failureDomains.platform",
            &[Operation::Update],
            "the platform is immutable",
        ),
        rule(
            "cpms-provider-spec-kind-immutable",
            "spec.template.machines_v1beta1_machine_openshift_io.spec.providerSpec.value.kind",
            &[Operation::Update],
            "the kind of the provider spec is immutable",
        ),
    ];
    table.extend(parse_table());
    table.extend(domains::table());
    table.extend(provider_spec::table());
    table.extend(authority::table());
    table.extend(rollout::table());
    table.extend(deletion::table());
    table
}
