//! The storage rules of a Kubernetes API server as one pure state machine.
//!
//! [`Api::apply`] takes a request and the time, and returns the response and the changes. It uses
//! no task, clock or lock, and names and uids come from counters. So the same requests always give
//! the same answers. The simulation calls it directly, and [`service`] serves it to real clients in
//! tests. It is not a server for production.
//!
//! `tests/fidelity` sends the same requests to it and to a real kube-apiserver, and compares the
//! answers. `docs/simulation-differences.md` lists the differences.
//!
//! Not implemented: authentication and authorisation, CRDs as objects (kinds are passed to
//! [`Api::new`]), lists at an exact older version, strategic merge patches with directives other
//! than `$patch: delete` and `$patch: replace`, and the validation of built-in kinds beyond
//! [`kinds`].

pub mod admission;
pub mod chain;
pub mod garbage;
pub mod http;
pub mod kinds;
pub mod registration;
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
