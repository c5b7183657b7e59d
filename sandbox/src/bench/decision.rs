//! The decision alone, without a server around it: what one review costs in time, allocations and instructions.

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result};
use capstan_core::admission::{Admission, Options, Phase, ROUTES, Route, Snapshot, Source};
use clap::ValueEnum as _;
use serde_json::Value;

use super::allocations;
use super::guarded::{self, Edited};
use super::review::{nodes, review, review_of_image, review_of_metadata, surroundings};

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

/// A decision that is counted, and that a profiler can look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum What {
    /// An update of a ControlPlaneMachineSet.
    Update,
    /// A label on a copy in Cluster API.
    Copy,
    /// A label on a copy in the Machine API.
    OldCopy,
    /// A label on an original in the Machine API.
    Original,
}

/// Everything that a decision needs, read once.
struct Decision {
    admission: Admission,
    snapshot: Snapshot,
    body: Vec<u8>,
    route: &'static Route,
}

impl Decision {
    fn new(body: Vec<u8>, cluster: &[Value]) -> Result<Self> {
        let snapshot = Snapshot {
            source: Source::Cluster,
            ..Snapshot::of_files(cluster)?
        };
        Ok(Self {
            admission: Admission::new(Options::default())?,
            snapshot,
            body,
            route: route()?,
        })
    }

    /// The one that the servers make.
    fn of_the_servers() -> Result<Self> {
        Self::new(review()?, &surroundings()?)
    }

    fn guarded(edited: Edited) -> Result<Self> {
        Ok(Self {
            route: guarded::route(edited)?,
            ..Self::new(guarded::review(edited)?, &guarded::surroundings())?
        })
    }

    fn of(what: What) -> Result<Self> {
        match what {
            What::Update => Self::of_the_servers(),
            What::Copy => Self::guarded(Edited::Copy),
            What::OldCopy => Self::guarded(Edited::OldCopy),
            What::Original => Self::guarded(Edited::Original),
        }
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
pub fn repeat(times: u32, what: What) -> Result<()> {
    let decision = Decision::of(what)?;
    for _ in 0..times {
        decision.decide()?;
    }
    Ok(())
}

/// Measures time and allocations: of the decision that the servers make, then of others, for comparison.
pub(super) fn costs() -> Result<Vec<(&'static str, Cost)>> {
    let machines = surroundings()?;
    let everything: Vec<Value> = machines.iter().cloned().chain(nodes()).collect();
    let decision = |body: Result<Vec<u8>>| Decision::new(body?, &everything);
    [
        ("instance type changed, machines known", Decision::of_the_servers(), 200),
        ("metadata changed", decision(review_of_metadata()), 200),
        ("image changed: replaces no machine", decision(review_of_image()), 200),
        (
            "instance type changed, nodes known too: the rollout is planned",
            decision(review()),
            20,
        ),
        (Edited::Copy.title(), Decision::guarded(Edited::Copy), 200),
        (Edited::OldCopy.title(), Decision::guarded(Edited::OldCopy), 200),
        (Edited::Original.title(), Decision::guarded(Edited::Original), 200),
    ]
    .into_iter()
    .map(|(name, decision, each)| Ok((name, cost(&decision?, each)?)))
    .collect()
}

fn cost(decision: &Decision, each: u32) -> Result<Cost> {
    const SAMPLES: usize = 60;
    for _ in 0..each * 10 {
        decision.decide()?;
    }
    let before = allocations::so_far();
    decision.decide()?;
    let after = allocations::so_far();
    let mut samples = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let began = Instant::now();
        for _ in 0..each {
            decision.decide()?;
        }
        samples.push(began.elapsed().as_secs_f64() * 1e9 / f64::from(each));
    }
    Ok(Cost {
        nanoseconds: super::report::median(&mut samples).context("no sample")?,
        allocations: after.0 - before.0,
        bytes: after.1 - before.1,
    })
}

/// Instructions of one decision, as valgrind counts them: two runs of this program, one with more decisions than the
/// other. `None` where there is no valgrind.
pub(super) fn instructions(folder: &Path, what: What) -> Result<Option<u64>> {
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
    let name = what.to_possible_value().context("a decision without a name")?;
    let run = |times: u64| -> Result<u64> {
        let output = Command::new("valgrind")
            .arg("--tool=callgrind")
            .arg(format!(
                "--callgrind-out-file={}",
                folder.join("callgrind.out").display()
            ))
            .arg(std::env::current_exe()?)
            .args(["decide", &times.to_string(), "--what", name.get_name()])
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
