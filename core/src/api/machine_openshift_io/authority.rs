//! Which API leads an object that exists in the Machine API and in Cluster API: the part of the
//! status, and the conditions, that Machine, MachineSet and MachineHealthCheck share.
//!
//! Source: the Converting Machine API to Cluster API enhancement, "API Extensions";
//! `synchronizedAPI` is today's addition, which makes it possible to cancel a migration.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::UnknownFields;

/// The word for the Machine API in `authoritativeAPI`.
pub const MACHINE_API: &str = "MachineAPI";
/// The word for Cluster API in `authoritativeAPI`.
pub const CLUSTER_API: &str = "ClusterAPI";
/// The word, in a status, for the hand-over from one to the other.
pub const MIGRATING: &str = "Migrating";
/// The condition that says whether the copy is as the leading object.
pub const SYNCHRONIZED: &str = "Synchronized";
/// The condition by which a controller acknowledges that it leaves the object alone.
pub const PAUSED: &str = "Paused";

/// Who leads, as it was last decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuthorityStatus {
    /// Which API leads now: "MachineAPI" or "ClusterAPI", or "Migrating" while the lead is handed
    /// over. The controllers of an API act on an object only while their API leads it.
    #[schemars(extend("enum" = ["MachineAPI", "ClusterAPI", "Migrating"]))]
    #[serde(rename = "authoritativeAPI", default, skip_serializing_if = "Option::is_none")]
    pub authoritative_api: Option<String>,
    /// Which API led when the two were last alike. While the lead is handed over, this is where it
    /// comes from.
    #[schemars(extend("enum" = ["MachineAPI", "ClusterAPI"]))]
    #[serde(rename = "synchronizedAPI", default, skip_serializing_if = "Option::is_none")]
    pub synchronized_api: Option<String>,
    /// The generation of the leading object that the copy is like.
    #[schemars(extend("minimum" = 0))]
    #[serde(rename = "synchronizedGeneration", default, skip_serializing_if = "Option::is_none")]
    pub synchronized_generation: Option<i64>,
}

/// A condition of the Machine API, which is older than `metav1.Condition` and has a severity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["type", "status"]))]
#[serde(rename_all = "camelCase")]
pub struct MachineCondition {
    /// What is observed, such as Synchronized or Paused.
    #[serde(rename = "type", default)]
    pub type_: String,
    /// "True", "False" or "Unknown".
    #[serde(default)]
    pub status: String,
    /// How bad it is that the status is not "True": "Error", "Warning" or "Info".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    /// CamelCase, stable: programs match on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}
