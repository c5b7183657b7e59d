//! Parses the fields of an object of either API that decide which API is authoritative.
//!
//! Reading never fails: a field that is missing or has another type counts as absent. The schema
//! decides whether an object is valid. This module must recognise an invalid object too.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::api::cluster_x_k8s_io::annotation;
use crate::api::machine_openshift_io;
use crate::api::machine_openshift_io::authority::{CLUSTER_API, MACHINE_API, MIGRATING, PAUSED, SYNCHRONIZED};
use crate::api::meta::ObjectMeta;
use crate::api::objects::CachedObject;
use crate::model::Stored;

/// One of the two APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Api {
    /// `machine.openshift.io`.
    MachineApi,
    /// `cluster.x-k8s.io` and `infrastructure.cluster.x-k8s.io`.
    ClusterApi,
}

impl Api {
    /// Parses a value of `spec.authoritativeAPI`.
    pub fn parse(value: &str) -> Option<Self> {
        match value {
            MACHINE_API => Some(Self::MachineApi),
            CLUSTER_API => Some(Self::ClusterApi),
            _ => None,
        }
    }

    /// The value in `spec.authoritativeAPI`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MachineApi => MACHINE_API,
            Self::ClusterApi => CLUSTER_API,
        }
    }

    /// The name of the API in a sentence.
    pub fn title(self) -> &'static str {
        match self {
            Self::MachineApi => "the Machine API",
            Self::ClusterApi => "Cluster API",
        }
    }

    /// The other API.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::MachineApi => Self::ClusterApi,
            Self::ClusterApi => Self::MachineApi,
        }
    }

    /// The API that a rule file is about.
    pub(super) fn of_rules(name: &str) -> Option<Self> {
        match name {
            "authority-machine-api" => Some(Self::MachineApi),
            "authority-cluster-api" => Some(Self::ClusterApi),
            _ => None,
        }
    }
}

/// A value of `status.authoritativeAPI`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// This API is authoritative.
    Stable(Api),
    /// The authority is moving from one API to the other.
    Migrating,
}

impl Authority {
    /// The authority of an object of the Machine API. While the status is empty, the spec decides.
    /// Without either, the Machine API is authoritative.
    pub(super) fn of(object: &dyn Stored) -> Self {
        let from_spec = || Self::Stable(spec_authority(object).unwrap_or(Api::MachineApi));
        status_authority(object).unwrap_or_else(from_spec)
    }

    fn parse(value: &str) -> Option<Self> {
        match value {
            MIGRATING => Some(Self::Migrating),
            value => Api::parse(value).map(Self::Stable),
        }
    }

    /// The value in `status.authoritativeAPI`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stable(api) => api.as_str(),
            Self::Migrating => MIGRATING,
        }
    }
}

/// An owner of Machines that exists in the Machine API only.
pub(super) const CONTROL_PLANE_SET: &str = "ControlPlaneMachineSet";

/// The kinds that are mirrored, and the infrastructure kinds that belong to a mirrored object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A Machine.
    #[default]
    Machine,
    /// A MachineSet.
    MachineSet,
    /// A MachineHealthCheck.
    MachineHealthCheck,
    /// The infrastructure machine of a Machine of Cluster API, such as AWSMachine.
    InfrastructureMachine,
    /// The infrastructure template of a MachineSet of Cluster API, such as AWSMachineTemplate.
    InfrastructureTemplate,
}

impl Kind {
    /// The name of the mirrored kind in both APIs. For infrastructure, the kind it belongs to.
    pub fn title(self) -> &'static str {
        match self {
            Self::Machine | Self::InfrastructureMachine => "Machine",
            Self::MachineSet | Self::InfrastructureTemplate => "MachineSet",
            Self::MachineHealthCheck => "MachineHealthCheck",
        }
    }

    /// The kind of the object whose authority applies to this kind.
    #[must_use]
    pub fn mirrored_kind(self) -> Self {
        match self {
            Self::InfrastructureMachine => Self::Machine,
            Self::InfrastructureTemplate => Self::MachineSet,
            kind => kind,
        }
    }
}

