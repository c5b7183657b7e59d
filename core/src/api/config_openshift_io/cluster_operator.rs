//! `ClusterOperator`: the state that an operator reports to the cluster and to its upgrades.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::api::UnknownFields;
use crate::api::meta::ObjectMeta;
use crate::model::{NewCondition, StoredCondition};

/// Kind.
pub const KIND: &str = "ClusterOperator";
/// Lower-case plural, as in a URL.
pub const PLURAL: &str = "clusteroperators";
/// The name of the ClusterOperator that Capstan writes.
pub const NAME: &str = "control-plane-machine-set";
/// The name of the ClusterOperator of the etcd operator, which Capstan reads (decision 17).
pub const ETCD: &str = "etcd";

/// The state that an operator reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterOperator {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Standard metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Empty.
    #[serde(default)]
    pub spec: UnknownFields,
    /// The observed state.
    #[serde(default)]
    pub status: ClusterOperatorStatus,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The observed state of an operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterOperatorStatus {
    /// Available, Progressing, Degraded, Upgradeable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ClusterOperatorCondition>,
    /// The versions of the operands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<OperandVersion>,
    /// Objects of the operator, which support archives collect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related_objects: Vec<ObjectReference>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// A condition of an operator. Not `metav1.Condition`: reason and message are optional here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterOperatorCondition {
    /// The observation, in CamelCase.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When `status` last changed. The API server requires it; manifests often omit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    /// CamelCase, stable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The explanation for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl StoredCondition for ClusterOperatorCondition {
    fn type_name(&self) -> &str {
        &self.type_
    }

    fn status(&self) -> &str {
        &self.status
    }

    fn last_transition_time(&self) -> Option<Timestamp> {
        self.last_transition_time
    }

    fn stored(new: NewCondition, _generation: Option<i64>, last_transition_time: Timestamp) -> Self {
        Self {
            type_: new.type_.to_owned(),
            status: new.status_text().to_owned(),
            last_transition_time: Some(last_transition_time),
            reason: Some(new.reason),
            message: Some(new.message).filter(|message| !message.is_empty()),
        }
    }
}

/// The version of one operand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperandVersion {
    /// The operand.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A reference to an object of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectReference {
    /// API group.
    pub group: String,
    /// Lower-case plural.
    pub resource: String,
    /// Namespace, if the kind has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name; empty for all objects of the resource.
    #[serde(default)]
    pub name: String,
}

impl ClusterOperator {
    /// The condition of this type.
    pub fn condition(&self, type_: &str) -> Option<&ClusterOperatorCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }
}
