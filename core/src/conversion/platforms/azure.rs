//! Azure: `AzureMachineProviderSpec` and `AzureMachine`.

use super::Platform;
use crate::conversion::row::{Row, When, blocks};

/// Azure.
pub(super) const PLATFORM: Platform = Platform {
    provider_spec: "AzureMachineProviderSpec",
    machine: "AzureMachine",
    to_cluster_api: TO_CLUSTER_API,
    to_machine_api: TO_MACHINE_API,
};

/// What Cluster API cannot say of the provider spec.
const TO_CLUSTER_API: &[Row] = &[
    blocks(
        "natRule",
        When::Present,
        "Cluster API makes no inbound NAT rules for a machine",
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
        "Cluster API chooses availability sets itself",
        "remove it",
    ),
    blocks(
        "dataDisks[].deletionPolicy",
        When::NotOneOf(&["", "Delete"]),
        "Cluster API deletes data disks together with the machine",
        "set it to Delete, and keep the data elsewhere",
    ),
    blocks(
        "credentialsSecret.name",
        When::NotOneOf(&["", "azure-cloud-credentials"]),
        "Cluster API uses the credentials of the whole cluster",
        "use the Secret azure-cloud-credentials",
    ),
    blocks(
        "image.type",
        When::NotOneOf(&["", "MarketplaceNoPlan", "MarketplaceWithPlan"]),
        "Cluster API does not know this type of image",
        "use MarketplaceNoPlan or MarketplaceWithPlan, or give resourceID",
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
            "userDataSecret",
            "credentialsSecret",
            "location",
            "vmSize",
            "image",
            "osDisk",
            "dataDisks",
            "sshPublicKey",
            "publicIP",
            "tags",
            "securityGroup",
            "applicationSecurityGroups",
            "subnet",
            "publicLoadBalancer",
            "internalLoadBalancer",
            "natRule",
            "managedIdentity",
            "vnet",
            "zone",
            "networkResourceGroup",
            "resourceGroup",
            "spotVMOptions",
            "securityProfile",
            "ultraSSDCapability",
            "acceleratedNetworking",
            "availabilitySet",
            "diagnostics",
            "capacityReservationGroupID",
        ]),
        "Capstan does not know a field of Cluster API for it",
        "correct a misspelling, or remove it",
    ),
];

/// What the Machine API cannot say of the infrastructure machine.
const TO_MACHINE_API: &[Row] = &[
    blocks(
        "image.sharedGallery",
        When::Present,
        "the Machine API takes no images of a shared gallery",
        "use image.id or a marketplace image",
    ),
    blocks(
        "image.computeGallery",
        When::Present,
        "the Machine API takes no images of a compute gallery",
        "use image.id or a marketplace image",
    ),
    blocks(
        "vmExtensions",
        When::Present,
        "the Machine API has no extensions",
        "remove them",
    ),
    blocks(
        "dnsServers",
        When::Present,
        "the Machine API uses the name servers of the network",
        "remove them",
    ),
    blocks(
        "enableIPForwarding",
        When::Is(true),
        "the Machine API forwards no packets",
        "remove it",
    ),
    blocks(
        "systemAssignedIdentityRole",
        When::Present,
        "the Machine API has user assigned identities only",
        "use userAssignedIdentities",
    ),
    blocks(
        "roleAssignmentName",
        When::Present,
        "the Machine API has user assigned identities only",
        "use userAssignedIdentities",
    ),
    blocks(
        "userAssignedIdentities",
        When::MoreThan(1),
        "the Machine API has one identity",
        "keep one",
    ),
    blocks(
        "networkInterfaces",
        When::MoreThan(1),
        "the Machine API has one network interface",
        "keep one",
    ),
    blocks(
        "spotVMOptions.evictionPolicy",
        When::NotOneOf(&["", "Deallocate"]),
        "the Machine API does not choose what eviction does",
        "remove it",
    ),
];
