//! The type of the provider spec of vSphere: `VSphereMachineProviderSpec`.
//!
//! Source: `github.com/openshift/api/machine/v1beta1`.

use super::{Field, Type};

pub(super) const PROVIDER_SPEC: &[Field] = &[
    ("apiVersion", Type::Text),
    ("cloneMode", Type::Text),
    ("credentialsSecret", Type::Object(LOCAL_OBJECT_REFERENCE)),
    ("dataDisks", Type::List(&Type::Object(V_SPHERE_DISK))),
    ("diskGiB", Type::Number),
    ("kind", Type::Text),
    ("memoryMiB", Type::Number),
    ("metadata", Type::Json),
    ("network", Type::Object(NETWORK_SPEC)),
    ("numCPUs", Type::Number),
    ("numCoresPerSocket", Type::Number),
    ("snapshot", Type::Text),
    ("tagIDs", Type::List(&Type::Text)),
    ("template", Type::Text),
    ("userDataSecret", Type::Object(LOCAL_OBJECT_REFERENCE)),
    ("workspace", Type::Object(WORKSPACE)),
];

const V_SPHERE_DISK: &[Field] = &[
    ("name", Type::Text),
    ("provisioningMode", Type::Text),
    ("sizeGiB", Type::Number),
];

const NETWORK_SPEC: &[Field] = &[("devices", Type::List(&Type::Object(NETWORK_DEVICE_SPEC)))];

const NETWORK_DEVICE_SPEC: &[Field] = &[
    ("addressesFromPools", Type::List(&Type::Object(ADDRESSES_FROM_POOL))),
    ("gateway", Type::Text),
    ("ipAddrs", Type::List(&Type::Text)),
    ("nameservers", Type::List(&Type::Text)),
    ("networkName", Type::Text),
];

const ADDRESSES_FROM_POOL: &[Field] = &[("group", Type::Text), ("name", Type::Text), ("resource", Type::Text)];

const WORKSPACE: &[Field] = &[
    ("datacenter", Type::Text),
    ("datastore", Type::Text),
    ("folder", Type::Text),
    ("resourcePool", Type::Text),
    ("server", Type::Text),
    ("vmGroup", Type::Text),
];

const LOCAL_OBJECT_REFERENCE: &[Field] = &[("name", Type::Text)];
