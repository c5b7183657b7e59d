//! AWS: `AWSMachineProviderConfig` and `AWSMachine`.

use super::Platform;
use crate::conversion::row::{Row, When, blocks, loses};

/// AWS.
pub(super) const PLATFORM: Platform = Platform {
    provider_spec: "AWSMachineProviderConfig",
    machine: "AWSMachine",
    to_cluster_api: TO_CLUSTER_API,
    to_machine_api: TO_MACHINE_API,
};

/// What Cluster API cannot say of the provider spec.
const TO_CLUSTER_API: &[Row] = &[
    blocks(
        "ami",
        When::WithoutAny(&["id"]),
        "Cluster API takes an image by its id only",
        "set ami.id",
    ),
    blocks(
        "ami.arn",
        When::Present,
        "Cluster API takes an image by its id only",
        "set ami.id and remove the ARN",
    ),
    blocks(
        "ami.filters",
        When::Present,
        "Cluster API takes an image by its id only",
        "set ami.id and remove the filters",
    ),
    blocks(
        "cpuOptions.confidentialCompute",
        When::NotOneOf(&["", "Disabled", "AMDEncryptedVirtualizationNestedPaging"]),
        "Cluster API does not know this value",
        "use Disabled or AMDEncryptedVirtualizationNestedPaging",
    ),
    blocks(
        "tags",
        When::Twice("name"),
        "Cluster API keeps tags as a map, and of two with one name only one would stay",
        "remove the duplicate",
    ),
    blocks(
        "iamInstanceProfile.arn",
        When::Present,
        "Cluster API takes an instance profile by its name only",
        "set iamInstanceProfile.id to the name of the profile",
    ),
    blocks(
        "iamInstanceProfile.filters",
        When::Present,
        "Cluster API takes an instance profile by its name only",
        "set iamInstanceProfile.id to the name of the profile",
    ),
    blocks(
        "credentialsSecret.name",
        When::NotOneOf(&["", "aws-cloud-credentials"]),
        "Cluster API uses the credentials of the whole cluster",
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
        "Cluster API does not know this type",
        "use ENA or EFA",
    ),
    blocks(
        "securityGroups[].arn",
        When::Present,
        "Cluster API takes a security group by id or filters",
        "give its id or filters",
    ),
    blocks(
        "subnet.arn",
        When::Present,
        "Cluster API takes a subnet by id or filters",
        "give its id or filters",
    ),
    blocks(
        "placement.tenancy",
        When::NotOneOf(&["", "default", "dedicated", "host"]),
        "Cluster API does not know this tenancy",
        "use default, dedicated or host",
    ),
    blocks(
        "blockDevices",
        When::TwoWithout("deviceName"),
        "a device without a name is the root volume, and there can be only one",
        "name the other devices",
    ),
    blocks(
        "blockDevices[].noDevice",
        When::Present,
        "Cluster API cannot leave out a device of the image",
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
        "Cluster API takes a key by id or ARN",
        "give its id or ARN",
    ),
    loses(
        "blockDevices[].ebs.deleteOnTermination",
        When::Is(false),
        "Cluster API deletes volumes together with the instance",
        "set it to true, and keep the data elsewhere",
    ),
    blocks(
        "metadataServiceOptions.authentication",
        When::NotOneOf(&["", "Optional", "Required"]),
        "Cluster API does not know this value",
        "use Optional or Required",
    ),
    blocks(
        "marketType",
        When::NotOneOf(&["", "OnDemand", "Spot", "CapacityBlock"]),
        "Cluster API does not know this market",
        "use OnDemand, Spot or CapacityBlock",
    ),
    blocks(
        "metadata.name",
        When::Present,
        "a provider spec is no object of its own",
        "remove it",
    ),
    blocks(
        "metadata.labels",
        When::Present,
        "a provider spec is no object of its own",
        "remove them",
    ),
    blocks(
        "",
        When::UnknownFields(&[
            "apiVersion",
            "kind",
            "metadata",
            "ami",
            "instanceType",
            "cpuOptions",
            "tags",
            "iamInstanceProfile",
            "userDataSecret",
            "credentialsSecret",
            "keyName",
            "deviceIndex",
            "publicIp",
            "networkInterfaceType",
            "securityGroups",
            "subnet",
            "placement",
            "loadBalancers",
            "blockDevices",
            "spotMarketOptions",
            "metadataServiceOptions",
            "placementGroupName",
            "placementGroupPartition",
            "capacityReservationId",
            "marketType",
        ]),
        "Capstan does not know a field of Cluster API for it",
        "correct a misspelling, or remove it",
    ),
];

/// What the Machine API cannot say of the infrastructure machine.
const TO_MACHINE_API: &[Row] = &[
    blocks(
        "ami.eksLookupType",
        When::Present,
        "the Machine API does not look for images",
        "set ami.id",
    ),
    blocks(
        "imageLookupFormat",
        When::Present,
        "the Machine API does not look for images",
        "set ami.id",
    ),
    blocks(
        "imageLookupOrg",
        When::Present,
        "the Machine API does not look for images",
        "set ami.id",
    ),
    blocks(
        "imageLookupBaseOS",
        When::Present,
        "the Machine API does not look for images",
        "set ami.id",
    ),
    blocks(
        "networkInterfaces",
        When::Present,
        "the Machine API makes one network interface itself",
        "remove them",
    ),
    blocks(
        "uncompressedUserData",
        When::Present,
        "the Machine API does not choose how user data is packed",
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
        "the Machine API has no authorities for Ignition",
        "remove it",
    ),
    blocks(
        "securityGroupOverrides",
        When::Present,
        "the Machine API has no roles of security groups",
        "remove them",
    ),
    blocks(
        "elasticIpPool",
        When::Present,
        "the Machine API has no pools of addresses",
        "remove it",
    ),
    blocks(
        "capacityReservationPreference",
        When::Present,
        "the Machine API takes a reservation by its id only",
        "set capacityReservationId",
    ),
    blocks(
        "tenancy",
        When::NotOneOf(&["", "default", "dedicated", "host"]),
        "the Machine API does not know this tenancy",
        "use default, dedicated or host",
    ),
    blocks(
        "networkInterfaceType",
        When::NotOneOf(&["", "interface", "efa"]),
        "the Machine API does not know this type",
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
        "the Machine API knows the root volume by its having no device name",
        "remove the name",
    ),
];
