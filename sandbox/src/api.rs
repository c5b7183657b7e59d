//! The storage rules of a Kubernetes API server as one pure state machine.
//!
//! [`Api::apply`] takes a request and the time, and gives the response and what changed. No task, no clock and no lock
//! is in here, and names and uids come from counters: the same requests always give the same answers. It is served
//! twice: stepped by the simulation, and under a real client by [`service`]. It is no server for people.
//!
//! How close it comes to a real kube-apiserver is measured by `tests/fidelity`, which sends the same requests to both;
//! what differs is listed in `docs/simulation-differences.md`.
//!
//! Known to be left out: authentication and authorisation, CRDs as objects (kinds are given to [`Api::new`]), lists at an
//! exact older version, strategic merge patches with directives other than `$patch: delete` and `$patch: replace`, and
//! the validation of built-in kinds beyond what [`kinds`] says.

pub mod admission;
pub mod garbage;
pub mod http;
pub mod kinds;
pub mod service;

mod deletion;
mod failure;
mod managed;
mod metadata;
mod object;
mod patch;
mod reads;
mod reply;
mod request;
mod scale;
mod selector;
mod store;
mod writes;

pub use failure::Failure;
pub use kinds::{Kind, Scope};
pub use object::{Fields, Object};
pub use reads::{WatchEvent, WatchStart};
pub use reply::{List, Reply};
pub use request::{DeleteOptions, ListOptions, Part, PatchKind, Request, Target, Verb, WriteOptions};
pub use selector::Selector;
pub use store::{Admit, Api, Change, ChangeKind, Key, Options};