/// A condition in the status of an object of either API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedCondition {
    /// "True", "False" or "Unknown".
    pub status: String,
    /// The machine-readable reason.
    pub reason: String,
    /// The human-readable message.
    pub message: String,
}

impl ObservedCondition {
    /// Whether the status is "True".
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

/// An owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The API group of the owner.
    pub group: String,
    /// The kind of the owner.
    pub kind: String,
    /// The name of the owner.
    pub name: String,
}

/// One of the two objects of a mirrored pair, reduced to the fields that this module needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairMember {
    /// The namespace; empty if the object has none.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
    /// The owner references.
    pub owners: Vec<Owner>,
    /// Whether the object has a deletion timestamp.
    pub deleting: bool,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// `spec.authoritativeAPI`. Only objects of the Machine API have it.
    pub spec_authority: Option<Api>,
    /// `status.authoritativeAPI`. Only objects of the Machine API have it.
    pub status_authority: Option<Authority>,
    /// `status.synchronizedAPI`. Only objects of the Machine API have it.
    pub synchronized_api: Option<Api>,
    /// `status.synchronizedGeneration`. Only objects of the Machine API have it.
    pub synchronized_generation: Option<i64>,
    /// The condition Synchronized. Only objects of the Machine API have it.
    pub synchronized: Option<ObservedCondition>,
    /// The condition Paused, with which the controllers of this object's API acknowledge a pause.
    pub paused: Option<ObservedCondition>,
    /// `status.phase` of a Machine.
    pub phase: Option<String>,
    /// `status.initialization.infrastructureProvisioned` of a Machine of Cluster API.
    pub provisioned: Option<bool>,
    /// `spec.clusterName` of an object of Cluster API.
    pub cluster: Option<String>,
    /// Kind and name of the infrastructure reference of an object of Cluster API.
    pub infrastructure: Option<(String, String)>,
    /// Type and spec of the object as JSON text, kept if the object may have to be converted.
    pub convertible: Option<Box<str>>,
}

impl PairMember {
    /// Reads the object of an admission request.
    pub fn read(object: &dyn Stored) -> Self {
        let metadata = object.field("metadata").unwrap_or(&Value::Null);
        let spec = object.field("spec").unwrap_or(&Value::Null);
        let status = object.field("status").unwrap_or(&Value::Null);
        Self {
            namespace: text(metadata, "namespace").unwrap_or_default().to_owned(),
            name: text(metadata, "name").unwrap_or_default().to_owned(),
            labels: texts(metadata.get("labels")),
            annotations: texts(metadata.get("annotations")),
            owners: owners(metadata),
            deleting: metadata.get("deletionTimestamp").is_some_and(|at| !at.is_null()),
            generation: metadata.get("generation").and_then(Value::as_i64),
            spec_authority: spec_authority(object),
            status_authority: status_authority(object),
            synchronized_api: text(status, "synchronizedAPI").and_then(Api::parse),
            synchronized_generation: status.get("synchronizedGeneration").and_then(Value::as_i64),
            synchronized: condition(status, SYNCHRONIZED),
            paused: condition(status, PAUSED),
            phase: text(status, "phase").map(str::to_owned),
            provisioned: status
                .pointer("/initialization/infrastructureProvisioned")
                .and_then(Value::as_bool),
            cluster: text(spec, "clusterName").map(str::to_owned),
            infrastructure: infrastructure(spec),
            convertible: None,
        }
    }

    /// Reads an object for a cache. An object of Cluster API keeps what a conversion needs. An
    /// object of the Machine API does not: the request for a migration contains it.
    pub fn keep(object: &Value) -> Self {
        let group = text(object, "apiVersion").and_then(|version| version.split('/').next());
        Self {
            convertible: convertible(object).filter(|_| group != Some(machine_openshift_io::GROUP)),
            ..Self::read(object)
        }
    }

