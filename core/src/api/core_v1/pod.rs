//! `Pod`: the fields that tell whether a static pod of a control plane works.

use serde::{Deserialize, Serialize};

use crate::api::meta::ObjectMeta;

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Standard metadata.
    pub metadata: ObjectMeta,
    /// The report of the kubelet.
    pub status: PodStatus,
}

/// The report of the kubelet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed`, or `Unknown`.
    pub phase: String,
    /// For example `Ready` and `PodScheduled`.
    pub conditions: Vec<PodCondition>,
    /// The containers.
    pub container_statuses: Vec<ContainerStatus>,
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodCondition {
    /// CamelCase name.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

/// The state of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Name of the container.
    pub name: String,
    /// The state now.
    pub state: ContainerState,
    /// The state before.
    pub last_state: ContainerState,
}

/// One state of a container; at most one field is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// It waits to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Stopped>,
    /// It has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminated: Option<Stopped>,
}

/// Why a container does not run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Stopped {
    /// In CamelCase, for example `CrashLoopBackOff`.
    pub reason: String,
    /// The exit code of a container that has ended.
    pub exit_code: i32,
}

impl Pod {
    /// Whether the condition `Ready` is true.
    pub fn is_ready(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
    }
}
