//! Capstan in a real cluster: an API server of its own, `kubectl` as a person would use it, and the text that the person
//! reads. One binary, so that it is linked once; each control plane in it is started once and shared by its tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails is what these are for"
)]

mod authority;
mod crds;
mod deletion;
mod differential;
mod fixtures;
mod installation;
mod openshift;
mod policies;
mod ratcheting;
mod refusals;
mod tour;
mod warnings;
mod world;
