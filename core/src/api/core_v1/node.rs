//! `Node`: a machine as a member of the cluster.

use core::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::api::UnknownFields;
use crate::api::meta::ObjectMeta;

/// Kind.
pub const KIND: &str = "Node";
/// The label of a control plane node.
pub const CONTROL_PLANE_LABEL: &str = "node-role.kubernetes.io/control-plane";
/// The label of a control plane node in older releases.
pub const MASTER_LABEL: &str = "node-role.kubernetes.io/master";

/// A machine as a member of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Standard metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The report of the kubelet.
    #[serde(default)]
    pub status: NodeStatus,
    /// Other fields, including the spec.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The report of the kubelet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// `Ready`, and conditions such as `MemoryPressure`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<NodeCondition>,
    /// The addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<NodeAddress>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// An address of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeAddress {
    /// For example `InternalIP` and `Hostname`.
    #[serde(rename = "type", default)]
    pub type_: String,
    /// The address.
    #[serde(default)]
    pub address: String,
}

/// A condition of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCondition {
    /// CamelCase name.
    #[serde(rename = "type", default)]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub status: String,
    /// When `status` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

impl Node {
    /// The condition `Ready`; `None` if the kubelet has not reported it.
    pub fn ready_condition(&self) -> Option<&NodeCondition> {
        self.status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Ready")
    }

    /// Whether the kubelet reports the node as ready. A node without a report is not ready.
    pub fn is_ready(&self) -> bool {
        self.ready_condition()
            .is_some_and(|condition| condition.status == "True")
    }

    /// The addresses that other nodes of the cluster use.
    pub fn internal_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let internal = self
            .status
            .addresses
            .iter()
            .filter(|address| address.type_ == "InternalIP");
        internal.filter_map(|address| address.address.parse().ok())
    }

    /// Whether the node has one of the labels of a control plane node.
    pub fn is_control_plane(&self) -> bool {
        let labels = &self.metadata.labels;
        labels.contains_key(CONTROL_PLANE_LABEL) || labels.contains_key(MASTER_LABEL)
    }
}
