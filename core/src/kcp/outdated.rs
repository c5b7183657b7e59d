//! Whether a machine agrees with its control plane, and how it differs.
//!
//! A machine is outdated only for a reason that is known. A missing KubeadmConfig or infrastructure
//! machine counts as up to date, so that a failed read never starts a rollout. Labels, annotations,
//! and the fields that the controller changes in place are not compared.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::canonical;
use super::desired::{Bootstrap, config};
use super::known_fields::{ROOT, only_known};
use super::read_config::ReadConfig;
use crate::api::bootstrap_cluster_x_k8s_io::kubeadm_config::{
    CLOUD_CONFIG, InitConfiguration, JoinControlPlane, KubeadmConfigSpec,
};
use crate::api::cluster_x_k8s_io::annotation::{CLONED_FROM_GROUP_KIND, CLONED_FROM_NAME};
use crate::api::cluster_x_k8s_io::control_plane::Machine;
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::Spec;
use crate::api::infrastructure_cluster_x_k8s_io::Infrastructure;
use crate::model::{hex_hash, shorten};

/// One reason why a machine is outdated.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The reason, for the condition `UpToDate` of the machine.
    pub reason: String,
    /// The fields that differ.
    pub changes: Vec<Change>,
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The path of the field in the spec of the control plane.
    pub field: String,
    /// The value of the machine.
    pub old: Value,
    /// The value of the control plane.
    pub new: Value,
}

/// The reason of a machine whose certificates expire.
pub(super) const CERTIFICATES_EXPIRE: &str = "Certificates will expire soon";
/// The reason of a machine that is older than `spec.rollout.after`.
pub(super) const ROLLOUT_AFTER: &str = "KubeadmControlPlane spec.rollout.after expired";
/// The annotation of a machine and of its KubeadmConfig with the revision that they were created
/// from.
pub(super) const REVISION: &str = "capstan.dev/created-from-revision";
/// The prefix of the reason that is shown first.
pub(super) const VERSION_PREFIX: &str = "Version ";
/// The most fields that a reason names.
const MOST_FIELDS: usize = 5;
/// The most characters of a value in a reason.
const LONGEST_VALUE: usize = 60;
/// Fields that may contain a secret, also in a part of them. Their values are not shown. Arguments
/// are shown: the components of Kubernetes read secrets from files.
const SECRET_FIELDS: &[&str] = &[
    "additionalConfig",
    "bootCommands",
    "content",
    "passwd",
    "postKubeadmCommands",
    "preKubeadmCommands",
    "tlsBootstrapToken",
    "token",
];
/// Such fields that have a common name, with the field above them.
const SECRET_PAIRS: &[[&str; 2]] = &[["authProvider", "config"], ["env", "value"], ["extraEnvs", "value"]];
/// What is shown instead of a secret.
const HIDDEN: &str = "(hidden)";

/// What all machines of a control plane are compared with. It is the same for each of them.
#[derive(Debug)]
pub(super) struct Wanted {
    spec: Spec,
    revision: String,
    /// The configuration of a machine that joins.
    config: KubeadmConfigSpec,
    /// The same in comparable form, and that of the first machine.
    join: Value,
    init: Value,
}

impl Wanted {
    /// What a spec wants.
    pub(super) fn of(spec: &Spec) -> Self {
        let config_of = |bootstrap| config(spec, bootstrap);
        let config = config_of(Bootstrap::Join);
        let (init, join) = (comparable(&config_of(Bootstrap::Init)), comparable(&config));
        Self {
            revision: hash(spec, &init, &join),
            spec: spec.clone(),
            config,
            join,
            init,
        }
    }

    /// The spec.
    pub(super) fn spec(&self) -> &Spec {
        &self.spec
    }
}

/// The objects that belong to a machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    pub(super) machine: &'a Machine,
    pub(super) config: Option<&'a ReadConfig>,
    pub(super) infrastructure: Option<&'a Infrastructure>,
    /// The revisions that the control plane recorded when it created the machine.
    pub(super) recorded: &'a [String],
}

