//! `ControlPlane`, `machine.openshift.io/v1alpha1`: how many control plane machines there are, and
//! of which shape.
//!
//! Source: "Managing Control Plane machines". `failureDomains` is an addition: the document asks
//! for an even spread and names no source of the failure domains. The CEL rules are in
//! `webhooks/rules/controlplane.yaml`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::control_plane_machine_set::FailureDomains;
use super::machine::ProviderSpec;
use crate::api::UnknownFields;
use crate::api::meta::{Condition, ObjectMeta};
use crate::api::shared::Shared;

/// Kind, as in a manifest.
pub const KIND: &str = "ControlPlane";
/// Group and version.
pub const API_VERSION: &str = "machine.openshift.io/v1alpha1";
/// Kind and group, for places with kinds of several groups.
pub const QUALIFIED_KIND: &str = "ControlPlane.machine.openshift.io";
/// Lower-case plural, as in a URL.
pub const PLURAL: &str = "controlplanes";
/// The only name that a ControlPlane may have.
pub const NAME: &str = "cluster";
/// Keeps a ControlPlane until no machine names it as its owner.
pub const FINALIZER: &str = "controlplane.machine.openshift.io";
/// The numbers of machines at which a control plane may rest.
pub const SIZES: [i32; 4] = [1, 3, 5, 7];
/// The number of machines of a ControlPlane that states none.
pub const DEFAULT_REPLICAS: i32 = 1;

/// A ControlPlane describes the machines of the control plane as one entity: their number, their
/// shape, and whether unhealthy machines are repaired. A cluster has one ControlPlane, with the
/// name "cluster".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["spec"]))]
#[serde(rename_all = "camelCase")]
pub struct ControlPlane {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Standard metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state of the control plane.
    #[serde(default)]
    pub spec: Shared<ControlPlaneSpec>,
    /// The observed state of the control plane. The controller writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ControlPlaneStatus>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The desired state of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["providerSpec"]))]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneSpec {
    /// The number of machines of the control plane: 1, 3, 5 or 7. Machines are added and removed
    /// one at a time, so the number is even for a while during a change. A new object without a
    /// number gets 1, and an edit without a number keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Whether a MachineHealthCheck repairs machines that are unhealthy. It deletes an unhealthy
    /// machine only while the other etcd members have a majority.
    #[schemars(extend("x-default" = true))]
    #[serde(rename = "enableautorepair", default, skip_serializing_if = "Option::is_none")]
    pub enable_autorepair: Option<bool>,
    /// The configuration of the machines on their platform. It must be complete, except for the
    /// fields that the failure domain sets. After a change, machines are replaced one at a time.
    #[serde(default)]
    pub provider_spec: ProviderSpec,
    /// The failure domains of the machines. Machines are spread over them as evenly as possible,
    /// and the failure domain of a machine replaces values of providerSpec. Omit this field on a
    /// platform without failure domains: then providerSpec decides the location of all machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domains: Option<FailureDomains>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The observed state of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneStatus {
    /// Observations of the controller.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The number of machines that are not being deleted. During a change it can differ from
    /// spec.replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The number of machines that match providerSpec and are not being deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// The number of machines with a ready node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// The number of machines that are missing or not ready, until the control plane has
    /// spec.replicas ready machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_replicas: Option<i32>,
    /// The labels of the machines as text, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// A token for a problem that a user must solve; absent without such a problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// An explanation of the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}
