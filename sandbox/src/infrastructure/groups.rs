//! The reference provider of MachinePool Machines: groups of simulated instances.
//!
//! A `SimulatedMachinePool` follows the contract of an infrastructure machine pool. Its provider
//! makes a `SimulatedMachine` for each instance, deletes surplus and dangling ones through their
//! owner Machine, and reports which instances are outdated. `cloud` contains the instances, and a
//! test makes them vanish or fail there. `decide` contains every decision. A group that cannot
//! delete a single instance (`spec.managed`) has no `SimulatedMachine`.

mod cloud;
mod decide;
mod definitions;
mod provider;

pub use cloud::{Cloud, Instance};
pub use decide::{Act, Group, Inventory, MachineOf, decide};
pub(crate) use definitions::definition;
pub use definitions::definitions;
pub use provider::{FINALIZER, GroupProvider, GroupSpeeds};
