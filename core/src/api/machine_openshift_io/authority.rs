//! The authoritative API of an object that exists in the Machine API and in Cluster API: the fields
//! of the status and the conditions that Machine, MachineSet and MachineHealthCheck share.
//!
//! Source: the Converting Machine API to Cluster API enhancement, "API Extensions". OpenShift added
//! `synchronizedAPI` later; with it, a migration can be cancelled.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::UnknownFields;

/// The value of `authoritativeAPI` for the Machine API.
pub const MACHINE_API: &str = "MachineAPI";
/// The value of `authoritativeAPI` for Cluster API.
pub const CLUSTER_API: &str = "ClusterAPI";
/// The value of `status.authoritativeAPI` during a migration from one API to the other.
pub const MIGRATING: &str = "Migrating";
/// The condition that reports whether the mirror agrees with the authoritative object.
pub const SYNCHRONIZED: &str = "Synchronized";
/// The condition by which a controller acknowledges that it ignores the object.
pub const PAUSED: &str = "Paused";
/// The annotation of a mirror in which the sync controller records what it copied: from which API,
/// a fingerprint of the source, and the labels and annotations that it wrote.
pub const MIRRORED: &str = "capstan.dev/mirrored";

/// The authoritative API, as last decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuthorityStatus {
    /// The API whose object is authoritative: "MachineAPI" or "ClusterAPI", or "Migrating" during a
    /// migration from one to the other. The controllers of an API act on an object only while their
    /// API is authoritative for it.
    #[schemars(extend("enum" = ["MachineAPI", "ClusterAPI", "Migrating"]))]
    #[serde(rename = "authoritativeAPI", default, skip_serializing_if = "Option::is_none")]
    pub authoritative_api: Option<String>,
    /// The API that was authoritative when both objects last agreed. During a migration, this is
    /// the API from which authority moves.
    #[schemars(extend("enum" = ["MachineAPI", "ClusterAPI"]))]
    #[serde(rename = "synchronizedAPI", default, skip_serializing_if = "Option::is_none")]
    pub synchronized_api: Option<String>,
    /// The generation of the authoritative object with which the mirror agrees.
    #[schemars(extend("minimum" = 0))]
    #[serde(rename = "synchronizedGeneration", default, skip_serializing_if = "Option::is_none")]
    pub synchronized_generation: Option<i64>,
}

/// A condition of the Machine API. It is older than `metav1.Condition` and has a severity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["type", "status"]))]
#[serde(rename_all = "camelCase")]
pub struct MachineCondition {
    /// The observation, such as Synchronized or Paused.
    #[serde(rename = "type", default)]
    pub type_: String,
    /// "True", "False" or "Unknown".
    #[serde(default)]
    pub status: String,
    /// How severe it is that the status is not "True": "Error", "Warning" or "Info".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    /// The reason, in CamelCase. Programs may compare it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The explanation for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}
