//! Our controllers, attacked thousands of times a second before they touch a control plane.
//!
//! One seed decides a [`Schedule`]: what users, machines, nodes, etcd members, clocks and replicas do at which moment, and
//! how often which request fails. A [`World`] plays it against the in-memory API server ([`crate::api`]) and against the
//! controller that ships: `capstan::controllers::Controller`, its plan, its checks, its ledger and its events, polled one
//! answer at a time through its own seam, `capstan::controllers::Cluster`. What is not the shipped code is the transport
//! (`kube::Client`), the caches (each kind of each replica lags by itself here) and the election (who believes to lead is
//! part of a schedule).
//!
//! After every change of the store the invariants are checked against the truth; at the end everything must have come to
//! rest as it should. A violation is the seed, the invariant and a trace that a person can read.

mod cache;
mod exhaustive;
mod mutants;
mod objects;
mod port;
mod run;
mod schedule;
pub mod show;
mod truth;
mod world;

pub use exhaustive::{Exhausted, exhaust, exhaust_all};
pub use mutants::{About, CATALOGUE, Caught, LIMIT, Mutant, hunt, page, row};
pub use objects::Sort;
pub use run::{Found, Summary, digest, simulate, trace};
pub use schedule::{Act, Mix, SCENARIOS, Schedule, Trouble};
pub use truth::{INVARIANTS, Violation};
pub use world::{Actor, Fate, Orders, Outcome, World};
