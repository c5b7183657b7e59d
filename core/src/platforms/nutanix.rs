//! Nutanix: `NutanixMachineProviderConfig`.
//!
//! Source: `github.com/openshift/api/machine/v1`.

use super::ProviderSpec;

/// The provider spec of Nutanix.
pub const PROVIDER_SPEC: ProviderSpec = ProviderSpec {
    kind: "NutanixMachineProviderConfig",
    fields: &[
        "apiVersion",
        "bootType",
        "categories",
        "cluster",
        "credentialsSecret",
        "dataDisks",
        "failureDomain",
        "gpus",
        "image",
        "kind",
        "memorySize",
        "metadata",
        "project",
        "subnets",
        "systemDiskSize",
        "userDataSecret",
        "vcpuSockets",
        "vcpusPerSocket",
    ],
};
