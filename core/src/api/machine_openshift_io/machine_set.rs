//! `MachineSet`, `machine.openshift.io/v1beta1`: a number of like machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::machine::MachineSpec;
use crate::api::Rest;
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
    /// Other fields, status among them.
    #[serde(flatten)]
    pub rest: Rest,
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
    /// Which API leads the set: "MachineAPI" or "ClusterAPI". What the other API holds is a copy of it.
    #[schemars(extend("enum" = ["MachineAPI", "ClusterAPI"]))]
    #[serde(rename = "authoritativeAPI", default, skip_serializing_if = "Option::is_none")]
    pub authoritative_api: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
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
    pub rest: Rest,
}
