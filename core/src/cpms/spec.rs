//! Parsing a ControlPlaneMachineSet into a type that cannot hold an invalid one.
//!
//! Admission answers with what the parse says; the controllers accept nothing but its result, so a
//! set that slipped past admission stops at the same line. Whether an *edit* is allowed is said by
//! `rules`, not here.
//!
//! Source: the ControlPlaneMachineSet enhancement, "API Extensions"; decisions 4 to 8.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::changes::{Comparison, ROLL_ON_IMAGE_CHANGE};
use super::defaults::provider_spec_defaults;
use super::domains::{self, FailureDomain, Platform};
use super::fields;
use super::names::is_subdomain;
use super::selector::Selector;
use crate::api::config_openshift_io::feature_gate::FeatureGate;
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::machine_openshift_io::control_plane_machine_set::{
    ControlPlaneMachineSet, FailureDomains, MACHINE_TYPE, MAX_FAILURE_DOMAINS, MachineTemplate, NAME,
};
use crate::api::machine_openshift_io::label;
use crate::api::machine_openshift_io::machine::MachineSpec;
use crate::api::meta::ObjectMeta;
use crate::model::{
    FieldPath, PendingCreation, UnreadablePendingCreations, Violation, ViolationKind, pending_creations,
    sort_violations,
};

/// Stops a rollout, but neither status nor repair; anything but `false`.
pub const PAUSED_ROLLOUT: &str = "capstan.dev/paused-rollout";
/// How many machines a rollout may bring up to date before it waits: a canary.
pub const ROLLOUT_LIMIT: &str = "capstan.dev/rollout-limit";
/// How long one machine of a rollout may take before a condition says so: `30m`, `1h30m`, `90s`.
pub const PROGRESS_DEADLINE: &str = "capstan.dev/progress-deadline";
/// Acknowledges what strategy `Recreate` does to etcd; the value is [`RECREATE_RISK`] (decision 6).
pub const RECREATE_ACKNOWLEDGED: &str = "capstan.dev/recreate-acknowledged";
/// The risk that the acknowledgement must name.
pub const RECREATE_RISK: &str = "etcd-quorum-at-risk";

/// A valid ControlPlaneMachineSet.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// `cluster`.
    pub name: String,
    /// Namespace of the set and of its machines.
    pub namespace: String,
    /// Uid of the set; empty if it was never stored.
    pub uid: String,
    /// Version of the object that this was parsed from; empty if it was never stored.
    pub resource_version: String,
    /// Generation of the object; 0 if it was never stored.
    pub generation: i64,
    /// Whether a deletion was asked for.
    pub deleting: bool,
    /// Finalizers of the object.
    pub finalizers: Vec<String>,
    /// Whether the set acts.
    pub state: SetState,
    /// Size of the control plane.
    pub replicas: Replicas,
    /// How a change reaches the machines.
    pub strategy: Strategy,
    /// First part of the names of new machines; `None` for cluster and role.
    pub name_prefix: Option<NamePrefix>,
    /// Which machines belong to the set.
    pub selector: Selector,
    /// What a machine looks like.
    pub template: Arc<Template>,
    /// Where machines may stand, completed from the template, without repeats, in order. Empty: no
    /// failure domains.
    pub failure_domains: Vec<FailureDomain>,
    /// What the annotations of the set say about the rollout.
    pub rollout: Rollout,
    /// Annotations of the set.
    pub annotations: BTreeMap<String, String>,
    /// The creations that are recorded in the set, or why the record cannot be read.
    pub pending_creations: Result<Vec<PendingCreation>, UnreadablePendingCreations>,
}

/// Whether the set acts on machines or only describes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetState {
    /// It acts.
    Active,
    /// It only describes.
    Inactive,
}

/// The sizes that a control plane may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// Three machines.
    Three,
    /// Five machines.
    Five,
}

impl Replicas {
    /// The allowed size of this number, if it is one.
    pub fn from_count(count: usize) -> Option<Self> {
        match count {
            3 => Some(Self::Three),
            5 => Some(Self::Five),
            _ => None,
        }
    }

    /// The number of machines.
    pub fn count(self) -> usize {
        match self {
            Self::Three => 3,
            Self::Five => 5,
        }
    }
}

