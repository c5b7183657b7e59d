//! AWS: `AWSMachineProviderConfig` and `AWSMachine`.

use super::Platform;
use crate::conversion::row::{Row, When, blocks, loses};
use crate::platforms::aws;

/// AWS.
pub(super) const PLATFORM: Platform = Platform {
    provider_spec: "AWSMachineProviderConfig",
    machine: "AWSMachine",
    to_cluster_api: TO_CLUSTER_API,
    to_machine_api: TO_MACHINE_API,
};

/// Fields of the provider spec that Cluster API cannot express.
const TO_CLUSTER_API: &[Row] = &[
    blocks(
        "ami",
        When::WithoutAny(&["id"]),
        "Cluster API selects an image by its ID only",
        "set ami.id",
    ),
    blocks(
        "ami.arn",
        When::Present,
        "Cluster API selects an image by its ID only",
        "set ami.id and remove the ARN",
    ),
    blocks(
        "ami.filters",
        When::Present,
        "Cluster API selects an image by its ID only",
        "set ami.id and remove the filters",
    ),
    blocks(
        "cpuOptions.confidentialCompute",
        When::NotOneOf(&["", "Disabled", "AMDEncryptedVirtualizationNestedPaging"]),
        "Cluster API does not support this value",
        "use Disabled or AMDEncryptedVirtualizationNestedPaging",
    ),
    blocks(
        "tags",
        When::Twice("name"),
        "Cluster API stores tags as a map, which cannot hold two tags of the same name",
        "remove the duplicate",
    ),
    blocks(
        "iamInstanceProfile.arn",
        When::Present,
        "Cluster API selects an instance profile by its name only",
        "set iamInstanceProfile.id to the name of the profile",
    ),
    blocks(
        "iamInstanceProfile.filters",
        When::Present,
        "Cluster API selects an instance profile by its name only",
        "set iamInstanceProfile.id to the name of the profile",
    ),
    blocks(
        "credentialsSecret.name",
        When::NotOneOf(&["", "aws-cloud-credentials"]),
        "Cluster API uses the credentials of the cluster",
        "use the Secret aws-cloud-credentials",
    ),
    blocks(
        "deviceIndex",
        When::Not(0),
        "Cluster API always attaches the first network interface at index 0",
        "set deviceIndex to 0",
    ),
    blocks(
        "networkInterfaceType",
        When::NotOneOf(&["", "ENA", "EFA"]),
        "Cluster API does not support this type",
        "use ENA or EFA",
    ),
    blocks(
        "securityGroups[].arn",
        When::Present,
        "Cluster API selects a security group by ID or filters",
        "set its ID or filters",
    ),
    blocks(
        "subnet.arn",
        When::Present,
        "Cluster API selects a subnet by ID or filters",
        "set its ID or filters",
    ),
    blocks(
        "placement.tenancy",
        When::NotOneOf(&["", "default", "dedicated", "host"]),
        "Cluster API does not support this tenancy",
        "use default, dedicated or host",
    ),
    blocks(
        "blockDevices",
        When::SeveralWithout("deviceName"),
        "a device without a name is the root volume, of which only one is possible",
        "set the names of the other devices",
    ),
    blocks(
        "blockDevices[].noDevice",
        When::Present,
        "Cluster API cannot omit a device of the image",
        "remove the entry",
    ),
    blocks(
        "blockDevices[].virtualName",
        When::Present,
        "Cluster API has no instance store volumes",
        "remove the entry",
    ),
    blocks(
        "blockDevices[].ebs.kmsKey.filters",
        When::Present,
        "Cluster API selects a key by ID or ARN",
        "set its ID or ARN",
    ),
    loses(
        "blockDevices[].ebs.deleteOnTermination",
        When::Is(false),
        "Cluster API deletes volumes with the instance",
        "set it to true, and store the data elsewhere",
    ),
    blocks(
        "metadataServiceOptions.authentication",
        When::NotOneOf(&["", "Optional", "Required"]),
        "Cluster API does not support this value",
        "use Optional or Required",
    ),
    blocks(
        "marketType",
        When::NotOneOf(&["", "OnDemand", "Spot", "CapacityBlock"]),
        "Cluster API does not support this market type",
        "use OnDemand, Spot or CapacityBlock",
    ),
    blocks(
        "metadata.name",
        When::Present,
        "a provider spec is not an object and has no metadata",
        "remove it",
    ),
    blocks(
        "metadata.labels",
        When::Present,
        "a provider spec is not an object and has no metadata",
        "remove them",
    ),
    blocks(
        "",
        When::UnknownFields(aws::PROVIDER_SPEC.fields),
        "Capstan knows no field of Cluster API for it",
        "correct the spelling, or remove the field",
    ),
];

