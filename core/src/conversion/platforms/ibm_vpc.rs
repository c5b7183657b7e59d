//! IBM Cloud VPC: `IBMCloudMachineProviderSpec` and `IBMVPCMachine`.

use super::Platform;
use crate::conversion::row::{Row, When, blocks};

/// IBM Cloud VPC.
pub(super) const PLATFORM: Platform = Platform {
    provider_spec: "IBMCloudMachineProviderSpec",
    machine: "IBMVPCMachine",
    to_cluster_api: TO_CLUSTER_API,
    to_machine_api: TO_MACHINE_API,
};

/// What Cluster API cannot say of the provider spec.
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
        "a provider spec is no object of its own",
        "remove it",
    ),
    blocks(
        "",
        When::UnknownFields(&[
            "apiVersion",
            "kind",
            "metadata",
            "vpc",
            "tags",
            "image",
            "profile",
            "region",
            "zone",
            "resourceGroup",
            "networkResourceGroup",
            "primaryNetworkInterface",
            "bootVolume",
            "bandwidth",
            "dedicatedHost",
            "userDataSecret",
            "credentialsSecret",
            "loadBalancers",
        ]),
        "Capstan does not know a field of Cluster API for it",
        "correct a misspelling, or remove it",
    ),
];

/// What the Machine API cannot say of the infrastructure machine.
const TO_MACHINE_API: &[Row] = &[
    blocks(
        "catalogOffering",
        When::Present,
        "the Machine API takes an image by its name",
        "set image",
    ),
    blocks("sshKeys", When::Present, "the Machine API adds no keys", "remove them"),
    blocks(
        "additionalVolumes",
        When::Present,
        "the Machine API makes a boot volume only",
        "remove them",
    ),
    blocks(
        "loadBalancerPoolMembers",
        When::Present,
        "the Machine API does not join pools",
        "remove them",
    ),
];
