//! IBM Cloud VPC: `IBMCloudMachineProviderSpec` and `IBMVPCMachine`.

use super::Platform;
use crate::conversion::row::{Row, When, blocks};
use crate::platforms::ibm_cloud;

/// IBM Cloud VPC.
pub(super) const PLATFORM: Platform = Platform {
    provider_spec: "IBMCloudMachineProviderSpec",
    machine: "IBMVPCMachine",
    to_cluster_api: TO_CLUSTER_API,
    to_machine_api: TO_MACHINE_API,
};

/// Fields of the provider spec that Cluster API cannot express.
const TO_CLUSTER_API: &[Row] = &[
    blocks(
        "bandwidth",
        When::Present,
        "Cluster API does not set the bandwidth",
        "remove it",
    ),
    blocks(
        "tags",
        When::Present,
        "Cluster API does not tag instances",
        "remove them",
    ),
    blocks(
        "metadata.name",
        When::Present,
        "a provider spec is not an object and has no metadata",
        "remove it",
    ),
    blocks(
        "",
        When::UnknownFields(ibm_cloud::PROVIDER_SPEC.fields),
        "Capstan knows no field of Cluster API for it",
        "correct the spelling, or remove the field",
    ),
];

/// Fields of the infrastructure machine that the Machine API cannot express.
const TO_MACHINE_API: &[Row] = &[
    blocks(
        "catalogOffering",
        When::Present,
        "the Machine API selects an image by its name",
        "set image",
    ),
    blocks(
        "sshKeys",
        When::Present,
        "the Machine API adds no SSH keys",
        "remove them",
    ),
    blocks(
        "additionalVolumes",
        When::Present,
        "the Machine API creates a boot volume only",
        "remove them",
    ),
    blocks(
        "loadBalancerPoolMembers",
        When::Present,
        "the Machine API does not register pool members",
        "remove them",
    ),
];
