//! Certificates: which one is served, where it comes from, and when it changes.
//!
//! Three sources, one slot. [`files`] follows what others mount, [`self_managed`] keeps an authority and a certificate in
//! a Secret and the trust in it in the webhook configurations, [`development`] makes one for this machine. All of them
//! fill [`Certificates`], which the handshakes read without a lock. This room knows nothing of reviews.

mod certificates;
mod config;
pub mod development;
pub mod files;
pub mod inspect;
pub mod issue;
pub mod rotation;
pub mod self_managed;

pub use certificates::{Certificates, Invalid};
pub use config::{MinVersion, server_config};
