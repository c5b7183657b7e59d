//! What the command line and the tests run: seeds, traces, and exhaustive runs of the scenarios.

use anyhow::{Context as _, Result};

use crate::simulation::engine::exhaustive::{self, Exhausted};
use crate::simulation::engine::options::{Outcome, RunOptions};
use crate::simulation::engine::run::{Summary, hash, run_seeds};
use crate::simulation::engine::world::World;

use super::scenarios::{scenarios, schedule};
use super::state::{Plane, PlaneSchedule};

fn known(seed: u64, scenario: Option<&str>) -> Result<PlaneSchedule> {
    let unknown = || format!("scenario must be one of {}", scenarios().collect::<Vec<_>>().join(", "));
    schedule(seed, scenario).with_context(unknown)
}

/// Runs `count` seeds from `from` on, on so many threads.
///
/// # Errors
/// When there is no such scenario.
pub fn simulate(from: u64, count: u64, scenario: Option<&str>, threads: u64) -> Result<Summary> {
    let seeds = from..from.saturating_add(count);
    run_seeds::<Plane>(&seeds, threads, |seed| known(seed, scenario))
}

/// Runs one seed.
///
/// # Errors
/// When there is no such scenario.
pub fn run(seed: u64, scenario: Option<&str>) -> Result<Outcome> {
    Ok(World::<Plane>::new(known(seed, scenario)?, RunOptions::default())?.run())
}

/// Runs one seed with a trace.
///
/// # Errors
/// When there is no such scenario.
pub fn trace(seed: u64, scenario: Option<&str>) -> Result<Outcome> {
    let options = RunOptions {
        trace: true,
        ..RunOptions::default()
    };
    Ok(World::<Plane>::new(known(seed, scenario)?, options)?.run())
}

/// What identifies the run of a seed on every machine and in every build.
///
/// # Errors
/// When there is no such scenario.
pub fn digest(seed: u64, scenario: Option<&str>) -> Result<String> {
    let name = known(seed, scenario)?.scenario;
    let outcome = trace(seed, scenario)?;
    let hash = hash(&outcome.trace);
    Ok(format!("{seed} {name} {} steps {hash:016x}", outcome.steps))
}

/// Runs a scenario once for each of its writes and each fault of it.
///
/// # Errors
/// When there is no such scenario.
pub fn exhaust(scenario: &str, seed: u64) -> Result<Exhausted> {
    exhaustive::exhaust::<Plane>(seed, known(seed, Some(scenario))?)
}
