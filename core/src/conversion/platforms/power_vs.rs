//! Power VS: `PowerVSMachineProviderConfig` and `IBMPowerVSMachine`.

use super::Platform;
use crate::conversion::row::{Row, When, blocks};
use crate::platforms::power_vs;

/// Power VS.
pub(super) const PLATFORM: Platform = Platform {
    provider_spec: "PowerVSMachineProviderConfig",
    machine: "IBMPowerVSMachine",
    to_cluster_api: TO_CLUSTER_API,
    to_machine_api: TO_MACHINE_API,
};

/// Fields of the provider spec that Cluster API cannot express.
const TO_CLUSTER_API: &[Row] = &[
    blocks(
        "serviceInstance.type",
        When::NotOneOf(&["", "ID", "Name", "RegEx"]),
        "Cluster API does not support this type of reference",
        "use ID, Name or RegEx",
    ),
    blocks(
        "image.type",
        When::NotOneOf(&["", "ID", "Name", "RegEx"]),
        "Cluster API does not support this type of reference",
        "use ID, Name or RegEx",
    ),
    blocks(
        "network.type",
        When::NotOneOf(&["", "ID", "Name", "RegEx"]),
        "Cluster API does not support this type of reference",
        "use ID, Name or RegEx",
    ),
    blocks(
        "loadBalancers",
        When::Present,
        "Cluster API sets load balancers in the infrastructure cluster",
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
        When::UnknownFields(power_vs::PROVIDER_SPEC.fields),
        "Capstan knows no field of Cluster API for it",
        "correct the spelling, or remove the field",
    ),
];

/// Fields of the infrastructure machine that the Machine API cannot express.
const TO_MACHINE_API: &[Row] = &[];
