//! The hunt: it runs seeds of the scenario that meets a bug, until an invariant that describes the
//! bug is violated.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::simulation::engine::options::RunOptions;
use crate::simulation::engine::shrink::smallest_trace;
use crate::simulation::engine::world::World;
use crate::simulation::machine_api::state::{ClusterSchedule, ControlPlane};
use crate::simulation::scenarios;

use super::catalogue::{CATALOGUE, KnownBug};

/// Every bug must be found within this many seeds of its scenario.
pub const LIMIT: u64 = 50;

/// The result of the hunt for one bug.
#[derive(Clone, Debug)]
pub struct Caught {
    /// The bug.
    pub about: KnownBug,
    /// The invariant that caught it; `None` if it survived.
    pub caught_by: Option<&'static str>,
    /// The number of seeds that were run.
    pub seeds: u64,
    /// Violations that do not count: of other invariants, or on seeds that are violated without the
    /// bug.
    pub accidents: Vec<String>,
    /// The trace of the smallest run, if it was requested.
    pub trace: Vec<String>,
}

impl Caught {
    /// The result as `-o json` prints it.
    pub fn to_value(&self) -> Value {
        let report = format!("{} (reliability page, {})", self.about.report, self.about.section);
        json!({"mutant": self.about.id, "report": report, "caughtBy": self.caught_by, "seeds": self.seeds})
    }
}

/// Seeds of scenarios that were run without a bug, and whether they violate nothing.
type Clean = Mutex<BTreeMap<(&'static str, u64), bool>>;

/// Hunts every bug in at most `limit` seeds of the scenario that meets it, on so many threads.
///
/// # Errors
/// When the environment cannot be set up.
pub fn hunt(limit: u64, traces: bool, threads: usize) -> Result<Vec<Caught>> {
    let clean = Clean::default();
    let next = Mutex::new(CATALOGUE.iter().enumerate());
    let worker = || -> Result<Vec<(usize, Caught)>> {
        let mut found = Vec::new();
        loop {
            let Some((at, about)) = next.lock().unwrap_or_else(PoisonError::into_inner).next() else {
                return Ok(found);
            };
            found.push((at, one(about, limit, traces, &clean)?));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(worker)).collect();
        let mut all = Vec::new();
        for worker in workers {
            let found = worker.join().ok().context("a thread of the hunt panicked")?;
            all.extend(found?);
        }
        anyhow::Ok(all)
    })?;
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, caught)| caught).collect())
}

fn one(about: &KnownBug, limit: u64, traces: bool, clean: &Clean) -> Result<Caught> {
    let mut caught = Caught {
        about: *about,
        caught_by: None,
        seeds: limit,
        accidents: Vec::new(),
        trace: Vec::new(),
    };
    let options = RunOptions::default();
    for seed in 0..limit {
        let clean_schedule = scenarios::schedule(seed, Some(about.scenario));
        let clean_schedule = clean_schedule.with_context(|| format!("finding scenario {}", about.scenario))?;
        let mut schedule = clean_schedule.clone();
        schedule.setup.mutant = Some(about.mutant);
        let outcome = World::<ControlPlane>::new(schedule.clone(), options.clone())?.run();
        let Some(violation) = outcome.violation else {
            continue;
        };
        if !about.fits.contains(&violation.invariant) {
            caught.accidents.push(format!("seed {seed}: {violation}"));
            continue;
        }
        if !is_clean(about.scenario, seed, clean_schedule, clean)? {
            caught
                .accidents
                .push(format!("seed {seed} is violated without the bug"));
            continue;
        }
        caught.caught_by = Some(violation.invariant);
        caught.seeds = seed + 1;
        if traces {
            caught.trace = smallest_trace::<ControlPlane>(&schedule, &options, violation.invariant)?;
        }
        break;
    }
    Ok(caught)
}

/// Whether the controller without a bug violates nothing on a seed.
fn is_clean(scenario: &'static str, seed: u64, schedule: ClusterSchedule, clean: &Clean) -> Result<bool> {
    let known = |clean: &Clean| {
        let clean = clean.lock().unwrap_or_else(PoisonError::into_inner);
        clean.get(&(scenario, seed)).copied()
    };
    if let Some(known) = known(clean) {
        return Ok(known);
    }
    let outcome = World::<ControlPlane>::new(schedule, RunOptions::default())?.run();
    let is_clean = outcome.violation.is_none();
    let mut clean = clean.lock().unwrap_or_else(PoisonError::into_inner);
    clean.insert((scenario, seed), is_clean);
    Ok(is_clean)
}
