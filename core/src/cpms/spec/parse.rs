//! The parse: each field of a set, with all violations collected.

use std::sync::Arc;

use serde_json::{Value, json};

use super::annotations::{RECREATE_ACKNOWLEDGED, RECREATE_RISK, rollout};
use super::context::{ParseContext, Violations};
use super::failure_domains::failure_domains;
use super::{NamePrefix, Replicas, Rollout, SetState, Spec, Strategy, Template};
use crate::api::machine_openshift_io::control_plane_machine_set::{
    ControlPlaneMachineSet, MACHINE_TYPE, MachineTemplate, NAME,
};
use crate::api::machine_openshift_io::label;
use crate::api::meta::ObjectMeta;
use crate::cpms::domains::{FailureDomain, Platform};
use crate::cpms::selector::Selector;
use crate::cpms::template_metadata::invalid_metadata;
use crate::model::{FieldPath, Violation, ViolationKind, pending_creations};

/// Parses a set.
///
/// # Errors
/// Every violation, ordered by field.
pub fn parse(set: &ControlPlaneMachineSet, context: &ParseContext<'_>) -> Result<Spec, Vec<Violation>> {
    into_spec(set.clone(), context)
}

/// Parses a set that the caller no longer needs.
pub(crate) fn into_spec(set: ControlPlaneMachineSet, context: &ParseContext<'_>) -> Result<Spec, Vec<Violation>> {
    let parsed = into_parsed(set, context);
    match parsed.spec {
        Some(spec) if parsed.violations.is_empty() => Ok(spec),
        _ => Err(parsed.violations),
    }
}

/// What a parse finds in a set that need not be valid.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parsed {
    /// The set, with the default of each field that is not valid; `None` if the provider spec, the
    /// list of failure domains or the selector cannot be read. Only admission may use it if there
    /// are violations: an edit of a set with an old violation is judged like any other edit.
    pub(crate) spec: Option<Spec>,
    /// Every violation, ordered by field.
    pub(crate) violations: Vec<Violation>,
}

/// Parses a set that the caller no longer needs, and that need not be valid.
pub(crate) fn into_parsed(mut set: ControlPlaneMachineSet, context: &ParseContext<'_>) -> Parsed {
    let mut found = Violations::default();
    let machine = set.spec.template.machine.take();
    let fields = Fields::parse(&set, context, &mut found);
    let path = FieldPath::from("spec.template");
    let Some(machine) = machine else {
        let allowed = format!("must be set when machineType is {MACHINE_TYPE}");
        let path = path.child(MACHINE_TYPE);
        found.add(Violation::new(
            "cpms-machine-template",
            path,
            ViolationKind::Required,
            allowed,
        ));
        return Parsed {
            spec: None,
            violations: found.sorted(),
        };
    };
    let template = parse_template(
        machine,
        fields.selector.as_ref(),
        &path.child(MACHINE_TYPE),
        context,
        &mut found,
    );
    let spec = fields
        .or_defaults()
        .zip(template)
        .map(|(fields, (template, failure_domains))| fields.into_spec(set.metadata, template, failure_domains));
    Parsed {
        spec,
        violations: found.sorted(),
    }
}

/// The fields of a set outside its template; `None` for a field that is not valid.
struct Fields {
    state: Option<SetState>,
    replicas: Option<Replicas>,
    strategy: Option<Strategy>,
    name_prefix: Option<NamePrefix>,
    rollout: Rollout,
    selector: Option<Selector>,
}

/// The fields of a set outside its template, with defaults for fields that are not valid.
struct ValidFields {
    state: SetState,
    replicas: Replicas,
    strategy: Strategy,
    name_prefix: Option<NamePrefix>,
    rollout: Rollout,
    selector: Selector,
}

impl Fields {
    fn parse(set: &ControlPlaneMachineSet, context: &ParseContext<'_>, found: &mut Violations) -> Self {
        check_name(set, found);
        check_machine_type(set, found);
        Self {
            state: state(set, found),
            replicas: replicas(set, found),
            strategy: strategy(set, context, found),
            name_prefix: name_prefix(set, context, found),
            rollout: rollout(&set.metadata.annotations, found),
            selector: selector(set, found),
        }
    }

    /// The fields, with the default of the schema for each field that is not valid; `None` without
    /// a selector, which has no default.
    fn or_defaults(self) -> Option<ValidFields> {
        Some(ValidFields {
            state: self.state.unwrap_or(SetState::Inactive),
            replicas: self.replicas.unwrap_or(Replicas::Three),
            strategy: self.strategy.unwrap_or(Strategy::RollingUpdate),
            name_prefix: self.name_prefix,
            rollout: self.rollout,
            selector: self.selector?,
        })
    }
}

