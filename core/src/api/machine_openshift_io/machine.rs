//! `Machine`, `machine.openshift.io/v1beta1`: one machine, and the spec that templates of machines share.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::Rest;
use crate::api::meta::{ObjectMeta, OwnerReference};

/// Kind.
pub const KIND: &str = "Machine";
/// Group and version.
pub const API_VERSION: &str = "machine.openshift.io/v1beta1";
/// Lower-case plural, as it stands in a URL.
pub const PLURAL: &str = "machines";

/// One machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// What the machine should be.
    #[serde(default)]
    pub spec: MachineSpec,
    /// What the machine is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<MachineStatus>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What a machine should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// Metadata for the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<NodeMeta>,
    /// Hooks that hold back draining and termination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle_hooks: Option<LifecycleHooks>,
    /// Taints of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// What the platform needs to know.
    #[serde(default)]
    pub provider_spec: ProviderSpec,
    /// The platform's name of the instance.
    #[serde(rename = "providerID", default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Which API leads: `MachineAPI` or `ClusterAPI`.
    #[serde(rename = "authoritativeAPI", default, skip_serializing_if = "Option::is_none")]
    pub authoritative_api: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Metadata that a machine hands to its node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeMeta {
    /// Unused by the Machine API; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Unused by the Machine API; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate_name: Option<String>,
    /// Unused by the Machine API; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Labels of the node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Unused by the Machine API; kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What the platform needs to know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProviderSpec {
    /// An object of the platform's own kind, such as `AWSMachineProviderConfig`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Hooks that hold back the steps of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleHooks {
    /// While one of these is there, the node is not drained.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pre_drain: Vec<LifecycleHook>,
    /// While one of these is there, the instance is not terminated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pre_terminate: Vec<LifecycleHook>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A hook: who holds a deletion back, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifecycleHook {
    /// Unique within its list.
    #[serde(default)]
    pub name: String,
    /// Who set the hook, and removes it.
    #[serde(default)]
    pub owner: String,
}

/// A taint of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// What a machine is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// The node that runs on the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<NodeRef>,
    /// `Provisioning`, `Provisioned`, `Running`, `Deleting` or `Failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Why the machine cannot be reconciled, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<String>,
    /// Why the machine cannot be reconciled, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A reference to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRef {
    /// The node's name.
    #[serde(default)]
    pub name: String,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

impl Machine {
    /// The name of the node that runs on the machine, if the machine says so.
    pub fn node_name(&self) -> Option<&str> {
        let node = self.status.as_ref()?.node_ref.as_ref()?;
        (!node.name.is_empty()).then_some(node.name.as_str())
    }

    /// The phase, if the machine has one.
    pub fn phase(&self) -> Option<&str> {
        self.status.as_ref()?.phase.as_deref()
    }
}
