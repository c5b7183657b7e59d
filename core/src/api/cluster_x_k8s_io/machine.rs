//! `Machine`, `cluster.x-k8s.io/v1beta2`: one machine, and the spec that machine templates share.

use serde::{Deserialize, Serialize};

use super::ContractReference;
use crate::api::UnknownFields;
use crate::api::meta::{Condition, ObjectMeta};

/// Kind.
pub const KIND: &str = "Machine";
/// Lower-case plural, as in a URL.
pub const PLURAL: &str = "machines";
/// The finalizer of the Machine controller of Cluster API.
pub const FINALIZER: &str = "machine.cluster.x-k8s.io";

/// A Machine of Cluster API. An object of the platform's own kind has the fields of the platform.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
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
    pub spec: MachineSpec,
    /// The observed state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<MachineStatus>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The desired state of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// The Cluster that the machine belongs to.
    #[serde(default)]
    pub cluster_name: String,
    /// The source of the data with which the machine boots.
    #[serde(default)]
    pub bootstrap: Bootstrap,
    /// The infrastructure object of the machine; in a template, the infrastructure template.
    #[serde(default)]
    pub infrastructure_ref: ContractReference,
    /// The failure domain, by its name in the infrastructure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// The id of the instance on its platform.
    #[serde(rename = "providerID", default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Other fields, including fields that have no counterpart in the Machine API.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The source of the data with which a machine boots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// The Secret that contains the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_secret_name: Option<String>,
    /// The object that generates the Secret. The Machine API has no counterpart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_ref: Option<ContractReference>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The observed state of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// Steps of the creation that are complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// `Pending`, `Provisioning`, `Provisioned`, `Running`, `Deleting`, `Failed` and others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Observations, including Paused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// Steps of the creation that are complete.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Initialization {
    /// Whether the instance exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_provisioned: Option<bool>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}
