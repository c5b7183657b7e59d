//! `MachineSet`, `machine.openshift.io/v1beta1`: a number of like machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::authority::{AuthorityStatus, MachineCondition};
use super::machine::MachineSpec;
use crate::api::UnknownFields;
use crate::api::meta::{LabelSelector, ObjectMeta};

/// Kind.
pub const KIND: &str = "MachineSet";
/// Group and version.
pub const API_VERSION: &str = "machine.openshift.io/v1beta1";
/// Lower-case plural, as it stands in a URL.
pub const PLURAL: &str = "machinesets";

/// A MachineSet keeps a number of like machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineSet {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Standard metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: MachineSetSpec,
    /// The set as it was last observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<MachineSetStatus>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineSetSpec {
    /// How many machines the set keeps; 1 if not said.
    #[schemars(extend("x-default" = 1))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Which machines belong to the set. The labels of the template must satisfy it.
    #[serde(default)]
    pub selector: LabelSelector,
    /// What a machine of the set looks like.
    #[serde(default)]
    pub template: MachineSetTemplate,
    /// Which API leads the set: "MachineAPI" or "ClusterAPI". What the other API holds is a copy of
    /// it.
    #[schemars(extend("enum" = ["MachineAPI", "ClusterAPI"]))]
    #[serde(rename = "authoritativeAPI", default, skip_serializing_if = "Option::is_none")]
    pub authoritative_api: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// What a machine of the set looks like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineSetTemplate {
    /// Labels and annotations of the machines.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The spec of the machines.
    #[serde(default)]
    pub spec: MachineSpec,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// What a set has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineSetStatus {
    /// How many machines the set has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How many of them have a ready node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// How many of them have been ready for long enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// The generation that this was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The selector as the scale subresource shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// Which API leads the set.
    #[serde(flatten)]
    pub authority: AuthorityStatus,
    /// What is observed; Synchronized and Paused among it.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<MachineCondition>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}
