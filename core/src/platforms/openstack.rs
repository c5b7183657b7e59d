//! OpenStack: `OpenstackProviderSpec`.
//!
//! Source: `github.com/openshift/api/machine/v1alpha1`.

use super::ProviderSpec;

/// The provider spec of OpenStack.
pub const PROVIDER_SPEC: ProviderSpec = ProviderSpec {
    kind: "OpenstackProviderSpec",
    fields: &[
        "additionalBlockDevices",
        "apiVersion",
        "availabilityZone",
        "cloudName",
        "cloudsSecret",
        "configDrive",
        "flavor",
        "floatingIP",
        "image",
        "keyName",
        "kind",
        "metadata",
        "networks",
        "ports",
        "primarySubnet",
        "rootVolume",
        "securityGroups",
        "serverGroupID",
        "serverGroupName",
        "serverMetadata",
        "sshUserName",
        "tags",
        "trunk",
        "userDataSecret",
    ],
};
