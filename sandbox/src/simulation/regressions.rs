//! Regressions: schedules that once violated an invariant, as data.
//!
//! A file contains the schedule and the states that it must reach, so that a regression that no
//! longer reaches its state fails. It contains no seed that decides what happens: the only seed
//! draws latencies, each from a key of its own.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use super::engine::options::{Outcome, RunOptions, Violation};
use super::machine_api::state::ClusterSchedule;
use super::runs::run;

/// A schedule that once violated an invariant.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regression {
    /// What went wrong.
    pub found: String,
    /// The ids of the invariants that were violated.
    pub violated: Vec<String>,
    /// The states that the schedule must reach.
    pub reaches: Reached,
    /// The schedule.
    pub schedule: ClusterSchedule,
}

/// What a run must reach.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reached {
    /// Texts that the trace contains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<String>,
    /// Texts that the trace does not contain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// Branches of decisions.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub branches: BTreeSet<String>,
    /// Exemptions of invariants.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub exemptions: BTreeSet<String>,
    /// The number of rollouts that end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollouts: Option<u64>,
}

impl Reached {
    /// What a run did not reach.
    fn missing(&self, outcome: &Outcome) -> Vec<String> {
        let has_line = |text: &&String| outcome.trace.iter().any(|line| line.contains(text.as_str()));
        let mut missing = Vec::new();
        let lines = self.trace.iter().filter(|text| !has_line(text));
        missing.extend(lines.map(|text| format!("no line of the trace contains {text:?}")));
        let lines = self.absent.iter().filter(has_line);
        missing.extend(lines.map(|text| format!("a line of the trace contains {text:?}")));
        let marks = &outcome.marks;
        let branches = self.branches.iter().filter(|id| !marks.branches.contains(id.as_str()));
        missing.extend(branches.map(|id| format!("branch {id:?} is not reached")));
        let exemptions = self
            .exemptions
            .iter()
            .filter(|id| !marks.exemptions.contains(id.as_str()));
        missing.extend(exemptions.map(|id| format!("exemption {id:?} does not apply")));
        if let Some(rollouts) = self.rollouts.filter(|rollouts| *rollouts != outcome.rollouts) {
            missing.push(format!("{} rollouts end instead of {rollouts}", outcome.rollouts));
        }
        missing
    }
}

impl Regression {
    /// Reads a file.
    ///
    /// # Errors
    /// When the file is not a regression.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        serde_saphyr::from_str(&text).with_context(|| format!("parsing {}", path.display()))
    }

    /// The regression of a violation, if its schedule violates the invariant also when choices are
    /// drawn by key. What it must reach is added by hand.
    ///
    /// # Errors
    /// When the schedule cannot be run.
    pub fn of(violation: &Violation, schedule: &ClusterSchedule) -> Result<Option<Self>> {
        let smallest = super::runs::smallest(schedule, violation.invariant)?;
        Ok(smallest.map(|schedule| Self {
            found: violation.text.clone(),
            violated: vec![violation.invariant.to_owned()],
            reaches: Reached::default(),
            schedule,
        }))
    }

    /// The file.
    ///
    /// # Errors
    /// When the schedule has no serialized form.
    pub fn text(&self) -> Result<String> {
        serde_saphyr::to_string(self).context("serializing a regression")
    }

    /// Runs the schedule. Returns its trace.
    ///
    /// # Errors
    /// When the schedule violates an invariant, or does not reach its state.
    pub fn check(&self) -> Result<Vec<String>> {
        let options = RunOptions {
            trace: true,
            ..RunOptions::default()
        };
        let outcome = run(self.schedule.clone(), options)?;
        let trace = || outcome.trace.join("\n");
        if let Some(violation) = &outcome.violation {
            anyhow::bail!("{violation}\n{}", trace());
        }
        ensure!(
            !self.reaches.is_empty(),
            "the regression must name a state that it reaches"
        );
        let missing = self.reaches.missing(&outcome);
        ensure!(missing.is_empty(), "{}\n{}", missing.join("\n"), trace());
        Ok(outcome.trace)
    }
}

impl Reached {
    fn is_empty(&self) -> bool {
        self.trace.is_empty() && self.branches.is_empty() && self.exemptions.is_empty() && self.rollouts.is_none()
    }
}
