//! Nutanix: `NutanixMachineProviderConfig` and `NutanixMachine`.

use super::Platform;
use crate::conversion::row::{Row, When, blocks};
use crate::platforms::nutanix;

/// Nutanix.
pub(super) const PLATFORM: Platform = Platform {
    provider_spec: "NutanixMachineProviderConfig",
    machine: "NutanixMachine",
    to_cluster_api: TO_CLUSTER_API,
    to_machine_api: TO_MACHINE_API,
};

/// Fields of the provider spec that Cluster API cannot express.
const TO_CLUSTER_API: &[Row] = &[
    blocks(
        "bootType",
        When::NotOneOf(&["", "Legacy", "UEFI"]),
        "Cluster API does not support this boot type",
        "use Legacy or UEFI",
    ),
    blocks(
        "credentialsSecret.name",
        When::NotOneOf(&["", "nutanix-credentials"]),
        "Cluster API uses the credentials of the cluster",
        "use the Secret nutanix-credentials",
    ),
    blocks(
        "metadata.name",
        When::Present,
        "a provider spec is not an object and has no metadata",
        "remove it",
    ),
    blocks(
        "",
        When::UnknownFields(nutanix::PROVIDER_SPEC.fields),
        "Capstan knows no field of Cluster API for it",
        "correct the spelling, or remove the field",
    ),
];

/// Fields of the infrastructure machine that the Machine API cannot express.
const TO_MACHINE_API: &[Row] = &[
    blocks(
        "imageLookup",
        When::Present,
        "the Machine API has no image lookup",
        "set image",
    ),
    blocks(
        "bootstrapRef.kind",
        When::NotOneOf(&["", "Secret"]),
        "the Machine API bootstraps a machine from a Secret",
        "set the bootstrap Secret of the Machine",
    ),
];
