//! `Cluster`, `cluster.x-k8s.io/v1beta2`: the cluster to which all machines of Cluster API belong.

use serde::{Deserialize, Serialize};

use super::ContractReference;
use crate::api::UnknownFields;
use crate::api::meta::ObjectMeta;

/// Kind.
pub const KIND: &str = "Cluster";
/// Lower-case plural, as in a URL.
pub const PLURAL: &str = "clusters";

/// A Cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
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
    pub spec: ClusterSpec,
    /// Other fields, including the status.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The desired state of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// While true, the controllers of Cluster API ignore all objects of this Cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// The object with the values of the platform that all machines share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ContractReference>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}
