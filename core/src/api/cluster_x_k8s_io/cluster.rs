//! `Cluster`, `cluster.x-k8s.io/v1beta2`: the one cluster that all machines of Cluster API belong
//! to.

use serde::{Deserialize, Serialize};

use super::ContractReference;
use crate::api::UnknownFields;
use crate::api::meta::ObjectMeta;

/// Kind.
pub const KIND: &str = "Cluster";
/// Lower-case plural, as it stands in a URL.
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
    /// What is wanted.
    #[serde(default)]
    pub spec: ClusterSpec,
    /// Other fields, status among them.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// What is wanted of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// While true, Cluster API's controllers leave everything of this Cluster alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// What holds the values of the platform that all machines share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ContractReference>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}
