//! The cluster's configuration: what Capstan reads of `config.openshift.io`, and the
//! ClusterOperator that it writes.

pub mod cluster_operator;
pub mod feature_gate;
pub mod infrastructure;

/// The API group.
pub const GROUP: &str = "config.openshift.io";
/// Group and version of all kinds here.
pub const API_VERSION: &str = "config.openshift.io/v1";