/// Fields of the infrastructure machine that the Machine API cannot express.
const TO_MACHINE_API: &[Row] = &[
    blocks(
        "ami.eksLookupType",
        When::Present,
        "the Machine API has no image lookup",
        "set ami.id",
    ),
    blocks(
        "imageLookupFormat",
        When::Present,
        "the Machine API has no image lookup",
        "set ami.id",
    ),
    blocks(
        "imageLookupOrg",
        When::Present,
        "the Machine API has no image lookup",
        "set ami.id",
    ),
    blocks(
        "imageLookupBaseOS",
        When::Present,
        "the Machine API has no image lookup",
        "set ami.id",
    ),
    blocks(
        "networkInterfaces",
        When::Present,
        "the Machine API creates the only network interface itself",
        "remove them",
    ),
    blocks(
        "uncompressedUserData",
        When::Present,
        "the Machine API does not set the compression of user data",
        "remove it",
    ),
    blocks(
        "cloudInit",
        When::Present,
        "the Machine API boots with Ignition",
        "remove it",
    ),
    blocks(
        "ignition.proxy",
        When::Present,
        "the Machine API has no proxy for Ignition",
        "remove it",
    ),
    blocks(
        "ignition.tls",
        When::Present,
        "the Machine API has no TLS settings for Ignition",
        "remove it",
    ),
    blocks(
        "securityGroupOverrides",
        When::Present,
        "the Machine API has no security groups by role",
        "remove them",
    ),
    blocks(
        "elasticIpPool",
        When::Present,
        "the Machine API has no address pools",
        "remove it",
    ),
    blocks(
        "capacityReservationPreference",
        When::Present,
        "the Machine API selects a capacity reservation by its ID only",
        "set capacityReservationId",
    ),
    blocks(
        "tenancy",
        When::NotOneOf(&["", "default", "dedicated", "host"]),
        "the Machine API does not support this tenancy",
        "use default, dedicated or host",
    ),
    blocks(
        "networkInterfaceType",
        When::NotOneOf(&["", "interface", "efa"]),
        "the Machine API does not support this type",
        "use interface or efa",
    ),
    blocks(
        "instanceMetadataOptions.httpEndpoint",
        When::NotOneOf(&["", "enabled"]),
        "the Machine API always enables it",
        "set it to enabled",
    ),
    blocks(
        "instanceMetadataOptions.httpPutResponseHopLimit",
        When::Not(1),
        "the Machine API always uses 1",
        "set it to 1",
    ),
    blocks(
        "instanceMetadataOptions.instanceMetadataTags",
        When::NotOneOf(&["", "disabled"]),
        "the Machine API always disables it",
        "set it to disabled",
    ),
    blocks(
        "instanceMetadataOptions.httpProtocolIpv6",
        When::NotOneOf(&["", "disabled"]),
        "the Machine API always disables it",
        "set it to disabled",
    ),
    loses(
        "rootVolume.deviceName",
        When::Present,
        "the Machine API recognises the root volume by its missing device name",
        "remove the name",
    ),
];