/// Why a machine is outdated, and how it differs from the revision that it was created from. Both
/// are empty for a machine that is up to date.
///
/// A machine that was created from the current revision is not outdated because its objects differ:
/// they were stored with other values, and those of a new machine would be too.
pub(super) fn differences(wanted: &Wanted, parts: &Parts<'_>, now: Timestamp) -> (Vec<Difference>, Vec<Difference>) {
    let by_time = expiries(&wanted.spec, parts.machine, now);
    let by_content = contents(wanted, parts);
    let annotations = [
        Some(&parts.machine.metadata.annotations),
        parts.config.map(|config| &config.metadata.annotations),
    ];
    let mut revisions = annotations
        .into_iter()
        .flatten()
        .filter_map(|annotations| annotations.get(REVISION))
        .chain(parts.recorded);
    if revisions.any(|revision| *revision == wanted.revision) {
        return (by_time, by_content);
    }
    let (mut first, rest): (Vec<Difference>, Vec<Difference>) = by_content
        .into_iter()
        .partition(|difference| difference.reason.starts_with(VERSION_PREFIX));
    first.extend(by_time);
    first.extend(rest);
    (first, Vec::new())
}

/// The hash of everything that decides whether a machine is outdated, apart from times. Equal specs
/// have the same.
pub(super) fn revision(spec: &Spec) -> String {
    Wanted::of(spec).revision
}

fn hash(spec: &Spec, init: &Value, join: &Value) -> String {
    let reference = &spec.machine_template.spec.infrastructure_ref;
    let content = json!({
        "version": spec.version,
        "init": init,
        "join": join,
        "infrastructure": [reference.api_group, reference.kind, reference.name],
    });
    hex_hash(&content, 8)
}

/// The differences of the objects of a machine from the spec.
fn contents(wanted: &Wanted, parts: &Parts<'_>) -> Vec<Difference> {
    let (spec, machine) = (&wanted.spec, parts.machine);
    let mut found = Vec::new();
    if machine.spec.version != spec.version {
        found.push(Difference {
            reason: format!("{VERSION_PREFIX}{}, {} required", machine.spec.version, spec.version),
            changes: vec![change("version", &machine.spec.version, &spec.version)],
        });
    }
    let changes = parts.config.map(|config| config_changes(wanted, config));
    if let Some(changes) = changes.filter(|changes| !changes.is_empty()) {
        let reason = format!("KubeadmConfig is not up-to-date: {}", summary(&changes));
        found.push(Difference { reason, changes });
    }
    found.extend(
        parts
            .infrastructure
            .and_then(|object| infrastructure(spec, machine, object)),
    );
    found
}

/// The reasons of which the time decides.
fn expiries(spec: &Spec, machine: &Machine, now: Timestamp) -> Vec<Difference> {
    let mut found = Vec::new();
    if let Some(expiry) = expires_soon(spec, machine, now) {
        let days = spec.rollout.before.certificates_expiry_days;
        found.push(Difference {
            reason: CERTIFICATES_EXPIRE.to_owned(),
            changes: vec![Change {
                field: String::from("rollout.before.certificatesExpiryDays"),
                old: Value::from(expiry.to_string()),
                new: Value::from(days),
            }],
        });
    }
    if let (Some(after), Some(created)) = (spec.rollout.after, machine.metadata.creation_timestamp)
        && created < after
        && after < now
    {
        found.push(Difference {
            reason: ROLLOUT_AFTER.to_owned(),
            changes: vec![change("rollout.after", &created.to_string(), &after.to_string())],
        });
    }
    found
}

/// The fields in which the machines of two specs of one control plane differ: a change of the one
/// to the other replaces the machines.
pub(super) fn changes_between(old: &Spec, new: &Spec) -> Vec<Change> {
    let mut found = Vec::new();
    if old.version != new.version {
        found.push(change("version", &old.version, &new.version));
    }
    let configuration = |spec: &Spec| comparable(&config(spec, Bootstrap::Join));
    found.extend(changes(&configuration(old), &configuration(new)));
    let template = |spec: &Spec| {
        let reference = &spec.machine_template.spec.infrastructure_ref;
        format!("{}.{}/{}", reference.kind, reference.api_group, reference.name)
    };
    if template(old) != template(new) {
        let field = "machineTemplate.spec.infrastructureRef";
        found.push(change(field, &template(old), &template(new)));
    }
    found
}

