//! vSphere: `VSphereMachineProviderSpec` and `VSphereMachine`.

use super::Platform;
use crate::conversion::row::{Row, When, blocks};
use crate::platforms::vsphere;

/// vSphere.
pub(super) const PLATFORM: Platform = Platform {
    provider_spec: "VSphereMachineProviderSpec",
    machine: "VSphereMachine",
    to_cluster_api: TO_CLUSTER_API,
    to_machine_api: TO_MACHINE_API,
};

/// Fields of the provider spec that Cluster API cannot express.
const TO_CLUSTER_API: &[Row] = &[
    blocks(
        "workspace.vmGroup",
        When::Present,
        "Cluster API sets a VM group on a deployment zone, not on a machine",
        "use a failure domain of the Infrastructure object",
    ),
    blocks(
        "metadata.name",
        When::Present,
        "a provider spec is not an object and has no metadata",
        "remove it",
    ),
    blocks(
        "",
        When::UnknownFields(vsphere::PROVIDER_SPEC.fields),
        "Capstan knows no field of Cluster API for it",
        "correct the spelling, or remove the field",
    ),
];

/// Fields of the infrastructure machine that the Machine API cannot express.
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
        "the Machine API creates additional disks from dataDisks",
        "use dataDisks",
    ),
    blocks(
        "customVMXKeys",
        When::Present,
        "the Machine API sets no VMX keys",
        "remove them",
    ),
    blocks(
        "pciDevices",
        When::Present,
        "the Machine API has no PCI passthrough",
        "remove them",
    ),
    blocks(
        "hardwareVersion",
        When::Present,
        "the Machine API uses the hardware version of the template",
        "remove it",
    ),
    blocks(
        "resources",
        When::Present,
        "the Machine API has no resource shares and limits",
        "remove them",
    ),
    blocks(
        "guestSoftPowerOffTimeout",
        When::Present,
        "the Machine API has no timeout for a guest shutdown",
        "remove it",
    ),
    blocks(
        "guestSoftPowerOffTimeoutSeconds",
        When::Present,
        "the Machine API has no timeout for a guest shutdown",
        "remove it",
    ),
    blocks(
        "namingStrategy",
        When::Present,
        "the Machine API generates the names of virtual machines",
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
        "the Machine API does not override DHCP",
        "remove them",
    ),
    blocks(
        "network.devices[].dhcp6Overrides",
        When::Present,
        "the Machine API does not override DHCP",
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
        "the Machine API supports Linux only",
        "remove it",
    ),
    blocks(
        "powerOffMode",
        When::NotOneOf(&["", "hard"]),
        "the Machine API supports a hard power-off only",
        "set it to hard",
    ),
];
