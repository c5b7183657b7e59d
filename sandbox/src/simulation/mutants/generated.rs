//! Generated mutants: every condition, comparison, term, arm, and effect of the decisions is
//! changed, one at a time, and the simulation must notice.
//!
//! A copy of the sources contains all mutants (mutant schemata), and an environment variable of the
//! process selects one. So one build is enough. `docs/generated-mutants.md` lists the results: the
//! schedule and the invariant that find a mutant, or the test of core that finds it, or the reason
//! why nothing does.

mod hunt;
mod page;
mod reasons;
mod source;

use std::path::Path;

use anyhow::{Context as _, Result};

use super::sources;

pub use hunt::{MutantResult, Options, hunt};
pub use page::{Row, merge, page, rows, section};
pub use reasons::{REASONS, Reason, reason_of};
pub use source::{Instrumented, Point, instrument};

/// The files of the decisions about a ControlPlaneMachineSet that the controller makes.
pub const FILES: &[&str] = &[
    "core/src/cpms/plan.rs",
    "core/src/cpms/plan/in_place.rs",
    "core/src/cpms/plan/machine.rs",
    "core/src/cpms/plan/rollout.rs",
    "core/src/cpms/degraded.rs",
    "core/src/cpms/etcd.rs",
    "core/src/cpms/indexes.rs",
    "core/src/cpms/machine_state.rs",
    "core/src/cpms/node_owners.rs",
    "core/src/cpms/pending_creates.rs",
    "core/src/cpms/placement.rs",
    "core/src/cpms/removal.rs",
    "core/src/cpms/selector.rs",
    "core/src/cpms/state.rs",
    "core/src/cpms/status.rs",
    "core/src/cpms/status/cluster_operator.rs",
    "core/src/cpms/status/progressing.rs",
    "core/src/cpms/stored_template.rs",
    "core/src/cpms/template_metadata.rs",
    "core/src/model/conditions.rs",
    "core/src/model/pending.rs",
];

/// The functions that the points of the copy call, without the number of points.
const POINTS: &str = include_str!("generated/points.rs.txt");
/// The file of this crate that reads the points in the copy.
const READER: &str = "sandbox/src/simulation/points.rs";
/// Its text in the copy.
const READS: &str = "//! The points that the instrumented sources reach.\n\n\
                     pub(crate) use capstan_core::points::{evaluated, take};\n";

/// A mutant: a point of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mutant {
    /// The file.
    pub file: &'static str,
    /// The point.
    pub point: Point,
}

/// The mutants of a repository, in the order of their numbers.
///
/// # Errors
/// When a file cannot be read, or is not Rust.
pub fn mutants(repository: &Path) -> Result<Vec<Mutant>> {
    let mut all = Vec::new();
    for file in FILES {
        let path = repository.join(file);
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {file}"))?;
        let points = instrument(&text, all.len()).with_context(|| format!("instrumenting {file}"))?;
        all.extend(points.points.into_iter().map(|point| Mutant { file, point }));
    }
    Ok(all)
}

/// Writes a copy of the sources of a repository that contains all mutants. Returns them.
///
/// # Errors
/// When a file cannot be copied, or is not Rust.
pub fn write_sources(repository: &Path, folder: &Path) -> Result<Vec<Mutant>> {
    let all = mutants(repository)?;
    let first = |name: &str| all.iter().position(|mutant| mutant.file == name);
    sources::copy(repository, folder, |name, read| {
        if name == READER {
            return Ok(Some(READS.to_owned()));
        }
        if name == "core/src/lib.rs" {
            let count = format!("    const COUNT: usize = {};\n}}\n", all.len());
            let points = POINTS.trim_end().trim_end_matches('}');
            let source = read()?;
            return Ok(Some(format!(
                "{source}\nextern crate self as capstan_core;\n{points}{count}"
            )));
        }
        let Some(first) = first(name) else { return Ok(None) };
        let there = instrument(&read()?, first).with_context(|| format!("instrumenting {name}"))?;
        Ok(Some(there.text))
    })?;
    Ok(all)
}
