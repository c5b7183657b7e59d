//! Exhaustive runs: every single fault on every write of a scenario.

use anyhow::Result;

use super::faults::FaultRates;
use super::options::{RunOptions, Violation, WriteFault};
use super::run::Finding;
use super::schedule::Schedule;
use super::shrink::smallest_trace;
use super::world::{Environment, World};

/// Violations beyond this many are counted and not shrunk.
const MAX_SHRUNK: usize = 3;

/// The outcome of an exhaustive run.
#[derive(Clone, Debug)]
pub struct Exhausted {
    /// The scenario.
    pub scenario: &'static str,
    /// The number of writes of the controllers when no request fails.
    pub writes: u64,
    /// The number of runs.
    pub schedules: u64,
    /// What was found.
    pub violations: Vec<Finding>,
}

/// Runs a schedule once without failing requests, and once for each of its writes and each fault of it.
///
/// # Errors
/// When the environment cannot be set up.
pub(crate) fn exhaust<E: Environment>(seed: u64, mut schedule: Schedule<E::Setup, E::Act>) -> Result<Exhausted> {
    schedule.rates = FaultRates::default();
    let golden = World::<E>::new(schedule.clone(), RunOptions::default())?.run();
    let mut found = Exhausted {
        scenario: schedule.scenario,
        writes: golden.writes,
        schedules: 1,
        violations: Vec::new(),
    };
    found.add::<E>(seed, &schedule, &RunOptions::default(), golden.violation)?;
    for number in 1..=golden.writes {
        for fault in WriteFault::ALL {
            let options = RunOptions {
                single: Some((number, fault)),
                ..RunOptions::default()
            };
            let outcome = World::<E>::new(schedule.clone(), options.clone())?.run();
            found.schedules += 1;
            found.add::<E>(seed, &schedule, &options, outcome.violation)?;
        }
    }
    Ok(found)
}

impl Exhausted {
    fn add<E: Environment>(
        &mut self,
        seed: u64,
        schedule: &Schedule<E::Setup, E::Act>,
        options: &RunOptions,
        violation: Option<Violation>,
    ) -> Result<()> {
        let Some(violation) = violation else { return Ok(()) };
        let trace = if self.violations.len() < MAX_SHRUNK {
            smallest_trace::<E>(schedule, options, violation.invariant)?
        } else {
            Vec::new()
        };
        self.violations.push(Finding {
            seed,
            scenario: schedule.scenario,
            violation,
            trace,
        });
        Ok(())
    }
}
