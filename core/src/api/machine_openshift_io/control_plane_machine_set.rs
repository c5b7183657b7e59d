//! `ControlPlaneMachineSet`, `machine.openshift.io/v1`: what the machines of a control plane should be.
//!
//! Source: the ControlPlaneMachineSet enhancement, "API Extensions", and the fields served today beyond it (decision 4):
//! vSphere and Nutanix failure domains, OpenStack root volumes, typed AWS subnets, the Azure subnet.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::machine::MachineSpec;
use crate::api::Rest;
use crate::api::meta::{Condition, LabelSelector, ObjectMeta};

/// Kind, as it stands in a manifest.
pub const KIND: &str = "ControlPlaneMachineSet";
/// Group and version.
pub const API_VERSION: &str = "machine.openshift.io/v1";
/// Lower-case plural, as it stands in a URL.
pub const PLURAL: &str = "controlplanemachinesets";
/// The only name that a set may have.
pub const NAME: &str = "cluster";
/// The finalizer that keeps a set until its machines are orphaned.
pub const FINALIZER: &str = "controlplanemachineset.machine.openshift.io";
/// The one machine type: a Machine of the Machine API, v1beta1. It names the like-named member of the template.
pub const MACHINE_TYPE: &str = "machines_v1beta1_machine_openshift_io";

/// Ensures that a specified number of control plane machine replicas are running at any given time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneMachineSet {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Standard metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired control plane.
    #[serde(default)]
    pub spec: ControlPlaneMachineSetSpec,
    /// The observed control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ControlPlaneMachineSetStatus>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The desired control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneMachineSetSpec {
    /// The first part of the name of every machine that is created; five characters and the index follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_name_prefix: Option<String>,
    /// Whether the set acts on the machines (`Active`) or only describes them (`Inactive`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The size of the control plane: 3 or 5, immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How a change of the template reaches the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// Which machines belong to the set: immutable, and satisfied by the template's labels.
    #[serde(default)]
    pub selector: LabelSelector,
    /// What a machine of the set looks like.
    #[serde(default)]
    pub template: Template,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// How a change of the template reaches the machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strategy {
    /// `RollingUpdate`, `OnDelete` or, behind its gate, `Recreate`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A union on `machineType`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Template {
    /// The discriminator.
    #[serde(rename = "machineType", default)]
    pub machine_type: String,
    /// The template of a Machine API machine.
    #[serde(
        rename = "machines_v1beta1_machine_openshift_io",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub machine: Option<MachineTemplate>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The template of a Machine API machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineTemplate {
    /// Where the machines may stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domains: Option<FailureDomains>,
    /// Labels and annotations of the machines.
    #[serde(default)]
    pub metadata: TemplateMeta,
    /// The spec of the machines, without what the failure domain decides.
    #[serde(default)]
    pub spec: MachineSpec,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Labels and annotations of the machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateMeta {
    /// Labels, among them the three that mark a control plane machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where the machines may stand: a union on `platform`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FailureDomains {
    /// The discriminator: an infrastructure platform type.
    #[serde(default)]
    pub platform: String,
    /// Failure domains on AWS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws: Option<Vec<AwsFailureDomain>>,
    /// Failure domains on Azure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azure: Option<Vec<AzureFailureDomain>>,
    /// Failure domains on Google Cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcp: Option<Vec<GcpFailureDomain>>,
    /// Failure domains on OpenStack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openstack: Option<Vec<OpenStackFailureDomain>>,
    /// Failure domains on vSphere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vsphere: Option<Vec<VSphereFailureDomain>>,
    /// Failure domains on Nutanix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nutanix: Option<Vec<NutanixFailureDomain>>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A failure domain on AWS: at least one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AwsFailureDomain {
    /// The subnet of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<AwsResourceReference>,
    /// The zone of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<AwsPlacement>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The zone of an AWS instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwsPlacement {
    /// The availability zone.
    #[serde(default)]
    pub availability_zone: String,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A reference to an AWS resource: a union on `type`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AwsResourceReference {
    /// `ID`, `ARN` or `Filters`.
    #[serde(rename = "type", default)]
    pub type_: String,
    /// The resource's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The resource's ARN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arn: Option<String>,
    /// Filters that the resource satisfies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<Vec<AwsResourceFilter>>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A filter on AWS resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwsResourceFilter {
    /// What is filtered on; case-sensitive.
    #[serde(default)]
    pub name: String,
    /// The values, of which one must match; case-sensitive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A failure domain on Azure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AzureFailureDomain {
    /// The availability zone; empty for none.
    #[serde(default)]
    pub zone: String,
    /// Overrides the template's subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A failure domain on Google Cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcpFailureDomain {
    /// The zone.
    #[serde(default)]
    pub zone: String,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A failure domain on OpenStack: at least one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenStackFailureDomain {
    /// The Nova availability zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// The root volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_volume: Option<OpenStackRootVolume>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The root volume of an OpenStack machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenStackRootVolume {
    /// The Cinder availability zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// The type of the volume.
    #[serde(default)]
    pub volume_type: String,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A failure domain on vSphere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VSphereFailureDomain {
    /// The name of a failure domain that the Infrastructure `cluster` defines.
    #[serde(default)]
    pub name: String,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A failure domain on Nutanix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NutanixFailureDomain {
    /// The name of a failure domain that the Infrastructure `cluster` defines.
    #[serde(default)]
    pub name: String,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The observed control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneMachineSetStatus {
    /// Available, Progressing, Degraded, Error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many machines there are; more than desired during a rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How many machines are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// How many machines that are not being deleted are ready and have the desired provider spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// How many indexes lack a ready machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_replicas: Option<i32>,
    /// The selector as a string, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Rest,
}

impl MachineTemplate {
    /// The provider spec of the template.
    pub fn provider_spec(&self) -> Option<&Value> {
        self.spec.provider_spec.value.as_ref()
    }
}
