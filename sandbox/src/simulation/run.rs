//! Many seeds, and what they found: a violation is made as small as it gets before it is shown.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::schedule::Schedule;
use super::truth::Violation;
use super::world::{Orders, Outcome, World};

/// A violation, and the shortest story that leads to it.
#[derive(Clone, Debug)]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// The scenario that the seed plays.
    pub scenario: &'static str,
    /// What does not hold.
    pub violation: Violation,
    /// What happened.
    pub trace: Vec<String>,
}

/// What many seeds came to.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// How many schedules were played.
    pub schedules: u64,
    /// What was found.
    pub violations: Vec<Found>,
    /// Steps in all.
    pub steps: u64,
    /// Whole rollouts.
    pub rollouts: u64,
    /// Simulated milliseconds of control planes.
    pub time: u64,
    /// Seconds of one core.
    pub seconds: f64,
}

impl Summary {
    /// Simulated years of control planes.
    #[expect(clippy::cast_precision_loss, reason = "a rough number for people")]
    pub fn years(&self) -> f64 {
        self.time as f64 / (365.25 * 24.0 * 3600.0 * 1000.0)
    }

    /// As `-o json` prints it.
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
            "controlPlaneYears": self.years(), "secondsPerCore": self.seconds})
    }

    fn add(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.violations.extend(other.violations);
        self.steps += other.steps;
        self.rollouts += other.rollouts;
        self.time += other.time;
        self.seconds += other.seconds;
    }
}

/// Plays the seeds from `from` on, `count` of them, on this many cores.
///
/// # Errors
/// An unknown scenario.
pub fn simulate(from: u64, count: u64, scenario: Option<&str>, cores: u64) -> Result<Summary> {
    let cores = cores.max(1);
    let parts = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..cores)
            .map(|core| scope.spawn(move || part(from, count, scenario, core, cores)))
            .collect();
        handles
            .into_iter()
            .map(|handle| handle.join().ok().context("a world panicked").and_then(|part| part))
            .collect::<Result<Vec<_>>>()
    })?;
    let mut sum = Summary::default();
    for part in parts {
        sum.add(part);
    }
    sum.violations.sort_by_key(|found| found.seed);
    Ok(sum)
}

fn part(from: u64, count: u64, scenario: Option<&str>, core: u64, cores: u64) -> Result<Summary> {
    let began = Clock::start();
    let mut sum = Summary::default();
    for seed in (from..from.saturating_add(count)).filter(|seed| seed % cores == core) {
        let schedule = Schedule::of(seed, scenario).context("there is no such scenario")?;
        let outcome = World::new(schedule.clone(), Orders::default())?.run();
        sum.schedules += 1;
        sum.steps += outcome.steps;
        sum.rollouts += outcome.rollouts;
        sum.time += outcome.time.unsigned_abs();
        if let Some(violation) = outcome.violation {
            // A few stories are enough; the rest is counted.
            let trace = if sum.violations.len() < 5 {
                shortest(&schedule, &Orders::default(), violation.invariant)?
            } else {
                Vec::new()
            };
            sum.violations.push(Found {
                seed,
                scenario: schedule.scenario,
                violation,
                trace,
            });
        }
    }
    sum.seconds = began.seconds();
    Ok(sum)
}

/// How long this thread computes: where the system says so, without the time that others had its core.
struct Clock {
    began: Instant,
    computed: Option<f64>,
}

impl Clock {
    fn start() -> Self {
        Self {
            began: Instant::now(),
            computed: computed(),
        }
    }

    fn seconds(&self) -> f64 {
        let computed = self.computed.zip(computed()).map(|(began, now)| now - began);
        computed.unwrap_or_else(|| self.began.elapsed().as_secs_f64())
    }
}

/// Seconds that this thread ran on a core; only Linux says so, in nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "years of nanoseconds are exact enough")]
fn computed() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds as f64 / 1e9)
}

/// What happens in the run of one seed, line by line.
///
/// # Errors
/// An unknown scenario.
pub fn trace(seed: u64, scenario: Option<&str>) -> Result<Outcome> {
    let schedule = Schedule::of(seed, scenario).context("there is no such scenario")?;
    let orders = Orders {
        trace: true,
        ..Orders::default()
    };
    Ok(World::new(schedule, orders)?.run())
}

/// What identifies the run of a seed, on every machine and in every build: how long it is, and the hash of its trace.
///
/// # Errors
/// An unknown scenario.
pub fn digest(seed: u64, scenario: Option<&str>) -> Result<String> {
    let name = Schedule::of(seed, scenario)
        .context("there is no such scenario")?
        .scenario;
    let outcome = trace(seed, scenario)?;
    // FNV-1a: not against anybody, and the same everywhere.
    let hash = outcome
        .trace
        .iter()
        .flat_map(|line| line.bytes().chain([b'\n']))
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    Ok(format!("{seed} {name} {} steps {hash:016x}", outcome.steps))
}

/// The trace of the smallest run that still violates the invariant: acts and faults are taken out, as long as it does.
/// When so many steps were taken for it, what is left is small enough.
const EFFORT: u64 = 1_500_000;

/// See [`EFFORT`].
pub(super) fn shortest(schedule: &Schedule, orders: &Orders, invariant: &str) -> Result<Vec<String>> {
    let mut orders = orders.clone();
    let mut steps = 0;
    let mut still = |orders: &Orders| -> Result<Option<Outcome>> {
        if steps > EFFORT {
            return Ok(None);
        }
        let outcome = World::new(schedule.clone(), orders.clone())?.run();
        steps += outcome.steps;
        let same = outcome
            .violation
            .as_ref()
            .is_some_and(|found| found.invariant == invariant);
        Ok(same.then_some(outcome))
    };
    for position in 0..schedule.acts.len() {
        let mut fewer = orders.clone();
        fewer.skipped.insert(position);
        if still(&fewer)?.is_some() {
            orders = fewer;
        }
    }
    let faults = still(&orders)?.map_or(0, |outcome| outcome.faults);
    // Halves first, then one by one.
    let mut size = faults;
    while size > 0 && faults <= 400 {
        let mut start = 1;
        while start <= faults {
            let more: BTreeSet<u64> = (start..start + size).collect();
            let mut fewer = orders.clone();
            fewer.spared.extend(more);
            if fewer.spared != orders.spared && still(&fewer)?.is_some() {
                orders = fewer;
            }
            start += size;
        }
        size /= 2;
    }
    orders.trace = true;
    let outcome = World::new(schedule.clone(), orders)?.run();
    let mut lines = outcome.trace;
    // The end is what matters.
    let most = 120;
    if lines.len() > most {
        let cut = lines.len() - most;
        lines.drain(..cut);
        lines.insert(0, format!("... {cut} lines before"));
    }
    if let Some(violation) = outcome.violation {
        lines.push(format!("=> {violation}"));
    }
    Ok(lines)
}
