//! KubeadmControlPlane of Cluster API: which objects and which edits are valid, how the two
//! versions of the API are converted, and which step a controller takes next.
//!
//! The module judges and plans offline. It must never be installed beside the webhooks of Cluster
//! API for the same objects, and no controller executes its plans yet.

pub mod action;
mod conversion;
mod core_dns;
mod create;
mod defaults;
pub mod deletion;
mod desired;
mod domains;
mod membership;
mod naming;
pub mod observed;
pub mod outdated;
pub mod plan;
mod preflight;
pub mod preview;
mod qualified;
mod remediation;
pub mod report;
pub mod rules;
mod safety;
#[cfg(test)]
mod samples;
mod selection;
mod spec;
pub mod state;
pub mod status;
mod version;

pub use conversion::{ConversionError, Versions, to_v1beta1, to_v1beta2};
pub use desired::Bootstrap;
pub use spec::Gates;
