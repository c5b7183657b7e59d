//! The configuration of the cluster: the kinds of `config.openshift.io` that Capstan reads, and the
//! ClusterOperator that it writes.

pub mod cluster_operator;
pub mod feature_gate;
pub mod infrastructure;

/// The API group.
pub const GROUP: &str = "config.openshift.io";
/// Group and version of all kinds in this module.
pub const API_VERSION: &str = "config.openshift.io/v1";
