//! Wire types: what the API server stores, one file a kind, grouped by API group.
//!
//! A wire type reads what Capstan needs and carries the rest through in `unknown_fields`, so that a
//! round trip loses nothing (decision 3). It decides nothing: whether a value is *valid* is said
//! where it is parsed into the model.

pub mod bootstrap_cluster_x_k8s_io;
mod cached;
pub mod cluster_x_k8s_io;
pub mod config_openshift_io;
pub mod controlplane_cluster_x_k8s_io;
pub mod core_v1;
pub mod infrastructure_cluster_x_k8s_io;
pub mod kind;
pub mod kinds;
pub mod machine_openshift_io;
pub mod meta;
pub mod objects;
pub mod shared;
mod wire;

/// Fields that a wire type does not name, kept as they came.
pub type UnknownFields = serde_json::Map<String, serde_json::Value>;
