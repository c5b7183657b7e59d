//! The objects of one mirrored Machine, MachineSet, or MachineHealthCheck, in full, and the writes
//! to them.
//!
//! The decisions of the sync controller need the identity of each object (uid, resource version,
//! finalizers) and its whole content. The caller reads every object from the API server right
//! before each decision. A write carries the uid and the resource version that were read, so that a
//! decision about an older state fails with a conflict.
//!
//! Must never: treat an object that was not read as absent. The caller makes no pair before it has
//! read all objects.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::spec::{Api, Authority, Kind, PairMember};

/// An object as it is stored. Clones share it.
#[derive(Clone, Debug, PartialEq)]
pub struct FullObject {
    /// The object as JSON.
    pub value: Arc<Value>,
    /// The fields of the object that decide which API is authoritative.
    pub member: Arc<PairMember>,
}

impl From<Value> for FullObject {
    fn from(value: Value) -> Self {
        let member = Arc::new(PairMember::read(&value));
        let value = Arc::new(value);
        Self { value, member }
    }
}

impl FullObject {
    /// The non-empty string at a JSON pointer.
    pub fn text(&self, pointer: &str) -> Option<&str> {
        let text = self.value.pointer(pointer)?.as_str()?;
        (!text.is_empty()).then_some(text)
    }

    /// The uid; empty if the object has none.
    pub fn uid(&self) -> &str {
        self.text("/metadata/uid").unwrap_or_default()
    }

    /// The resource version; empty if the object has none.
    pub fn resource_version(&self) -> &str {
        self.text("/metadata/resourceVersion").unwrap_or_default()
    }

    /// The finalizers.
    pub fn finalizers(&self) -> Vec<&str> {
        let list = self.value.pointer("/metadata/finalizers").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Whether the object has a finalizer.
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers().contains(&name)
    }

    /// An annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.member.annotations.get(key).map(String::as_str)
    }

    /// The status of a condition. Providers with an older contract store the conditions of the
    /// current contract in `status.v1beta2`.
    pub fn condition(&self, kind: &str) -> Option<&str> {
        let lists = ["/status/conditions", "/status/v1beta2/conditions"];
        let mut conditions = lists
            .iter()
            .filter_map(|at| self.value.pointer(at)?.as_array())
            .flatten();
        let found = conditions.find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))?;
        found.get("status")?.as_str()
    }
}

/// The objects that a Machine or a MachineSet of either API can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The Machine, MachineSet, or MachineHealthCheck of the Machine API.
    MachineApi,
    /// The Machine, MachineSet, or MachineHealthCheck of Cluster API.
    ClusterApi,
    /// The infrastructure machine of Cluster API; of a MachineSet, the infrastructure template that
    /// its mirror refers to.
    Infrastructure,
    /// Another infrastructure template of a MachineSet, by its place in [`Pair::templates`].
    Template(usize),
    /// A Machine that a MachineSet owns, by its place in [`Pair::members`].
    Member(usize),
}

impl Part {
    /// The Machine, MachineSet, or MachineHealthCheck of an API.
    pub fn of(api: Api) -> Self {
        match api {
            Api::MachineApi => Self::MachineApi,
            Api::ClusterApi => Self::ClusterApi,
        }
    }
}

/// A Machine of a MachineSet.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The API of the Machine.
    pub api: Api,
    /// Whether the controllers of that API may hold its instance.
    pub is_authoritative: bool,
    /// The Machine.
    pub object: FullObject,
}

impl Member {
    /// A Machine of an API, with the Machine of the Machine API of the same name. During a
    /// migration, both APIs count as authoritative.
    pub fn new(api: Api, object: FullObject, machine_api: Option<&FullObject>) -> Self {
        let authority = machine_api.map(|machine| machine.member.authority());
        let is_authoritative = authority.is_none_or(|authority| authority != Authority::Stable(api.other()));
        Self {
            api,
            is_authoritative,
            object,
        }
    }
}

/// The objects of a mirrored Machine, MachineSet, or MachineHealthCheck, and what their conversion
/// reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pair {
    /// Machine, MachineSet, or MachineHealthCheck.
    pub kind: Kind,
    /// The name of both objects.
    pub name: String,
    /// The object of the Machine API.
    pub machine_api: Option<FullObject>,
    /// The object of Cluster API.
    pub cluster_api: Option<FullObject>,
    /// The infrastructure machine of the Machine of Cluster API, or the infrastructure template of
    /// its MachineSet.
    pub infrastructure: Option<FullObject>,
    /// The infrastructure templates that were made for a MachineSet.
    pub templates: Vec<FullObject>,
    /// The names of the infrastructure templates that other MachineSets of Cluster API refer to.
    pub templates_in_use: Vec<String>,
    /// The Machines that one of the two MachineSets owns.
    pub members: Vec<Member>,
    /// The MachineSet of the Machine API that one of the Machines names as its owner.
    pub machine_api_set: Option<FullObject>,
    /// The MachineSet of Cluster API that one of the Machines names as its owner.
    pub cluster_api_set: Option<FullObject>,
    /// The other objects of the cluster.
    pub surroundings: Surroundings,
}

