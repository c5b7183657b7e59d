//! Mutants of decisions: changes of the sources of the controllers, each of which the simulation
//! must find.
//!
//! A seeded bug of the catalogue is implemented between the controller and the world, so the
//! decisions stay those of the production code. A mutant of a decision changes the decision itself:
//! it removes the fix of a defect, drops a term, or moves a comparison. A copy of the sources
//! contains all mutants, and an environment variable of the process selects one of them. So one
//! build is enough.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::sources;

mod list;

pub use list::DECISIONS;

/// The largest number of schedules within which a mutant must be found.
pub const MOST: u64 = 1000;

/// The environment variable that selects a mutant.
const SELECTED: &str = "CAPSTAN_MUTATION";

/// What selects a mutant, in the copy of the sources.
const SWITCH: &str = r#"
extern crate self as capstan_core;

/// Whether the process runs this mutant.
pub fn mutated(id: &str) -> bool {
    static SELECTED: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| std::env::var("CAPSTAN_MUTATION").unwrap_or_default());
    *SELECTED == id
}
"#;

/// An expression of the sources, and another one in its place.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    /// The path of the file in the repository.
    pub file: &'static str,
    /// The text around the expression, with `@` in its place. It occurs once in the file.
    pub around: &'static str,
    /// The expression.
    pub old: &'static str,
    /// The expression of the mutant.
    pub new: &'static str,
}

impl Edit {
    /// The text with the expression, as the file contains it.
    fn text(&self, expression: &str) -> String {
        self.around.replacen('@', expression, 1)
    }

    /// Makes the expression depend on the selected mutant.
    fn apply(&self, id: &str, source: &str) -> Result<String> {
        let there = self.text(self.old);
        let count = source.matches(&there).count();
        ensure!(
            count == 1,
            "{} must contain {there:?} once, and contains it {count} times",
            self.file
        );
        let (old, new) = (self.old, self.new);
        let either = format!("(if capstan_core::mutated(\"{id}\") {{ {new} }} else {{ {old} }})");
        Ok(source.replacen(&there, &self.text(&either), 1))
    }
}

/// How the hunt for a mutant ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// An invariant finds it.
    Found {
        /// The scenario.
        scenario: &'static str,
        /// The id of the invariant.
        by: &'static str,
        /// The number of schedules, from seed 0 on.
        schedules: u64,
    },
    /// No run violates an invariant, for this reason.
    Survives(&'static str),
}

/// A mutant of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Decision {
    /// The id.
    pub id: &'static str,
    /// The defect whose fix the mutant removes; empty for another mutant.
    pub defect: &'static str,
    /// What the controller does wrong.
    pub wrong: &'static str,
    /// The changes of the sources.
    pub edits: &'static [Edit],
    /// How the hunt ends.
    pub end: End,
}

/// The sections of the page `docs/mutants.md`.
pub fn sections() -> String {
    let mut text = format!(
        "\n## Reverted fixes\n\n\
         Each row removes the fix of a defect from the sources of the controllers. The simulation must\n\
         find the defect within {MOST} schedules.\n\n\
         | defect | mutant | what the controller does | scenario | caught by | schedules |\n|---|---|---|---|---|---|\n"
    );
    for one in DECISIONS.iter().filter(|one| !one.defect.is_empty()) {
        text.push_str(&format!("| {} | {}\n", one.defect, row(one)));
    }
    text.push_str(
        "\n## Mutants of decisions\n\n\
         Each row changes one decision in the sources. A mutant that no invariant finds has a reason.\n\n\
         | mutant | what the controller does | scenario | caught by | schedules |\n|---|---|---|---|---|\n",
    );
    for one in DECISIONS.iter().filter(|one| one.defect.is_empty()) {
        text.push_str(&format!("| {}\n", row(one)));
    }
    text.push_str(
        "\n`capstan-sandbox decisions` builds the mutants in a copy of the sources, and compares both tables\n\
         with what the simulation finds.\n",
    );
    text
}

fn row(one: &Decision) -> String {
    let end = match one.end {
        End::Found {
            scenario,
            by,
            schedules,
        } => format!("`{scenario}` | {by} | {schedules} |"),
        End::Survives(reason) => format!("all | nothing: {reason} | |"),
    };
    format!("`{}` | {} | {end}", one.id, one.wrong)
}

/// Writes a copy of the sources of a repository that contains all mutants.
///
/// # Errors
/// When a file cannot be copied, or an edit does not fit the sources.
pub fn write_sources(repository: &Path, folder: &Path) -> Result<()> {
    sources::copy(repository, folder, |name, read| {
        let edits: Vec<(&str, &Edit)> = DECISIONS
            .iter()
            .flat_map(|one| one.edits.iter().map(|edit| (one.id, edit)))
            .filter(|(_, edit)| edit.file == name)
            .collect();
        let has_switch = name == "core/src/lib.rs";
        if edits.is_empty() && !has_switch {
            return Ok(None);
        }
        let mut source = read()?;
        for (id, edit) in edits {
            source = edit
                .apply(id, &source)
                .with_context(|| format!("inserting mutant {id}"))?;
        }
        if has_switch {
            source.push_str(SWITCH);
        }
        Ok(Some(source))
    })
}

/// The first violation of a mutant: its invariant, and the number of schedules until it occurs.
fn first_violation(program: &Path, id: &str, scenario: &str, most: u64) -> Result<Option<(String, u64)>> {
    const CHUNK: u64 = 50;
    let mut from = 0;
    while from < most {
        let arguments = format!("simulate --scenario {scenario} --from {from} --seeds {CHUNK} -o json");
        let output = Command::new(program)
            .args(arguments.split(' '))
            .env(SELECTED, id)
            .output()
            .context("starting the simulation of a mutant")?;
        let summary: Value = serde_json::from_slice(&output.stdout).context("reading the summary of a mutant")?;
        let first = summary.pointer("/violations/0");
        if let Some((seed, by)) =
            first.and_then(|first| first.get("seed")?.as_u64().zip(first.get("invariant")?.as_str()))
        {
            return Ok(Some((by.to_owned(), seed + 1)));
        }
        from += CHUNK;
    }
    Ok(None)
}

/// Builds the mutants of a repository in a folder and runs each, and compares the results with the
/// list. Returns a line for each mutant, and whether it agrees.
///
/// # Errors
/// When the mutants cannot be built or run.
pub fn hunt(repository: &Path, folder: &Path) -> Result<Vec<(String, bool)>> {
    write_sources(repository, folder)?;
    let program = sources::build(folder, "fast")?;
    let mut lines = Vec::new();
    for one in DECISIONS {
        let (line, agrees) = match one.end {
            End::Found {
                scenario,
                by,
                schedules,
            } => {
                let found = first_violation(&program, one.id, scenario, MOST)?;
                let agrees = found.as_ref().is_some_and(|(invariant, _)| invariant == by);
                (format!("{scenario} {found:?}, listed: {by} {schedules}"), agrees)
            }
            End::Survives(reason) => (format!("not run: {reason}"), true),
        };
        lines.push((format!("{:24} {line}", one.id), agrees));
    }
    Ok(lines)
}
