//! AWS: `AWSMachineProviderConfig`.
//!
//! Source: `github.com/openshift/api/machine/v1beta1`.
//!
//! `placement.host` configures dedicated hosts. The type has no field `hostPlacement` (it moved
//! into `placement`), and `dedicatedHost` is a field of the status.

use super::ProviderSpec;

/// The provider spec of AWS.
pub const PROVIDER_SPEC: ProviderSpec = ProviderSpec {
    kind: "AWSMachineProviderConfig",
    fields: &[
        "ami",
        "apiVersion",
        "blockDevices",
        "capacityReservationId",
        "cpuOptions",
        "credentialsSecret",
        "deviceIndex",
        "iamInstanceProfile",
        "instanceType",
        "keyName",
        "kind",
        "loadBalancers",
        "marketType",
        "metadata",
        "metadataServiceOptions",
        "networkInterfaceType",
        "placement",
        "placementGroupName",
        "placementGroupPartition",
        "publicIp",
        "securityGroups",
        "spotMarketOptions",
        "subnet",
        "tags",
        "userDataSecret",
    ],
};
