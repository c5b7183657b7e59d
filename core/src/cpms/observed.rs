//! The inputs of a plan: one snapshot of the objects that a set depends on, and the creations that
//! the process has sent.
//!
//! Nothing here is derived from the set; see `state` for that.

use core::net::IpAddr;
use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::stored_template::StoredTemplate;
use crate::api::config_openshift_io::cluster_operator::ClusterOperator;
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::core_v1::node::Node;
use crate::api::machine_openshift_io::machine::Machine;
use crate::model::{EtcdMember, PendingCreation, UnknownMembers};

/// One snapshot of the objects that a set depends on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Every machine of the namespace, including those that the selector does not select.
    pub machines: Vec<Arc<Machine>>,
    /// Nodes. A node outside the control plane is ignored unless a machine names it.
    pub nodes: Vec<Arc<Node>>,
    /// The Infrastructure `cluster`; `None` if it is unknown.
    pub infrastructure: Option<Arc<Infrastructure>>,
    /// The ClusterOperator `etcd`; `None` if it does not exist.
    pub etcd: Option<Arc<ClusterOperator>>,
    /// The addresses of the voting etcd members, as the etcd operator lists them; `None`
    /// without such a list. Only the controller of ControlPlanes reads them.
    pub voters: Option<BTreeSet<IpAddr>>,
    /// The etcd members as they answered Capstan, or why they did not; `None` where the etcd
    /// operator reports them. Only the controller of ControlPlanes asks them.
    pub own_members: Option<Result<Vec<EtcdMember>, UnknownMembers>>,
    /// What the API server answered on how machines of templates are stored.
    pub stored_templates: Vec<Arc<StoredTemplate>>,
    /// Objects that could not be decoded.
    pub unparsable: Vec<Unparsable>,
    /// Creations that this process sent and that were not answered, the latest last.
    pub unanswered: Vec<UnansweredCreate>,
    /// Creations that other processes recorded in the set. Only those processes know whether the
    /// creations were answered.
    pub pending: Vec<PendingCreate>,
    /// The names of the machines that this process requested lately, or that it requested and that
    /// still exist.
    pub requested: BTreeSet<String>,
}

impl Observed {
    /// Whether a machine of this name exists, selected or not.
    pub(super) fn has_machine(&self, name: &str) -> bool {
        self.machines.iter().any(|machine| machine.metadata.name() == name)
    }
}

/// A creation that another process recorded in the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCreate {
    /// The record.
    pub creation: PendingCreation,
    /// When it can no longer take effect, by the clock of this process.
    pub until: Timestamp,
}

/// A creation that this process sent and that was not answered.
#[derive(Clone, Debug, PartialEq)]
pub struct UnansweredCreate {
    /// The index that the machine is for.
    pub index: u32,
    /// The machine that was requested.
    pub machine: Arc<Machine>,
    /// When it can no longer take effect, also for a second time, after the machine was created and
    /// deleted. `None` if it can no longer take effect.
    pub until: Option<Timestamp>,
}

/// An object that could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unparsable {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Why it could not be decoded.
    pub message: String,
}

/// Settings of the controllers that decide how a rollout proceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long the node of a replacement must have been ready before the machine counts as ready
    /// (`--min-ready`).
    pub min_ready: SignedDuration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            min_ready: SignedDuration::from_secs(10),
        }
    }
}
