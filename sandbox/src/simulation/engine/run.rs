//! Runs of many seeds, and what they found. A violation is shrunk before it is shown.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::options::{RunOptions, Violation};
use super::schedule::Schedule;
use super::shrink::smallest_trace;
use super::world::{Environment, World};

/// Violations beyond this many in one thread are counted and not shrunk.
const MAX_SHRUNK: usize = 5;

/// A violation, and the trace of the smallest run that leads to it.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The seed.
    pub seed: u64,
    /// The scenario that the seed plays.
    pub scenario: &'static str,
    /// The violation.
    pub violation: Violation,
    /// The trace of the smallest run.
    pub trace: Vec<String>,
}

/// The sum of the runs of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The number of runs.
    pub schedules: u64,
    /// What was found.
    pub violations: Vec<Finding>,
    /// The number of steps of all runs.
    pub steps: u64,
    /// The number of rollouts that ended.
    pub rollouts: u64,
    /// The number of faults that occurred.
    pub faults: u64,
    /// The simulated time, in milliseconds.
    pub time: u64,
    /// The computing time, in seconds of one core.
    pub seconds: f64,
    /// The exemptions of invariants, and in how many schedules each applied.
    pub exemptions: BTreeMap<&'static str, u64>,
    /// The ids of invariants, and in how many schedules the condition of each held.
    pub tested: BTreeMap<&'static str, u64>,
    /// The branches of decisions, and how many schedules reached each.
    pub branches: BTreeMap<&'static str, u64>,
}

impl Summary {
    /// The simulated time, in years.
    #[expect(clippy::cast_precision_loss, reason = "the output shows a rough number")]
    pub fn years(&self) -> f64 {
        self.time as f64 / (365.25 * 24.0 * 3600.0 * 1000.0)
    }

    /// The summary as `-o json` prints it.
    pub fn to_value(&self) -> Value {
        let violations: Vec<Value> = self
            .violations
            .iter()
            .map(|found| {
                json!({"seed": found.seed, "scenario": found.scenario, "invariant": found.violation.invariant,
                    "text": found.violation.text, "trace": found.trace})
            })
            .collect();
        json!({"schedules": self.schedules, "violations": violations, "steps": self.steps, "rollouts": self.rollouts,
            "controlPlaneYears": self.years(), "secondsPerCore": self.seconds,
            "exemptions": self.exemptions, "tested": self.tested, "branches": self.branches})
    }

    fn add(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.violations.extend(other.violations);
        self.steps += other.steps;
        self.rollouts += other.rollouts;
        self.faults += other.faults;
        self.time += other.time;
        self.seconds += other.seconds;
        add_counts(&mut self.exemptions, other.exemptions);
        add_counts(&mut self.tested, other.tested);
        add_counts(&mut self.branches, other.branches);
    }
}

fn add_counts(counts: &mut BTreeMap<&'static str, u64>, more: impl IntoIterator<Item = (&'static str, u64)>) {
    for (name, count) in more {
        *counts.entry(name).or_default() += count;
    }
}

/// Runs the schedules of seeds on so many threads.
///
/// # Errors
/// When a schedule cannot be made or run.
pub(crate) fn run_seeds<E: Environment>(
    seeds: &Range<u64>,
    threads: u64,
    schedule_of: impl Fn(u64) -> Result<Schedule<E::Setup, E::Act>> + Sync,
) -> Result<Summary> {
    let threads = threads.max(1);
    let share = |thread| {
        let mine = seeds.clone().filter(move |seed| seed % threads == thread);
        run_share::<E>(mine, &schedule_of)
    };
    let shares = std::thread::scope(|scope| {
        let share = &share;
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || share(thread))).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().ok().context("a simulated world panicked").flatten())
            .collect::<Result<Vec<_>>>()
    })?;
    let mut sum = Summary::default();
    for share in shares {
        sum.add(share);
    }
    sum.violations.sort_by_key(|found| found.seed);
    Ok(sum)
}

fn run_share<E: Environment>(
    seeds: impl Iterator<Item = u64>,
    schedule_of: &impl Fn(u64) -> Result<Schedule<E::Setup, E::Act>>,
) -> Result<Summary> {
    let clock = ThreadClock::start();
    let mut sum = Summary::default();
    for seed in seeds {
        let schedule = schedule_of(seed)?;
        let outcome = World::<E>::new(schedule.clone(), RunOptions::default())?.run();
        sum.schedules += 1;
        sum.steps += outcome.steps;
        sum.rollouts += outcome.rollouts;
        sum.faults += outcome.faults;
        sum.time += outcome.time.unsigned_abs();
        add_counts(
            &mut sum.exemptions,
            outcome.marks.exemptions.into_iter().zip(std::iter::repeat(1)),
        );
        add_counts(
            &mut sum.tested,
            outcome.marks.tested.into_iter().zip(std::iter::repeat(1)),
        );
        add_counts(
            &mut sum.branches,
            outcome.marks.branches.into_iter().zip(std::iter::repeat(1)),
        );
        if let Some(violation) = outcome.violation {
            let trace = if sum.violations.len() < MAX_SHRUNK {
                smallest_trace::<E>(&schedule, &RunOptions::default(), violation.invariant)?
            } else {
                Vec::new()
            };
            sum.violations.push(Finding {
                seed,
                scenario: schedule.scenario,
                violation,
                trace,
            });
        }
    }
    sum.seconds = clock.seconds();
    Ok(sum)
}

/// A hash of a trace, the same on every machine and in every build (FNV-1a).
pub(crate) fn hash(trace: &[String]) -> u64 {
    let bytes = trace.iter().flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The computing time of this thread. Where the system does not report it, the time that passes.
struct ThreadClock {
    began: Instant,
    computed: Option<f64>,
}

impl ThreadClock {
    fn start() -> Self {
        Self {
            began: Instant::now(),
            computed: computing_time(),
        }
    }

    fn seconds(&self) -> f64 {
        let computed = self.computed.zip(computing_time()).map(|(began, now)| now - began);
        computed.unwrap_or_else(|| self.began.elapsed().as_secs_f64())
    }
}

/// The seconds that this thread ran on a core. Only Linux reports them, in nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "years of nanoseconds are exact enough")]
fn computing_time() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds as f64 / 1e9)
}
