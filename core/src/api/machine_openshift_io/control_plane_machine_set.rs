//! `ControlPlaneMachineSet`, `machine.openshift.io/v1`: what the machines of a control plane should
//! be.
//!
//! Source: the ControlPlaneMachineSet enhancement, "API Extensions", and the fields served today
//! beyond it (decision 4): vSphere and Nutanix failure domains, OpenStack root volumes, typed AWS
//! subnets, the Azure subnet.
//!
//! The documentation of a field is what `kubectl explain` prints, and the `schemars` attributes are
//! what the schema of the CRD says beyond the type. What CEL states stands in
//! `webhooks/rules/controlplanemachineset.yaml`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::machine::MachineSpec;
use crate::api::UnknownFields;
use crate::api::meta::{Condition, LabelSelector, ObjectMeta};
use crate::api::shared::Shared;

/// Kind, as it stands in a manifest.
pub const KIND: &str = "ControlPlaneMachineSet";
/// Group and version.
pub const API_VERSION: &str = "machine.openshift.io/v1";
/// Kind and group, where kinds of several groups meet.
pub const QUALIFIED_KIND: &str = "ControlPlaneMachineSet.machine.openshift.io";
/// Lower-case plural, as it stands in a URL.
pub const PLURAL: &str = "controlplanemachinesets";
/// The only name that a set may have.
pub const NAME: &str = "cluster";
/// The finalizer that keeps a set until its machines are orphaned.
pub const FINALIZER: &str = "controlplanemachineset.machine.openshift.io";
/// The one machine type: a Machine of the Machine API, v1beta1. It names the like-named member of
/// the template.
pub const MACHINE_TYPE: &str = "machines_v1beta1_machine_openshift_io";

/// A ControlPlaneMachineSet describes the machines of the cluster's control plane, keeps as many of
/// them as it should have, and rolls a change of their description out to them, one after the
/// other. There is one per cluster, and it is named "cluster".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["spec"]))]
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
    /// The control plane as it should be.
    #[serde(default)]
    pub spec: Shared<ControlPlaneMachineSetSpec>,
    /// The control plane as it was last observed. Written by the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ControlPlaneMachineSetStatus>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The control plane as it should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["replicas", "selector", "template"]))]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneMachineSetSpec {
    /// The first part of the name of every machine that is created; a hyphen, five characters, a
    /// hyphen and the index of the machine follow, as in "control-plane-abcde-0". It must be a
    /// lowercase RFC 1123 subdomain: lower case alphanumeric characters, "-" or ".", with an
    /// alphanumeric character at both ends; 1 to 245 characters. Without it, names start with the
    /// infrastructure name of the cluster and the role of the machine. Machines that exist keep
    /// their names.
    #[schemars(extend("minLength" = 1, "maxLength" = 245))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_name_prefix: Option<String>,
    /// Whether the set acts on the machines. "Inactive": it describes them, and reports, but does
    /// nothing. "Active": it replaces and updates them as needed. A set that is Active stays
    /// Active; to stop it, delete the set, and its machines stay.
    #[schemars(extend("enum" = ["Active", "Inactive"], "x-default" = "Inactive"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// How many machines the control plane has: 3 or 5. Immutable: a set is created with the number
    /// of machines that the control plane already has.
    #[schemars(extend("enum" = [3, 5], "x-default" = 3))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How a change of the template reaches the machines.
    #[schemars(extend("x-default" = {"type": "RollingUpdate"}))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// Which machines belong to the set. Immutable. The labels of the template must satisfy it.
    #[serde(default)]
    pub selector: LabelSelector,
    /// What a machine of the control plane looks like. New machines are made from it, and machines
    /// that differ from it are replaced as the strategy says.
    #[serde(default)]
    pub template: Template,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// How a change of the template reaches the machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Strategy {
    /// "RollingUpdate": machines that differ from the template are replaced by themselves, one
    /// after the other, each removed only after its replacement is ready. "OnDelete": a machine is
    /// replaced once someone deletes it, which allows a change to be tried on one machine first.
    #[schemars(extend("enum" = ["RollingUpdate", "OnDelete", "Recreate"], "x-default" = "RollingUpdate"))]
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// A union on `machineType`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["machineType"]))]
pub struct Template {
    /// The kind of machines that the set makes. It names the field beside it that describes them.
    /// The only value is "machines_v1beta1_machine_openshift_io".
    #[schemars(extend("enum" = ["machines_v1beta1_machine_openshift_io"]))]
    #[serde(rename = "machineType", default)]
    pub machine_type: String,
    /// What a Machine of the Machine API, machine.openshift.io/v1beta1, looks like.
    #[serde(
        rename = "machines_v1beta1_machine_openshift_io",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub machine: Option<MachineTemplate>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The template of a Machine API machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["metadata", "spec"]))]
