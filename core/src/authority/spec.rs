//! Parse: an object of either API, as far as it matters who leads.
//!
//! Reading never fails: what is not there, or is of another type, is absent. Whether an object is *valid* is its schema's
//! to say; here it must be recognised also when it is not.

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
    /// `cluster.x-k8s.io`, and the infrastructure behind it.
    ClusterApi,
}

impl Api {
    /// Reads the word of `spec.authoritativeAPI`.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            MACHINE_API => Some(Self::MachineApi),
            CLUSTER_API => Some(Self::ClusterApi),
            _ => None,
        }
    }

    /// The word in `spec.authoritativeAPI`.
    pub fn word(self) -> &'static str {
        match self {
            Self::MachineApi => MACHINE_API,
            Self::ClusterApi => CLUSTER_API,
        }
    }

    /// How people call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::MachineApi => "the Machine API",
            Self::ClusterApi => "Cluster API",
        }
    }

    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::MachineApi => Self::ClusterApi,
            Self::ClusterApi => Self::MachineApi,
        }
    }

    /// Whose objects a rule file judges.
    pub(super) fn of_rules(name: &str) -> Option<Self> {
        match name {
            "authority-machine-api" => Some(Self::MachineApi),
            "authority-cluster-api" => Some(Self::ClusterApi),
            _ => None,
        }
    }
}

/// The word of `status.authoritativeAPI`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// An API leads.
    Leads(Api),
    /// The lead is being handed over.
    Migrating,
}

impl Decided {
    /// Who leads, by an object of the Machine API. Before the status says so, the spec does; without either, the Machine
    /// API leads, as it did before there was a choice.
    pub(super) fn of(object: &dyn Stored) -> Self {
        let said = || Self::Leads(requested(object).unwrap_or(Api::MachineApi));
        decided(object).unwrap_or_else(said)
    }

    fn parse(word: &str) -> Option<Self> {
        match word {
            MIGRATING => Some(Self::Migrating),
            word => Api::parse(word).map(Self::Leads),
        }
    }

    /// The word in `status.authoritativeAPI`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Leads(api) => api.word(),
            Self::Migrating => MIGRATING,
        }
    }
}

/// What is mirrored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A Machine.
    Machine,
    /// A MachineSet.
    MachineSet,
    /// A MachineHealthCheck.
    MachineHealthCheck,
    /// What a platform makes a Machine of Cluster API from. It follows its Machine.
    InfrastructureMachine,
    /// What a platform makes the Machines of a MachineSet of Cluster API from. It follows its MachineSet.
    InfrastructureTemplate,
}

impl Kind {
    /// The kind, as the two APIs call it; of infrastructure, the kind that it follows.
    pub fn title(self) -> &'static str {
        match self {
            Self::Machine | Self::InfrastructureMachine => "Machine",
            Self::MachineSet | Self::InfrastructureTemplate => "MachineSet",
            Self::MachineHealthCheck => "MachineHealthCheck",
        }
    }

    /// The kind whose authority counts.
    #[must_use]
    pub fn led_by(self) -> Self {
        match self {
            Self::InfrastructureMachine => Self::Machine,
            Self::InfrastructureTemplate => Self::MachineSet,
            kind => kind,
        }
    }
}

/// A condition, of either API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// "True", "False" or "Unknown".
    pub status: String,
    /// For programs.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl Observed {
    /// Whether the status is "True".
    pub fn holds(&self) -> bool {
        self.status == "True"
    }
}

/// An owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The group of its kind.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// One half of an object that may exist in both APIs, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairMember {
    /// Namespace; empty where it was not said.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Owners.
    pub owners: Vec<Owner>,
    /// Whether a deletion was asked for.
    pub deleting: bool,
    /// Counts changes of the spec.
    pub generation: Option<i64>,
    /// Which API is asked to lead. Of the Machine API's half only.
    pub requested: Option<Api>,
    /// Who leads, as it was last decided. Of the Machine API's half only.
    pub decided: Option<Decided>,
    /// Which API led when both were last alike. Of the Machine API's half only.
    pub synchronized_api: Option<Api>,
    /// The generation of the leading half that the copy is like. Of the Machine API's half only.
    pub synchronized_generation: Option<i64>,
    /// Whether both are alike. Of the Machine API's half only.
    pub synchronized: Option<Observed>,
    /// Whether the controllers of this half's API acknowledge that they leave it alone.
    pub paused: Option<Observed>,
    /// The phase of a Machine.
    pub phase: Option<String>,
    /// Whether the instance of a Machine of Cluster API was made.
    pub provisioned: Option<bool>,
    /// The cluster that a half in Cluster API belongs to.
    pub cluster: Option<String>,
    /// Kind and name of the infrastructure, of a half in Cluster API.
    pub infrastructure: Option<(String, String)>,
    /// The object without status and most of its metadata, as JSON text: kept where a conversion may be asked of it.
    pub convertible: Option<Box<str>>,
}

