//! OpenStack: `OpenstackProviderSpec` and `OpenStackMachine`.

use super::Platform;
use crate::conversion::row::{Row, When, blocks, loses};

/// OpenStack.
pub(super) const PLATFORM: Platform = Platform {
    provider_spec: "OpenstackProviderSpec",
    machine: "OpenStackMachine",
    to_cluster_api: TO_CLUSTER_API,
    to_machine_api: TO_MACHINE_API,
};

/// What Cluster API cannot say of the provider spec.
const TO_CLUSTER_API: &[Row] = &[
    blocks(
        "image",
        When::Missing,
        "Cluster API takes an image by its name",
        "set image to the name",
    ),
    blocks(
        "primarySubnet",
        When::Present,
        "Cluster API has no primary subnet",
        "put the port of that subnet first",
    ),
    blocks(
        "floatingIP",
        When::Present,
        "Cluster API assigns no given floating address",
        "remove it",
    ),
    blocks("sshUserName", When::Present, "Cluster API does not log in", "remove it"),
    blocks(
        "rootVolume.sourceUUID",
        When::Present,
        "Cluster API makes the root volume from the image",
        "set image instead",
    ),
    loses(
        "rootVolume.sourceType",
        When::Present,
        "Cluster API makes the root volume from the image",
        "remove it",
    ),
    loses(
        "rootVolume.deviceType",
        When::Present,
        "Cluster API chooses the type of device",
        "remove it",
    ),
    blocks(
        "additionalBlockDevices[].storage.type",
        When::NotOneOf(&["", "Volume", "Local"]),
        "Cluster API does not know this type",
        "use Volume or Local",
    ),
    blocks(
        "networks[].noAllowedAddressPairs",
        When::Is(true),
        "Cluster API has no such switch for a network",
        "use ports with allowedAddressPairs instead",
    ),
    blocks(
        "networks[].portSecurity",
        When::Present,
        "Cluster API says it of a port",
        "use ports with portSecurity instead",
    ),
    blocks(
        "networks[].profile",
        When::Present,
        "Cluster API says it of a port",
        "use ports with profile instead",
    ),
    blocks(
        "networks[].vnicType",
        When::Present,
        "Cluster API says it of a port",
        "use ports with vnicType instead",
    ),
    loses(
        "networks[].fixedIp",
        When::Present,
        "Cluster API says it of a port",
        "use ports with fixedIPs instead",
    ),
    loses(
        "ports[].hostID",
        When::Present,
        "Cluster API binds no port to a host",
        "remove it",
    ),
    loses(
        "ports[].projectID",
        When::Present,
        "Cluster API makes ports in the project of the cluster",
        "remove it",
    ),
    loses(
        "ports[].tenantID",
        When::Present,
        "Cluster API makes ports in the project of the cluster",
        "remove it",
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
            "cloudsSecret",
            "cloudName",
            "flavor",
            "image",
            "keyName",
            "sshUserName",
            "networks",
            "ports",
            "primarySubnet",
            "floatingIP",
            "availabilityZone",
            "securityGroups",
            "userDataSecret",
            "trunk",
            "tags",
            "serverMetadata",
            "configDrive",
            "rootVolume",
            "additionalBlockDevices",
            "serverGroupID",
            "serverGroupName",
        ]),
        "Capstan does not know a field of Cluster API for it",
        "correct a misspelling, or remove it",
    ),
];

/// What the Machine API cannot say of the infrastructure machine.
const TO_MACHINE_API: &[Row] = &[
    blocks(
        "flavorID",
        When::Present,
        "the Machine API takes a flavor by its name",
        "set flavor",
    ),
    blocks(
        "image.id",
        When::Present,
        "the Machine API takes an image by its name",
        "use image.filter.name",
    ),
    blocks(
        "image.imageRef",
        When::Present,
        "the Machine API takes an image by its name",
        "use image.filter.name",
    ),
    loses(
        "image.filter.tags",
        When::Present,
        "the Machine API takes an image by its name",
        "remove the tags",
    ),
    blocks(
        "floatingIPPoolRef",
        When::Present,
        "the Machine API has no pools of addresses",
        "remove it",
    ),
    blocks(
        "schedulerHintAdditionalProperties",
        When::Present,
        "the Machine API gives no hints to the scheduler",
        "remove them",
    ),
    loses(
        "ports[].hostID",
        When::Present,
        "the Machine API binds no port to a host",
        "remove it",
    ),
    loses(
        "ports[].propagateUplinkStatus",
        When::Present,
        "the Machine API does not propagate the status of an uplink",
        "remove it",
    ),
    loses(
        "ports[].valueSpecs",
        When::Present,
        "the Machine API has no further values of a port",
        "remove them",
    ),
];
