//! The objects that a conversion reads besides its source.

use serde_json::Value;

use super::Api;

/// The result of looking up an object.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Lookup<'a> {
    /// The object was not looked up. What depends on it is not checked.
    #[default]
    Unknown,
    /// The object does not exist. A field that needs it is an issue.
    Absent,
    /// The object.
    Found(&'a Value),
}

impl<'a> Lookup<'a> {
    /// The object, if there is one.
    pub fn found(self) -> Option<&'a Value> {
        match self {
            Self::Found(object) => Some(object),
            Self::Unknown | Self::Absent => None,
        }
    }
}

impl<'a> From<Option<&'a Value>> for Lookup<'a> {
    fn from(object: Option<&'a Value>) -> Self {
        object.map_or(Self::Absent, Self::Found)
    }
}

/// The role of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The machine runs the control plane.
    ControlPlane,
    /// The machine runs workloads.
    Worker,
}

/// The objects that a conversion reads besides its source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The Infrastructure `cluster` of `config.openshift.io`.
    pub infrastructure: Lookup<'a>,
    /// The infrastructure cluster of Cluster API, such as an AWSCluster.
    pub infrastructure_cluster: Lookup<'a>,
    /// The infrastructure machine of a Machine of Cluster API, or the template of a MachineSet.
    pub infrastructure_machine: Lookup<'a>,
    /// The object of the same name in the other API. Its conditions keep their times, and fields
    /// that cannot change keep their values.
    pub mirror: Option<&'a Value>,
    /// The owner of the converted Machine, in the other API.
    pub parent: Option<&'a Value>,
    /// The role of the machine. `None`: its labels and owners tell it.
    pub role: Option<Role>,
    /// The names of the Secrets in the namespace of Cluster API. A Secret with user data must exist
    /// there, except those that the platform copies.
    pub secrets: &'a [String],
}

impl Context<'_> {
    /// Why a machine of the API `to` cannot use a Secret that the platform does not copy. `None`:
    /// the Secret exists in the namespaces of both APIs.
    pub(super) fn missing_secret(&self, name: &str, copied: &[&str], to: Api) -> Option<String> {
        let exists = copied.contains(&name) || self.secrets.iter().any(|known| known == name);
        (!exists).then(|| {
            let to = to.title();
            format!("the Secret {name:?} must exist in the namespace of {to}, and it is not copied there")
        })
    }
}
