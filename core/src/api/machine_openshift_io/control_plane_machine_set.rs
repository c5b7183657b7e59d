//! `ControlPlaneMachineSet`, `machine.openshift.io/v1`: describes the machines of a control plane.
//!
//! Source: the ControlPlaneMachineSet enhancement, "API Extensions", and the fields that OpenShift
//! serves beyond it (decision 4): vSphere and Nutanix failure domains, OpenStack root volumes,
//! typed AWS subnets, the Azure subnet.
//!
//! `kubectl explain` prints the documentation of a field. The `schemars` attributes are the parts
//! of the CRD's schema that the type does not express. The CEL rules are in
//! `webhooks/rules/controlplanemachineset.yaml`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::machine::MachineSpec;
use crate::api::UnknownFields;
use crate::api::meta::{Condition, LabelSelector, ObjectMeta};
use crate::api::shared::Shared;

/// Kind, as in a manifest.
pub const KIND: &str = "ControlPlaneMachineSet";
/// Group and version.
pub const API_VERSION: &str = "machine.openshift.io/v1";
/// Kind and group, for places with kinds of several groups.
pub const QUALIFIED_KIND: &str = "ControlPlaneMachineSet.machine.openshift.io";
/// Lower-case plural, as in a URL.
pub const PLURAL: &str = "controlplanemachinesets";
/// The only name that a set may have.
pub const NAME: &str = "cluster";
/// The finalizer that keeps a set until the owner references of its machines are removed.
pub const FINALIZER: &str = "controlplanemachineset.machine.openshift.io";
/// The only machine type: a Machine of the Machine API, v1beta1. The member of the template with
/// this name describes it.
pub const MACHINE_TYPE: &str = "machines_v1beta1_machine_openshift_io";

/// A ControlPlaneMachineSet describes the machines of the control plane. It keeps their number at
/// spec.replicas, and applies a change of their description to one machine after the other. A
/// cluster has one set, with the name "cluster".
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
    /// The desired state of the control plane.
    #[serde(default)]
    pub spec: Shared<ControlPlaneMachineSetSpec>,
    /// The observed state of the control plane. The controller writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ControlPlaneMachineSetStatus>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The desired state of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["replicas", "selector", "template"]))]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneMachineSetSpec {
    /// The first part of the name of each machine that the set creates. A hyphen, five characters,
    /// a hyphen and the index of the machine follow, as in "control-plane-abcde-0". It must be a
    /// lowercase RFC 1123 subdomain: lower case alphanumeric characters, "-" or ".", with an
    /// alphanumeric character at both ends; 1 to 245 characters. Without it, names start with the
    /// infrastructure name of the cluster and the role of the machine. Existing machines keep their
    /// names.
    #[schemars(extend("minLength" = 1, "maxLength" = 245))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_name_prefix: Option<String>,
    /// Whether the set manages the machines. "Inactive": the set reports its status and writes to
    /// no machine. "Active": the set replaces and updates machines. An Active set stays Active. To
    /// stop it, delete the set; its machines are kept.
    #[schemars(extend("enum" = ["Active", "Inactive"], "x-default" = "Inactive"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The number of machines of the control plane: 3 or 5. Immutable: create a set with the number
    /// of machines that the control plane already has.
    #[schemars(extend("enum" = [3, 5], "x-default" = 3))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How a change of the template is applied to the machines.
    #[schemars(extend("x-default" = {"type": "RollingUpdate"}))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// Selects the machines of the set. Immutable. It must match the labels of the template.
    #[serde(default)]
    pub selector: LabelSelector,
    /// Describes a machine of the control plane. New machines are created from it, and machines
    /// that differ from it are replaced according to the strategy.
    #[serde(default)]
    pub template: Template,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// How a change of the template is applied to the machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Strategy {
    /// "RollingUpdate": the set replaces machines that differ from the template, one after the
    /// other; it deletes a machine only after its replacement is ready. "OnDelete": the set
    /// replaces a machine after a user deletes it, so that a change can be tried on one machine
    /// first.
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
    /// The kind of the machines. It names the field of the template that describes them. The only
    /// value is "machines_v1beta1_machine_openshift_io".
    #[schemars(extend("enum" = ["machines_v1beta1_machine_openshift_io"]))]
    #[serde(rename = "machineType", default)]
    pub machine_type: String,
    /// Describes a Machine of the Machine API, machine.openshift.io/v1beta1.
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
    /// The failure domains of the machines. The set spreads its machines over them as evenly as
    /// possible, and writes the failure domain of a machine into its provider spec, in place of the
    /// values of the template. Omit this field on a platform without failure domains: then the
    /// template decides the location of all machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domains: Option<FailureDomains>,
    /// Labels and annotations of the machines. A change is applied to existing machines in place
    /// and replaces no machine.
    #[serde(default)]
    pub metadata: TemplateMeta,
    /// The spec of the machines. Its provider spec must be complete, except for the fields that the
    /// failure domain sets. After a change of the provider spec, the machines are replaced
    /// according to the strategy.
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
    /// Labels of the machines. They must satisfy the selector of the set. Three labels mark a
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

