//! Nutanix: `NutanixMachineProviderConfig` and `NutanixMachine`.

use super::Platform;
use crate::conversion::row::{Row, When, blocks};

/// Nutanix.
pub(super) const PLATFORM: Platform = Platform {
    provider_spec: "NutanixMachineProviderConfig",
    machine: "NutanixMachine",
    to_cluster_api: TO_CLUSTER_API,
    to_machine_api: TO_MACHINE_API,
};

/// What Cluster API cannot say of the provider spec.
const TO_CLUSTER_API: &[Row] = &[
    blocks(
        "bootType",
        When::NotOneOf(&["", "Legacy", "UEFI"]),
        "Cluster API does not know this way to boot",
        "use Legacy or UEFI",
    ),
    blocks(
        "credentialsSecret.name",
        When::NotOneOf(&["", "nutanix-credentials"]),
        "Cluster API uses the credentials of the whole cluster",
        "use the Secret nutanix-credentials",
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
            "cluster",
            "image",
            "subnets",
            "vcpusPerSocket",
            "vcpuSockets",
            "memorySize",
            "systemDiskSize",
            "bootType",
            "project",
            "categories",
            "gpus",
            "dataDisks",
            "userDataSecret",
            "credentialsSecret",
            "failureDomain",
        ]),
        "Capstan does not know a field of Cluster API for it",
        "correct a misspelling, or remove it",
    ),
];

/// What the Machine API cannot say of the infrastructure machine.
const TO_MACHINE_API: &[Row] = &[
    blocks(
        "imageLookup",
        When::Present,
        "the Machine API does not look for images",
        "set image",
    ),
    blocks(
        "bootstrapRef.kind",
        When::NotOneOf(&["", "Secret"]),
        "the Machine API boots a machine with a Secret",
        "set the bootstrap Secret of the Machine",
    ),
];
