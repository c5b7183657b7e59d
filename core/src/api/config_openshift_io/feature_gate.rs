//! `FeatureGate` `cluster`: the feature gates that are on.

use serde::{Deserialize, Serialize};

use crate::api::UnknownFields;
use crate::api::meta::ObjectMeta;

/// Kind.
pub const KIND: &str = "FeatureGate";
/// Lower-case plural, as in a URL.
pub const PLURAL: &str = "featuregates";
/// The name of the only FeatureGate.
pub const NAME: &str = "cluster";

/// The feature gates of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeatureGate {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Standard metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The gates of each version that runs.
    #[serde(default)]
    pub status: FeatureGateStatus,
    /// Other fields, including the spec.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The observed gates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeatureGateStatus {
    /// One entry for each version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<FeatureGateDetails>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The gates of one version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FeatureGateDetails {
    /// The version.
    #[serde(default)]
    pub version: String,
    /// Gates that are on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub enabled: Vec<GateName>,
    /// Gates that are off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<GateName>,
}

/// A gate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateName {
    /// Its name.
    #[serde(default)]
    pub name: String,
}
