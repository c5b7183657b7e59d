//! `Machine`, `machine.openshift.io/v1beta1`: one machine, and the spec that machine templates
//! share.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::authority::{AuthorityStatus, MachineCondition};
use crate::api::UnknownFields;
use crate::api::meta::{ObjectMeta, OwnerReference};
use crate::api::shared::Shared;

/// Kind.
pub const KIND: &str = "Machine";
/// Group and version.
pub const API_VERSION: &str = "machine.openshift.io/v1beta1";
/// Lower-case plural, as in a URL.
pub const PLURAL: &str = "machines";
/// An annotation: the MachineSet deletes the Machine first when it scales in.
pub const DELETE_MACHINE: &str = "machine.openshift.io/delete-machine";

/// A Machine is one instance on the platform of the cluster, and the node that runs on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Standard metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default)]
    pub spec: Shared<MachineSpec>,
    /// The observed state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<MachineStatus>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The desired state of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// Labels and annotations that the machine's controller copies to the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<NodeMeta>,
    /// Hooks that delay a step of the deletion until their owners remove them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle_hooks: Option<LifecycleHooks>,
    /// Taints that the machine's controller adds to the node. It keeps other taints of the node.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// The configuration of the instance on its platform.
    #[serde(default)]
    pub provider_spec: ProviderSpec,
    /// The id of the instance on its platform, as in the Node and in the cloud provider. The
    /// machine's controller sets it.
    #[serde(rename = "providerID", default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The API whose object is authoritative: "MachineAPI" or "ClusterAPI". The object in the other
    /// API is a mirror.
    #[schemars(extend("enum" = ["MachineAPI", "ClusterAPI"]))]
    #[serde(rename = "authoritativeAPI", default, skip_serializing_if = "Option::is_none")]
    pub authoritative_api: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// Metadata that a machine's controller copies to the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeMeta {
    /// The Machine API does not use this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The Machine API does not use this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate_name: Option<String>,
    /// The Machine API does not use this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Labels of the node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The Machine API does not use this field.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["uid"]))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The configuration of an instance on its platform.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderSpec {
    /// An object of the platform's own kind, such as AWSMachineProviderConfig. The schema does not
    /// check its fields; the webhook does.
    #[schemars(extend("type" = "object", "x-kubernetes-preserve-unknown-fields" = true))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// Hooks that delay the steps of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleHooks {
    /// The node is drained only after all of these hooks are removed.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pre_drain: Vec<LifecycleHook>,
    /// The instance is terminated only after all of these hooks are removed.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pre_terminate: Vec<LifecycleHook>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// A hook: the component that delays a deletion, and its purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["name", "owner"]))]
pub struct LifecycleHook {
    /// The purpose of the hook, unique within its list: CamelCase, with an optional prefix such as
    /// "example.com/". 3 to 256 characters.
    #[schemars(extend(
        "minLength" = 3,
        "maxLength" = 256,
        "pattern" = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
    ))]
    #[serde(default)]
    pub name: String,
    /// The component that sets and removes the hook. It must be clear enough that an administrator
    /// can find the component. 3 to 512 characters.
    #[schemars(extend("minLength" = 3, "maxLength" = 512))]
    #[serde(default)]
    pub owner: String,
}

/// A taint of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["key", "effect"]))]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// The key.
    #[serde(default)]
    pub key: String,
    /// The value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[serde(default)]
    pub effect: String,
    /// When a `NoExecute` taint was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Timestamp>,
}

/// The observed state of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// The node that runs on the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<NodeRef>,
    /// `Provisioning`, `Provisioned`, `Running`, `Deleting` or `Failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Why the machine cannot be reconciled, in CamelCase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<String>,
    /// Why the machine cannot be reconciled, as an explanation for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// The authoritative API of the machine.
    #[serde(flatten)]
    pub authority: AuthorityStatus,
    /// Observations, including Synchronized and Paused.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<MachineCondition>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// A reference to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeRef {
    /// The node's name.
    #[serde(default)]
    pub name: String,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

impl Machine {
    /// The name of the node of the machine; `None` if the machine has no node yet.
    pub fn node_name(&self) -> Option<&str> {
        let node = self.status.as_ref()?.node_ref.as_ref()?;
        (!node.name.is_empty()).then_some(node.name.as_str())
    }

    /// The phase; `None` if the machine has none yet.
    pub fn phase(&self) -> Option<&str> {
        self.status.as_ref()?.phase.as_deref()
    }
}
