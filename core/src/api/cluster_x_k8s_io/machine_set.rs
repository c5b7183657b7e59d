//! `MachineSet`, `cluster.x-k8s.io/v1beta2`: a number of identical machines.

use serde::{Deserialize, Serialize};

use super::machine::MachineSpec;
use crate::api::UnknownFields;
use crate::api::meta::{LabelSelector, ObjectMeta};

/// Kind.
pub const KIND: &str = "MachineSet";
/// Lower-case plural, as in a URL.
pub const PLURAL: &str = "machinesets";

/// A MachineSet of Cluster API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// The desired state.
    #[serde(default)]
    pub spec: MachineSetSpec,
    /// Other fields, including the status.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The desired state of a MachineSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineSetSpec {
    /// The Cluster that the machines belong to.
    #[serde(default)]
    pub cluster_name: String,
    /// The number of machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Selects the machines of the set.
    #[serde(default)]
    pub selector: LabelSelector,
    /// Describes a machine of the set.
    #[serde(default)]
    pub template: MachineTemplate,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// Describes a machine of the set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineTemplate {
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
