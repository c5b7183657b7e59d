//! Components of other projects that run beside Capstan in tests, from published Go modules.
//!
//! Nothing of them is part of this repository. Programs are built once into the target folder, and
//! files are read from Go's module cache. The versions are those of `sandbox/neighbours/*/go.mod`
//! and of [`provider_crds`].
//! It must never connect to an address other than 127.0.0.1, except that Go downloads modules.

pub mod cluster_api;
pub mod machine_webhook;
pub mod olm;
pub mod openshift_api;
mod programs;
pub mod provider_crds;
pub mod suite;
pub mod tools;
