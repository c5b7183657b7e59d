//! The environment of the controller of ControlPlanes: machines, nodes, the health check, and etcd
//! with learners, around the production controller.
//!
//! The engine and its faults are those of the other simulated controllers, and so are the life
//! cycle of a machine and the state machine of the etcd operator. Nothing here may depend on
//! anything but the seed.

pub(crate) mod act;
mod bugs;
mod environment;
mod etcd;
mod health_checks;
mod invariants;
mod kinds;
mod mutants;
mod objects;
mod own_members;
mod provider;
mod repairs;
mod runs;
mod scenarios;
mod state;
mod users;

pub use bugs::{BUGS, Bug};
pub use invariants::INVARIANTS;
pub use mutants::hunt;
pub use runs::{digest, exhaust, run, simulate, trace};
pub use scenarios::scenarios;
