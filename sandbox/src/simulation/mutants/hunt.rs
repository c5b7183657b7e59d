//! The hunt: every bug is looked for in the seeds of the scenario that meets it, until an invariant that fits says so.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::simulation::run::shortest;
use crate::simulation::schedule::Schedule;
use crate::simulation::world::{Orders, World};

use super::{About, CATALOGUE};

/// Within how many seeds of its scenario every bug has to be found.
pub const LIMIT: u64 = 50;

/// Whether a bug was caught.
#[derive(Clone, Debug)]
pub struct Caught {
    /// The bug.
    pub about: About,
    /// The invariant that caught it; `None`: it survived.
    pub caught_by: Option<&'static str>,
    /// How many seeds it took.
    pub seeds: u64,
    /// What other invariants, or seeds that do not count, said.
    pub accidents: Vec<String>,
    /// The story of it.
    pub trace: Vec<String>,
}

impl Caught {
    /// As `-o json` prints it.
    pub fn to_value(&self) -> Value {
        let report = format!("{} (reliability page, {})", self.about.report, self.about.section);
        json!({"mutant": self.about.id, "report": report, "caughtBy": self.caught_by, "seeds": self.seeds})
    }
}

/// Seeds of scenarios that were played without a bug, and whether nothing was violated.
type Clean = Mutex<BTreeMap<(&'static str, u64), bool>>;

/// Looks for every bug, in at most `limit` seeds each of the scenario that meets it, on `cores` threads.
///
/// # Errors
/// When what is built in cannot be used.
pub fn hunt(limit: u64, traces: bool, cores: usize) -> Result<Vec<Caught>> {
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
        let workers: Vec<_> = (0..cores.max(1)).map(|_| scope.spawn(worker)).collect();
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

fn one(about: &About, limit: u64, traces: bool, clean: &Clean) -> Result<Caught> {
    let mut caught = Caught {
        about: *about,
        caught_by: None,
        seeds: limit,
        accidents: Vec::new(),
        trace: Vec::new(),
    };
    let orders = Orders {
        mutant: Some(about.mutant),
        ..Orders::default()
    };
    for seed in 0..limit {
        let schedule = Schedule::of(seed, Some(about.scenario)).context("a scenario that does not exist")?;
        let Some(violation) = World::new(schedule.clone(), orders.clone())?.run().violation else {
            continue;
        };
        if !about.fits.contains(&violation.invariant) {
            caught.accidents.push(format!("seed {seed}: {violation}"));
            continue;
        }
        if !is_clean(about.scenario, seed, &schedule, clean)? {
            caught
                .accidents
                .push(format!("seed {seed} is violated without the bug"));
            continue;
        }
        caught.caught_by = Some(violation.invariant);
        caught.seeds = seed + 1;
        if traces {
            caught.trace = shortest(&schedule, &orders, violation.invariant)?;
        }
        break;
    }
    Ok(caught)
}

/// Whether the controller without a bug violates nothing on a seed.
fn is_clean(scenario: &'static str, seed: u64, schedule: &Schedule, clean: &Clean) -> Result<bool> {
    let known = |clean: &Clean| {
        let clean = clean.lock().unwrap_or_else(PoisonError::into_inner);
        clean.get(&(scenario, seed)).copied()
    };
    if let Some(known) = known(clean) {
        return Ok(known);
    }
    let outcome = World::new(schedule.clone(), Orders::default())?.run();
    let is_clean = outcome.violation.is_none();
    let mut clean = clean.lock().unwrap_or_else(PoisonError::into_inner);
    clean.insert((scenario, seed), is_clean);
    Ok(is_clean)
}
