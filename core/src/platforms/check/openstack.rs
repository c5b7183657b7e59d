//! The type of the provider spec of OpenStack: `OpenstackProviderSpec`.
//!
//! Source: `github.com/openshift/api/machine/v1alpha1`.

use crate::platforms::schema::{Field, Type};

/// A filter of networks, subnets or security groups: the fields that all of them have, and others.
macro_rules! filter {
    ($($field:expr),*) => {
        Type::Object(&[
            ("description", Type::Text),
            ("id", Type::Text),
            ("limit", Type::Number),
            ("marker", Type::Text),
            ("name", Type::Text),
            ("notTags", Type::Text),
            ("notTagsAny", Type::Text),
            ("projectId", Type::Text),
            ("sortDir", Type::Text),
            ("sortKey", Type::Text),
            ("tags", Type::Text),
            ("tagsAny", Type::Text),
            ("tenantId", Type::Text),
            $($field),*
        ])
    };
}

pub(super) const PROVIDER_SPEC: &[Field] = &[
    (
        "additionalBlockDevices",
        Type::List(&Type::Object(&[
            ("name", Type::Text),
            ("sizeGiB", Type::Number),
            (
                "storage",
                Type::Object(&[
                    ("type", Type::Text),
                    (
                        "volume",
                        Type::Object(&[("availabilityZone", Type::Text), ("type", Type::Text)]),
                    ),
                ]),
            ),
        ])),
    ),
    ("apiVersion", Type::Text),
    ("availabilityZone", Type::Text),
    ("cloudName", Type::Text),
    (
        "cloudsSecret",
        Type::Object(&[("name", Type::Text), ("namespace", Type::Text)]),
    ),
    ("configDrive", Type::Flag),
    ("flavor", Type::Text),
    ("floatingIP", Type::Text),
    ("image", Type::Text),
    ("keyName", Type::Text),
    ("kind", Type::Text),
    ("metadata", Type::Json),
    (
        "networks",
        Type::List(&Type::Object(&[
            (
                "filter",
                filter!(
                    ("adminStateUp", Type::Flag),
                    ("shared", Type::Flag),
                    ("status", Type::Text)
                ),
            ),
            ("fixedIp", Type::Text),
            ("noAllowedAddressPairs", Type::Flag),
            ("portSecurity", Type::Flag),
            ("portTags", Type::List(&Type::Text)),
            ("profile", Type::Map),
            (
                "subnets",
                Type::List(&Type::Object(&[
                    (
                        "filter",
                        filter!(
                            ("cidr", Type::Text),
                            ("enableDhcp", Type::Flag),
                            ("gateway_ip", Type::Text),
                            ("ipVersion", Type::Number),
                            ("ipv6AddressMode", Type::Text),
                            ("ipv6RaMode", Type::Text),
                            ("networkId", Type::Text),
                            ("subnetpoolId", Type::Text)
                        ),
                    ),
                    ("portSecurity", Type::Flag),
                    ("portTags", Type::List(&Type::Text)),
                    ("uuid", Type::Text),
                ])),
            ),
            ("uuid", Type::Text),
            ("vnicType", Type::Text),
        ])),
    ),
    (
        "ports",
        Type::List(&Type::Object(&[
            ("adminStateUp", Type::Flag),
            (
                "allowedAddressPairs",
                Type::List(&Type::Object(&[("ipAddress", Type::Text), ("macAddress", Type::Text)])),
            ),
            ("description", Type::Text),
            (
                "fixedIPs",
                Type::List(&Type::Object(&[("ipAddress", Type::Text), ("subnetID", Type::Text)])),
            ),
            ("hostID", Type::Text),
            ("macAddress", Type::Text),
            ("nameSuffix", Type::Text),
            ("networkID", Type::Text),
            ("portSecurity", Type::Flag),
            ("profile", Type::Map),
            ("projectID", Type::Text),
            ("securityGroups", Type::List(&Type::Text)),
            ("tags", Type::List(&Type::Text)),
            ("tenantID", Type::Text),
            ("trunk", Type::Flag),
            ("vnicType", Type::Text),
        ])),
    ),
    ("primarySubnet", Type::Text),
    (
        "rootVolume",
        Type::Object(&[
            ("availabilityZone", Type::Text),
            ("deviceType", Type::Text),
            ("diskSize", Type::Number),
            ("sourceType", Type::Text),
            ("sourceUUID", Type::Text),
            ("volumeType", Type::Text),
        ]),
    ),
    (
        "securityGroups",
        Type::List(&Type::Object(&[
            ("filter", filter!()),
            ("name", Type::Text),
            ("uuid", Type::Text),
        ])),
    ),
    ("serverGroupID", Type::Text),
    ("serverGroupName", Type::Text),
    ("serverMetadata", Type::Map),
    ("sshUserName", Type::Text),
    ("tags", Type::List(&Type::Text)),
    ("trunk", Type::Flag),
    (
        "userDataSecret",
        Type::Object(&[("name", Type::Text), ("namespace", Type::Text)]),
    ),
];
