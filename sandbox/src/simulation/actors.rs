//! The actors around the controllers: each reacts to changes, or does what the schedule says.
//!
//! An actor behaves as its real counterpart does, faults included. It must not know anything of
//! Capstan.

mod etcd;
mod etcd_messages;
pub(crate) mod foreign_webhook;
mod installer;
mod provider;
mod repairs;
mod user_actions;
pub(crate) mod webhook;
