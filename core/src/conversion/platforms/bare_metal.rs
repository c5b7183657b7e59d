//! Bare metal: `BareMetalMachineProviderSpec` and `Metal3Machine`. The specs convert; the host itself needs a hand-over
//! of its own, which does not exist yet, so a machine with a host stays where it is.

use super::Platform;
use crate::conversion::row::{Row, When, blocks};

/// Bare metal.
pub(super) const PLATFORM: Platform = Platform {
    provider_spec: "BareMetalMachineProviderSpec",
    machine: "Metal3Machine",
    to_cluster_api: TO_CLUSTER_API,
    to_machine_api: TO_MACHINE_API,
};

/// What Cluster API cannot say of the provider spec.
const TO_CLUSTER_API: &[Row] = &[
    blocks(
        "kind",
        When::Present,
        "the host behind a machine of bare metal cannot be handed over yet",
        "keep the machine with the Machine API",
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
            "image",
            "customDeploy",
            "userData",
            "hostSelector",
        ]),
        "Capstan does not know a field of Cluster API for it",
        "correct a misspelling, or remove it",
    ),
];

/// What the Machine API cannot say of the infrastructure machine.
const TO_MACHINE_API: &[Row] = &[
    blocks(
        "",
        When::Present,
        "the host behind a machine of bare metal cannot be handed over yet",
        "keep the machine with Cluster API",
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
        "the Machine API hands on no metadata",
        "remove it",
    ),
    blocks(
        "networkData",
        When::Present,
        "the Machine API hands on no network data",
        "remove it",
    ),
    blocks(
        "automatedCleaningMode",
        When::Present,
        "the Machine API does not choose how a host is cleaned",
        "remove it",
    ),
];
