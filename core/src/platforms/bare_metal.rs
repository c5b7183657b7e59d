//! Bare metal: `BareMetalMachineProviderSpec`.
//!
//! Source: the provider `cluster-api-provider-baremetal`, which defines the type itself.

use super::ProviderSpec;

/// The provider spec of bare metal.
pub const PROVIDER_SPEC: ProviderSpec = ProviderSpec {
    kind: "BareMetalMachineProviderSpec",
    fields: &[
        "apiVersion",
        "customDeploy",
        "hostSelector",
        "image",
        "kind",
        "metadata",
        "userData",
    ],
};
