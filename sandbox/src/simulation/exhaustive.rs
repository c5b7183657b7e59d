//! Every single fault on every write of a scenario: not drawn, but all of them.

use anyhow::{Context as _, Result};

use super::run::{Found, shortest};
use super::schedule::Schedule;
use super::world::{Fate, Orders, World};

/// What came of all single faults of a scenario.
#[derive(Clone, Debug)]
pub struct Exhausted {
    /// The scenario.
    pub scenario: &'static str,
    /// How many schedules were played.
    pub schedules: u64,
    /// What was found.
    pub violations: Vec<Found>,
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
        schedules: 1,
        violations: Vec::new(),
    };
    let mut note = |violation: Option<super::Violation>, orders: &Orders| -> Result<()> {
        if let Some(violation) = violation {
            let trace = shortest(&schedule, orders, violation.invariant)?;
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
