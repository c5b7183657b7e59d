//! Every single fault on every write of a scenario: not drawn, but all of them.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};

use super::run::{Found, shortest};
use super::schedule::{MELEE, SCENARIOS, Schedule};
use super::world::{Fate, Orders, World};

/// What came of all single faults of a scenario.
#[derive(Clone, Debug)]
pub struct Exhausted {
    /// The scenario.
    pub scenario: &'static str,
    /// How many writes the controllers make when nothing goes wrong.
    pub writes: u64,
    /// How many schedules were played.
    pub schedules: u64,
    /// What was found.
    pub violations: Vec<Found>,
}

/// Every scenario, or one, on this many cores.
///
/// # Errors
/// An unknown scenario.
pub fn exhaust_all(scenario: Option<&str>, cores: usize) -> Result<Vec<Exhausted>> {
    let names: Vec<&str> = match scenario {
        Some(name) => vec![name],
        None => SCENARIOS
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| *name != MELEE)
            .collect(),
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
        let handles: Vec<_> = (0..cores.max(1)).map(|_| scope.spawn(work)).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().ok().context("a world panicked").and_then(|part| part))
            .collect::<Result<Vec<_>>>()
    })?;
    let mut all: Vec<(usize, Exhausted)> = parts.into_iter().flatten().collect();
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, one)| one).collect())
}

/// Plays a scenario once for each of its writes and each fate of it.
///
/// # Errors
/// An unknown scenario.
pub fn exhaust(scenario: &str, seed: u64) -> Result<Exhausted> {
    let mut schedule = Schedule::of(seed, Some(scenario)).context("there is no such scenario")?;
    // The one fault is the only one.
    schedule.mix = super::Mix::default();
    let golden = World::new(schedule.clone(), Orders::default())?.run();
    let mut found = Exhausted {
        scenario: schedule.scenario,
        writes: golden.writes,
        schedules: 1,
        violations: Vec::new(),
    };
    let mut note = |violation: Option<super::Violation>, orders: &Orders| -> Result<()> {
        if let Some(violation) = violation {
            // A few stories are enough; the rest is counted.
            let trace = if found.violations.len() < 3 {
                shortest(&schedule, orders, violation.invariant)?
            } else {
                Vec::new()
            };
            found.violations.push(Found {
                seed,
                scenario: schedule.scenario,
                violation,
                trace,
            });
        }
        Ok(())
    };
    note(golden.violation, &Orders::default())?;
    let mut schedules = 1;
    for number in 1..=golden.writes {
        for fate in Fate::ALL {
            let orders = Orders {
                single: Some((number, fate)),
                ..Orders::default()
            };
            let outcome = World::new(schedule.clone(), orders.clone())?.run();
            schedules += 1;
            note(outcome.violation, &orders)?;
        }
    }
    found.schedules = schedules;
    Ok(found)
}
