//! The options of a run beside its schedule, and the outcome of a run.

use std::collections::BTreeSet;
use std::fmt;

use super::faults::RequestFault;
use super::schedule::When;

/// A single fault of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// The replica is killed before the write is executed.
    CrashBefore,
    /// The replica is killed after the write is executed.
    CrashAfter,
    /// The write is executed, and the answer is lost.
    ReplyLost,
    /// The write is refused because the object changed.
    Conflict,
    /// The write is executed, and the caches of the replica stop for a while.
    StaleCache,
    /// The write is executed, and the replica stops until long after another one leads.
    StandStill,
}

impl WriteFault {
    /// All faults that an exhaustive run tries on every write.
    pub const ALL: [Self; 6] = [
        Self::CrashBefore,
        Self::CrashAfter,
        Self::ReplyLost,
        Self::Conflict,
        Self::StaleCache,
        Self::StandStill,
    ];
}

/// How a schedule is run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The number of one write, and what happens to it.
    pub single: Option<(u64, WriteFault)>,
    /// Numbers of faults that do not occur.
    pub spared: BTreeSet<u64>,
    /// Positions of incidents that do not occur.
    pub skipped: BTreeSet<usize>,
    /// Whether the outcome contains a trace.
    pub trace: bool,
    /// Whether the outcome contains the keys that the run reached.
    pub keys: bool,
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The id of the invariant.
    pub invariant: &'static str,
    /// What violates it.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.text)
    }
}

/// What the invariants met in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The exemptions that applied.
    pub exemptions: BTreeSet<&'static str>,
    /// The ids of the invariants whose condition held, so that a wrong controller could have
    /// violated them.
    pub tested: BTreeSet<&'static str>,
    /// The branches of decisions that the controllers reached.
    pub branches: BTreeSet<&'static str>,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The first violation.
    pub violation: Option<Violation>,
    /// The number of steps.
    pub steps: u64,
    /// The simulated time, in milliseconds.
    pub time: i64,
    /// The number of writes of the controllers.
    pub writes: u64,
    /// The number of faults that occurred.
    pub faults: u64,
    /// The number of rollouts that ended.
    pub rollouts: u64,
    /// What the invariants met.
    pub marks: Marks,
    /// The faults that calls met at their rates, if a trace was requested.
    pub met: Vec<(When, RequestFault)>,
    /// The keys that the run reached, if they were requested: what was reached, and during which
    /// incident.
    pub keys: BTreeSet<String>,
    /// What happened, line by line, if a trace was requested.
    pub trace: Vec<String>,
}
