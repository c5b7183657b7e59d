//! A valid ControlPlaneMachineSet: a type that cannot hold an invalid one.
//!
//! Admission answers with the violations of the parse, and the controllers accept nothing but its
//! result. A set that was stored without admission therefore stops at the same check. Whether an
//! *edit* is allowed is decided in `rules`, not here.
//!
//! Source: the ControlPlaneMachineSet enhancement, "API Extensions"; decisions 4 to 8.

mod annotations;
mod context;
mod failure_domains;
mod gates;
mod parse;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::changes::Comparison;
use super::domains::{FailureDomain, Platform};
use super::selector::Selector;
use super::template_metadata::InvalidMetadata;
use crate::api::machine_openshift_io::label;
use crate::api::machine_openshift_io::machine::MachineSpec;
use crate::api::meta::ObjectMeta;
use crate::model::{PendingCreation, UnreadablePendingCreations, is_subdomain};

pub use crate::model::PAUSED_ROLLOUT;
pub use annotations::{PROGRESS_DEADLINE, RECREATE_ACKNOWLEDGED, RECREATE_RISK, ROLLOUT_LIMIT, Rollout};
pub use context::ParseContext;
pub use gates::Gates;
pub use parse::parse;
pub(super) use parse::{Parsed, into_parsed, into_spec};

/// A valid ControlPlaneMachineSet.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// `cluster`.
    pub name: String,
    /// Namespace of the set and of its machines.
    pub namespace: String,
    /// UID of the set; empty for a set that was never stored.
    pub uid: String,
    /// The version from which this was parsed; empty for a set that was never stored.
    pub resource_version: String,
    /// Generation of the set; 0 for a set that was never stored.
    pub generation: i64,
    /// Whether the deletion of the set was requested.
    pub deleting: bool,
    /// Finalizers of the set.
    pub finalizers: Vec<String>,
    /// Whether the set manages machines.
    pub state: SetState,
    /// Size of the control plane.
    pub replicas: Replicas,
    /// How a change of the template is applied to the machines.
    pub strategy: Strategy,
    /// The first part of the names of new machines; `None` for the default, cluster and role.
    pub name_prefix: Option<NamePrefix>,
    /// Selects the machines of the set.
    pub selector: Selector,
    /// Describes a machine.
    pub template: Arc<Template>,
    /// The failure domains, completed from the template, in order and without duplicates. Empty for
    /// a set without failure domains.
    pub failure_domains: Vec<FailureDomain>,
    /// How the annotations of the set control the rollout.
    pub rollout: Rollout,
    /// Annotations of the set.
    pub annotations: BTreeMap<String, String>,
    /// The creations that are recorded in the set, or why the record cannot be decoded.
    pub pending_creations: Result<Vec<PendingCreation>, UnreadablePendingCreations>,
}

/// Whether a set manages machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetState {
    /// It manages its machines.
    Active,
    /// It describes machines and writes to none.
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
    /// The size of this number; `None` for a number that is not allowed.
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

/// How a change of the template is applied to the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The replacement is created first, then the old machine is deleted; one index at a time.
    RollingUpdate,
    /// A machine is replaced once a user deletes it.
    OnDelete,
    /// The old machine is deleted first. It needs a feature gate and an acknowledgement (decision
    /// 6).
    Recreate,
}

impl Strategy {
    /// The value of `spec.strategy.type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::RollingUpdate => "RollingUpdate",
            Self::OnDelete => "OnDelete",
            Self::Recreate => "Recreate",
        }
    }
}

/// The first part of the names of new machines: a lowercase RFC 1123 subdomain of 1 to 245
/// characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePrefix(String);

impl NamePrefix {
    /// The prefix; `None` if it is not valid.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() <= 245 && is_subdomain(text)).then(|| Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Describes the machines of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// Labels of a machine, including the three labels of a control plane machine. The API server
    /// accepts all of them.
    pub labels: BTreeMap<String, String>,
    /// Labels and annotations that the API server would refuse. No machine gets them.
    pub invalid_metadata: Vec<InvalidMetadata>,
    /// Annotations of a machine.
    pub annotations: BTreeMap<String, String>,
    /// The spec of a machine, without the provider spec.
    pub machine_spec: MachineSpec,
    /// The provider spec as it is in the set. It is always an object.
    pub provider_spec: Value,
    /// The platform of the provider spec; `None` for a kind without failure domains.
    pub platform: Option<Platform>,
}

impl Template {
    /// The value of the cluster label.
    pub fn cluster(&self) -> &str {
        self.labels.get(label::CLUSTER).map_or("", String::as_str)
    }

    /// The value of the role label.
    pub fn role(&self) -> &str {
        self.labels.get(label::ROLE).map_or("", String::as_str)
    }
}

impl Spec {
    /// Replaces the metadata. The rest of the set must be the same.
    pub(super) fn set_metadata(&mut self, meta: &ObjectMeta) {
        self.name = meta.name.clone().unwrap_or_default();
        self.namespace = meta.namespace.clone().unwrap_or_default();
        self.uid = meta.uid().to_owned();
        self.resource_version = meta.resource_version.clone().unwrap_or_default();
        self.generation = meta.generation.unwrap_or_default();
        self.deleting = meta.is_deleting();
        self.finalizers.clone_from(&meta.finalizers);
    }

    /// The fields that a comparison of a machine with the template includes.
    pub fn comparison(&self) -> Comparison {
        Comparison {
            domains: !self.failure_domains.is_empty(),
            images: self.rollout.images,
        }
    }

    /// The beginning of the names of new machines.
    pub fn machine_name_prefix(&self) -> String {
        match &self.name_prefix {
            Some(prefix) => prefix.as_str().to_owned(),
            None => format!("{}-{}", self.template.cluster(), self.template.role()),
        }
    }
}

#[cfg(test)]
mod tests;
