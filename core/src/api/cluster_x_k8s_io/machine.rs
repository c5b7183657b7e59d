//! `Machine`, `cluster.x-k8s.io/v1beta2`: one machine, and the spec that templates of machines
//! share.

use serde::{Deserialize, Serialize};

use super::ContractReference;
use crate::api::UnknownFields;
use crate::api::meta::{Condition, ObjectMeta};

/// Kind.
pub const KIND: &str = "Machine";
/// Lower-case plural, as it stands in a URL.
pub const PLURAL: &str = "machines";

/// A Machine of Cluster API. What its platform needs stands in an object of the platform's own
/// kind.
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
    /// The machine as it should be.
    #[serde(default)]
    pub spec: MachineSpec,
    /// The machine as it was last observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<MachineStatus>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// What a machine should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// The Cluster that the machine belongs to.
    #[serde(default)]
    pub cluster_name: String,
    /// Where the data stands that the machine boots with.
    #[serde(default)]
    pub bootstrap: Bootstrap,
    /// What makes the instance; in a template, the template of that.
    #[serde(default)]
    pub infrastructure_ref: ContractReference,
    /// The failure domain, as the infrastructure names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// The name of the instance on its platform.
    #[serde(rename = "providerID", default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Other fields; those that the Machine API has no word for among them.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// Where the data stands that a machine boots with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// The Secret that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_secret_name: Option<String>,
    /// What makes that Secret. The Machine API has nothing like it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_ref: Option<ContractReference>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// What a machine is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// What happened once and for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// `Pending`, `Provisioning`, `Provisioned`, `Running`, `Deleting`, `Failed` and others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// What is observed; Paused among it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// What happened once and for all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Initialization {
    /// Whether the instance was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_provisioned: Option<bool>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}