#[serde(rename_all = "camelCase")]
pub struct MachineTemplate {
    /// Where the machines may stand. The set spreads its machines over these as evenly as it can,
    /// and writes the failure domain of a machine into its provider spec, over what the template
    /// says. Leave it out where the platform has no failure domains: then all machines stand where
    /// the template says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domains: Option<FailureDomains>,
    /// Labels and annotations of the machines. A change reaches existing machines in place, without
    /// replacing them.
    #[serde(default)]
    pub metadata: TemplateMeta,
    /// The spec of the machines. The provider spec in it is complete but for what the failure
    /// domain decides. A change of the provider spec replaces the machines, as the strategy says.
    #[serde(default)]
    pub spec: MachineSpec,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// Labels and annotations of the machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["labels"]))]
pub struct TemplateMeta {
    /// Labels of the machines. They satisfy the selector of the set, and three of them mark a
    /// machine of the control plane: "machine.openshift.io/cluster-api-machine-role" and
    /// "machine.openshift.io/cluster-api-machine-type", both "master", and
    /// "machine.openshift.io/cluster-api-cluster", the infrastructure name of the cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the machines.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// How many failure domains a set may list. The largest regions have fewer than 50 zones. Without a
/// limit, one object could cost a webhook seconds.
pub const MAX_FAILURE_DOMAINS: usize = 256;

/// Where the machines may stand: a union on `platform`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["platform"]))]
pub struct FailureDomains {
    /// The platform of the cluster. It says which of the fields beside it lists the failure
    /// domains; failure domains are supported on AWS, Azure, GCP, OpenStack, VSphere and Nutanix.
    #[schemars(extend("enum" = [
        "", "AWS", "Azure", "BareMetal", "GCP", "Libvirt", "OpenStack", "None", "VSphere", "oVirt", "IBMCloud",
        "KubeVirt", "EquinixMetal", "PowerVS", "AlibabaCloud", "Nutanix", "External"
    ]))]
    #[serde(default)]
    pub platform: String,
    /// Failure domains on AWS: subnets and availability zones.
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "maxItems" = MAX_FAILURE_DOMAINS))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws: Option<Vec<AwsFailureDomain>>,
    /// Failure domains on Azure: availability zones and subnets.
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "maxItems" = MAX_FAILURE_DOMAINS))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azure: Option<Vec<AzureFailureDomain>>,
    /// Failure domains on Google Cloud: zones.
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "maxItems" = MAX_FAILURE_DOMAINS))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcp: Option<Vec<GcpFailureDomain>>,
    /// Failure domains on OpenStack: availability zones of servers and of root volumes.
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "maxItems" = MAX_FAILURE_DOMAINS))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openstack: Option<Vec<OpenStackFailureDomain>>,
    /// Failure domains on vSphere, by the names that the Infrastructure "cluster" gives them.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "maxItems" = MAX_FAILURE_DOMAINS))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vsphere: Option<Vec<VSphereFailureDomain>>,
    /// Failure domains on Nutanix, by the names that the Infrastructure "cluster" gives them.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "maxItems" = MAX_FAILURE_DOMAINS))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nutanix: Option<Vec<NutanixFailureDomain>>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// A failure domain on AWS: at least one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
