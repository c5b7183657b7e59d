//! `MachineHealthCheck`, `cluster.x-k8s.io/v1beta2`: when a machine is unhealthy, and the remedy.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::UnknownFields;
use crate::api::meta::{LabelSelector, ObjectMeta};

/// Kind.
pub const KIND: &str = "MachineHealthCheck";
/// Lower-case plural, as in a URL.
pub const PLURAL: &str = "machinehealthchecks";

/// A MachineHealthCheck of Cluster API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealthCheck {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Standard metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default)]
    pub spec: MachineHealthCheckSpec,
    /// Other fields, including the status.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The desired state of a MachineHealthCheck.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealthCheckSpec {
    /// The Cluster that the machines belong to.
    #[serde(default)]
    pub cluster_name: String,
    /// Selects the machines to check.
    #[serde(default)]
    pub selector: LabelSelector,
    /// The conditions that make a machine unhealthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Value>,
    /// The remedy for an unhealthy machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<Value>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}
