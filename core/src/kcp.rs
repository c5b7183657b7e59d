//! KubeadmControlPlane of Cluster API: which objects and which edits are valid, and how the two
//! versions of the API are converted.
//!
//! The module judges objects offline. It must never be installed beside the webhooks of Cluster API
//! for the same objects, and it contains no controller yet.

mod conversion;
mod core_dns;
mod defaults;
mod naming;
mod qualified;
pub mod rules;
mod spec;
mod version;

pub use conversion::{ConversionError, Versions, to_v1beta1, to_v1beta2};
pub use spec::Gates;
