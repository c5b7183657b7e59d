//! The decision alone, without a server around it: what one review costs in time, allocations and instructions.

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result};
use capstan_core::admission::{Admission, Options, Phase, ROUTES, Route, Snapshot, Source};

use super::allocations;
use super::review::{review, surroundings};

/// What one decision costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Nanoseconds; the median of many samples.
    pub(super) nanoseconds: f64,
    /// Allocations.
    pub(super) allocations: u64,
    /// Bytes that they asked for.
    pub(super) bytes: u64,
}

/// Everything that a decision needs, read once.
struct Decision {
    admission: Admission,
    snapshot: Snapshot,
    body: Vec<u8>,
    route: &'static Route,
}

impl Decision {
    fn new() -> Result<Self> {
        let snapshot = Snapshot {
            source: Source::Cluster,
            ..Snapshot::of_files(&surroundings()?)?
        };
        Ok(Self {
            admission: Admission::new(Options::default())?,
            snapshot,
            body: review()?,
            route: route()?,
        })
    }

    fn decide(&self) -> Result<()> {
        black_box(
            self.admission
                .answer(self.route, black_box(&self.body), &self.snapshot)?,
        );
        Ok(())
    }
}

/// The route that is measured.
pub(super) fn route() -> Result<&'static Route> {
    let validating = ROUTES.iter().find(|route| route.phase == Phase::Validate);
    validating.context("nothing is validated")
}

/// Makes the same decision again and again: what a profiler looks at.
///
/// # Errors
/// The review cannot be judged.
pub fn repeat(times: u32) -> Result<()> {
    let decision = Decision::new()?;
    for _ in 0..times {
        decision.decide()?;
    }
    Ok(())
}

/// Measures time and allocations.
pub(super) fn cost() -> Result<Cost> {
    const SAMPLES: usize = 60;
    const EACH: u32 = 200;
    let decision = Decision::new()?;
    for _ in 0..2_000 {
        decision.decide()?;
    }
    let before = allocations::so_far();
    decision.decide()?;
    let after = allocations::so_far();
    let mut samples = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let began = Instant::now();
        for _ in 0..EACH {
            decision.decide()?;
        }
        samples.push(began.elapsed().as_secs_f64() * 1e9 / f64::from(EACH));
    }
    Ok(Cost {
        nanoseconds: super::report::median(&mut samples).context("no sample")?,
        allocations: after.0 - before.0,
        bytes: after.1 - before.1,
    })
}

/// Instructions of one decision, as valgrind counts them: two runs of this program, one with more decisions than the
/// other. `None` where there is no valgrind.
pub(super) fn instructions(folder: &Path) -> Result<Option<u64>> {
    const FEW: u64 = 100;
    const MANY: u64 = 600;
    let found = Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !found.is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    let run = |times: u64| -> Result<u64> {
        let output = Command::new("valgrind")
            .arg("--tool=callgrind")
            .arg(format!(
                "--callgrind-out-file={}",
                folder.join("callgrind.out").display()
            ))
            .arg(std::env::current_exe()?)
            .args(["decide", &times.to_string()])
            .output()
            .context("running valgrind")?;
        let said = String::from_utf8_lossy(&output.stderr);
        let collected = said.lines().find_map(|line| line.split_once("Collected : "));
        let (_, count) = collected.with_context(|| format!("valgrind said:\n{said}"))?;
        count.trim().parse().context("valgrind's count is no number")
    };
    let (few, many) = (run(FEW)?, run(MANY)?);
    Ok(Some(many.saturating_sub(few) / (MANY - FEW)))
}
