//! The engine of the simulation: one seed decides one run of a whole world.
//!
//! A [`World`](world::World) owns simulated time, a queue of events, the in-memory API server, and
//! the replicas of the controllers under test. Everything else comes from its
//! [`Environment`](world::Environment): the kinds, the controllers, the actors around them, and the
//! invariants. The engine decides when something happens and what the network does to it. It must
//! not name a kind or a controller, and it must not read a clock or any state that is not derived
//! from the seed.

pub(crate) mod cache;
mod cluster;
mod disruptions;
pub(crate) mod draws;
mod events;
pub(crate) mod exhaustive;
pub mod faults;
pub(crate) mod guided;
mod keys;
pub(crate) mod kinds;
pub(crate) mod options;
pub(crate) mod port;
pub(crate) mod replica;
mod requests;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod shrink;
mod stepping;
mod tape;
mod trace_format;
mod triggers;
mod units;
pub(crate) mod world;