/// How a change of the template reaches the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// A new machine first, then the old one goes; index by index.
    RollingUpdate,
    /// A machine is replaced once somebody deletes it.
    OnDelete,
    /// The old machine goes first. Behind a gate, and acknowledged (decision 6).
    Recreate,
}

impl Strategy {
    /// As it stands in `spec.strategy.type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::RollingUpdate => "RollingUpdate",
            Self::OnDelete => "OnDelete",
            Self::Recreate => "Recreate",
        }
    }
}

/// First part of the names of new machines: a lowercase RFC 1123 subdomain of 1 to 245 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePrefix(String);

impl NamePrefix {
    /// The prefix, if it is valid.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() <= 245 && is_subdomain(text)).then(|| Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a machine of the set looks like.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// Labels of a machine, among them the three that mark one of a control plane.
    pub labels: BTreeMap<String, String>,
    /// Annotations of a machine.
    pub annotations: BTreeMap<String, String>,
    /// The spec of a machine as the set has it.
    pub machine_spec: MachineSpec,
    /// The provider spec, with the platform's defaults filled in: always an object.
    pub provider_spec: Value,
    /// The platform of the provider spec; `None` for kinds without failure domains.
    pub platform: Option<Platform>,
}

impl Template {
    /// The cluster that machines are labelled with.
    pub fn cluster(&self) -> &str {
        self.labels.get(label::CLUSTER).map_or("", String::as_str)
    }

    /// The role that machines are labelled with.
    pub fn role(&self) -> &str {
        self.labels.get(label::ROLE).map_or("", String::as_str)
    }
}

/// What the annotations of a set say about its rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// The rollout is stopped.
    pub paused: bool,
    /// How many machines may be brought up to date.
    pub limit: Option<usize>,
    /// How long one machine may take.
    pub deadline: Option<SignedDuration>,
    /// A change of the image is a change.
    pub images: bool,
}

impl Spec {
    /// Takes in metadata of a set that asks for the same.
    pub(super) fn set_metadata(&mut self, meta: &ObjectMeta) {
        self.name = meta.name.clone().unwrap_or_default();
        self.namespace = meta.namespace.clone().unwrap_or_default();
        self.uid = meta.uid().to_owned();
        self.resource_version = meta.resource_version.clone().unwrap_or_default();
        self.generation = meta.generation.unwrap_or_default();
        self.deleting = meta.is_deleting();
        self.finalizers.clone_from(&meta.finalizers);
    }

    /// What a comparison of a machine with the template looks at.
    pub fn comparison(&self) -> Comparison {
        Comparison {
            domains: !self.failure_domains.is_empty(),
            images: self.rollout.images,
        }
    }

    /// The name that new machines begin with.
    pub fn machine_name_prefix(&self) -> String {
        match &self.name_prefix {
            Some(prefix) => prefix.as_str().to_owned(),
            None => format!("{}-{}", self.template.cluster(), self.template.role()),
        }
    }
}

/// Which gated features are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `CPMSMachineNamePrefix` (decision 5).
    pub name_prefix: bool,
    /// `CPMSRecreate` (decision 6).
    pub recreate: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            name_prefix: true,
            recreate: false,
        }
    }
}

impl Gates {
    /// Name of the gate of `machineNamePrefix`.
    pub const NAME_PREFIX: &'static str = "CPMSMachineNamePrefix";
    /// Name of the gate of strategy `Recreate`.
    pub const RECREATE: &'static str = "CPMSRecreate";

    /// The gates as the cluster has them: those of `version`, or of the first entry when that
    /// version is not listed. A gate that is not named keeps its default.
    pub fn of(gate: &FeatureGate, version: &str) -> Self {
        let all = &gate.status.feature_gates;
        let mut gates = Self::default();
        let Some(details) = all
            .iter()
            .find(|details| details.version == version)
            .or_else(|| all.first())
        else {
            return gates;
        };
        for (name, on) in [
            (Self::NAME_PREFIX, &mut gates.name_prefix),
            (Self::RECREATE, &mut gates.recreate),
        ] {
            if details.enabled.iter().any(|gate| gate.name == name) {
                *on = true;
            } else if details.disabled.iter().any(|gate| gate.name == name) {
                *on = false;
            }
        }
        gates
    }
}

