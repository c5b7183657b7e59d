//! OpenStack: `OpenstackProviderSpec` and `OpenStackMachine`.

use super::Platform;
use crate::conversion::row::{Row, When, blocks, loses};
use crate::platforms::openstack;

/// OpenStack.
pub(super) const PLATFORM: Platform = Platform {
    provider_spec: "OpenstackProviderSpec",
    machine: "OpenStackMachine",
    to_cluster_api: TO_CLUSTER_API,
    to_machine_api: TO_MACHINE_API,
};

/// Fields of the provider spec that Cluster API cannot express.
const TO_CLUSTER_API: &[Row] = &[
    blocks(
        "image",
        When::Missing,
        "Cluster API selects an image by its name",
        "set image to the name of an image",
    ),
    blocks(
        "primarySubnet",
        When::Present,
        "Cluster API has no primary subnet",
        "make the port of that subnet the first port",
    ),
    blocks(
        "floatingIP",
        When::Present,
        "Cluster API does not assign a given floating IP",
        "remove it",
    ),
    blocks("sshUserName", When::Present, "Cluster API has no SSH user", "remove it"),
    blocks(
        "rootVolume.sourceUUID",
        When::Present,
        "Cluster API creates the root volume from the image",
        "set image instead",
    ),
    loses(
        "rootVolume.sourceType",
        When::Present,
        "Cluster API creates the root volume from the image",
        "remove it",
    ),
    loses(
        "rootVolume.deviceType",
        When::Present,
        "Cluster API has no device type for the root volume",
        "remove it",
    ),
    blocks(
        "additionalBlockDevices[].storage.type",
        When::NotOneOf(&["", "Volume", "Local"]),
        "Cluster API does not support this type",
        "use Volume or Local",
    ),
    blocks(
        "networks[].noAllowedAddressPairs",
        When::Is(true),
        "Cluster API sets allowed address pairs on ports only",
        "use ports with allowedAddressPairs instead",
    ),
    blocks(
        "networks[].portSecurity",
        When::Present,
        "Cluster API sets it on ports only",
        "use ports with portSecurity instead",
    ),
    blocks(
        "networks[].profile",
        When::Present,
        "Cluster API sets it on ports only",
        "use ports with profile instead",
    ),
    blocks(
        "networks[].vnicType",
        When::Present,
        "Cluster API sets it on ports only",
        "use ports with vnicType instead",
    ),
    loses(
        "networks[].fixedIp",
        When::Present,
        "Cluster API sets it on ports only",
        "use ports with fixedIPs instead",
    ),
    loses(
        "ports[].hostID",
        When::Present,
        "Cluster API does not bind a port to a host",
        "remove it",
    ),
    loses(
        "ports[].projectID",
        When::Present,
        "Cluster API creates ports in the project of the cluster",
        "remove it",
    ),
    loses(
        "ports[].tenantID",
        When::Present,
        "Cluster API creates ports in the project of the cluster",
        "remove it",
    ),
    blocks(
        "metadata.name",
        When::Present,
        "a provider spec is not an object and has no metadata",
        "remove it",
    ),
    blocks(
        "",
        When::UnknownFields(openstack::PROVIDER_SPEC.fields),
        "Capstan knows no field of Cluster API for it",
        "correct the spelling, or remove the field",
    ),
];

/// Fields of the infrastructure machine that the Machine API cannot express.
const TO_MACHINE_API: &[Row] = &[
    blocks(
        "flavorID",
        When::Present,
        "the Machine API selects a flavor by its name",
        "set flavor",
    ),
    blocks(
        "image.id",
        When::Present,
        "the Machine API selects an image by its name",
        "use image.filter.name",
    ),
    blocks(
        "image.imageRef",
        When::Present,
        "the Machine API selects an image by its name",
        "use image.filter.name",
    ),
    loses(
        "image.filter.tags",
        When::Present,
        "the Machine API selects an image by its name",
        "remove the tags",
    ),
    blocks(
        "floatingIPPoolRef",
        When::Present,
        "the Machine API has no address pools",
        "remove it",
    ),
    blocks(
        "schedulerHintAdditionalProperties",
        When::Present,
        "the Machine API has no scheduler hints",
        "remove them",
    ),
    loses(
        "ports[].hostID",
        When::Present,
        "the Machine API does not bind a port to a host",
        "remove it",
    ),
    loses(
        "ports[].propagateUplinkStatus",
        When::Present,
        "the Machine API does not propagate the uplink status",
        "remove it",
    ),
    loses(
        "ports[].valueSpecs",
        When::Present,
        "the Machine API has no additional values for a port",
        "remove them",
    ),
];
