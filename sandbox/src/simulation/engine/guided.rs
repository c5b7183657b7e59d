//! Schedules that coverage guides: a schedule that reaches something new is kept, and changed.
//!
//! A key is what a run reached, with the strategy, and during which incident. The environment
//! decides what counts as reached. The search starts with the schedules that it is given, and
//! changes one of the kept schedules at a time: it drops, moves, copies, or triggers incidents. All
//! choices are drawn by key, so that a change leaves the rest of a run alone.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};

use crate::random::Random;

use super::draws::Draws;
use super::options::{RunOptions, Violation};
use super::schedule::{CallKind, Effect, MINUTE, Schedule, StoredState, Trigger, When};
use super::world::{Environment, World};

/// A search ends at this many violations.
const MOST_VIOLATIONS: usize = 3;
/// A schedule has at most so many incidents and triggers.
const MOST_INCIDENTS: usize = 40;

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct Guidance<S> {
    /// The number of runs.
    pub runs: u64,
    /// The keys that the first schedules reach.
    pub first: BTreeSet<String>,
    /// All keys.
    pub keys: BTreeSet<String>,
    /// The number of changed schedules that reached a new key, and were kept.
    pub kept: usize,
    /// Schedules that violate an invariant.
    pub violations: Vec<(S, Violation)>,
}

/// A schedule of an environment.
type ScheduleOf<E> = Schedule<<E as Environment>::Setup, <E as Environment>::Act>;

/// Searches on so many threads, each with a search of its own.
///
/// # Errors
/// When a schedule cannot be run.
pub(crate) fn search<E: Environment>(
    first: &[ScheduleOf<E>],
    runs: u64,
    seed: u64,
    threads: u64,
) -> Result<Guidance<ScheduleOf<E>>> {
    let threads = threads.max(1);
    let share = |thread: u64| Search::<E>::new(seed.wrapping_add(thread)).run(first, runs / threads);
    let parts = std::thread::scope(|scope| {
        let share = &share;
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || share(thread))).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().ok().context("a simulated world panicked").flatten())
            .collect::<Result<Vec<_>>>()
    })?;
    let mut sum = Guidance {
        runs: 0,
        first: BTreeSet::new(),
        keys: BTreeSet::new(),
        kept: 0,
        violations: Vec::new(),
    };
    for part in parts {
        sum.runs += part.runs;
        sum.first.extend(part.first);
        sum.keys.extend(part.keys);
        sum.kept += part.kept;
        sum.violations.extend(part.violations);
    }
    Ok(sum)
}

struct Search<E: Environment> {
    random: Random,
    kept: Vec<ScheduleOf<E>>,
    found: Guidance<ScheduleOf<E>>,
}

impl<E: Environment> Search<E> {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            kept: Vec::new(),
            found: Guidance {
                runs: 0,
                first: BTreeSet::new(),
                keys: BTreeSet::new(),
                kept: 0,
                violations: Vec::new(),
            },
        }
    }

    fn run(mut self, first: &[ScheduleOf<E>], runs: u64) -> Result<Guidance<ScheduleOf<E>>> {
        for schedule in first {
            let mut schedule = schedule.clone();
            schedule.draws = Draws::ByKey;
            self.try_out(schedule)?;
        }
        self.found.first = self.found.keys.clone();
        let first = self.kept.len();
        while self.found.runs < runs && self.found.violations.len() < MOST_VIOLATIONS {
            if let Some(schedule) = self.changed() {
                self.try_out(schedule)?;
            }
        }
        self.found.kept = self.kept.len().saturating_sub(first);
        Ok(self.found)
    }

    /// Runs a schedule, and keeps it if it reaches a new key.
    fn try_out(&mut self, schedule: ScheduleOf<E>) -> Result<()> {
        let options = RunOptions {
            keys: true,
            ..RunOptions::default()
        };
        let outcome = World::<E>::new(schedule.clone(), options)?.run();
        self.found.runs += 1;
        if let Some(violation) = outcome.violation {
            self.found.violations.push((schedule, violation));
            return Ok(());
        }
        let before = self.found.keys.len();
        self.found.keys.extend(outcome.keys);
        if self.found.keys.len() > before {
            self.kept.push(schedule);
        }
        Ok(())
    }

    /// A kept schedule with one to four changes.
    fn changed(&mut self) -> Option<ScheduleOf<E>> {
        let mut schedule = self.random.pick(&self.kept)?.clone();
        for _ in 0..self.random.between(1, 4) {
            self.change(&mut schedule);
        }
        E::restrict(&mut schedule);
        schedule.incidents.sort_by_key(|(at, _)| *at);
        Some(schedule)
    }

    fn change(&mut self, schedule: &mut ScheduleOf<E>) {
        let count = schedule.incidents.len();
        let position = usize::try_from(self.random.below(count as u64)).unwrap_or(0);
        let is_full = count + schedule.triggers.len() >= MOST_INCIDENTS;
        match self.random.below(8) {
            0 if count > 1 => drop(schedule.incidents.remove(position)),
            1 => {
                let by = i64::try_from(self.random.between(0, 20)).unwrap_or(0) - 10;
                if let Some((at, _)) = schedule.incidents.get_mut(position) {
                    *at += by * MINUTE;
                }
            }
            2 => schedule.seed = self.random.next(),
            3 => {
                if let Some(other) = self.random.pick(&self.kept) {
                    schedule.rates = other.rates;
                }
            }
            4 => drop(schedule.triggers.pop()),
            5 | 6 if !is_full => self.copy_incident(schedule),
            7 if !is_full => self.add_trigger(schedule),
            _ => {}
        }
    }

    /// Copies an incident of another schedule.
    fn copy_incident(&mut self, schedule: &mut ScheduleOf<E>) {
        let incident = self.random.pick(&self.kept).cloned();
        let incident = incident.and_then(|other| self.random.pick(&other.incidents).cloned());
        schedule.incidents.extend(incident);
    }

    /// Lets an incident of a schedule happen at a call, or in a state.
    fn add_trigger(&mut self, schedule: &mut ScheduleOf<E>) {
        let other = self.random.pick(&self.kept).cloned();
        let incident = other.and_then(|other| self.random.pick(&other.incidents).cloned());
        let Some((_, incident)) = incident else { return };
        let states: Vec<StoredState> = E::states();
        let when = if self.random.permille(500)
            && let Some(state) = self.random.pick(&states).cloned()
        {
            let number = self.random.between(1, 3);
            When::State(StoredState { number, ..state })
        } else {
            let calls = [CallKind::Create, CallKind::Delete, CallKind::Patch];
            let call = self.random.pick(&calls).copied().unwrap_or(CallKind::Create);
            let Some(kind) = states.first().map(|state| state.kind) else {
                return;
            };
            let (name, number) = (String::new(), self.random.between(1, 6));
            When::Call {
                call,
                kind,
                name,
                number,
            }
        };
        schedule.triggers.push(Trigger {
            when,
            then: Effect::Happens(incident),
        });
    }
}