/// The failure domains of the machines: a union on `platform`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["platform"]))]
pub struct FailureDomains {
    /// The platform of the cluster. It selects the field that lists the failure domains. Failure
    /// domains are supported on AWS, Azure, GCP, OpenStack, VSphere and Nutanix.
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
    /// Failure domains on vSphere, by their names in the Infrastructure "cluster".
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "maxItems" = MAX_FAILURE_DOMAINS))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vsphere: Option<Vec<VSphereFailureDomain>>,
    /// Failure domains on Nutanix, by their names in the Infrastructure "cluster".
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "maxItems" = MAX_FAILURE_DOMAINS))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nutanix: Option<Vec<NutanixFailureDomain>>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// A failure domain on AWS: a subnet, a placement, or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
pub struct AwsFailureDomain {
    /// The subnet of the instance. Without it, the instance is created in the first subnet that AWS
    /// lists for its availability zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<AwsResourceReference>,
    /// The placement of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<AwsPlacement>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The placement of an AWS instance.
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
    /// How the resource is identified: by "ID", by "ARN", or by "Filters".
    #[schemars(extend("enum" = ["ID", "ARN", "Filters"]))]
    #[serde(rename = "type", default)]
    pub type_: String,
    /// The ID of the resource, with type ID.
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
    /// The name of the filter, such as "tag:Name". Case-sensitive.
    #[serde(default)]
    pub name: String,
    /// The allowed values. Case-sensitive.
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
    /// The subnet of the virtual machine, in place of the subnet of the template. 1 to 80
    /// characters: it starts with an alphanumeric character, contains alphanumeric characters, ".",
    /// "-" and "_", and ends with an alphanumeric character or "_".
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

/// A failure domain on OpenStack: an availability zone, a root volume, or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
#[serde(rename_all = "camelCase")]
pub struct OpenStackFailureDomain {
    /// The Nova availability zone of the server. Without it, Nova chooses. 1 to 63 characters,
    /// without colons and spaces.
    #[schemars(extend("minLength" = 1, "maxLength" = 63, "pattern" = "^[^: ]*$"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// The root volume of the server. Without it, the server uses the root volume of the template.
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
    /// The Cinder availability zone of the volume. Required if the failure domain has an
    /// availability zone of the server. 1 to 63 characters, without spaces.
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

/// The observed state of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneMachineSetStatus {
    /// Observations. "Available": each index has a ready machine. "Progressing": the set is
    /// applying a change to the machines. "Degraded": the set creates and deletes no machine until
    /// a user corrects a problem. "Error": reconciles of the set fail and are retried.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation of the set that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The number of machines of the set. During a rollout it can exceed spec.replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The number of ready machines of the set. During a rollout it can exceed spec.replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// The number of machines of the set that are ready, match the template, and are not being
    /// deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// The number of indexes without a ready machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_replicas: Option<i32>,
    /// The selector of the set as text, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The progress of each machine of the set, ordered by index, oldest first.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "maxItems" = 64))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineProgress>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown_fields: UnknownFields,
}

/// The progress of a machine of the set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["name", "index"]))]
#[serde(rename_all = "camelCase")]
pub struct MachineProgress {
    /// Name of the machine.
    #[serde(default)]
    pub name: String,
    /// The index of the machine in the control plane.
    #[schemars(extend("minimum" = 0))]
    #[serde(default)]
    pub index: i32,
    /// Whether the node of the machine is ready.
    #[serde(default)]
    pub ready: bool,
    /// Whether the machine matches the template.
    #[serde(default)]
    pub updated: bool,
    /// Whether the machine is being deleted.
    #[serde(default)]
    pub deleting: bool,
    /// What the machine waits for, or what the set waits for before it acts on the machine, such as
    /// "MachineReady" or "EtcdHealthy". Absent if there is no wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// An explanation of the wait.
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
