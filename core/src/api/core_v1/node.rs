//! `Node`: the machine as the cluster sees it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::api::UnknownFields;
use crate::api::meta::ObjectMeta;

/// Kind.
pub const KIND: &str = "Node";
/// The label that marks a control plane node today.
pub const CONTROL_PLANE_LABEL: &str = "node-role.kubernetes.io/control-plane";
/// The label that marked it before.
pub const MASTER_LABEL: &str = "node-role.kubernetes.io/master";

/// The machine as the cluster sees it.
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
    /// What the kubelet reports.
    #[serde(default)]
    pub status: NodeStatus,
    /// Other fields, spec among them.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// What the kubelet reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Ready and the pressures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<NodeCondition>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
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
    /// The condition `Ready`, if the kubelet reported one.
    pub fn ready_condition(&self) -> Option<&NodeCondition> {
        self.status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Ready")
    }

    /// Whether the kubelet says that the node is ready. A node that says nothing is not.
    pub fn is_ready(&self) -> bool {
        self.ready_condition()
            .is_some_and(|condition| condition.status == "True")
    }

    /// Whether the node carries one of the labels of a control plane node.
    pub fn is_control_plane(&self) -> bool {
        let labels = &self.metadata.labels;
        labels.contains_key(CONTROL_PLANE_LABEL) || labels.contains_key(MASTER_LABEL)
    }
}
