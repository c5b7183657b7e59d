//! The context of a parse: its inputs other than the set, and the violations that it collects.

use super::gates::Gates;
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::model::{Violation, sort_violations};

/// The inputs of a parse other than the set.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParseContext<'a> {
    /// The Infrastructure `cluster`. Without it, a parse does not check names of failure domains.
    pub infrastructure: Option<&'a Infrastructure>,
    /// The feature gates.
    pub gates: Gates,
    /// Whether a field whose gate is off is ignored. The controllers ignore it; admission refuses
    /// it (decision 5).
    pub ignore_gated_fields: bool,
}

/// The violations that were found so far.
#[derive(Default)]
pub(super) struct Violations(Vec<Violation>);

impl Violations {
    pub(super) fn add(&mut self, violation: Violation) {
        self.0.push(violation);
    }

    /// All violations, ordered by field.
    pub(super) fn sorted(mut self) -> Vec<Violation> {
        sort_violations(&mut self.0);
        self.0
    }
}
