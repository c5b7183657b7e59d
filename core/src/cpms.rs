//! ControlPlaneMachineSet: the desired machines of a set, their failure domains, the next step of a
//! rollout, and the status.
//!
//! The module has five entry points: `spec` parses a set, `rules` reviews an edit, `state` reads
//! the cluster, `plan` decides the next steps, and `status` computes the status. Nothing here
//! writes to a cluster or reads a clock.

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
pub(crate) mod node_owners;
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
pub mod template_metadata;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod simulation;
