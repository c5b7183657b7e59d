//! IBM Cloud: `IBMCloudMachineProviderSpec`.
//!
//! Source: the provider `machine-api-provider-ibmcloud`, which defines the type itself.

use super::ProviderSpec;

/// The provider spec of IBM Cloud.
pub const PROVIDER_SPEC: ProviderSpec = ProviderSpec {
    kind: "IBMCloudMachineProviderSpec",
    fields: &[
        "apiVersion",
        "bandwidth",
        "bootVolume",
        "credentialsSecret",
        "dedicatedHost",
        "image",
        "kind",
        "loadBalancers",
        "metadata",
        "networkResourceGroup",
        "primaryNetworkInterface",
        "profile",
        "region",
        "resourceGroup",
        "tags",
        "userDataSecret",
        "vpc",
        "zone",
    ],
};
