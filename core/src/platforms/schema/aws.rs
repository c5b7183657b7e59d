//! The type of the provider spec of AWS: `AWSMachineProviderConfig`.
//!
//! Source: `github.com/openshift/api/machine/v1beta1`.

use super::{Field, Type};

pub(super) const PROVIDER_SPEC: &[Field] = &[
    ("ami", Type::Object(AWS_RESOURCE_REFERENCE)),
    ("apiVersion", Type::Text),
    ("blockDevices", Type::List(&Type::Object(BLOCK_DEVICE_MAPPING_SPEC))),
    ("capacityReservationId", Type::Text),
    ("cpuOptions", Type::Object(CPU_OPTIONS)),
    ("credentialsSecret", Type::Object(LOCAL_OBJECT_REFERENCE)),
    ("deviceIndex", Type::Number),
    ("iamInstanceProfile", Type::Object(AWS_RESOURCE_REFERENCE)),
    ("instanceType", Type::Text),
    ("keyName", Type::Text),
    ("kind", Type::Text),
    ("loadBalancers", Type::List(&Type::Object(LOAD_BALANCER_REFERENCE))),
    ("marketType", Type::Text),
    ("metadata", Type::Json),
    ("metadataServiceOptions", Type::Object(METADATA_SERVICE_OPTIONS)),
    ("networkInterfaceType", Type::Text),
    ("placement", Type::Object(PLACEMENT)),
    ("placementGroupName", Type::Text),
    ("placementGroupPartition", Type::OptionalNumber),
    ("publicIp", Type::OptionalFlag),
    ("securityGroups", Type::List(&Type::Object(AWS_RESOURCE_REFERENCE))),
    ("spotMarketOptions", Type::OptionalObject(SPOT_MARKET_OPTIONS)),
    ("subnet", Type::Object(AWS_RESOURCE_REFERENCE)),
    ("tags", Type::List(&Type::Object(TAG_SPECIFICATION))),
    ("userDataSecret", Type::Object(LOCAL_OBJECT_REFERENCE)),
];

const METADATA_SERVICE_OPTIONS: &[Field] = &[("authentication", Type::Text)];

const SPOT_MARKET_OPTIONS: &[Field] = &[("maxPrice", Type::Text)];

const BLOCK_DEVICE_MAPPING_SPEC: &[Field] = &[
    ("deviceName", Type::Text),
    ("ebs", Type::Object(EBS_BLOCK_DEVICE_SPEC)),
    ("noDevice", Type::Text),
    ("virtualName", Type::Text),
];

const EBS_BLOCK_DEVICE_SPEC: &[Field] = &[
    ("deleteOnTermination", Type::OptionalFlag),
    ("encrypted", Type::OptionalFlag),
    ("iops", Type::OptionalNumber),
    ("kmsKey", Type::Object(AWS_RESOURCE_REFERENCE)),
    ("throughputMib", Type::OptionalNumber),
    ("volumeSize", Type::OptionalNumber),
    ("volumeType", Type::Text),
];

const LOAD_BALANCER_REFERENCE: &[Field] = &[("name", Type::Text), ("type", Type::Text)];

const PLACEMENT: &[Field] = &[
    ("availabilityZone", Type::Text),
    ("host", Type::Object(HOST_PLACEMENT)),
    ("region", Type::Text),
    ("tenancy", Type::Text),
];

const HOST_PLACEMENT: &[Field] = &[
    ("affinity", Type::Text),
    ("dedicatedHost", Type::Object(DEDICATED_HOST)),
];

const DEDICATED_HOST: &[Field] = &[
    ("allocationStrategy", Type::Text),
    ("dynamicHostAllocation", Type::Object(DYNAMIC_HOST_ALLOCATION_SPEC)),
    ("id", Type::Text),
];

const DYNAMIC_HOST_ALLOCATION_SPEC: &[Field] = &[("tags", Type::List(&Type::Object(TAG_SPECIFICATION)))];

const LOCAL_OBJECT_REFERENCE: &[Field] = &[("name", Type::Text)];

const TAG_SPECIFICATION: &[Field] = &[("name", Type::Text), ("value", Type::Text)];

const CPU_OPTIONS: &[Field] = &[("confidentialCompute", Type::Text)];

const AWS_RESOURCE_REFERENCE: &[Field] = &[
    ("arn", Type::Text),
    ("filters", Type::List(&Type::Object(FILTER))),
    ("id", Type::Text),
];

const FILTER: &[Field] = &[("name", Type::Text), ("values", Type::List(&Type::Text))];
