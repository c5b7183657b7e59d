//! What surrounds the control plane: admission webhooks of other components, machines that are not
//! control plane machines, the names that an installer chose, the CRD of OpenShift, and the
//! messages of the etcd operator.
//!
//! The default has none of them. Only the scenario `neighbours` sets them, so that the other
//! scenarios keep their runs.

use capstan_core::api::meta::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::objects::PREFIX;

/// The first characters of the names of machines that are not control plane machines.
const WORKERS: &str = "ocp-x7k2p-worker";
/// The name of a control plane machine of another cluster.
const OF_OTHER_CLUSTER: &str = "ocp-b4d1c-master-0";
/// The first characters of the names of control plane nodes that have no machine until a user
/// removes them.
const FOREIGN_NODES: &str = "foreign-";

/// The neighbours of a control plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Neighbours {
    /// Other components have admission webhooks for machines.
    pub webhooks: bool,
    /// The webhooks of OpenShift's Machine API store new machines.
    pub machine_webhook: bool,
    /// Worker machines exist, and the selector of the set also matches them. There is a control
    /// plane machine of another cluster, too, which the selector does not match.
    pub workers: bool,
    /// The names of the machines that the installer created.
    pub names: Names,
    /// The CRD of the set does not contain `status.selector`, as the one of OpenShift.
    pub prunes_selector: bool,
    /// The etcd operator writes every message that cluster-etcd-operator can write.
    pub etcd_messages: bool,
    /// No fault stops a process or delays a cache, so that the status of the set and the names of
    /// machines are judged while faults occur.
    pub judges_status: bool,
}

/// The names of the machines that the installer created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Names {
    /// They end in the numbers from 0 on.
    #[default]
    Numbered,
    /// They end in other numbers, in no order.
    OtherNumbers,
    /// They end in the same number, as names that contain addresses do.
    SameNumber,
    /// They end in no number.
    Letters,
}

impl Names {
    /// The name of the machine at a position.
    pub(crate) fn name(self, position: u32) -> String {
        match self {
            Self::Numbered => format!("{PREFIX}-{position}"),
            Self::OtherNumbers => format!("cp-{}", (position * 7 + 4) % 10),
            Self::SameNumber => format!("ip-10-0-{}-10", position * 16),
            Self::Letters => {
                let letter = ["c", "a", "e", "b", "d"].into_iter().cycle().nth(position as usize);
                format!("{PREFIX}-{}", letter.unwrap_or("a"))
            }
        }
    }
}

/// The names of the machines that are not control plane machines of this cluster.
pub(crate) fn workers() -> [String; 3] {
    [
        format!("{WORKERS}-us-east-1a-x7k2p"),
        format!("{WORKERS}-1"),
        OF_OTHER_CLUSTER.to_owned(),
    ]
}

/// Whether a machine is not a control plane machine of this cluster.
pub(crate) fn is_worker(machine: &str) -> bool {
    machine.starts_with(WORKERS) || is_of_other_cluster(machine)
}

/// Whether a machine is a control plane machine of another cluster.
pub(crate) fn is_of_other_cluster(machine: &str) -> bool {
    machine == OF_OTHER_CLUSTER
}

/// The name of a control plane node that no machine ever claims.
pub(crate) fn foreign_node(now: i64) -> String {
    format!("{FOREIGN_NODES}{now}")
}

/// Whether no machine ever claims a node.
pub(crate) fn is_foreign_node(meta: &ObjectMeta) -> bool {
    meta.name().starts_with(FOREIGN_NODES)
}
