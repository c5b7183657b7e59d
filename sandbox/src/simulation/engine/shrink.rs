//! Shrinking: the smallest run that still violates an invariant.

use std::collections::BTreeSet;

use anyhow::Result;

use super::draws::Draws;
use super::faults::FaultRates;
use super::options::{Outcome, RunOptions};
use super::schedule::{Effect, Schedule, Trigger};
use super::world::{Environment, World};

/// Shrinking stops after this many steps of the runs that it tries.
const MAX_STEPS: u64 = 1_500_000;
/// A run with more faults is shrunk by its incidents only.
const MAX_FAULTS: u64 = 400;
/// The trace of the smallest run is cut to this many lines, from its end.
const MAX_LINES: usize = 120;

/// What is tried: a schedule, with fewer and fewer incidents and faults.
struct Shrinking<'a, E: Environment> {
    schedule: &'a Schedule<E::Setup, E::Act>,
    invariant: &'a str,
    steps: u64,
}

impl<E: Environment> Shrinking<'_, E> {
    /// The outcome of a run that still violates the invariant; `None` if it does not, or if too
    /// many steps were taken.
    fn still_violates(&mut self, options: &RunOptions) -> Result<Option<Outcome>> {
        if self.steps > MAX_STEPS {
            return Ok(None);
        }
        let outcome = World::<E>::new(self.schedule.clone(), options.clone())?.run();
        self.steps += outcome.steps;
        let violation = outcome.violation.as_ref();
        let same = violation.is_some_and(|found| found.invariant == self.invariant);
        Ok(same.then_some(outcome))
    }

    /// Skips every incident and trigger without which the run still violates the invariant.
    fn skip_incidents(&mut self, options: &mut RunOptions) -> Result<()> {
        for position in 0..self.schedule.incidents.len() + self.schedule.triggers.len() {
            let mut fewer = options.clone();
            fewer.skipped.insert(position);
            if self.still_violates(&fewer)?.is_some() {
                *options = fewer;
            }
        }
        Ok(())
    }

    /// Spares faults: first many at once, then one by one.
    fn spare_faults(&mut self, options: &mut RunOptions) -> Result<()> {
        let faults = self.still_violates(options)?.map_or(0, |outcome| outcome.faults);
        let mut size = if faults <= MAX_FAULTS { faults } else { 0 };
        while size > 0 {
            let mut start = 1;
            while start <= faults {
                let more: BTreeSet<u64> = (start..start + size).collect();
                let mut fewer = options.clone();
                fewer.spared.extend(more);
                if fewer.spared != options.spared && self.still_violates(&fewer)?.is_some() {
                    *options = fewer;
                }
                start += size;
            }
            size /= 2;
        }
        Ok(())
    }
}

/// The smallest schedule that still violates the invariant, without seeds that decide when it does:
/// choices are drawn by key, and the faults of requests are triggers. `None` if choices that are
/// drawn by key lead to another run.
///
/// # Errors
/// When the environment cannot be set up.
pub(crate) fn smallest_schedule<E: Environment>(
    schedule: &Schedule<E::Setup, E::Act>,
    invariant: &str,
) -> Result<Option<Schedule<E::Setup, E::Act>>> {
    let schedule = Schedule {
        draws: Draws::ByKey,
        ..schedule.clone()
    };
    let mut options = RunOptions::default();
    let mut shrinking = Shrinking::<E> {
        schedule: &schedule,
        invariant,
        steps: 0,
    };
    if shrinking.still_violates(&options)?.is_none() {
        return Ok(None);
    }
    shrinking.skip_incidents(&mut options)?;
    shrinking.spare_faults(&mut options)?;
    options.trace = true;
    let met = World::<E>::new(schedule.clone(), options.clone())?.run().met;
    let mut smaller = schedule.without(&options.skipped);
    let violates = |schedule: &Schedule<E::Setup, E::Act>| -> Result<bool> {
        let outcome = World::<E>::new(schedule.clone(), RunOptions::default())?.run();
        Ok(outcome.violation.is_some_and(|found| found.invariant == invariant))
    };
    if !smaller.rates.is_zero() {
        let mut explicit = smaller.clone();
        explicit.rates = FaultRates {
            stall: smaller.rates.stall,
            ..FaultRates::default()
        };
        let faults = met.into_iter().map(|(when, fault)| Trigger {
            when,
            then: Effect::Meets(fault),
        });
        explicit.triggers.extend(faults);
        if violates(&explicit)? {
            smaller = explicit;
        }
    }
    Ok(violates(&smaller)?.then_some(smaller))
}

/// The trace of the smallest run that still violates the invariant.
///
/// # Errors
/// When the environment cannot be set up.
pub(crate) fn smallest_trace<E: Environment>(
    schedule: &Schedule<E::Setup, E::Act>,
    options: &RunOptions,
    invariant: &str,
) -> Result<Vec<String>> {
    let mut options = options.clone();
    let mut shrinking = Shrinking::<E> {
        schedule,
        invariant,
        steps: 0,
    };
    shrinking.skip_incidents(&mut options)?;
    shrinking.spare_faults(&mut options)?;
    options.trace = true;
    let outcome = World::<E>::new(schedule.clone(), options)?.run();
    let mut lines = outcome.trace;
    if lines.len() > MAX_LINES {
        let cut = lines.len() - MAX_LINES;
        lines.drain(..cut);
        lines.insert(0, format!("... {cut} lines before"));
    }
    if let Some(violation) = outcome.violation {
        lines.push(format!("=> {violation}"));
    }
    Ok(lines)
}