    /// The authority according to this object of the Machine API, as in [`Authority::of`].
    pub fn authority(&self) -> Authority {
        self.status_authority
            .unwrap_or_else(|| Authority::Stable(self.desired_api()))
    }

    /// The API that the spec of this object of the Machine API requests.
    pub fn desired_api(&self) -> Api {
        self.spec_authority.unwrap_or(Api::MachineApi)
    }

    /// Whether this object of Cluster API has the pause annotation.
    pub fn is_paused(&self) -> bool {
        self.annotations.contains_key(annotation::PAUSED)
    }

    /// Whether the sync controller paused this object of Cluster API, which marks it as a mirror.
    pub fn is_paused_by_sync(&self) -> bool {
        self.annotations
            .get(annotation::PAUSED)
            .is_some_and(|value| value == super::PAUSED_BY_SYNC)
    }

    /// The owner other than the Cluster. The Cluster owns objects that have no other owner, and
    /// does not count as an owner in the rules of deletion.
    pub fn owner(&self) -> Option<&Owner> {
        self.owners.iter().find(|owner| owner.kind != "Cluster")
    }

    /// The owner that decides what the deletion of this Machine of an API means for the one of the
    /// other API: the owner of the authoritative Machine. Two others count too:
    ///
    /// - A ControlPlaneMachineSet that owns the Machine of the Machine API. It exists in the
    ///   Machine API only, so a Machine of Cluster API cannot name it (decision 86).
    /// - A MachineSet that owns the mirror, if the authoritative Machine is deleted. The mirror
    ///   loses its instance, and the MachineSet would count it as a replica (decision 89).
    pub fn deciding_owner<'a>(
        &'a self,
        other: Option<&'a Self>,
        api: Api,
        authoritative: Option<Api>,
    ) -> Option<&'a Owner> {
        let is_mirror = authoritative == Some(api.other());
        let decisive = if is_mirror { other.unwrap_or(self) } else { self };
        let in_machine_api = if api == Api::MachineApi { Some(self) } else { other };
        let of_kind = |member: Option<&'a Self>, kind: &str| member?.owner().filter(|owner| owner.kind == kind);
        let of_mirror = || of_kind(other.filter(|_| authoritative == Some(api)), "MachineSet");
        decisive
            .owner()
            .or_else(|| of_kind(in_machine_api, CONTROL_PLANE_SET))
            .or_else(of_mirror)
    }

    /// Whether the labels mark a control plane machine.
    pub fn is_control_plane(&self) -> bool {
        use crate::api::cluster_x_k8s_io::label::CONTROL_PLANE;
        use crate::api::machine_openshift_io::label::{ROLE, TYPE};
        let master = |key: &str| self.labels.get(key).is_some_and(|value| value == "master");
        master(ROLE)
            || master(TYPE)
            || [
                CONTROL_PLANE,
                "node-role.kubernetes.io/master",
                "node-role.kubernetes.io/control-plane",
            ]
            .iter()
            .any(|key| self.labels.contains_key(*key))
    }

    /// Type and spec of the object, for a conversion.
    pub fn to_convert(&self) -> Option<Value> {
        serde_json::from_str(self.convertible.as_deref()?).ok()
    }
}

impl CachedObject for PairMember {
    /// A member keeps the few fields that the guards read, and Capstan writes none of them.
    fn metadata(&self) -> Option<&ObjectMeta> {
        None
    }
}

impl<'de> Deserialize<'de> for PairMember {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::keep(&Value::deserialize(deserializer)?))
    }
}

/// `spec.authoritativeAPI` of an object of the Machine API.
pub(super) fn spec_authority(object: &dyn Stored) -> Option<Api> {
    text(object.field("spec")?, "authoritativeAPI").and_then(Api::parse)
}

