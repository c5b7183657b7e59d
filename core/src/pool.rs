//! MachinePool Machines: a Machine for each instance of a MachinePool.
//!
//! `plan` decides which Machine is created, changed, marked, or deleted next. It never deletes a
//! Machine of a pool whose provider cannot delete a single instance, and it never makes more
//! machines unavailable than the rollout strategy of the pool allows. No controller executes the
//! plans, and admission does not judge MachinePools.

pub mod action;
mod desired;
pub mod observed;
mod order;
pub mod plan;
pub mod report;
mod rollout;
#[cfg(test)]
mod samples;
pub mod state;
mod strategy;
