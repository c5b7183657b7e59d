//! GCP: `GCPMachineProviderSpec` and `GCPMachine`.

use super::Platform;
use crate::conversion::row::{Row, When, blocks};
use crate::platforms::gcp;

/// GCP.
pub(super) const PLATFORM: Platform = Platform {
    provider_spec: "GCPMachineProviderSpec",
    machine: "GCPMachine",
    to_cluster_api: TO_CLUSTER_API,
    to_machine_api: TO_MACHINE_API,
};

/// Fields of the provider spec that Cluster API cannot express.
const TO_CLUSTER_API: &[Row] = &[
    blocks(
        "networkInterfaces",
        When::MoreThan(1),
        "Cluster API supports one network interface",
        "keep one",
    ),
    blocks(
        "serviceAccounts",
        When::MoreThan(1),
        "Cluster API supports one service account",
        "keep one",
    ),
    blocks(
        "disks[].labels",
        When::Present,
        "Cluster API does not label disks",
        "remove them",
    ),
    blocks(
        "disks[].autoDelete",
        When::Is(false),
        "Cluster API deletes disks with the instance",
        "set it to true, and store the data elsewhere",
    ),
    blocks(
        "deletionProtection",
        When::Is(true),
        "Cluster API does not protect instances from deletion",
        "set it to false",
    ),
    blocks(
        "restartPolicy",
        When::NotOneOf(&["", "Always"]),
        "Cluster API always restarts an instance",
        "set it to Always",
    ),
    blocks(
        "credentialsSecret.name",
        When::NotOneOf(&["", "gcp-cloud-credentials"]),
        "Cluster API uses the credentials of the cluster",
        "use the Secret gcp-cloud-credentials",
    ),
    blocks(
        "metadata.name",
        When::Present,
        "a provider spec is not an object and has no metadata",
        "remove it",
    ),
    blocks(
        "",
        When::UnknownFields(gcp::PROVIDER_SPEC.fields),
        "Capstan knows no field of Cluster API for it",
        "correct the spelling, or remove the field",
    ),
];

/// Fields of the infrastructure machine that the Machine API cannot express.
const TO_MACHINE_API: &[Row] = &[
    blocks(
        "imageFamily",
        When::Present,
        "the Machine API selects an image by its name",
        "set image",
    ),
    blocks(
        "aliasIPRanges",
        When::Present,
        "the Machine API has no alias IP ranges",
        "remove them",
    ),
    blocks(
        "rootDiskEncryptionKey.suppliedKey",
        When::Present,
        "the Machine API supports managed keys only",
        "use managedKey",
    ),
    blocks(
        "additionalDisks[].encryptionKey.suppliedKey",
        When::Present,
        "the Machine API supports managed keys only",
        "use managedKey",
    ),
];
