//! KubeadmControlPlane of Cluster API: which objects and which edits are valid, how the two versions
//! of the API are converted, and which step a controller takes next.
//!
//! The module judges and plans offline. It must never be installed beside the webhooks of Cluster
//! API for the same objects, and no controller executes its plans yet.

mod conversion;
mod core_dns;
mod defaults;
mod desired;
mod naming;
pub mod observed;
pub mod outdated;
mod qualified;
pub mod rules;
#[cfg(test)]
mod samples;
mod spec;
pub mod state;
mod version;

pub use conversion::{ConversionError, Versions, to_v1beta1, to_v1beta2};
pub use desired::Bootstrap;
pub use spec::Gates;