/// What a parse looks up.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParseContext<'a> {
    /// The Infrastructure `cluster`; without it, names of failure domains are taken as they are.
    pub infrastructure: Option<&'a Infrastructure>,
    /// Which features are on.
    pub gates: Gates,
    /// A field whose gate is off is ignored, as the controller does, and not refused, as admission
    /// does (decision 5).
    pub ignore_gated_fields: bool,
}

/// The set, or everything that is wrong with it, ordered by field.
pub fn parse(set: &ControlPlaneMachineSet, context: &ParseContext<'_>) -> Result<Spec, Vec<Violation>> {
    into_spec(set.clone(), context)
}

/// The same, of a set that nobody needs any more.
pub(super) fn into_spec(mut set: ControlPlaneMachineSet, context: &ParseContext<'_>) -> Result<Spec, Vec<Violation>> {
    let machine = set.spec.template.machine.take();
    let mut wrong = Wrong(Vec::new());
    let spec = FieldPath::from("spec");
    if set.metadata.name() != NAME {
        wrong.add(
            Violation::new(
                "cpms-name",
                "metadata.name",
                ViolationKind::Invalid,
                "the name must be cluster",
            )
            .got(&json!(set.metadata.name()))
            .advice("there is one set in a cluster; edit that one"),
        );
    }
    let state = state(&set, &mut wrong);
    let replicas = replicas(&set, &mut wrong);
    let strategy = strategy(&set, context, &mut wrong);
    let name_prefix = name_prefix(&set, context, &mut wrong);
    let rollout = rollout(&set.metadata.annotations, &mut wrong);
    let selector = Selector::parse(&set.spec.selector).map_err(|(below, allowed)| {
        let kind = if below.is_empty() {
            ViolationKind::Required
        } else {
            ViolationKind::Invalid
        };
        let path = if below.is_empty() {
            "spec.selector".to_owned()
        } else {
            format!("spec.selector.{below}")
        };
        wrong.add(Violation::new("cpms-selector-valid", path.as_str(), kind, allowed).got(&json!(set.spec.selector)));
    });
    let template = &set.spec.template;
    if template.machine_type != MACHINE_TYPE {
        let kind = ViolationKind::NotSupported;
        let path = spec.child("template").child("machineType");
        let allowed = format!("supported values: {MACHINE_TYPE:?}");
        wrong.add(Violation::new("cpms-machine-type", path, kind, allowed).got(&json!(template.machine_type)));
    }
    let path = spec.child("template").child(MACHINE_TYPE);
    let Some(mut machine) = machine else {
        let allowed = format!("{MACHINE_TYPE} is required when machineType is {MACHINE_TYPE}");
        wrong.add(Violation::new(
            "cpms-machine-template",
            path,
            ViolationKind::Required,
            allowed,
        ));
        return Err(wrong.sorted());
    };
    check_labels(&machine, &path, selector.as_ref().ok(), &mut wrong);
    let parsed = provider_spec(&mut machine, &path, &mut wrong);
    let platform = parsed.as_ref().and_then(Platform::of);
    let failure_domains = machine.failure_domains.as_ref().map_or_else(Vec::new, |domains| {
        failure_domains(domains, &path, parsed.as_ref(), context, &mut wrong)
    });
    match (state, replicas, strategy, selector, parsed) {
        (Some(state), Some(replicas), Some(strategy), Ok(selector), Some(provider_spec)) if wrong.0.is_empty() => {
            let meta = set.metadata;
            Ok(Spec {
                uid: meta.uid().to_owned(),
                deleting: meta.is_deleting(),
                name: meta.name.unwrap_or_default(),
                namespace: meta.namespace.unwrap_or_default(),
                resource_version: meta.resource_version.unwrap_or_default(),
                generation: meta.generation.unwrap_or_default(),
                finalizers: meta.finalizers,
                state,
                replicas,
                strategy,
                name_prefix,
                selector,
                template: Arc::new(Template {
                    labels: machine.metadata.labels,
                    annotations: machine.metadata.annotations,
                    machine_spec: machine.spec,
                    provider_spec,
                    platform,
                }),
                failure_domains,
                rollout,
                pending_creations: pending_creations(&meta.annotations),
                annotations: meta.annotations,
            })
        }
        _ => Err(wrong.sorted()),
    }
}

/// What is wrong so far.
struct Wrong(Vec<Violation>);

impl Wrong {
    fn add(&mut self, violation: Violation) {
        self.0.push(violation);
    }

