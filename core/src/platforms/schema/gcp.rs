//! The type of the provider spec of Google Cloud: `GCPMachineProviderSpec`.
//!
//! Source: `github.com/openshift/api/machine/v1beta1`.

use super::{Field, Type};

pub(super) const PROVIDER_SPEC: &[Field] = &[
    ("apiVersion", Type::Text),
    ("canIPForward", Type::Flag),
    ("confidentialCompute", Type::Text),
    ("credentialsSecret", Type::Object(LOCAL_OBJECT_REFERENCE)),
    ("deletionProtection", Type::Flag),
    ("disks", Type::List(&Type::Object(GCP_DISK))),
    ("gcpMetadata", Type::List(&Type::Object(GCP_METADATA))),
    ("gpus", Type::List(&Type::Object(GCPGPU_CONFIG))),
    ("kind", Type::Text),
    ("labels", Type::Map),
    ("machineType", Type::Text),
    ("metadata", Type::Json),
    ("networkInterfaces", Type::List(&Type::Object(GCP_NETWORK_INTERFACE))),
    ("onHostMaintenance", Type::Text),
    ("preemptible", Type::Flag),
    ("projectID", Type::Text),
    ("provisioningModel", Type::Text),
    ("region", Type::Text),
    ("resourceManagerTags", Type::List(&Type::Object(RESOURCE_MANAGER_TAG))),
    ("restartPolicy", Type::Text),
    ("serviceAccounts", Type::List(&Type::Object(GCP_SERVICE_ACCOUNT))),
    ("shieldedInstanceConfig", Type::Object(GCP_SHIELDED_INSTANCE_CONFIG)),
    ("tags", Type::List(&Type::Text)),
    ("targetPools", Type::List(&Type::Text)),
    ("userDataSecret", Type::Object(LOCAL_OBJECT_REFERENCE)),
    ("zone", Type::Text),
];

const RESOURCE_MANAGER_TAG: &[Field] = &[("key", Type::Text), ("parentID", Type::Text), ("value", Type::Text)];

const GCP_SHIELDED_INSTANCE_CONFIG: &[Field] = &[
    ("integrityMonitoring", Type::Text),
    ("secureBoot", Type::Text),
    ("virtualizedTrustedPlatformModule", Type::Text),
];

const GCPGPU_CONFIG: &[Field] = &[("count", Type::Number), ("type", Type::Text)];

const GCP_SERVICE_ACCOUNT: &[Field] = &[("email", Type::Text), ("scopes", Type::List(&Type::Text))];

const GCP_NETWORK_INTERFACE: &[Field] = &[
    ("network", Type::Text),
    ("projectID", Type::Text),
    ("publicIP", Type::Flag),
    ("subnetwork", Type::Text),
];

const GCP_METADATA: &[Field] = &[("key", Type::Text), ("value", Type::Text)];

const GCP_DISK: &[Field] = &[
    ("autoDelete", Type::Flag),
    ("boot", Type::Flag),
    ("encryptionKey", Type::Object(GCP_ENCRYPTION_KEY_REFERENCE)),
    ("image", Type::Text),
    ("labels", Type::Map),
    ("sizeGb", Type::Number),
    ("type", Type::Text),
];

const GCP_ENCRYPTION_KEY_REFERENCE: &[Field] = &[
    ("kmsKey", Type::Object(GCPKMS_KEY_REFERENCE)),
    ("kmsKeyServiceAccount", Type::Text),
];

const GCPKMS_KEY_REFERENCE: &[Field] = &[
    ("keyRing", Type::Text),
    ("location", Type::Text),
    ("name", Type::Text),
    ("projectID", Type::Text),
];

const LOCAL_OBJECT_REFERENCE: &[Field] = &[("name", Type::Text)];
