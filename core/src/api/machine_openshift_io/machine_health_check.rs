//! `MachineHealthCheck`, `machine.openshift.io/v1beta1`: when a machine is unhealthy, and the
//! remedy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::authority::{AuthorityStatus, MachineCondition};
use crate::api::UnknownFields;
use crate::api::meta::{LabelSelector, ObjectMeta};

/// Kind.
pub const KIND: &str = "MachineHealthCheck";
/// Group and version.
pub const API_VERSION: &str = "machine.openshift.io/v1beta1";
/// Lower-case plural, as in a URL.
pub const PLURAL: &str = "machinehealthchecks";

/// A MachineHealthCheck defines when a machine is unhealthy. Unhealthy machines are deleted, so
/// that they are replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// The observed state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<MachineHealthCheckStatus>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The desired state of a MachineHealthCheck.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealthCheckSpec {
    /// Selects the machines to check.
    #[serde(default)]
    pub selector: LabelSelector,
    /// Node conditions that make a machine unhealthy after a time.
    #[schemars(extend("minItems" = 1))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unhealthy_conditions: Vec<UnhealthyCondition>,
    /// The largest number of selected machines that may be unhealthy: a number, or a percentage
    /// such as "40%". While more machines are unhealthy, none is deleted.
    #[schemars(extend("x-kubernetes-int-or-string" = true, "x-default" = "100%"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unhealthy: Option<Value>,
    /// The longest time until the node of a machine joins the cluster, such as "10m".
    #[schemars(extend("x-default" = "10m"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_startup_timeout: Option<String>,
    /// The API whose object is authoritative: "MachineAPI" or "ClusterAPI". The object in the other
    /// API is a mirror.
    #[schemars(extend("enum" = ["MachineAPI", "ClusterAPI"]))]
    #[serde(rename = "authoritativeAPI", default, skip_serializing_if = "Option::is_none")]
    pub authoritative_api: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// A node condition that makes a machine unhealthy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnhealthyCondition {
    /// The type of the condition.
    #[schemars(extend("minLength" = 1))]
    #[serde(rename = "type", default)]
    pub type_: String,
    /// The unhealthy status of the condition.
    #[schemars(extend("minLength" = 1))]
    #[serde(default)]
    pub status: String,
    /// How long the condition must have the status, such as "300s".
    #[schemars(extend("type" = "string"))]
    #[serde(default)]
    pub timeout: Value,
}

/// The observed state of a MachineHealthCheck.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealthCheckStatus {
    /// The number of machines that the check selects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_machines: Option<i32>,
    /// The number of healthy machines among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_healthy: Option<i32>,
    /// The authoritative API of the check.
    #[serde(flatten)]
    pub authority: AuthorityStatus,
    /// Observations, including Synchronized and Paused.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<MachineCondition>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}
