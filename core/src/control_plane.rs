//! ControlPlane: the number and the shape of the control plane machines as one object.
//!
//! The module has entry points with the names that every feature module uses. `spec` parses a
//! ControlPlane, `rules` reviews an edit, `state` reads the cluster, `plan` decides the next step,
//! and `status` computes the status. What a ControlPlane shares with a ControlPlaneMachineSet is
//! the code of `cpms`. Nothing here writes to a cluster or reads a clock.

pub mod action;
pub mod cluster_operator;
pub mod degraded;
mod gates;
pub mod generate;
pub mod health_check;
pub mod hook;
pub mod lost_members;
pub mod members;
mod pending;
pub mod plan;
pub mod preview;
pub mod removal;
pub mod report;
pub mod rules;
mod selection;
pub mod spec;
pub mod state;
pub mod status;
mod step;

#[cfg(test)]
mod samples;
