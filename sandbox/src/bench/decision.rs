//! The decision alone, in this process: what one review costs in time, allocations and
//! instructions.

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result};
use capstan_core::admission::{Admission, Options, Phase, Route, Snapshot, Source, routes};
use clap::ValueEnum as _;
use serde_json::Value;

use super::allocations;
use super::guarded::{self, Edited};
use super::review::{nodes, review, review_of_image, review_of_metadata, surroundings};

/// What one decision costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Nanoseconds: the median of many samples.
    pub(super) nanoseconds: f64,
    /// The number of allocations.
    pub(super) allocations: u64,
    /// The number of bytes allocated.
    pub(super) bytes: u64,
}

/// A decision whose instructions are counted, and which can be repeated under a profiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum What {
    /// An update of a ControlPlaneMachineSet.
    Update,
    /// A label on a mirror in Cluster API.
    ClusterApiMirror,
    /// A label on a mirror in the Machine API.
    MachineApiMirror,
    /// A label on an authoritative object in the Machine API.
    Authoritative,
}

/// The inputs of a decision, read once.
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

    /// The decision that the servers make.
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
            What::ClusterApiMirror => Self::guarded(Edited::ClusterApiMirror),
            What::MachineApiMirror => Self::guarded(Edited::MachineApiMirror),
            What::Authoritative => Self::guarded(Edited::Authoritative),
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
    let validating = routes().iter().find(|route| route.phase == Phase::Validate);
    validating.context("no route validates")
}

/// Makes the same decision many times, for a profiler.
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

/// Measures time and allocations: of the decision that the servers make, and of further ones for
/// comparison.
pub(super) fn costs() -> Result<Vec<(&'static str, Cost)>> {
    let machines = surroundings()?;
    let everything: Vec<Value> = machines.iter().cloned().chain(nodes()).collect();
    let decision = |body: Result<Vec<u8>>| Decision::new(body?, &everything);
    let guarded = |edited: Edited| (edited.title(), Decision::guarded(edited), 200);
    [
        ("instance type changed, machines known", Decision::of_the_servers(), 200),
        ("metadata changed", decision(review_of_metadata()), 200),
        (
            "image changed, which replaces no machine",
            decision(review_of_image()),
            200,
        ),
        (
            "instance type changed, nodes known too, so that the rollout is planned",
            decision(review()),
            20,
        ),
        guarded(Edited::ClusterApiMirror),
        guarded(Edited::MachineApiMirror),
        guarded(Edited::Authoritative),
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
        nanoseconds: super::report::median(&mut samples).context("no sample was taken")?,
        allocations: after.0 - before.0,
        bytes: after.1 - before.1,
    })
}

/// The instructions of one decision, as valgrind counts them in two runs of this program, one with
/// more decisions than the other. `None` if valgrind is not installed.
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
    let name = what.to_possible_value().context("the decision has no name")?;
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
        let text = String::from_utf8_lossy(&output.stderr);
        let collected = text.lines().find_map(|line| line.split_once("Collected : "));
        let (_, count) = collected.with_context(|| format!("valgrind printed no count:\n{text}"))?;
        count.trim().parse().context("the count of valgrind is not a number")
    };
    let (few, many) = (run(FEW)?, run(MANY)?);
    Ok(Some(many.saturating_sub(few) / (MANY - FEW)))
}
