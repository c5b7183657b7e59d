//! Power VS: `PowerVSMachineProviderConfig` and `IBMPowerVSMachine`.

use super::Platform;
use crate::conversion::row::{Row, When, blocks};

/// Power VS.
pub(super) const PLATFORM: Platform = Platform {
    provider_spec: "PowerVSMachineProviderConfig",
    machine: "IBMPowerVSMachine",
    to_cluster_api: TO_CLUSTER_API,
    to_machine_api: TO_MACHINE_API,
};

/// What Cluster API cannot say of the provider spec.
const TO_CLUSTER_API: &[Row] = &[
    blocks(
        "serviceInstance.type",
        When::NotOneOf(&["", "ID", "Name", "RegEx"]),
        "Cluster API does not know this type of reference",
        "use ID, Name or RegEx",
    ),
    blocks(
        "image.type",
        When::NotOneOf(&["", "ID", "Name", "RegEx"]),
        "Cluster API does not know this type of reference",
        "use ID, Name or RegEx",
    ),
    blocks(
        "network.type",
        When::NotOneOf(&["", "ID", "Name", "RegEx"]),
        "Cluster API does not know this type of reference",
        "use ID, Name or RegEx",
    ),
    blocks(
        "loadBalancers",
        When::Present,
        "Cluster API keeps load balancers with the cluster",
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
            "userDataSecret",
            "credentialsSecret",
            "serviceInstance",
            "image",
            "network",
            "keyPairName",
            "systemType",
            "processorType",
            "processors",
            "memoryGiB",
            "loadBalancers",
        ]),
        "Capstan does not know a field of Cluster API for it",
        "correct a misspelling, or remove it",
    ),
];

/// What the Machine API cannot say of the infrastructure machine.
const TO_MACHINE_API: &[Row] = &[];
