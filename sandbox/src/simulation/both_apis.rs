//! The simulation of the controllers of objects that exist in the Machine API and in Cluster API.
//!
//! The environment has the Machine and MachineSet controllers of both APIs, the infrastructure
//! provider, and the health checks. Each reads an object, and acts on what it read some time later,
//! so that the object may have changed in between. A cloud holds the instances. Users migrate,
//! edit, scale, and delete.
//!
//! | id | invariant |
//! |---|---|
//! | B1 | the controllers of both APIs are never both free to act on an object |
//! | B2 | no instance is created twice |
//! | B3 | no instance is deleted unless a row of the document's table deletes it |
//! | B4 | no edit of an authoritative object is lost |
//! | B5 | a finalizer of its controllers holds every instance |
//! | B6 | at the end, the requested API is authoritative, and the mirror agrees |
//! | B7 | at the end, each MachineSet has its Machines, and each Machine has its instance |
//!
//! The engine checks that nothing is written at the end (G4), also by a process that has just
//! started.

mod actors;
mod autoscaler;
mod environment;
mod invariants;
mod mutants;
mod objects;
mod scenario;
mod sets;
mod state;
mod users;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;

pub use mutants::Mutant;

use super::engine::exhaustive::{self, Exhausted};
use super::engine::options::{Outcome, RunOptions};
use super::engine::run::{Summary, run_seeds};
use super::engine::world::World;
use state::BothApis;

/// Runs `count` seeds from `from` on, on so many threads.
///
/// # Errors
/// When the environment cannot be set up.
pub fn simulate(from: u64, count: u64, threads: u64) -> Result<Summary> {
    let seeds = from..from.saturating_add(count);
    run_seeds::<BothApis>(&seeds, threads, |seed| Ok(scenario::schedule(seed)))
}

/// Runs one seed with a trace.
///
/// # Errors
/// When the environment cannot be set up.
pub fn trace(seed: u64) -> Result<Outcome> {
    let options = RunOptions {
        trace: true,
        ..RunOptions::default()
    };
    Ok(World::<BothApis>::new(scenario::schedule(seed), options)?.run())
}

/// Injects each single fault at each write of the fixed schedules, on so many threads.
///
/// # Errors
/// When the environment cannot be set up.
pub fn exhaust(threads: u64) -> Result<Vec<Exhausted>> {
    let all = scenario::fixed();
    shared_out(&all, threads, |schedule| {
        exhaustive::exhaust::<BothApis>(schedule.seed, schedule.clone())
    })
}

/// The result of a hunt: the invariant that found the bug, and the number of seeds until then.
pub type Found = Option<(&'static str, u64)>;

/// Hunts all bugs, on so many threads.
///
/// # Errors
/// When the environment cannot be set up.
pub fn hunt_all(limit: u64, threads: u64) -> Result<Vec<(Mutant, Found)>> {
    shared_out(&Mutant::ALL, threads, |mutant| Ok((*mutant, hunt(*mutant, limit)?)))
}

/// Does something with each item, on so many threads. The results have the order of the items.
fn shared_out<T: Sync, R: Send>(items: &[T], threads: u64, work: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { return };
                    let result = work(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The invariant that finds a bug, and the number of seeds until then. `None`: no seed below
/// `limit` finds it.
///
/// # Errors
/// When the environment cannot be set up.
pub fn hunt(mutant: Mutant, limit: u64) -> Result<Found> {
    for seed in 0..limit {
        let mut schedule = scenario::schedule(seed);
        schedule.setup.mutant = Some(mutant);
        let outcome = World::<BothApis>::new(schedule, RunOptions::default())?.run();
        if let Some(violation) = outcome.violation {
            return Ok(Some((violation.invariant, seed + 1)));
        }
    }
    Ok(None)
}