impl ValidFields {
    fn into_spec(self, meta: ObjectMeta, template: Template, failure_domains: Vec<FailureDomain>) -> Spec {
        Spec {
            uid: meta.uid().to_owned(),
            deleting: meta.is_deleting(),
            name: meta.name.unwrap_or_default(),
            namespace: meta.namespace.unwrap_or_default(),
            resource_version: meta.resource_version.unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            finalizers: meta.finalizers,
            state: self.state,
            replicas: self.replicas,
            strategy: self.strategy,
            name_prefix: self.name_prefix,
            selector: self.selector,
            template: Arc::new(template),
            failure_domains,
            rollout: self.rollout,
            pending_creations: pending_creations(&meta.annotations),
            annotations: meta.annotations,
        }
    }
}

fn check_name(set: &ControlPlaneMachineSet, found: &mut Violations) {
    if set.metadata.name() != NAME {
        found.add(
            Violation::new("cpms-name", "metadata.name", ViolationKind::Invalid, "must be cluster")
                .got(&json!(set.metadata.name()))
                .advice("a cluster has one set; edit the set cluster"),
        );
    }
}

fn check_machine_type(set: &ControlPlaneMachineSet, found: &mut Violations) {
    let type_ = &set.spec.template.machine_type;
    if type_ != MACHINE_TYPE {
        let kind = ViolationKind::NotSupported;
        let allowed = format!("must be {MACHINE_TYPE:?}");
        let path = "spec.template.machineType";
        found.add(Violation::new("cpms-machine-type", path, kind, allowed).got(&json!(type_)));
    }
}

fn selector(set: &ControlPlaneMachineSet, found: &mut Violations) -> Option<Selector> {
    let parsed = Selector::parse(&set.spec.selector);
    let (below, allowed) = match parsed {
        Ok(selector) => return Some(selector),
        Err(invalid) => invalid,
    };
    let (kind, path) = if below.is_empty() {
        (ViolationKind::Required, "spec.selector".to_owned())
    } else {
        (ViolationKind::Invalid, format!("spec.selector.{below}"))
    };
    found.add(Violation::new("cpms-selector-valid", path.as_str(), kind, allowed).got(&json!(set.spec.selector)));
    None
}

fn state(set: &ControlPlaneMachineSet, found: &mut Violations) -> Option<SetState> {
    match set.spec.state.as_deref() {
        Some("Active") => Some(SetState::Active),
        // The default of the schema.
        Some("Inactive") | None => Some(SetState::Inactive),
        Some(other) => {
            let allowed = "must be \"Active\" or \"Inactive\"";
            found.add(
                Violation::new("cpms-state", "spec.state", ViolationKind::NotSupported, allowed).got(&json!(other)),
            );
            None
        }
    }
}

fn replicas(set: &ControlPlaneMachineSet, found: &mut Violations) -> Option<Replicas> {
    // The default of the schema.
    let count = set.spec.replicas.unwrap_or(3);
    let replicas = usize::try_from(count).ok().and_then(Replicas::from_count);
    if replicas.is_none() {
        found.add(
            Violation::new(
                "cpms-replicas",
                "spec.replicas",
                ViolationKind::NotSupported,
                "must be 3 or 5",
            )
            .got(&json!(count)),
        );
    }
    replicas
}

fn strategy(set: &ControlPlaneMachineSet, context: &ParseContext<'_>, found: &mut Violations) -> Option<Strategy> {
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
            let allowed = format!("must be {RECREATE_RISK:?} with strategy Recreate");
            found.add(
                Violation::new("cpms-recreate-acknowledged", path, ViolationKind::Required, allowed).advice(
                    "etcd runs without one member while a machine is replaced; use RollingUpdate if the platform has \
                     capacity for one more machine",
                ),
            );
            None
        }
        other => {
            let allowed = if context.gates.recreate {
                "must be \"RollingUpdate\", \"OnDelete\" or \"Recreate\""
            } else {
                "must be \"RollingUpdate\" or \"OnDelete\""
            };
            let mut violation = Violation::new(
                "cpms-strategy",
                "spec.strategy.type",
                ViolationKind::NotSupported,
                allowed,
            )
            .got(&json!(other));
            if other == "Recreate" {
                violation = violation.advice("Recreate requires the feature gate CPMSRecreate, which is off");
            }
            found.add(violation);
            None
        }
    }
}