pub struct AwsFailureDomain {
    /// The subnet of the instance. Without it, the instance stands in the first subnet that AWS
    /// lists in its availability zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<AwsResourceReference>,
    /// Where the instance stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<AwsPlacement>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The zone of an AWS instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["availabilityZone"]))]
#[serde(rename_all = "camelCase")]
pub struct AwsPlacement {
    /// The availability zone of the instance, such as "us-east-1a".
    #[serde(default)]
    pub availability_zone: String,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// A reference to an AWS resource: a union on `type`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["type"]))]
pub struct AwsResourceReference {
    /// How the resource is named: by "ID", by "ARN", or by "Filters".
    #[schemars(extend("enum" = ["ID", "ARN", "Filters"]))]
    #[serde(rename = "type", default)]
    pub type_: String,
    /// The id of the resource, with type ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The ARN of the resource, with type ARN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arn: Option<String>,
    /// Filters that the resource satisfies, with type Filters.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<Vec<AwsResourceFilter>>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// A filter on AWS resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["name"]))]
pub struct AwsResourceFilter {
    /// What is filtered on, such as "tag:Name". Case-sensitive.
    #[serde(default)]
    pub name: String,
    /// Values of which one must match. Case-sensitive.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// A failure domain on Azure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["zone"]))]
pub struct AzureFailureDomain {
    /// The availability zone of the virtual machine, such as "1"; empty to deploy it to no zone.
    #[serde(default)]
    pub zone: String,
    /// The subnet of the virtual machine, over what the template says. 1 to 80 characters: it
    /// starts with an alphanumeric character, goes on with these, ".", "-" and "_", and ends with
    /// an alphanumeric character or "_".
    #[schemars(extend("maxLength" = 80, "pattern" = "^[a-zA-Z0-9]([a-zA-Z0-9_.-]*[a-zA-Z0-9_])?$"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// A failure domain on Google Cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["zone"]))]
pub struct GcpFailureDomain {
    /// The zone of the virtual machine, such as "us-central1-a".
    #[serde(default)]
    pub zone: String,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// A failure domain on OpenStack: at least one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
#[serde(rename_all = "camelCase")]
pub struct OpenStackFailureDomain {
    /// The Nova availability zone of the server. Without it, Nova chooses. 1 to 63 characters, no
    /// colon and no space.
    #[schemars(extend("minLength" = 1, "maxLength" = 63, "pattern" = "^[^: ]*$"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// The root volume of the server. Without it, the template decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_volume: Option<OpenStackRootVolume>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The root volume of an OpenStack machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["volumeType"]))]
#[serde(rename_all = "camelCase")]
pub struct OpenStackRootVolume {
    /// The Cinder availability zone of the volume. Required beside an availability zone of the
    /// server. 1 to 63 characters, no space.
    #[schemars(extend("minLength" = 1, "maxLength" = 63, "pattern" = "^[^ ]*$"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// The type of the volume. 1 to 255 characters.
    #[schemars(extend("minLength" = 1, "maxLength" = 255))]
    #[serde(default)]
    pub volume_type: String,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// A failure domain on vSphere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["name"]))]
pub struct VSphereFailureDomain {
    /// The name of a failure domain under spec.platformSpec.vsphere.failureDomains of the
    /// Infrastructure "cluster".
    #[serde(default)]
    pub name: String,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// A failure domain on Nutanix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["name"]))]
pub struct NutanixFailureDomain {
    /// The name of a failure domain under spec.platformSpec.nutanix.failureDomains of the
    /// Infrastructure "cluster". It must be a lowercase RFC 1123 label: lower case alphanumeric
    /// characters or "-", with an alphanumeric character at both ends; 1 to 63 characters.
    #[schemars(extend("minLength" = 1, "maxLength" = 63))]
    #[serde(default)]
    pub name: String,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The control plane as it was last observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneMachineSetStatus {
    /// What was observed. "Available": the control plane has the machines that it needs.
    /// "Progressing": a change is on its way to the machines. "Degraded": something keeps the set
    /// from doing its work, and a person should look. "Error": the last attempt failed, and is
    /// repeated.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation of the set that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many machines the set has. During a rollout this may be more than spec.replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How many machines of the set are ready. During a rollout this may be more than
    /// spec.replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// How many machines of the set are ready, have the provider spec of the template, and are not
    /// being deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// How many indexes lack a ready machine: how many machines are still needed before the control
    /// plane is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_replicas: Option<i32>,
    /// The selector of the set as text, as the scale subresource wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// How far each machine of the set is, by index, oldest first.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "maxItems" = 64))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineProgress>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// How far a machine of the set is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["name", "index"]))]
#[serde(rename_all = "camelCase")]
pub struct MachineProgress {
    /// Name of the machine.
    #[serde(default)]
    pub name: String,
    /// Its index in the control plane.
    #[schemars(extend("minimum" = 0))]
    #[serde(default)]
    pub index: i32,
    /// Whether its node is ready.
    #[serde(default)]
    pub ready: bool,
    /// Whether it is what the template asks for.
    #[serde(default)]
    pub updated: bool,
    /// Whether it is being deleted.
    #[serde(default)]
    pub deleting: bool,
    /// What it waits for, or what is waited for of it, such as "MachineReady" or "EtcdHealthy".
    /// Absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// The same for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

impl MachineTemplate {
    /// The provider spec of the template.
    pub fn provider_spec(&self) -> Option<&Value> {
        self.spec.provider_spec.value.as_ref()
    }
}
