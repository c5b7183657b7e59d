//! vSphere: `VSphereMachineProviderSpec`.
//!
//! Source: `github.com/openshift/api/machine/v1beta1`.

use super::ProviderSpec;

/// The provider spec of vSphere.
pub const PROVIDER_SPEC: ProviderSpec = ProviderSpec {
    kind: "VSphereMachineProviderSpec",
    fields: &[
        "apiVersion",
        "cloneMode",
        "credentialsSecret",
        "dataDisks",
        "diskGiB",
        "kind",
        "memoryMiB",
        "metadata",
        "network",
        "numCPUs",
        "numCoresPerSocket",
        "snapshot",
        "tagIDs",
        "template",
        "userDataSecret",
        "workspace",
    ],
};
