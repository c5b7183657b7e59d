//! What rules may look up: the cluster around the object that is judged.
//!
//! Filled from the caches of the server, or from the files of an offline check. What is not there is *unknown*, which is
//! not the same as absent: a rule that needs it says so, and guesses nothing.

use std::collections::BTreeMap;

use crate::api::config_openshift_io::cluster_operator::ClusterOperator;
use crate::api::config_openshift_io::feature_gate::FeatureGate;
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::core_v1::node::Node;
use crate::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use crate::api::machine_openshift_io::machine::Machine;

/// Where a snapshot comes from: it decides what an unknown means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The caches of a server: what is unknown will be known soon, and what cannot be judged is refused until then.
    Cluster,
    /// The files that somebody gave: what is unknown is said as a warning.
    #[default]
    Files,
}

/// The cluster around the object that is judged. `None` is unknown.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Where it comes from.
    pub source: Source,
    /// All Machines of the Machine API in its namespace.
    pub machines: Option<Vec<Machine>>,
    /// The nodes, by name.
    pub nodes: Option<BTreeMap<String, Node>>,
    /// The Infrastructure `cluster`.
    pub infrastructure: Option<Infrastructure>,
    /// The FeatureGate `cluster`.
    pub feature_gate: Option<FeatureGate>,
    /// The ClusterOperators, by name.
    pub cluster_operators: Option<BTreeMap<String, ClusterOperator>>,
    /// The ControlPlaneMachineSets of the namespace.
    pub control_plane_machine_sets: Option<Vec<ControlPlaneMachineSet>>,
}
