//! Azure: `AzureMachineProviderSpec` and `AzureMachine`.

use super::Platform;
use crate::conversion::row::{Row, When, blocks};
use crate::platforms::azure;

/// Azure.
pub(super) const PLATFORM: Platform = Platform {
    provider_spec: "AzureMachineProviderSpec",
    machine: "AzureMachine",
    to_cluster_api: TO_CLUSTER_API,
    to_machine_api: TO_MACHINE_API,
};

/// Fields of the provider spec that Cluster API cannot express.
const TO_CLUSTER_API: &[Row] = &[
    blocks(
        "natRule",
        When::Present,
        "Cluster API creates no inbound NAT rules for a machine",
        "remove it",
    ),
    blocks(
        "applicationSecurityGroups",
        When::Present,
        "Cluster API has no application security groups",
        "remove them",
    ),
    blocks(
        "availabilitySet",
        When::Present,
        "Cluster API assigns availability sets itself",
        "remove it",
    ),
    blocks(
        "dataDisks[].deletionPolicy",
        When::NotOneOf(&["", "Delete"]),
        "Cluster API deletes data disks with the machine",
        "set it to Delete, and store the data elsewhere",
    ),
    blocks(
        "credentialsSecret.name",
        When::NotOneOf(&["", "azure-cloud-credentials"]),
        "Cluster API uses the credentials of the cluster",
        "use the Secret azure-cloud-credentials",
    ),
    blocks(
        "image.type",
        When::NotOneOf(&["", "MarketplaceNoPlan", "MarketplaceWithPlan"]),
        "Cluster API does not support this type of image",
        "use MarketplaceNoPlan or MarketplaceWithPlan, or set resourceID",
    ),
    blocks(
        "metadata.name",
        When::Present,
        "a provider spec is not an object and has no metadata",
        "remove it",
    ),
    blocks(
        "",
        When::UnknownFields(azure::PROVIDER_SPEC.fields),
        "Capstan knows no field of Cluster API for it",
        "correct the spelling, or remove the field",
    ),
];

/// Fields of the infrastructure machine that the Machine API cannot express.
const TO_MACHINE_API: &[Row] = &[
    blocks(
        "image.sharedGallery",
        When::Present,
        "the Machine API does not support images of a shared gallery",
        "use image.id or a marketplace image",
    ),
    blocks(
        "image.computeGallery",
        When::Present,
        "the Machine API does not support images of a compute gallery",
        "use image.id or a marketplace image",
    ),
    blocks(
        "vmExtensions",
        When::Present,
        "the Machine API has no VM extensions",
        "remove them",
    ),
    blocks(
        "dnsServers",
        When::Present,
        "the Machine API uses the DNS servers of the network",
        "remove them",
    ),
    blocks(
        "enableIPForwarding",
        When::Is(true),
        "the Machine API has no IP forwarding",
        "remove it",
    ),
    blocks(
        "systemAssignedIdentityRole",
        When::Present,
        "the Machine API supports user-assigned identities only",
        "use userAssignedIdentities",
    ),
    blocks(
        "roleAssignmentName",
        When::Present,
        "the Machine API supports user-assigned identities only",
        "use userAssignedIdentities",
    ),
    blocks(
        "userAssignedIdentities",
        When::MoreThan(1),
        "the Machine API supports one identity",
        "keep one",
    ),
    blocks(
        "networkInterfaces",
        When::MoreThan(1),
        "the Machine API supports one network interface",
        "keep one",
    ),
    blocks(
        "spotVMOptions.evictionPolicy",
        When::NotOneOf(&["", "Deallocate"]),
        "the Machine API has no eviction policy",
        "remove it",
    ),
];
