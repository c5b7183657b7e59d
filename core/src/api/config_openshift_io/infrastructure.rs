//! `Infrastructure` `cluster`: the platform of the cluster, and the failure domains of that
//! platform.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::UnknownFields;
use crate::api::meta::ObjectMeta;

/// Kind.
pub const KIND: &str = "Infrastructure";
/// Lower-case plural, as in a URL.
pub const PLURAL: &str = "infrastructures";
/// The name of the only Infrastructure.
pub const NAME: &str = "cluster";

/// The platform of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Infrastructure {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Standard metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The configuration by the installer or the administrator.
    #[serde(default)]
    pub spec: InfrastructureSpec,
    /// The observed state.
    #[serde(default)]
    pub status: InfrastructureStatus,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The configuration of the infrastructure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureSpec {
    /// Configuration of the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_spec: Option<PlatformSpec>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// Configuration of the platform: a union on `type`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlatformSpec {
    /// The platform.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// vSphere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vsphere: Option<VSpherePlatformSpec>,
    /// Nutanix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nutanix: Option<NutanixPlatformSpec>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// vSphere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VSpherePlatformSpec {
    /// The failure domains, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failure_domains: Vec<VSphereFailureDomainSpec>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// A failure domain of vSphere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VSphereFailureDomainSpec {
    /// The name that a ControlPlaneMachineSet refers to.
    #[serde(default)]
    pub name: String,
    /// The region tag.
    #[serde(default)]
    pub region: String,
    /// The zone tag.
    #[serde(default)]
    pub zone: String,
    /// The vCenter.
    #[serde(default)]
    pub server: String,
    /// The location in the vCenter.
    #[serde(default)]
    pub topology: VSphereTopology,
    /// Host groups for zones within a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_affinity: Option<Value>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// A location in a vCenter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VSphereTopology {
    /// Path of the compute cluster.
    #[serde(default)]
    pub compute_cluster: String,
    /// The datacenter.
    #[serde(default)]
    pub datacenter: String,
    /// Path of the datastore.
    #[serde(default)]
    pub datastore: String,
    /// Names of the networks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
    /// Path of the resource pool; by default the resource pool of the compute cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_pool: Option<String>,
    /// Path of the folder; by default a folder with the name of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Path of the template to clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// Nutanix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NutanixPlatformSpec {
    /// The failure domains, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failure_domains: Vec<NutanixFailureDomainSpec>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// A failure domain of Nutanix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NutanixFailureDomainSpec {
    /// The name that a ControlPlaneMachineSet refers to.
    #[serde(default)]
    pub name: String,
    /// The Prism Element cluster.
    #[serde(default)]
    pub cluster: Value,
    /// The subnets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<Value>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The observed state of the infrastructure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureStatus {
    /// The infrastructure name of the cluster: the first part of the names of machines.
    #[serde(default)]
    pub infrastructure_name: String,
    /// The platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_status: Option<PlatformStatus>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The platform.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlatformStatus {
    /// The platform's type, such as `AWS`.
    #[serde(rename = "type", default)]
    pub type_: String,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

impl Infrastructure {
    /// The type of the platform; `None` if it is unknown.
    pub fn platform(&self) -> Option<&str> {
        Some(self.status.platform_status.as_ref()?.type_.as_str()).filter(|type_| !type_.is_empty())
    }
}