impl PairMember {
    /// Reads an object that is judged.
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
            requested: requested(object),
            decided: decided(object),
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

    /// Reads an object that is kept. Of Cluster API's half a conversion may be asked, when the lead should go back; of the
    /// Machine API's, the request itself holds what is asked about.
    pub fn keep(object: &Value) -> Self {
        let group = text(object, "apiVersion").and_then(|version| version.split('/').next());
        Self {
            convertible: convertible(object).filter(|_| group != Some(machine_openshift_io::GROUP)),
            ..Self::read(object)
        }
    }

    /// Who leads, by this half of the Machine API, as [`Decided::of`].
    pub fn lead(&self) -> Decided {
        self.decided
            .unwrap_or_else(|| Decided::Leads(self.requested.unwrap_or(Api::MachineApi)))
    }

    /// Which API should lead.
    pub fn wanted(&self) -> Api {
        self.requested.unwrap_or(Api::MachineApi)
    }

    /// Whether the controllers of Cluster API leave this half alone.
    pub fn is_paused(&self) -> bool {
        self.annotations.contains_key(annotation::PAUSED)
    }

    /// The set that owns it. The Cluster owns everything that nobody else does, which is no owner for the deletion.
    pub fn owner(&self) -> Option<&Owner> {
        self.owners.iter().find(|owner| owner.kind != "Cluster")
    }

    /// Whether it is a machine of the control plane.
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

    /// The object that a conversion may be asked of.
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

/// Which API an object of the Machine API asks to lead.
pub(super) fn requested(object: &dyn Stored) -> Option<Api> {
    text(object.field("spec")?, "authoritativeAPI").and_then(Api::parse)
}

fn decided(object: &dyn Stored) -> Option<Decided> {
    text(object.field("status")?, "authoritativeAPI").and_then(Decided::parse)
}

fn text<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    value.get(field)?.as_str().filter(|text| !text.is_empty())
}

/// What is text in a map, as labels are.
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
            let word = |field| text(owner, field).unwrap_or_default().to_owned();
            let group = word("apiVersion");
            Owner {
                group: group.split_once('/').map_or("", |(group, _)| group).to_owned(),
                kind: word("kind"),
                name: word("name"),
            }
        })
        .collect()
}

fn condition(status: &Value, type_: &str) -> Option<Observed> {
    let conditions = status.get("conditions")?.as_array()?;
    let condition = conditions
        .iter()
        .find(|condition| text(condition, "type") == Some(type_))?;
    let word = |field| text(condition, field).unwrap_or_default().to_owned();
    Some(Observed {
        status: word("status"),
        reason: word("reason"),
        message: word("message"),
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
    fn who_leads_is_said_by_the_status_then_by_the_spec_then_by_custom() {
        let lead = |spec: &str, status: &str| {
            let object = json!({"spec": {"authoritativeAPI": spec}, "status": {"authoritativeAPI": status}});
            assert_eq!(Decided::of(&object), PairMember::read(&object).lead());
            Decided::of(&object)
        };
        assert_eq!(lead("ClusterAPI", "MachineAPI"), Decided::Leads(Api::MachineApi));
        assert_eq!(lead("MachineAPI", "Migrating"), Decided::Migrating);
        assert_eq!(lead("ClusterAPI", ""), Decided::Leads(Api::ClusterApi));
        assert_eq!(lead("", ""), Decided::Leads(Api::MachineApi));
        assert_eq!(PairMember::read(&json!(null)).lead(), Decided::Leads(Api::MachineApi));
    }

    #[test]
    fn the_cluster_is_no_owner_that_a_deletion_comes_from() {
        let owner = |kind: &str| {
            json!({"metadata": {"ownerReferences": [
                {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "name": "a", "uid": "u"}]}})
        };
        assert_eq!(PairMember::read(&owner("Cluster")).owner(), None);
        let half = PairMember::read(&owner("MachineSet"));
        assert_eq!(
            half.owner().map(|owner| (owner.group.as_str(), owner.name.as_str())),
            Some(("cluster.x-k8s.io", "a"))
        );
    }

    #[test]
    fn conditions_of_both_apis_are_read() {
        let half = PairMember::read(&json!({"status": {"conditions": [
                {"type": "Synchronized", "status": "False", "reason": "R", "message": "m"},
                {"type": "Paused", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}));
        assert!(
            half.synchronized
                .is_some_and(|condition| !condition.holds() && condition.message == "m")
        );
        assert!(half.paused.is_some_and(|condition| condition.holds()));
    }
}