/// The objects of the cluster that all conversions read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surroundings {
    /// The namespace of the Machine API.
    pub machine_api_namespace: String,
    /// The namespace of Cluster API.
    pub cluster_api_namespace: String,
    /// The Cluster of Cluster API.
    pub cluster: Option<Arc<Value>>,
    /// The infrastructure cluster, such as an AWSCluster.
    pub infrastructure_cluster: Option<Arc<Value>>,
    /// The Infrastructure `cluster` of `config.openshift.io`.
    pub infrastructure: Option<Arc<Value>>,
    /// The names of the Secrets in the namespace of Cluster API.
    pub secrets: Vec<String>,
}

impl Surroundings {
    /// The namespace of an API.
    pub fn namespace(&self, api: Api) -> &str {
        match api {
            Api::MachineApi => &self.machine_api_namespace,
            Api::ClusterApi => &self.cluster_api_namespace,
        }
    }
}

impl Pair {
    /// An object of the pair.
    pub fn part(&self, part: Part) -> Option<&FullObject> {
        match part {
            Part::MachineApi => self.machine_api.as_ref(),
            Part::ClusterApi => self.cluster_api.as_ref(),
            Part::Infrastructure => self.infrastructure.as_ref(),
            Part::Template(at) => self.templates.get(at),
            Part::Member(at) => self.members.get(at).map(|member| &member.object),
        }
    }

    /// Whether the pair is two MachineSets.
    pub fn is_set(&self) -> bool {
        self.kind == Kind::MachineSet
    }

    /// Whether the pair is two MachineSets or two MachineHealthChecks. They hold no instance.
    pub fn is_parent(&self) -> bool {
        self.kind != Kind::Machine
    }

    /// The Machine, MachineSet, or MachineHealthCheck of an API.
    pub fn machine(&self, api: Api) -> Option<&FullObject> {
        self.part(Part::of(api))
    }

    /// The MachineSet of an API.
    pub fn set(&self, api: Api) -> Option<&FullObject> {
        match api {
            Api::MachineApi => self.machine_api_set.as_ref(),
            Api::ClusterApi => self.cluster_api_set.as_ref(),
        }
    }
}

/// A write to an object of a pair.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The object.
    pub part: Part,
    /// What is written.
    pub verb: Verb,
    /// The reason, as a clause for the log.
    pub because: String,
}

/// What is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    /// The object is created.
    Create(Value),
    /// A JSON merge patch. Its metadata has the uid and the resource version that were read.
    Patch(Value),
    /// A JSON merge patch of the status, with the same metadata.
    PatchStatus(Value),
    /// The object is deleted if it still has this uid and resource version.
    Delete {
        /// The uid.
        uid: String,
        /// The resource version.
        resource_version: String,
    },
}

impl Write {
    /// The creation of an object.
    pub fn create(part: Part, body: Value, because: impl Into<String>) -> Self {
        let (verb, because) = (Verb::Create(body), because.into());
        Self { part, verb, because }
    }

    /// A merge patch of an object as it was read. `patch` may have metadata.
    pub fn patch(part: Part, object: &FullObject, patch: Map<String, Value>, because: impl Into<String>) -> Self {
        Self {
            part,
            verb: Verb::Patch(guarded(object, patch)),
            because: because.into(),
        }
    }

    /// A merge patch of the status of an object as it was read.
    pub fn status(part: Part, object: &FullObject, status: Value, because: impl Into<String>) -> Self {
        let patch = Map::from_iter([(String::from("status"), status)]);
        Self {
            part,
            verb: Verb::PatchStatus(guarded(object, patch)),
            because: because.into(),
        }
    }

    /// The replacement of all finalizers of an object as it was read.
    pub fn finalizers(part: Part, object: &FullObject, finalizers: &[&str], because: impl Into<String>) -> Self {
        let metadata = Map::from_iter([(String::from("metadata"), json!({"finalizers": finalizers}))]);
        Self::patch(part, object, metadata, because)
    }

    /// The deletion of an object as it was read.
    pub fn delete(part: Part, object: &FullObject, because: impl Into<String>) -> Self {
        Self {
            part,
            verb: Verb::Delete {
                uid: object.uid().to_owned(),
                resource_version: object.resource_version().to_owned(),
            },
            because: because.into(),
        }
    }
}

/// The patch with the identity of the object that was read.
fn guarded(object: &FullObject, mut patch: Map<String, Value>) -> Value {
    let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
    if let Value::Object(metadata) = metadata {
        metadata.insert(String::from("uid"), object.uid().into());
        metadata.insert(String::from("resourceVersion"), object.resource_version().into());
    }
    patch.into()
}

/// The next action for a pair.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The write to make. The pair is read again before the next decision.
    Write(Box<Write>),
    /// The change of an object that must happen before the next write, as a sentence.
    Wait(String),
    /// Nothing to do until an object changes.
    Idle,
}

impl From<Write> for Decision {
    fn from(write: Write) -> Self {
        Self::Write(Box::new(write))
    }
}

impl Decision {
    /// Waits for a change.
    pub fn wait(reason: impl Into<String>) -> Self {
        Self::Wait(reason.into())
    }
}