fn status_authority(object: &dyn Stored) -> Option<Authority> {
    text(object.field("status")?, "authoritativeAPI").and_then(Authority::parse)
}

fn text<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    value.get(field)?.as_str().filter(|text| !text.is_empty())
}

/// The entries of a map whose values are strings.
pub(super) fn texts(map: Option<&Value>) -> BTreeMap<String, String> {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

fn owners(metadata: &Value) -> Vec<Owner> {
    let references = metadata.get("ownerReferences").and_then(Value::as_array);
    references
        .into_iter()
        .flatten()
        .map(|owner| {
            let field = |name| text(owner, name).unwrap_or_default().to_owned();
            let version = field("apiVersion");
            Owner {
                group: version.split_once('/').map_or("", |(group, _)| group).to_owned(),
                kind: field("kind"),
                name: field("name"),
            }
        })
        .collect()
}

fn condition(status: &Value, type_: &str) -> Option<ObservedCondition> {
    let conditions = status.get("conditions")?.as_array()?;
    let condition = conditions
        .iter()
        .find(|condition| text(condition, "type") == Some(type_))?;
    let field = |name| text(condition, name).unwrap_or_default().to_owned();
    Some(ObservedCondition {
        status: field("status"),
        reason: field("reason"),
        message: field("message"),
    })
}

fn infrastructure(spec: &Value) -> Option<(String, String)> {
    let reference = spec
        .get("infrastructureRef")
        .or_else(|| spec.pointer("/template/spec/infrastructureRef"))?;
    Some((text(reference, "kind")?.to_owned(), text(reference, "name")?.to_owned()))
}

fn convertible(object: &Value) -> Option<Box<str>> {
    let part = |field: &str| object.get(field).cloned().unwrap_or(Value::Null);
    let kept = serde_json::json!({"apiVersion": part("apiVersion"), "kind": part("kind"), "spec": part("spec")});
    serde_json::to_string(&kept).ok().map(String::into_boxed_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_determines_the_authority_then_the_spec_then_the_default() {
        let authority = |spec: &str, status: &str| {
            let object = json!({"spec": {"authoritativeAPI": spec}, "status": {"authoritativeAPI": status}});
            assert_eq!(Authority::of(&object), PairMember::read(&object).authority());
            Authority::of(&object)
        };
        assert_eq!(
            authority("ClusterAPI", "MachineAPI"),
            Authority::Stable(Api::MachineApi)
        );
        assert_eq!(authority("MachineAPI", "Migrating"), Authority::Migrating);
        assert_eq!(authority("ClusterAPI", ""), Authority::Stable(Api::ClusterApi));
        assert_eq!(authority("", ""), Authority::Stable(Api::MachineApi));
        assert_eq!(
            PairMember::read(&json!(null)).authority(),
            Authority::Stable(Api::MachineApi)
        );
    }

    #[test]
    fn the_cluster_does_not_count_as_an_owner() {
        let owner = |kind: &str| {
            json!({"metadata": {"ownerReferences": [
                {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "name": "a", "uid": "u"}]}})
        };
        assert_eq!(PairMember::read(&owner("Cluster")).owner(), None);
        let member = PairMember::read(&owner("MachineSet"));
        assert_eq!(
            member.owner().map(|owner| (owner.group.as_str(), owner.name.as_str())),
            Some(("cluster.x-k8s.io", "a"))
        );
    }

    #[test]
    fn conditions_of_both_apis_are_read() {
        let member = PairMember::read(&json!({"status": {"conditions": [
                {"type": "Synchronized", "status": "False", "reason": "R", "message": "m"},
                {"type": "Paused", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}));
        assert!(
            member
                .synchronized
                .is_some_and(|condition| !condition.is_true() && condition.message == "m")
        );
        assert!(member.paused.is_some_and(|condition| condition.is_true()));
    }
}
