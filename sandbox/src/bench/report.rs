//! The ratios: printed for users, and written as `summary.json` for programs.

use anyhow::{Context as _, Result};
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// A ratio, and the largest ratio that is allowed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Ratio {
    /// What was compared.
    pub(super) name: String,
    /// The cost of the server, divided by that of the baseline; for memory and reaction time,
    /// divided by the goal.
    pub(super) ratio: f64,
    /// The largest ratio that is allowed.
    pub(super) goal: f64,
    /// Whether the ratio is at most the goal.
    pub(super) met: bool,
    /// The two values, as text.
    #[serde(skip)]
    pub(super) shown: String,
}

impl Ratio {
    pub(super) fn new(name: impl Into<String>, ratio: f64, goal: f64, shown: String) -> Self {
        // The rounded ratio, which is the printed one, is compared with the goal.
        let ratio = (ratio * 1000.0).round() / 1000.0;
        Self {
            name: name.into(),
            ratio,
            goal,
            met: ratio <= goal,
            shown,
        }
    }
}

/// The median of the samples, which are sorted for it; `None` without samples.
pub(super) fn median(samples: &mut [f64]) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    let upper = samples.get(middle)?;
    if samples.len() % 2 == 1 {
        return Some(*upper);
    }
    Some(f64::midpoint(*samples.get(middle - 1)?, *upper))
}

/// A percentile of samples in ascending order; `None` without samples.
pub(super) fn percentile(ordered: &[u64], hundredths: usize) -> Option<u64> {
    let rank = (ordered.len() * hundredths).div_ceil(100).max(1);
    ordered.get(rank - 1).copied()
}

impl fmt::Display for Ratio {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = if self.met { "" } else { "   MISSED" };
        write!(
            formatter,
            "{:<32} {:>6.2} of {:.1}   {}{met}",
            self.name, self.ratio, self.goal, self.shown
        )
    }
}

/// The ratios so far. Each is printed, and written to the file, as soon as it is known.
#[derive(Debug)]
pub(super) struct Report {
    file: PathBuf,
    ratios: Vec<Ratio>,
}

impl Report {
    pub(super) fn new(file: PathBuf) -> Self {
        Self {
            file,
            ratios: Vec::new(),
        }
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    #[expect(clippy::print_stdout, reason = "the figures are the answer")]
    pub(super) fn add(&mut self, ratio: Ratio) -> Result<()> {
        println!("{ratio}");
        self.ratios.push(ratio);
        let text = serde_json::to_string_pretty(&self.ratios).context("writing the summary")?;
        std::fs::write(&self.file, text + "\n").with_context(|| format!("writing {}", self.file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_sample_and_the_median_of_two_is_their_mean() {
        let ordered: Vec<u64> = (1..=200).collect();
        assert_eq!(percentile(&ordered, 50), Some(100));
        assert_eq!(percentile(&ordered, 99), Some(198));
        assert_eq!(percentile(&[7], 99), Some(7));
        assert_eq!(percentile(&[], 99), None);
        assert_eq!(median(&mut [3.0, 1.0]), Some(2.0));
        assert_eq!(median(&mut []), None);
    }

    #[test]
    fn a_ratio_equal_to_its_goal_meets_it() {
        assert!(Ratio::new("a", 2.0, 2.0, String::new()).met);
        assert!(!Ratio::new("a", 2.001, 2.0, String::new()).met);
        let json = serde_json::to_value(Ratio::new("a", 1.23456, 2.0, String::from("x"))).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"name": "a", "ratio": 1.235, "goal": 2.0, "met": true})
        );
    }
}