/// When the first certificate expires, if that is soon.
fn expires_soon(spec: &Spec, machine: &Machine, now: Timestamp) -> Option<Timestamp> {
    let days = spec.rollout.before.certificates_expiry_days;
    let expiry = machine.status.certificates_expiry_date?;
    let ahead = now
        .checked_add(SignedDuration::from_hours(24 * i64::from(days)))
        .unwrap_or(Timestamp::MAX);
    (days != 0 && ahead > expiry).then_some(expiry)
}

fn infrastructure(spec: &Spec, machine: &Machine, object: &Infrastructure) -> Option<Difference> {
    let annotations = &object.metadata.annotations;
    let (name, group_kind) = (
        annotations.get(CLONED_FROM_NAME)?,
        annotations.get(CLONED_FROM_GROUP_KIND)?,
    );
    let template = &spec.machine_template.spec.infrastructure_ref;
    let wanted = format!("{}.{}", template.kind, template.api_group);
    if *name == template.name && *group_kind == wanted {
        return None;
    }
    let kind = &machine.spec.infrastructure_ref.kind;
    let (old, new) = (format!("{group_kind}/{name}"), format!("{wanted}/{}", template.name));
    let changes = vec![change("machineTemplate.spec.infrastructureRef", &old, &new)];
    Some(Difference {
        reason: format!("{kind} is not up-to-date: {}", summary(&changes)),
        changes,
    })
}

/// The fields in which the KubeadmConfig of a machine differs.
///
/// The machine that ran `kubeadm init` is first compared as if it had joined, because users give
/// both configurations the same content. Only if both comparisons differ is the machine outdated.
fn config_changes(wanted: &Wanted, config: &ReadConfig) -> Vec<Change> {
    let current = &config.spec;
    let stored = || config.comparable.get_or_init(|| comparable(current));
    if current.join_configuration.control_plane.is_some() {
        return changes(stored(), &wanted.join);
    }
    let as_join = changes(&comparable(&as_join(current, &wanted.config)), &wanted.join);
    if as_join.is_empty() {
        return as_join;
    }
    changes(stored(), &wanted.init)
}

/// The configuration of the first machine as that of a machine that joined.
fn as_join(current: &KubeadmConfigSpec, desired: &KubeadmConfigSpec) -> KubeadmConfigSpec {
    let mut config = current.clone();
    let init = std::mem::take(&mut config.init_configuration);
    let InitConfiguration {
        bootstrap_tokens: _,
        node_registration,
        local_api_endpoint,
        skip_phases,
        timeouts,
        mut unknown_fields,
    } = init;
    let join = &mut config.join_configuration;
    join.node_registration = node_registration;
    join.skip_phases = skip_phases;
    join.timeouts = timeouts;
    join.control_plane = Some(JoinControlPlane {
        local_api_endpoint,
        ..JoinControlPlane::default()
    });
    // Only a machine that joins has this field.
    join.ca_cert_path.clone_from(&desired.join_configuration.ca_cert_path);
    match unknown_fields.remove("patches") {
        Some(patches) => join.unknown_fields.insert(String::from("patches"), patches),
        None => join.unknown_fields.remove("patches"),
    };
    config
}

const IMAGE_PULL_POLICY: &str = "imagePullPolicy";

