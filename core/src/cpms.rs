//! ControlPlaneMachineSet: what a set asks for, where its machines stand, what to do next, and what
//! to say about it.
//!
//! Five doors, as in every feature room: `spec` parses, `rules` judges an edit, `state` reads the
//! cluster, `plan` says what to do next, `status` says what to report. Nothing here writes to a
//! cluster or knows the time.

pub mod action;
pub mod changes;
pub mod created_from;
pub mod defaults;
pub mod degraded;
pub mod domains;
pub mod etcd;
mod fields;
pub mod generate;
pub mod indexes;
pub mod machine_state;
mod names;
pub mod observed;
pub mod pending_creates;
pub mod placement;
pub mod plan;
pub mod preview;
pub mod progress;
pub mod reconcile_cache;
pub mod removal;
pub mod report;
pub mod rules;
pub mod selector;
pub mod spec;
pub mod state;
pub mod status;
mod stored_form;
pub mod stored_template;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod simulation;
