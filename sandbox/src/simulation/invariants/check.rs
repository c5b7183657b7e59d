//! An invariant, and the checks that it consists of.

/// An invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invariant {
    /// The id, such as `C1`.
    pub id: &'static str,
    /// What must hold.
    pub text: &'static str,
}

/// One check of an invariant. `O` is the occasion on which it is made, with everything that it may use.
pub(crate) struct Check<O> {
    /// The id of the invariant.
    invariant: &'static str,
    /// What violates the invariant; `None` if it holds.
    violation: fn(&O) -> Option<String>,
}

impl<O> Check<O> {
    /// A check of an invariant.
    pub(crate) const fn new(invariant: &'static str, violation: fn(&O) -> Option<String>) -> Self {
        Self { invariant, violation }
    }
}

/// The first check that fails: the id of its invariant, and what violates it.
pub(crate) fn first_violation<O>(checks: &[Check<O>], occasion: &O) -> Option<(&'static str, String)> {
    checks
        .iter()
        .find_map(|check| Some((check.invariant, (check.violation)(occasion)?)))
}