/// The fields that are compared. Left out are the fields that the bootstrap provider sets, that the
/// controller changes in place, or that concern only the moment of the join.
fn comparable(config: &KubeadmConfigSpec) -> Value {
    // A wire type always serialises.
    let mut value = only_known(ROOT, serde_json::to_value(config).unwrap_or_default());
    for (parent, field) in [
        ("/clusterConfiguration", "controlPlaneEndpoint"),
        ("/clusterConfiguration", "dns"),
        ("/joinConfiguration", "discovery"),
        ("/initConfiguration/timeouts", "controlPlaneComponentHealthCheckSeconds"),
        ("/joinConfiguration/timeouts", "controlPlaneComponentHealthCheckSeconds"),
    ] {
        if let Some(fields) = value.pointer_mut(parent).and_then(Value::as_object_mut) {
            fields.remove(field);
        }
    }
    // Cluster API stored these values by default up to 1.10.
    for (parent, field, default) in [
        ("", "format", CLOUD_CONFIG),
        ("/initConfiguration/nodeRegistration", IMAGE_PULL_POLICY, "IfNotPresent"),
        ("/joinConfiguration/nodeRegistration", IMAGE_PULL_POLICY, "IfNotPresent"),
    ] {
        if let Some(fields) = value.pointer_mut(parent).and_then(Value::as_object_mut)
            && fields.get(field).and_then(Value::as_str) == Some(default)
        {
            fields.remove(field);
        }
    }
    without_empty(&canonical::comparable(&value))
}

/// A value without fields that are empty. The taints of a node keep an empty list, because it has
/// another meaning than an absent list.
fn without_empty(value: &Value) -> Value {
    let is_kept = |name: &str, value: &Value| match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty() || name == "taints",
        _ => true,
    };
    match value {
        Value::Object(fields) => {
            let fields: Map<String, Value> = fields
                .iter()
                .map(|(name, value)| (name.clone(), without_empty(value)))
                .filter(|(name, value)| is_kept(name, value))
                .collect();
            Value::Object(fields)
        }
        Value::Array(items) => items.iter().map(without_empty).collect(),
        other => other.clone(),
    }
}

fn changes(old: &Value, new: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    compare(ROOT, old, new, &mut found);
    found
}

fn compare(field: &str, old: &Value, new: &Value, found: &mut Vec<Change>) {
    match (old, new) {
        _ if old == new => {}
        (Value::Object(left), Value::Object(right)) => {
            let mut names: Vec<&String> = left.keys().chain(right.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let value = |fields: &Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                compare(&format!("{field}.{name}"), &value(left), &value(right), found);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (old, new)) in left.iter().zip(right).enumerate() {
                compare(&format!("{field}[{index}]"), old, new, found);
            }
        }
        _ => found.push(Change {
            field: field.to_owned(),
            old: visible(field, old),
            new: visible(field, new),
        }),
    }
}

/// The value of the field with this path, without secrets.
fn visible(field: &str, value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        _ if is_secret(field) => Value::from(HIDDEN),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), visible(&format!("{field}.{name}"), value)))
            .collect(),
        Value::Array(items) => items.iter().map(|item| visible(field, item)).collect(),
        other => other.clone(),
    }
}

/// Whether a field, or a field above it, may contain a secret.
fn is_secret(field: &str) -> bool {
    let names = field.split('.').map(|name| name.split('[').next().unwrap_or_default());
    let names: Vec<&str> = names.collect();
    names.iter().any(|name| SECRET_FIELDS.contains(name))
        || names
            .windows(2)
            .any(|pair| SECRET_PAIRS.iter().any(|secret| secret == pair))
}

fn change(field: &str, old: &str, new: &str) -> Change {
    Change {
        field: field.to_owned(),
        old: Value::from(old),
        new: Value::from(new),
    }
}

/// The changed fields as one line.
pub(super) fn summary(changes: &[Change]) -> String {
    let shown = |value: &Value| match value {
        Value::Null => String::from("nothing"),
        value => shorten(&value.to_string(), LONGEST_VALUE),
    };
    let mut fields: Vec<String> = changes
        .iter()
        .take(MOST_FIELDS)
        .map(|change| format!("{}: {} → {}", change.field, shown(&change.old), shown(&change.new)))
        .collect();
    let more = changes.len().saturating_sub(MOST_FIELDS);
    if more > 0 {
        fields.push(format!("{more} more"));
    }
    fields.join("; ")
}

#[cfg(test)]
mod tests;
