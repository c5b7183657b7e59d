//! Tests of Capstan in a real cluster through kubectl: they compare the text that a user sees. The
//! tests are one binary, so that it is linked once. Each control plane is started once and shared
//! by its tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test reports a failure by a panic"
)]

// The samples and the generator are also used by the tests of core.
use capstan_core::conversion;

mod authority;
mod control_plane;
mod conversions;
mod crds;
mod deletion;
mod differential;
mod fixtures;
mod image;
mod install;
mod installation;
mod kubeadm_control_plane;
mod lifecycle;
mod machine_deletion;
mod metrics;
mod openshift;
mod outage;
mod policies;
mod ratcheting;
mod refusals;
mod registration;
mod restore;
mod tour;
mod upgrade;
mod warnings;
mod world;
