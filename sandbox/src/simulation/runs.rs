//! What the command line and the tests run: seeds, traces, and exhaustive runs of the scenarios.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};

use super::engine::exhaustive::{self, Exhausted};
use super::engine::options::{Outcome, RunOptions};
use super::engine::run::{Summary, hash, run_seeds};
use super::engine::world::World;
use super::machine_api::state::{ClusterSchedule, ControlPlane};
use super::scenarios::{MELEE, scenarios, schedule};

fn known_schedule(seed: u64, scenario: Option<&str>) -> Result<ClusterSchedule> {
    let unknown = || format!("scenario must be one of {}", scenarios().collect::<Vec<_>>().join(", "));
    schedule(seed, scenario).with_context(unknown)
}

/// Runs `count` seeds from `from` on, on so many threads.
///
/// # Errors
/// When there is no such scenario.
pub fn simulate(from: u64, count: u64, scenario: Option<&str>, threads: u64) -> Result<Summary> {
    let seeds = from..from.saturating_add(count);
    run_seeds::<ControlPlane>(&seeds, threads, |seed| known_schedule(seed, scenario))
}

/// Runs one schedule.
///
/// # Errors
/// When the environment cannot be set up.
pub fn run(schedule: ClusterSchedule, options: RunOptions) -> Result<Outcome> {
    Ok(World::<ControlPlane>::new(schedule, options)?.run())
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
    run(known_schedule(seed, scenario)?, options)
}

/// What identifies the run of a seed on every machine and in every build: its scenario, its steps, and the hash of its trace.
///
/// # Errors
/// When there is no such scenario.
pub fn digest(seed: u64, scenario: Option<&str>) -> Result<String> {
    let name = known_schedule(seed, scenario)?.scenario;
    let outcome = trace(seed, scenario)?;
    let hash = hash(&outcome.trace);
    Ok(format!("{seed} {name} {} steps {hash:016x}", outcome.steps))
}

/// Runs a scenario once for each of its writes and each fault of it.
///
/// # Errors
/// When there is no such scenario.
pub fn exhaust(scenario: &str, seed: u64) -> Result<Exhausted> {
    exhaustive::exhaust::<ControlPlane>(seed, known_schedule(seed, Some(scenario))?)
}

/// The same for all scenarios, or for one, on so many threads.
///
/// # Errors
/// When there is no such scenario.
pub fn exhaust_all(scenario: Option<&str>, threads: usize) -> Result<Vec<Exhausted>> {
    let names: Vec<&str> = match scenario {
        Some(name) => vec![name],
        None => scenarios().filter(|name| *name != MELEE).collect(),
    };
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, Exhausted)>> {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(name) = names.get(at) else { return Ok(done) };
            done.push((at, exhaust(name, 0)?));
        }
    };
    let parts = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().ok().context("a simulated world panicked").flatten())
            .collect::<Result<Vec<_>>>()
    })?;
    let mut all: Vec<(usize, Exhausted)> = parts.into_iter().flatten().collect();
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, one)| one).collect())
}