    fn sorted(mut self) -> Vec<Violation> {
        sort_violations(&mut self.0);
        self.0
    }
}

fn state(set: &ControlPlaneMachineSet, wrong: &mut Wrong) -> Option<SetState> {
    match set.spec.state.as_deref() {
        Some("Active") => Some(SetState::Active),
        // The default of the schema.
        Some("Inactive") | None => Some(SetState::Inactive),
        Some(other) => {
            let allowed = "supported values: \"Active\", \"Inactive\"";
            wrong.add(
                Violation::new("cpms-state", "spec.state", ViolationKind::NotSupported, allowed).got(&json!(other)),
            );
            None
        }
    }
}

fn replicas(set: &ControlPlaneMachineSet, wrong: &mut Wrong) -> Option<Replicas> {
    // The default of the schema.
    let count = set.spec.replicas.unwrap_or(3);
    let replicas = usize::try_from(count).ok().and_then(Replicas::from_count);
    if replicas.is_none() {
        wrong.add(
            Violation::new(
                "cpms-replicas",
                "spec.replicas",
                ViolationKind::NotSupported,
                "supported values: 3, 5",
            )
            .got(&json!(count)),
        );
    }
    replicas
}

fn strategy(set: &ControlPlaneMachineSet, context: &ParseContext<'_>, wrong: &mut Wrong) -> Option<Strategy> {
    let named = set
        .spec
        .strategy
        .as_ref()
        .and_then(|strategy| strategy.type_.as_deref());
    match named.unwrap_or("RollingUpdate") {
        "RollingUpdate" => Some(Strategy::RollingUpdate),
        "OnDelete" => Some(Strategy::OnDelete),
        "Recreate" if context.gates.recreate => {
            let acknowledged = set.metadata.annotations.get(RECREATE_ACKNOWLEDGED);
            if acknowledged.map(String::as_str) == Some(RECREATE_RISK) {
                return Some(Strategy::Recreate);
            }
            let path = FieldPath::from("metadata.annotations").key(RECREATE_ACKNOWLEDGED);
            let allowed = format!("strategy Recreate needs this annotation with the value {RECREATE_RISK:?}");
            wrong.add(
                Violation::new("cpms-recreate-acknowledged", path, ViolationKind::Required, allowed).advice(
                    "while a machine is recreated etcd runs without one member; use RollingUpdate where there is room \
                     for one machine more",
                ),
            );
            None
        }
        other => {
            let allowed = if context.gates.recreate {
                "supported values: \"RollingUpdate\", \"OnDelete\", \"Recreate\""
            } else {
                "supported values: \"RollingUpdate\", \"OnDelete\""
            };
            let mut violation = Violation::new(
                "cpms-strategy",
                "spec.strategy.type",
                ViolationKind::NotSupported,
                allowed,
            )
            .got(&json!(other));
            if other == "Recreate" {
                violation = violation.advice("Recreate is behind the feature gate CPMSRecreate, which is off");
            }
            wrong.add(violation);
            None
        }
    }
}

fn name_prefix(set: &ControlPlaneMachineSet, context: &ParseContext<'_>, wrong: &mut Wrong) -> Option<NamePrefix> {
    let text = set.spec.machine_name_prefix.as_deref()?;
    let path = "spec.machineNamePrefix";
    if !context.gates.name_prefix {
        if !context.ignore_gated_fields {
            wrong.add(
                Violation::new(
                    "cpms-name-prefix-gate",
                    path,
                    ViolationKind::Forbidden,
                    "the feature gate CPMSMachineNamePrefix is off",
                )
                .advice("remove the field; machines are then named after cluster and role"),
            );
        }
        return None;
    }
    let prefix = NamePrefix::parse(text);
    if prefix.is_none() {
        let (kind, allowed) = match text.len() {
            0 => (ViolationKind::Invalid, "a prefix has at least 1 character"),
            246.. => (ViolationKind::TooLong, "a prefix has at most 245 characters"),
            _ => (
                ViolationKind::Invalid,
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                 must start and end with an alphanumeric character",
            ),
        };
        wrong.add(Violation::new("cpms-name-prefix", path, kind, allowed).got(&json!(text)));
    }
    prefix
}

