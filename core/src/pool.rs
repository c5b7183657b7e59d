//! MachinePool Machines: a Machine for each instance of a MachinePool.
//!
//! `plan` decides which Machine is created, changed, marked, or deleted next. It never deletes a
//! Machine of a pool whose provider cannot delete a single instance, and it never makes more
//! machines unavailable than the rollout strategy of the pool allows. `records` shows the instances
//! of such a pool, `removal` ends the deletion of a pool, `own` does the rest of the work of a core
//! manager, `status` decides what is reported, and `rules` judges edits.

pub mod action;
#[cfg(test)]
mod defects;
pub mod deferral;
mod desired;
pub mod observed;
mod order;
mod own;
pub mod plan;
mod progress;
pub mod records;
mod recreation;
pub mod removal;
pub mod report;
mod rollout;
pub mod rules;
#[cfg(test)]
mod samples;
pub mod state;
pub mod status;
mod strategy;
#[cfg(test)]
mod tests;
mod version;

pub use action::Mode;
pub use recreation::Recreations;
pub use strategy::max_surge;

/// The types of the conditions that Capstan alone sets.
pub mod condition {
    /// Whether a user must act: the message says what stops until then.
    pub const DEGRADED: &str = "Degraded";
    /// Whether a single instance of the pool can be deleted.
    pub const DELETABLE: &str = "InstancesDeletable";
}
