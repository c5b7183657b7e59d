//! What the command line and the tests run: seeds, traces, and exhaustive runs of the scenarios.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};

use super::engine::exhaustive::{self, Exhausted};
use super::engine::guided::{self, Guidance};
use super::engine::options::{Outcome, RunOptions, Violation};
use super::engine::run::{Summary, hash, run_seeds};
use super::engine::shrink::smallest_schedule;
use super::engine::world::World;
use super::machine_api::state::{ClusterSchedule, ControlPlane};
use super::points;
use super::scenarios::{MELEE, scenarios, schedule};

/// A search starts with so many seeds of each scenario.
const FIRST_SEEDS: u64 = 2;

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

/// Runs seeds until one of them violates an invariant: of one scenario, or of all of them in turn.
/// Returns the scenario, the seed, and the violation.
///
/// # Errors
/// When there is no such scenario.
pub fn first_violation(
    from: u64,
    count: u64,
    scenario: Option<&str>,
) -> Result<Option<(&'static str, u64, Violation)>> {
    for seed in from..from.saturating_add(count) {
        for name in scenarios().filter(|name| scenario.is_none_or(|chosen| chosen == *name)) {
            let outcome = run(known_schedule(seed, Some(name))?, RunOptions::default())?;
            if let Some(violation) = outcome.violation {
                return Ok(Some((name, seed, violation)));
            }
        }
    }
    Ok(None)
}

/// How often the mutated point of instrumented sources was evaluated in this process.
pub fn evaluated() -> u64 {
    points::evaluated()
}

/// Runs one schedule.
///
/// # Errors
/// When the environment cannot be set up.
pub fn run(schedule: ClusterSchedule, options: RunOptions) -> Result<Outcome> {
    Ok(World::<ControlPlane>::new(schedule, options)?.run())
}

/// Searches for schedules that reach something new: it starts with the first schedules of all
/// scenarios, and changes the schedules that it keeps.
///
/// # Errors
/// When a schedule cannot be run.
pub fn guided(runs: u64, seed: u64, threads: u64) -> Result<Guidance<ClusterSchedule>> {
    let first: Vec<ClusterSchedule> = scenarios()
        .flat_map(|name| (0..FIRST_SEEDS).filter_map(move |seed| schedule(seed, Some(name))))
        .collect();
    guided::search::<ControlPlane>(&first, runs, seed, threads)
}

/// The smallest schedule that violates an invariant as this one does, with choices that are drawn
/// by key. `None` if such choices lead to another run.
///
/// # Errors
/// When the schedule cannot be run.
pub(crate) fn smallest(schedule: &ClusterSchedule, invariant: &str) -> Result<Option<ClusterSchedule>> {
    smallest_schedule::<ControlPlane>(schedule, invariant)
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

/// What identifies the run of a seed on every machine and in every build: its scenario, its steps,
/// and the hash of its trace.
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
