//! The infrastructure of the platforms of Cluster API: `infrastructure.cluster.x-k8s.io`.
//!
//! The project of each platform defines a kind for a machine and a kind for a machine template.
//! This file names the kinds and none of their fields. The tables of `conversion` list the fields
//! that are converted.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::UnknownFields;
use super::meta::ObjectMeta;

/// The API group.
pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// A platform whose machines can exist in both APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Kind of the machine.
    pub machine: &'static str,
    /// Lower-case plural of the machine.
    pub machines: &'static str,
    /// Kind of the template.
    pub template: &'static str,
    /// Lower-case plural of the template.
    pub templates: &'static str,
    /// The version that Capstan reads and writes.
    pub version: &'static str,
}

const fn platform(
    machine: &'static str,
    machines: &'static str,
    template: &'static str,
    templates: &'static str,
    version: &'static str,
) -> Platform {
    Platform {
        machine,
        machines,
        template,
        templates,
        version,
    }
}

/// The platforms, by kind of the machine.
pub const PLATFORMS: &[Platform] = &[
    platform(
        "AWSMachine",
        "awsmachines",
        "AWSMachineTemplate",
        "awsmachinetemplates",
        "v1beta2",
    ),
    platform(
        "AzureMachine",
        "azuremachines",
        "AzureMachineTemplate",
        "azuremachinetemplates",
        "v1beta1",
    ),
    platform(
        "GCPMachine",
        "gcpmachines",
        "GCPMachineTemplate",
        "gcpmachinetemplates",
        "v1beta1",
    ),
    platform(
        "IBMPowerVSMachine",
        "ibmpowervsmachines",
        "IBMPowerVSMachineTemplate",
        "ibmpowervsmachinetemplates",
        "v1beta2",
    ),
    platform(
        "IBMVPCMachine",
        "ibmvpcmachines",
        "IBMVPCMachineTemplate",
        "ibmvpcmachinetemplates",
        "v1beta2",
    ),
    platform(
        "Metal3Machine",
        "metal3machines",
        "Metal3MachineTemplate",
        "metal3machinetemplates",
        "v1beta1",
    ),
    platform(
        "NutanixMachine",
        "nutanixmachines",
        "NutanixMachineTemplate",
        "nutanixmachinetemplates",
        "v1beta1",
    ),
    platform(
        "OpenStackMachine",
        "openstackmachines",
        "OpenStackMachineTemplate",
        "openstackmachinetemplates",
        "v1beta1",
    ),
    platform(
        "VSphereMachine",
        "vspheremachines",
        "VSphereMachineTemplate",
        "vspheremachinetemplates",
        "v1beta1",
    ),
];

/// The infrastructure of a whole cluster, on platforms where it contains values that each machine
/// of the Machine API contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Kind.
    pub kind: &'static str,
    /// Lower-case plural.
    pub plural: &'static str,
    /// The version that Capstan reads.
    pub version: &'static str,
}

const fn cluster(kind: &'static str, plural: &'static str, version: &'static str) -> Cluster {
    Cluster { kind, plural, version }
}

/// The clusters with which machines are compared.
pub const CLUSTERS: &[Cluster] = &[
    cluster("AWSCluster", "awsclusters", "v1beta2"),
    cluster("AzureCluster", "azureclusters", "v1beta1"),
    cluster("GCPCluster", "gcpclusters", "v1beta1"),
    cluster("IBMVPCCluster", "ibmvpcclusters", "v1beta2"),
    cluster("VSphereCluster", "vsphereclusters", "v1beta1"),
];

/// The other infrastructure clusters. No machine is compared with them, so they are not read; the
/// guards judge their deletion.
pub const OTHER_CLUSTERS: &[Cluster] = &[
    cluster("IBMPowerVSCluster", "ibmpowervsclusters", "v1beta2"),
    cluster("Metal3Cluster", "metal3clusters", "v1beta1"),
    cluster("NutanixCluster", "nutanixclusters", "v1beta1"),
    cluster("OpenStackCluster", "openstackclusters", "v1beta1"),
];

/// A machine of a platform, or a machine template.
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
    /// The desired state. For a template, the same fields are under `template.spec`.
    #[serde(default)]
    pub spec: Value,
    /// Other fields, including the status.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}
