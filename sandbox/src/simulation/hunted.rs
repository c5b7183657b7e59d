//! The results of the hunts for seeded bugs, and how a command shows them.

use std::fmt::Write as _;

use anyhow::{Result, ensure};

/// The result of the hunt for one bug.
#[derive(Clone, Debug)]
pub struct Hunted {
    /// The id of the bug.
    pub id: String,
    /// The invariant that found it, and the seed; `None` if it survived.
    pub found: Option<(&'static str, u64)>,
    /// Violations of other invariants.
    pub accidents: Vec<String>,
}

/// The most accidents that are shown of a bug.
const SHOWN: usize = 3;

/// One line for each bug.
pub fn show(all: &[Hunted]) -> String {
    let mut text = String::new();
    for one in all {
        let _written = match one.found {
            Some((invariant, seed)) => writeln!(text, "{}: seed {seed} violates {invariant}", one.id),
            None => writeln!(
                text,
                "{}: NOT FOUND {:?}",
                one.id,
                one.accidents.iter().take(SHOWN).collect::<Vec<_>>()
            ),
        };
    }
    text
}

/// Fails if a bug survived.
///
/// # Errors
/// A bug is not found.
pub fn none_survives(all: &[Hunted]) -> Result<()> {
    let survivors = all.iter().filter(|one| one.found.is_none()).count();
    ensure!(survivors == 0, "{survivors} bug(s) are not found");
    Ok(())
}
