//! The infrastructure of Cluster API's platforms: `infrastructure.cluster.x-k8s.io`.
//!
//! Each platform has a kind for a machine and one for a template of machines, made by its own
//! project. Capstan reads no field of them here: what converts and what does not is `conversion`'s
//! to know, as data.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::UnknownFields;
use super::meta::ObjectMeta;

/// The API group.
pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// A platform of which machines can be known to both APIs.
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
    /// The version that Capstan speaks.
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

/// The infrastructure of a whole cluster, where it says something that machines of the Machine API
/// say for themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Kind.
    pub kind: &'static str,
    /// Lower-case plural.
    pub plural: &'static str,
    /// The version that Capstan speaks.
    pub version: &'static str,
}

const fn cluster(kind: &'static str, plural: &'static str, version: &'static str) -> Cluster {
    Cluster { kind, plural, version }
}

/// The clusters that machines are compared with.
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

/// A machine of a platform, or a template of machines.
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
    /// What is wanted; of a template, the same below `template.spec`.
    #[serde(default)]
    pub spec: Value,
    /// Other fields, status among them.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}
