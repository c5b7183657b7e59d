//! The type of the provider spec of Nutanix: `NutanixMachineProviderConfig`.
//!
//! Source: `github.com/openshift/api/machine/v1`.

use super::{Field, Type};

pub(super) const PROVIDER_SPEC: &[Field] = &[
    ("apiVersion", Type::Text),
    ("bootType", Type::Text),
    ("categories", Type::List(&Type::Object(NUTANIX_CATEGORY))),
    ("cluster", Type::Object(NUTANIX_RESOURCE_IDENTIFIER)),
    ("credentialsSecret", Type::Object(LOCAL_OBJECT_REFERENCE)),
    ("dataDisks", Type::List(&Type::Object(NUTANIX_VM_DISK))),
    ("failureDomain", Type::Object(NUTANIX_FAILURE_DOMAIN_REFERENCE)),
    ("gpus", Type::List(&Type::Object(NUTANIX_GPU))),
    ("image", Type::Object(NUTANIX_RESOURCE_IDENTIFIER)),
    ("kind", Type::Text),
    ("memorySize", Type::Quantity),
    ("metadata", Type::Json),
    ("project", Type::Object(NUTANIX_RESOURCE_IDENTIFIER)),
    ("subnets", Type::List(&Type::Object(NUTANIX_RESOURCE_IDENTIFIER))),
    ("systemDiskSize", Type::Quantity),
    ("userDataSecret", Type::Object(LOCAL_OBJECT_REFERENCE)),
    ("vcpuSockets", Type::Number),
    ("vcpusPerSocket", Type::Number),
];

const NUTANIX_FAILURE_DOMAIN_REFERENCE: &[Field] = &[("name", Type::Text)];

const LOCAL_OBJECT_REFERENCE: &[Field] = &[("name", Type::Text)];

const NUTANIX_VM_DISK: &[Field] = &[
    ("dataSource", Type::Object(NUTANIX_RESOURCE_IDENTIFIER)),
    ("deviceProperties", Type::Object(NUTANIX_VM_DISK_DEVICE_PROPERTIES)),
    ("diskSize", Type::Quantity),
    ("storageConfig", Type::Object(NUTANIX_VM_STORAGE_CONFIG)),
];

const NUTANIX_VM_STORAGE_CONFIG: &[Field] = &[
    ("diskMode", Type::Text),
    ("storageContainer", Type::Object(NUTANIX_STORAGE_RESOURCE_IDENTIFIER)),
];

const NUTANIX_STORAGE_RESOURCE_IDENTIFIER: &[Field] = &[("type", Type::Text), ("uuid", Type::Text)];

const NUTANIX_VM_DISK_DEVICE_PROPERTIES: &[Field] = &[
    ("adapterType", Type::Text),
    ("deviceIndex", Type::Number),
    ("deviceType", Type::Text),
];

const NUTANIX_GPU: &[Field] = &[
    ("deviceID", Type::OptionalNumber),
    ("name", Type::Text),
    ("type", Type::Text),
];

const NUTANIX_CATEGORY: &[Field] = &[("key", Type::Text), ("value", Type::Text)];

const NUTANIX_RESOURCE_IDENTIFIER: &[Field] = &[("name", Type::Text), ("type", Type::Text), ("uuid", Type::Text)];
