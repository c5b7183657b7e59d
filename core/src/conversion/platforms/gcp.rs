//! GCP: `GCPMachineProviderSpec` and `GCPMachine`.

use super::Platform;
use crate::conversion::row::{Row, When, blocks};

/// GCP.
pub(super) const PLATFORM: Platform = Platform {
    provider_spec: "GCPMachineProviderSpec",
    machine: "GCPMachine",
    to_cluster_api: TO_CLUSTER_API,
    to_machine_api: TO_MACHINE_API,
};

/// What Cluster API cannot say of the provider spec.
const TO_CLUSTER_API: &[Row] = &[
    blocks(
        "networkInterfaces",
        When::MoreThan(1),
        "Cluster API makes one network interface",
        "keep one",
    ),
    blocks(
        "serviceAccounts",
        When::MoreThan(1),
        "Cluster API gives an instance one service account",
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
        "Cluster API deletes disks together with the instance",
        "set it to true, and keep the data elsewhere",
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
        "Cluster API uses the credentials of the whole cluster",
        "use the Secret gcp-cloud-credentials",
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
            "canIPForward",
            "deletionProtection",
            "disks",
            "labels",
            "gcpMetadata",
            "networkInterfaces",
            "serviceAccounts",
            "tags",
            "targetPools",
            "machineType",
            "region",
            "zone",
            "projectID",
            "gpus",
            "preemptible",
            "provisioningModel",
            "onHostMaintenance",
            "restartPolicy",
            "shieldedInstanceConfig",
            "confidentialCompute",
            "resourceManagerTags",
        ]),
        "Capstan does not know a field of Cluster API for it",
        "correct a misspelling, or remove it",
    ),
];

/// What the Machine API cannot say of the infrastructure machine.
const TO_MACHINE_API: &[Row] = &[
    blocks(
        "imageFamily",
        When::Present,
        "the Machine API takes an image by its name",
        "set image",
    ),
    blocks(
        "aliasIPRanges",
        When::Present,
        "the Machine API has no alias ranges",
        "remove them",
    ),
    blocks(
        "rootDiskEncryptionKey.suppliedKey",
        When::Present,
        "the Machine API takes managed keys only",
        "use managedKey",
    ),
    blocks(
        "additionalDisks[].encryptionKey.suppliedKey",
        When::Present,
        "the Machine API takes managed keys only",
        "use managedKey",
    ),
];
