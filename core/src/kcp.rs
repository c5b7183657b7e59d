//! KubeadmControlPlane of Cluster API: which objects and which edits are valid, how the two
//! versions of the API are converted, and which step a controller takes next.
//!
//! The webhooks of the feature `kubeadm-control-plane` judge and convert objects with it. They must
//! never be installed beside the webhooks of Cluster API for the same objects.

pub mod action;
pub mod addons;
mod adoption;
pub mod assessment;
mod canonical;
pub mod certificates;
pub mod clone;
mod conversion;
pub mod core_dns;
mod create;
mod defaults;
pub mod deletion;
mod desired;
mod domains;
pub mod expiry;
pub mod first_machine;
mod image;
pub mod inspection;
mod known_fields;
pub mod kube_proxy;
pub mod kubeadm_configuration;
mod machine_fields;
mod membership;
mod naming;
pub mod observed;
pub mod outdated;
pub mod pending;
pub mod plan;
mod preflight;
pub mod preview;
pub mod propagation;
mod qualified;
mod read_config;
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
pub mod stored;
mod version;

pub use conversion::{ConversionAnswer, FALLBACK_VERSION, Versions, answer_conversion, to_v1beta1, to_v1beta2};
pub use desired::Bootstrap;
pub use spec::Gates;
