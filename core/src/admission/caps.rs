//! Limits the size of a response. A client chooses the contents of an object, so everything that a
//! response quotes is cut: a small request must not cause a large response. `Verdict::finish`
//! limits the warnings.

use crate::model::Violation;

/// The longest uid of a review that is accepted. An API server sends 36 characters.
pub(super) const MAX_UID: usize = 256;
/// How many violations a response lists.
pub(super) const MAX_VIOLATIONS: usize = 32;
/// The length in characters of a violation's path, of its message, and of a message without causes.
pub(super) const MAX_MESSAGE: usize = 2048;
/// The length in characters of a name, as the API server limits it.
pub(super) const MAX_NAME: usize = 253;
/// The violations that a response lists, and how many more there are.
pub(super) fn violations(all: &[Violation]) -> (&[Violation], usize) {
    let shown = all.get(..MAX_VIOLATIONS).unwrap_or(all);
    (shown, all.len() - shown.len())
}
