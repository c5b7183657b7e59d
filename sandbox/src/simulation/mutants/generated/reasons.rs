//! Why nothing finds a generated mutant.

use super::Mutant;

/// A reason for the mutants of a function.
#[derive(Clone, Copy, Debug)]
pub struct Reason {
    /// The end of the name of the file.
    pub file: &'static str,
    /// The function.
    pub function: &'static str,
    /// A part of what the mutant changes; empty for all mutants of the function.
    pub change: &'static str,
    /// The reason.
    pub text: &'static str,
}

/// The reasons.
pub const REASONS: &[Reason] = &[];

/// The reason for a mutant.
pub fn reason_of(mutant: &Mutant) -> Option<&'static str> {
    let fits = |reason: &&Reason| {
        mutant.file.ends_with(reason.file)
            && mutant.point.function == reason.function
            && mutant.point.change.contains(reason.change)
    };
    REASONS.iter().find(fits).map(|reason| reason.text)
}
