//! The deterministic simulation: the production controllers in simulated clusters, thousands of
//! runs a minute.
//!
//! A seed decides a schedule: what users, machines, nodes, etcd members, clocks, and replicas do at
//! which moment, and how often which request fails. A world executes it against the in-memory API
//! server ([`crate::api`]) and the production controllers, which it polls by hand, one answer at a
//! time. Only the transport, the caches, and the election are simulated: each cache lags by itself,
//! and the schedule decides which replica believes that it leads.
//!
//! Invariants are checked after every change. At the end, after faults have stopped, the cluster
//! must be in the requested state. A violation is reported with its seed, its invariant, and the
//! trace of the smallest run that causes it.
//!
//! | module | contains |
//! |---|---|
//! | `engine` | worlds, schedules, faults, ports, caches, runs, shrinking; it names no kind |
//! | `declared` | the environment that a test declares, for any other controller |
//! | `machine_api` | the environment of the controllers of the Machine API |
//! | `control_planes` | the same for the controller of ControlPlanes, with all that belongs to it |
//! | `machine_pool` | a declared simulation of the controller of MachinePools |
//! | `kubeadm` | the same for the controller of KubeadmControlPlanes, with a managed cluster |
//! | `actors` | the actors around the controllers |
//! | `both_apis` | the environment of the controllers of objects in both APIs |
//! | `scenarios` | what happens in a run, by controller |
//! | `invariants` | what must hold, by controller |
//! | `foreign` | what other products do, as it was recorded |
//! | `mutants` | seeded bugs and mutants of decisions, which the invariants must find |
//! | `hunted` | the results of hunts for seeded bugs, as a command shows them |
//! | `views` | changes of what the caches show, for seeded bugs |
//! | `points` | what the copy of the sources for generated mutants reaches |
//! | `regressions` | schedules that once violated an invariant, as data |
//! | `coverage` | the branches of decisions that schedules reach |

mod actors;
pub mod both_apis;
pub mod control_planes;
pub mod coverage;
mod declared;
mod engine;
pub mod foreign;
pub mod hunted;
mod invariants;
pub mod kubeadm;
mod machine_api;
pub mod machine_pool;
mod mutants;
mod points;
mod regressions;
mod runs;
mod scenarios;
pub mod show;
mod views;

pub use declared::{Change, Companion, Simulation, Stored, Users};
pub use engine::draws::Draws;
pub use engine::exhaustive::Exhausted;
pub use engine::faults;
pub use engine::faults::FaultRates;
pub use engine::guided::Guidance;
pub use engine::kinds::{KindId, ObjectKey};
pub use engine::options::{Marks, Outcome, RunOptions, Violation, WriteFault};
pub use engine::run::{Finding, Summary};
pub use engine::schedule::{CallKind, Disruption, Effect, Incident, Schedule, StoredState, Trigger, When};
pub use invariants::{EXEMPTIONS, Exemption, Invariant, invariants};
pub use machine_api::act::{Act, ClusterFault, MachineFault, UserAction};
pub use machine_api::kinds::{MACHINE, NODE, OPERATOR, SET};
pub use machine_api::state::{ClusterSchedule, Setup};
pub use mutants::{CATALOGUE, Caught, KnownBug, LIMIT, Mutant, hunt, page, row, sections};
pub use mutants::{decisions, generated};
pub use regressions::{Reached, Regression};
pub use runs::{digest, evaluated, exhaust, exhaust_all, first_violation, guided, run, simulate, trace};
pub use scenarios::{scenarios, schedule};