fn rollout(annotations: &BTreeMap<String, String>, wrong: &mut Wrong) -> Rollout {
    let mut bad = |key: &str, value: &str, allowed: &str| {
        let path = FieldPath::from("metadata.annotations").key(key);
        wrong.add(Violation::new("cpms-rollout-annotations", path, ViolationKind::Invalid, allowed).got(&json!(value)));
    };
    let limit = annotations.get(ROLLOUT_LIMIT).and_then(|text| {
        let limit = text.parse().ok();
        if limit.is_none() {
            bad(ROLLOUT_LIMIT, text, "a number of machines, such as \"1\"");
        }
        limit
    });
    let deadline = annotations.get(PROGRESS_DEADLINE).and_then(|text| {
        let deadline = duration(text);
        if deadline.is_none() {
            bad(PROGRESS_DEADLINE, text, "a duration, such as \"45m\" or \"1h30m\"");
        }
        deadline
    });
    Rollout {
        paused: annotations.get(PAUSED_ROLLOUT).is_some_and(|value| value != "false"),
        limit,
        deadline,
        images: annotations
            .get(ROLL_ON_IMAGE_CHANGE)
            .is_some_and(|value| value == "true"),
    }
}

/// `1h30m`, `45m`, `90s`, or a number of seconds; at least a second, at most a year.
fn duration(text: &str) -> Option<SignedDuration> {
    let mut seconds: i64 = 0;
    let mut number = String::new();
    for c in text.chars() {
        let unit = match c {
            '0'..='9' => {
                number.push(c);
                continue;
            }
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        seconds = seconds.checked_add(number.parse::<i64>().ok()?.checked_mul(unit)?)?;
        number.clear();
    }
    if !number.is_empty() {
        // A bare number is seconds, but not after a unit: `1h30` could mean anything.
        seconds = Some(&number).filter(|number| *number == text)?.parse().ok()?;
    }
    (1..=366 * 24 * 3600)
        .contains(&seconds)
        .then(|| SignedDuration::from_secs(seconds))
}

fn check_labels(machine: &MachineTemplate, path: &FieldPath, selector: Option<&Selector>, wrong: &mut Wrong) {
    let labels = &machine.metadata.labels;
    let path = path.child("metadata").child("labels");
    for (rule, key) in [("cpms-label-role", label::ROLE), ("cpms-label-type", label::TYPE)] {
        match labels.get(key).map(String::as_str) {
            Some("master") => {}
            Some(other) => {
                let allowed = format!("label {key} must have value 'master'");
                let kind = ViolationKind::Invalid;
                wrong.add(Violation::new(rule, path.clone(), kind, allowed).got(&json!(other)));
            }
            None => {
                let allowed = format!("label {key} is required, with value 'master'");
                wrong.add(Violation::new(rule, path.clone(), ViolationKind::Required, allowed));
            }
        }
    }
    if !labels.contains_key(label::CLUSTER) {
        let allowed = format!("label {} is required", label::CLUSTER);
        let kind = ViolationKind::Required;
        let violation = Violation::new("cpms-label-cluster", path.clone(), kind, allowed);
        wrong.add(violation.advice("its value is the infrastructure name of the cluster"));
    }
    if selector.is_some_and(|selector| !selector.matches(labels)) {
        wrong.add(
            Violation::new(
                "cpms-selector-matches",
                path,
                ViolationKind::Invalid,
                "selector does not match template labels",
            )
            .got(&json!(labels))
            .advice("machines made from this template would not belong to the set"),
        );
    }
}

/// Takes the provider spec out of the machine.
fn provider_spec(machine: &mut MachineTemplate, path: &FieldPath, wrong: &mut Wrong) -> Option<Value> {
    let path = path.child("spec").child("providerSpec").child("value");
    match machine.spec.provider_spec.value.take() {
        Some(mut value) if value.is_object() => {
            provider_spec_defaults(Platform::of(&value), &mut value);
            Some(value)
        }
        Some(other) if !other.is_null() => {
            let kind = ViolationKind::TypeInvalid;
            let allowed = "an object: the provider spec of the platform";
            wrong.add(Violation::new("cpms-provider-spec", path, kind, allowed).got(&other));
            None
        }
        _ => {
            let allowed = "the provider spec of the platform, such as an AWSMachineProviderConfig";
            wrong.add(Violation::new(
                "cpms-provider-spec",
                path,
                ViolationKind::Required,
                allowed,
            ));
            None
        }
    }
}

fn failure_domains(
    domains: &FailureDomains,
    path: &FieldPath,
    provider_spec: Option<&Value>,
    context: &ParseContext<'_>,
    wrong: &mut Wrong,
) -> Vec<FailureDomain> {
    let path = path.child("failureDomains");
    let Some(platform) = Platform::from_name(&domains.platform) else {
        if domains.platform.is_empty() {
            // The empty platform says: no failure domains. A list beside it would never be read.
            for other in Platform::ALL {
                forbid_member(domains, other, &path, wrong);
            }
            return Vec::new();
        }
        let names: Vec<String> = Platform::ALL
            .iter()
            .map(|platform| format!("{:?}", platform.name()))
            .collect();
        wrong.add(
            Violation::new(
                "cpms-platform",
                path.child("platform"),
                ViolationKind::NotSupported,
                format!("supported values: {}", names.join(", ")),
            )
            .got(&json!(domains.platform))
            .advice("remove failureDomains on a platform without them"),
        );
        return Vec::new();
    };
    for other in Platform::ALL.into_iter().filter(|other| *other != platform) {
        forbid_member(domains, other, &path, wrong);
    }
    if let Some(spec) = provider_spec
        && Platform::of(spec) != Some(platform)
    {
        let kind = fields::text(spec, &["kind"]).unwrap_or_default();
        wrong.add(
            Violation::new(
                "cpms-platform-agrees",
                path.child("platform"),
                ViolationKind::Invalid,
                format!(
                    "failure domains of {platform} need a provider spec of kind {}",
                    platform.kind()
                ),
            )
            .got(&json!(platform.name()))
            .advice(format!("the provider spec is of kind {kind:?}")),
        );
    }
    let path = path.child(platform.member());
    let entries = domains::entries(domains, platform).unwrap_or_default();
    if entries.is_empty() {
        wrong.add(
            Violation::new(
                "cpms-failure-domains",
                path,
                ViolationKind::Required,
                format!("at least one failure domain is required when platform is {platform}"),
            )
            .advice("list the failure domains, or remove failureDomains"),
        );
        return Vec::new();
    }
    if entries.len() > MAX_FAILURE_DOMAINS {
        wrong.add(
            Violation::new(
                "cpms-failure-domains",
                path,
                ViolationKind::TooMany,
                format!("must have at most {MAX_FAILURE_DOMAINS} items"),
            )
            .got(&json!(entries.len()))
            .advice("list only the failure domains that the control plane uses"),
        );
        return Vec::new();
    }
    let mut parsed: Vec<FailureDomain> = Vec::with_capacity(entries.len());
    for (position, entry) in entries.into_iter().enumerate() {
        let at = || path.index(position);
        let faults = domains::check(platform, &entry, context.infrastructure);
        for fault in faults {
            let got = fault
                .path
                .split('.')
                .filter(|part| !part.is_empty())
                .try_fold(&entry, |value, field| value.get(field));
            let path = if fault.path.is_empty() {
                at()
            } else {
                at().child(&fault.path)
            };
            let violation = Violation::new("cpms-failure-domain", path, fault.kind, fault.allowed).advice(fault.advice);
            wrong.add(match got {
                Some(got) => violation.got(got),
                None => violation,
            });
        }
        let domain = FailureDomain::new(platform, entry);
        let domain = match provider_spec {
            Some(spec) => domains::into_complete(domain, spec),
            None => domain,
        };
        // Names are the keys of their list; a repeated zone is only a repeated zone.
        if parsed.contains(&domain) && platform.by_name() {
            let violation = Violation::new(
                "cpms-failure-domain",
                at(),
                ViolationKind::Duplicate,
                "names are unique",
            );
            wrong.add(violation.got(domain.entry()));
        }
        if !parsed.contains(&domain) {
            parsed.push(domain);
        }
    }
    parsed.sort();
    parsed
}

fn forbid_member(domains: &FailureDomains, platform: Platform, path: &FieldPath, wrong: &mut Wrong) {
    if domains::entries(domains, platform).is_some() {
        let member = platform.member();
        let allowed =
            format!("{member} configuration is required when platform is {platform}, and forbidden otherwise");
        let kind = ViolationKind::Forbidden;
        wrong.add(Violation::new(
            "cpms-failure-domains",
            path.child(member),
            kind,
            allowed,
        ));
    }
}

#[cfg(test)]
mod tests;
