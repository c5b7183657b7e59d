//! vSphere: `VSphereMachineProviderSpec` and `VSphereMachine`.

use super::Platform;
use crate::conversion::row::{Row, When, blocks};

/// VSphere.
pub(super) const PLATFORM: Platform = Platform {
    provider_spec: "VSphereMachineProviderSpec",
    machine: "VSphereMachine",
    to_cluster_api: TO_CLUSTER_API,
    to_machine_api: TO_MACHINE_API,
};

/// What Cluster API cannot say of the provider spec.
const TO_CLUSTER_API: &[Row] = &[
    blocks(
        "workspace.vmGroup",
        When::Present,
        "a machine of Cluster API is in no VM group; only a deployment zone is",
        "use a failure domain of the Infrastructure instead",
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
            "template",
            "workspace",
            "network",
            "numCPUs",
            "numCoresPerSocket",
            "memoryMiB",
            "diskGiB",
            "tagIDs",
            "snapshot",
            "cloneMode",
            "dataDisks",
        ]),
        "Capstan does not know a field of Cluster API for it",
        "correct a misspelling, or remove it",
    ),
];

/// What the Machine API cannot say of the infrastructure machine.
const TO_MACHINE_API: &[Row] = &[
    blocks(
        "storagePolicyName",
        When::Present,
        "the Machine API has no storage policies",
        "remove it",
    ),
    blocks(
        "additionalDisksGiB",
        When::Present,
        "the Machine API makes further disks from dataDisks",
        "use dataDisks",
    ),
    blocks(
        "customVMXKeys",
        When::Present,
        "the Machine API sets no keys of the VMX",
        "remove them",
    ),
    blocks(
        "pciDevices",
        When::Present,
        "the Machine API passes no devices through",
        "remove them",
    ),
    blocks(
        "hardwareVersion",
        When::Present,
        "the Machine API takes the hardware version of the template",
        "remove it",
    ),
    blocks(
        "resources",
        When::Present,
        "the Machine API has no shares and limits",
        "remove them",
    ),
    blocks(
        "guestSoftPowerOffTimeout",
        When::Present,
        "the Machine API does not wait for the guest",
        "remove it",
    ),
    blocks(
        "guestSoftPowerOffTimeoutSeconds",
        When::Present,
        "the Machine API does not wait for the guest",
        "remove it",
    ),
    blocks(
        "namingStrategy",
        When::Present,
        "the Machine API names machines itself",
        "remove it",
    ),
    blocks(
        "network.routes",
        When::Present,
        "the Machine API sets no routes",
        "remove them",
    ),
    blocks(
        "network.devices[].dhcp4Overrides",
        When::Present,
        "the Machine API takes what DHCP says",
        "remove them",
    ),
    blocks(
        "network.devices[].dhcp6Overrides",
        When::Present,
        "the Machine API takes what DHCP says",
        "remove them",
    ),
    blocks(
        "network.devices[].mtu",
        When::Present,
        "the Machine API sets no MTU",
        "remove it",
    ),
    blocks(
        "network.devices[].macAddr",
        When::Present,
        "the Machine API sets no MAC address",
        "remove it",
    ),
    blocks(
        "network.devices[].searchDomains",
        When::Present,
        "the Machine API sets no search domains",
        "remove them",
    ),
    blocks(
        "network.devices[].routes",
        When::Present,
        "the Machine API sets no routes",
        "remove them",
    ),
    blocks(
        "os",
        When::NotOneOf(&["", "Linux"]),
        "the Machine API makes Linux machines only",
        "remove it",
    ),
    blocks(
        "powerOffMode",
        When::NotOneOf(&["", "hard"]),
        "the Machine API turns machines off hard",
        "set it to hard",
    ),
];
