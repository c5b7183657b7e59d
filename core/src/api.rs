//! Wire types: the objects that the API server stores, one file for each kind, grouped by API
//! group.
//!
//! A wire type names the fields that Capstan needs and keeps all other fields in `unknown_fields`,
//! so that a round trip loses nothing (decision 3). It does not validate: the parse into the model
//! decides whether a value is valid.

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

/// Fields that a wire type does not name, unchanged.
pub type UnknownFields = serde_json::Map<String, serde_json::Value>;
