//! The type of the provider spec of Azure: `AzureMachineProviderSpec`.
//!
//! Source: `github.com/openshift/api/machine/v1beta1`.

use super::{Field, Type};

pub(super) const PROVIDER_SPEC: &[Field] = &[
    ("acceleratedNetworking", Type::Flag),
    ("apiVersion", Type::Text),
    ("applicationSecurityGroups", Type::List(&Type::Text)),
    ("availabilitySet", Type::Text),
    ("capacityReservationGroupID", Type::Text),
    ("credentialsSecret", Type::Object(SECRET_REFERENCE)),
    ("dataDisks", Type::List(&Type::Object(DATA_DISK))),
    ("diagnostics", Type::Object(AZURE_DIAGNOSTICS)),
    ("image", Type::Object(IMAGE)),
    ("internalLoadBalancer", Type::Text),
    ("kind", Type::Text),
    ("location", Type::Text),
    ("managedIdentity", Type::Text),
    ("metadata", Type::Json),
    ("natRule", Type::OptionalNumber),
    ("networkResourceGroup", Type::Text),
    ("osDisk", Type::Object(OS_DISK)),
    ("publicIP", Type::Flag),
    ("publicLoadBalancer", Type::Text),
    ("resourceGroup", Type::Text),
    ("securityGroup", Type::Text),
    ("securityProfile", Type::Object(SECURITY_PROFILE)),
    ("spotVMOptions", Type::OptionalObject(SPOT_VM_OPTIONS)),
    ("sshPublicKey", Type::Text),
    ("subnet", Type::Text),
    ("tags", Type::Map),
    ("ultraSSDCapability", Type::Text),
    ("userDataSecret", Type::Object(SECRET_REFERENCE)),
    ("vmSize", Type::Text),
    ("vnet", Type::Text),
    ("zone", Type::Text),
];

const AZURE_DIAGNOSTICS: &[Field] = &[("boot", Type::Object(AZURE_BOOT_DIAGNOSTICS))];

const AZURE_BOOT_DIAGNOSTICS: &[Field] = &[
    ("customerManaged", Type::Object(AZURE_CUSTOMER_MANAGED_BOOT_DIAGNOSTICS)),
    ("storageAccountType", Type::Text),
];

const AZURE_CUSTOMER_MANAGED_BOOT_DIAGNOSTICS: &[Field] = &[("storageAccountURI", Type::Text)];

const SECURITY_PROFILE: &[Field] = &[
    ("encryptionAtHost", Type::OptionalFlag),
    ("settings", Type::Object(SECURITY_SETTINGS)),
];

const SECURITY_SETTINGS: &[Field] = &[
    ("confidentialVM", Type::Object(CONFIDENTIAL_VM)),
    ("securityType", Type::Text),
    ("trustedLaunch", Type::Object(TRUSTED_LAUNCH)),
];

const TRUSTED_LAUNCH: &[Field] = &[("uefiSettings", Type::Object(UEFI_SETTINGS))];

const CONFIDENTIAL_VM: &[Field] = &[("uefiSettings", Type::Object(UEFI_SETTINGS))];

const UEFI_SETTINGS: &[Field] = &[
    ("secureBoot", Type::Text),
    ("virtualizedTrustedPlatformModule", Type::Text),
];

const SPOT_VM_OPTIONS: &[Field] = &[("maxPrice", Type::Quantity)];

const DATA_DISK: &[Field] = &[
    ("cachingType", Type::Text),
    ("deletionPolicy", Type::Text),
    ("diskSizeGB", Type::Number),
    ("lun", Type::Number),
    ("managedDisk", Type::Object(DATA_DISK_MANAGED_DISK_PARAMETERS)),
    ("nameSuffix", Type::Text),
];

const DATA_DISK_MANAGED_DISK_PARAMETERS: &[Field] = &[
    ("diskEncryptionSet", Type::Object(DISK_ENCRYPTION_SET_PARAMETERS)),
    ("storageAccountType", Type::Text),
];

const OS_DISK: &[Field] = &[
    ("cachingType", Type::Text),
    ("diskSettings", Type::Object(DISK_SETTINGS)),
    ("diskSizeGB", Type::Number),
    ("managedDisk", Type::Object(OS_DISK_MANAGED_DISK_PARAMETERS)),
    ("osType", Type::Text),
];

const DISK_SETTINGS: &[Field] = &[("ephemeralStorageLocation", Type::Text)];

const OS_DISK_MANAGED_DISK_PARAMETERS: &[Field] = &[
    ("diskEncryptionSet", Type::Object(DISK_ENCRYPTION_SET_PARAMETERS)),
    ("securityProfile", Type::Object(VM_DISK_SECURITY_PROFILE)),
    ("storageAccountType", Type::Text),
];

const VM_DISK_SECURITY_PROFILE: &[Field] = &[
    ("diskEncryptionSet", Type::Object(DISK_ENCRYPTION_SET_PARAMETERS)),
    ("securityEncryptionType", Type::Text),
];

const DISK_ENCRYPTION_SET_PARAMETERS: &[Field] = &[("id", Type::Text)];

const IMAGE: &[Field] = &[
    ("offer", Type::Text),
    ("publisher", Type::Text),
    ("resourceID", Type::Text),
    ("sku", Type::Text),
    ("type", Type::Text),
    ("version", Type::Text),
];

const SECRET_REFERENCE: &[Field] = &[("name", Type::Text), ("namespace", Type::Text)];
