//! Azure: `AzureMachineProviderSpec`.
//!
//! Source: `github.com/openshift/api/machine/v1beta1`.

use super::ProviderSpec;

/// The provider spec of Azure.
pub const PROVIDER_SPEC: ProviderSpec = ProviderSpec {
    kind: "AzureMachineProviderSpec",
    fields: &[
        "acceleratedNetworking",
        "apiVersion",
        "applicationSecurityGroups",
        "availabilitySet",
        "capacityReservationGroupID",
        "credentialsSecret",
        "dataDisks",
        "diagnostics",
        "image",
        "internalLoadBalancer",
        "kind",
        "location",
        "managedIdentity",
        "metadata",
        "natRule",
        "networkResourceGroup",
        "osDisk",
        "publicIP",
        "publicLoadBalancer",
        "resourceGroup",
        "securityGroup",
        "securityProfile",
        "spotVMOptions",
        "sshPublicKey",
        "subnet",
        "tags",
        "ultraSSDCapability",
        "userDataSecret",
        "vmSize",
        "vnet",
        "zone",
    ],
};
