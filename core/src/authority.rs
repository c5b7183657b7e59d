//! Which API leads: the Machine API or Cluster API, for every object that exists in both.
//!
//! `spec` reads an object of either API into what this room needs of it; `state` finds its counterpart and says who leads;
//! `plan` is the migration from one to the other; `rules` judge an edit. The half that does not lead is a copy: it changes
//! only through whoever keeps the copies.
//!
//! Must never: guess about a counterpart that has not been read.
//!
//! Source: the Converting Machine API to Cluster API enhancement; decisions 9 to 13.

pub mod config;
pub mod plan;
pub mod rules;
pub mod spec;
pub mod state;

/// The finalizer by which a deletion on one side is kept in step with the other.
pub const FINALIZER: &str = "sync.machine.openshift.io/finalizer";
/// The value of the pause annotation that says that the pause is the sync controller's, because the Machine API leads. It
/// lets the API server guard a copy without looking up its original. Whatever else pauses an object is its user's.
pub const PAUSED_BY_SYNC: &str = "sync.machine.openshift.io";
/// The label on an infrastructure template that names the MachineSet that it was made for.
pub const TEMPLATE_SET: &str = "machine.openshift.io/cluster-api-machineset";
