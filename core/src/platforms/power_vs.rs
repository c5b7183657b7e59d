//! Power VS: `PowerVSMachineProviderConfig`.
//!
//! Source: `github.com/openshift/api/machine/v1`.

use super::ProviderSpec;

/// The provider spec of Power VS.
pub const PROVIDER_SPEC: ProviderSpec = ProviderSpec {
    kind: "PowerVSMachineProviderConfig",
    fields: &[
        "apiVersion",
        "credentialsSecret",
        "image",
        "keyPairName",
        "kind",
        "loadBalancers",
        "memoryGiB",
        "metadata",
        "network",
        "processorType",
        "processors",
        "serviceInstance",
        "systemType",
        "userDataSecret",
    ],
};
