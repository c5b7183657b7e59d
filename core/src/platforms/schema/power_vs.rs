//! The type of the provider spec of Power VS: `PowerVSMachineProviderConfig`.
//!
//! Source: `github.com/openshift/api/machine/v1`.

use super::{Field, Type};

pub(super) const PROVIDER_SPEC: &[Field] = &[
    ("apiVersion", Type::Text),
    ("credentialsSecret", Type::Object(POWER_VS_SECRET_REFERENCE)),
    ("image", Type::Object(POWER_VS_RESOURCE)),
    ("keyPairName", Type::Text),
    ("kind", Type::Text),
    ("loadBalancers", Type::List(&Type::Object(LOAD_BALANCER_REFERENCE))),
    ("memoryGiB", Type::Number),
    ("metadata", Type::Json),
    ("network", Type::Object(POWER_VS_RESOURCE)),
    ("processorType", Type::Text),
    ("processors", Type::NumberOrText),
    ("serviceInstance", Type::Object(POWER_VS_RESOURCE)),
    ("systemType", Type::Text),
    ("userDataSecret", Type::Object(POWER_VS_SECRET_REFERENCE)),
];

const LOAD_BALANCER_REFERENCE: &[Field] = &[("name", Type::Text), ("type", Type::Text)];

const POWER_VS_RESOURCE: &[Field] = &[
    ("id", Type::Text),
    ("name", Type::Text),
    ("regex", Type::Text),
    ("type", Type::Text),
];

const POWER_VS_SECRET_REFERENCE: &[Field] = &[("name", Type::Text)];
