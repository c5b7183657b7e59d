//! Certificates: where the serving certificate comes from, and how it is replaced.
//!
//! There are three sources. [`files`] follows mounted files. [`self_managed`] keeps a certificate
//! authority (CA) and a serving certificate in a Secret, and the CA in the `caBundle` of the
//! webhook configurations. [`development`] issues a certificate for the local machine. Each of them
//! updates [`Certificates`], which TLS handshakes read without a lock. This module never reads a
//! review.

mod certificates;
pub mod clients;
mod config;
pub mod development;
pub mod files;
pub mod inspect;
pub mod issue;
pub mod rotation;
pub mod self_managed;

pub use certificates::{Certificates, Invalid};
pub use config::{CipherSuite, MinVersion, Policy, server_config};
