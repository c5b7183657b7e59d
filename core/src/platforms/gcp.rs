//! Google Cloud: `GCPMachineProviderSpec`.
//!
//! Source: `github.com/openshift/api/machine/v1beta1`.

use super::ProviderSpec;

/// The provider spec of Google Cloud.
pub const PROVIDER_SPEC: ProviderSpec = ProviderSpec {
    kind: "GCPMachineProviderSpec",
    fields: &[
        "apiVersion",
        "canIPForward",
        "confidentialCompute",
        "credentialsSecret",
        "deletionProtection",
        "disks",
        "gcpMetadata",
        "gpus",
        "kind",
        "labels",
        "machineType",
        "metadata",
        "networkInterfaces",
        "onHostMaintenance",
        "preemptible",
        "projectID",
        "provisioningModel",
        "region",
        "resourceManagerTags",
        "restartPolicy",
        "serviceAccounts",
        "shieldedInstanceConfig",
        "tags",
        "targetPools",
        "userDataSecret",
        "zone",
    ],
};
