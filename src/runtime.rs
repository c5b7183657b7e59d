//! The runtime of all controllers: reads, caches, writes, and the worker that runs them.
//!
//! No kind's name appears here. A controller declares as data what it watches, and gives pure
//! functions that decide ([`Reconcile`]). The runtime owns the order of reads and writes: what
//! comes from a cache and what is read live, which precondition a write carries, and what is
//! remembered of a write until the caches show it. Safety never rests on being the only process
//! that runs (decision 15, `docs/decisions/0015-safety-without-leader-election.md`).

mod backoff;
mod caches;
mod client;
mod cluster;
mod credentials;
mod events;
mod follow;
mod history;
mod leader;
mod metrics;
mod object;
mod queue;
#[cfg(test)]
mod read_only;
mod reconcile;
mod reconciler;
mod running;
mod selection;
mod shard;
mod step_error;
mod store;
mod undone;
mod watch;
mod watches;
mod worker;
mod write;
mod write_tracker;

pub use backoff::Backoff;
pub use caches::{Caches, Changes, Publisher, Subscription, View};
pub use client::Client;
pub(crate) use client::{api, served_kind};
pub use cluster::{Cluster, FIELD_MANAGER, Written};
pub use credentials::Credentials;
pub use events::{EventSpec, Events};
pub(crate) use follow::in_other_version;
pub use leader::{Election, stand};
pub use metrics::Metrics;
pub use object::WatchedObject;
pub use queue::Queue;
#[cfg(test)]
pub(crate) use read_only::{ReadOnly, Reads};
pub use reconcile::{Moment, Observation, Reconcile, Reconciled, Report, Source, Step};
pub use reconciler::{FRESH, ReconcileResult, Reconciler, Shared};
pub use running::Running;
pub use shard::{Shard, Sharded};
pub use step_error::StepError;
pub use watch::Watch;
pub use watches::{WatchBody, Watched, Watches};
pub use worker::Worker;
pub use write::{Verb, Write, Writer};
pub use write_tracker::{is_older, order};
