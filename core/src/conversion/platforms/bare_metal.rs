//! Bare metal: `BareMetalMachineProviderSpec` and `Metal3Machine`.
//!
//! The specs are convertible. The BareMetalHost would have to be handed over too, which is not
//! implemented, so a machine of bare metal cannot migrate.

use super::Platform;
use crate::conversion::row::{Row, When, blocks};
use crate::platforms::bare_metal;

/// Bare metal.
pub(super) const PLATFORM: Platform = Platform {
    provider_spec: "BareMetalMachineProviderSpec",
    machine: "Metal3Machine",
    to_cluster_api: TO_CLUSTER_API,
    to_machine_api: TO_MACHINE_API,
};

/// Fields of the provider spec that Cluster API cannot express.
const TO_CLUSTER_API: &[Row] = &[
    blocks(
        "kind",
        When::Present,
        "the BareMetalHost of a machine cannot be handed over yet",
        "keep the Machine in the Machine API",
    ),
    blocks(
        "metadata.name",
        When::Present,
        "a provider spec is not an object and has no metadata",
        "remove it",
    ),
    blocks(
        "",
        When::UnknownFields(bare_metal::PROVIDER_SPEC.fields),
        "Capstan knows no field of Cluster API for it",
        "correct the spelling, or remove the field",
    ),
];

/// Fields of the infrastructure machine that the Machine API cannot express.
const TO_MACHINE_API: &[Row] = &[
    blocks(
        "",
        When::Present,
        "the BareMetalHost of a machine cannot be handed over yet",
        "keep the Machine in Cluster API",
    ),
    blocks(
        "dataTemplate",
        When::Present,
        "the Machine API has no data templates",
        "remove it",
    ),
    blocks(
        "metaData",
        When::Present,
        "the Machine API has no instance metadata",
        "remove it",
    ),
    blocks(
        "networkData",
        When::Present,
        "the Machine API has no network data",
        "remove it",
    ),
    blocks(
        "automatedCleaningMode",
        When::Present,
        "the Machine API has no cleaning mode",
        "remove it",
    ),
];