fn name_prefix(set: &ControlPlaneMachineSet, context: &ParseContext<'_>, found: &mut Violations) -> Option<NamePrefix> {
    let text = set.spec.machine_name_prefix.as_deref()?;
    let path = "spec.machineNamePrefix";
    if !context.gates.name_prefix {
        if !context.ignore_gated_fields {
            found.add(
                Violation::new(
                    "cpms-name-prefix-gate",
                    path,
                    ViolationKind::Forbidden,
                    "must not be set: the feature gate CPMSMachineNamePrefix is off",
                )
                .advice("remove the field; names of machines then start with cluster and role"),
            );
        }
        return None;
    }
    let prefix = NamePrefix::parse(text);
    if prefix.is_none() {
        let (kind, allowed) = match text.len() {
            0 => (ViolationKind::Invalid, "must have at least 1 character"),
            246.. => (ViolationKind::TooLong, "must have at most 245 characters"),
            _ => (
                ViolationKind::Invalid,
                "must be a lowercase RFC 1123 subdomain: lower case alphanumeric characters, '-' or '.', with an \
                 alphanumeric character at both ends",
            ),
        };
        found.add(Violation::new("cpms-name-prefix", path, kind, allowed).got(&json!(text)));
    }
    prefix
}

/// The template and the failure domains; `None` if one of them cannot be read. `path` is the
/// path of the machine template.
fn parse_template(
    mut machine: MachineTemplate,
    selector: Option<&Selector>,
    path: &FieldPath,
    context: &ParseContext<'_>,
    found: &mut Violations,
) -> Option<(Template, Vec<FailureDomain>)> {
    check_labels(&machine, path, selector, found);
    let provider_spec = provider_spec(&mut machine, path, found);
    let domains = machine.failure_domains.as_ref();
    let failure_domains = domains.map_or_else(
        || Some(Vec::new()),
        |domains| failure_domains(domains, path, provider_spec.as_ref(), context, found),
    );
    let (provider_spec, failure_domains) = provider_spec.zip(failure_domains)?;
    let (mut labels, mut annotations) = (machine.metadata.labels, machine.metadata.annotations);
    let invalid_metadata = invalid_metadata(&labels, &annotations);
    labels.retain(|key, _| !invalid_metadata.iter().any(|invalid| invalid.is_label(key)));
    annotations.retain(|key, _| !invalid_metadata.iter().any(|invalid| invalid.is_annotation(key)));
    let template = Template {
        labels,
        annotations,
        invalid_metadata,
        machine_spec: machine.spec,
        platform: Platform::of(&provider_spec),
        provider_spec,
    };
    Some((template, failure_domains))
}

fn check_labels(machine: &MachineTemplate, path: &FieldPath, selector: Option<&Selector>, found: &mut Violations) {
    let labels = &machine.metadata.labels;
    let path = path.child("metadata").child("labels");
    for (rule, key) in [("cpms-label-role", label::ROLE), ("cpms-label-type", label::TYPE)] {
        match labels.get(key).map(String::as_str) {
            Some("master") => {}
            Some(other) => {
                let allowed = format!("label {key} must be 'master'");
                let kind = ViolationKind::Invalid;
                found.add(Violation::new(rule, path.clone(), kind, allowed).got(&json!(other)));
            }
            None => {
                let allowed = format!("must have label {key} with value 'master'");
                found.add(Violation::new(rule, path.clone(), ViolationKind::Required, allowed));
            }
        }
    }
    if !labels.contains_key(label::CLUSTER) {
        let allowed = format!("must have the label {}", label::CLUSTER);
        let kind = ViolationKind::Required;
        let violation = Violation::new("cpms-label-cluster", path.clone(), kind, allowed);
        found.add(violation.advice("its value is the infrastructure name of the cluster"));
    }
    if selector.is_some_and(|selector| !selector.matches(labels)) {
        found.add(
            Violation::new(
                "cpms-selector-matches",
                path,
                ViolationKind::Invalid,
                "must match the selector of the set",
            )
            .got(&json!(labels))
            .advice("the set would not select machines of this template"),
        );
    }
}

/// Removes the provider spec from the machine.
fn provider_spec(machine: &mut MachineTemplate, path: &FieldPath, found: &mut Violations) -> Option<Value> {
    let path = path.child("spec").child("providerSpec").child("value");
    match machine.spec.provider_spec.value.take() {
        Some(value) if value.is_object() => Some(value),
        Some(other) if !other.is_null() => {
            let kind = ViolationKind::TypeInvalid;
            let allowed = "must be an object: the provider spec of the platform";
            found.add(Violation::new("cpms-provider-spec", path, kind, allowed).got(&other));
            None
        }
        _ => {
            let allowed = "must be the provider spec of the platform, such as an AWSMachineProviderConfig";
            found.add(Violation::new(
                "cpms-provider-spec",
                path,
                ViolationKind::Required,
                allowed,
            ));
            None
        }
    }
}
