//! The environment of the controllers of the Machine API: the ControlPlaneMachineSet controller and
//! the generator.
//!
//! It consists of machines, nodes, the ClusterOperators, and one ControlPlaneMachineSet, in one
//! namespace.

pub(crate) mod act;
pub(crate) mod controllers;
mod environment;
mod guidance;
pub(crate) mod kinds;
pub(crate) mod neighbours;
pub(crate) mod objects;
mod reading;
pub(crate) mod state;
pub(crate) mod vocabulary;
