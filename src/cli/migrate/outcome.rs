//! How the migration of an object ended for the command, and the exit code for all of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// How the command ended for one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// The wanted API is authoritative, after a wait.
    Migrated,
    /// The wanted API was authoritative already.
    Already,
    /// The request is stored.
    Requested,
    /// The migration is possible, and nothing was written.
    Possible,
    /// The migration is refused, and nothing was written.
    Refused,
    /// A field prevents a requested migration.
    Blocked,
    /// Another user changed the request, or the object is being deleted.
    Ended,
    /// The timeout has passed, and the request stays.
    TimedOut,
    /// Nothing was requested, because an earlier migration did not end.
    Skipped,
    /// The object does not exist, or cannot be read.
    Unreadable,
}

impl Outcome {
    /// The outcome as `-o json` and `-o yaml` print it.
    fn as_str(self) -> &'static str {
        match self {
            Self::Migrated => "migrated",
            Self::Already => "already",
            Self::Requested => "requested",
            Self::Possible => "possible",
            Self::Refused => "refused",
            Self::Blocked => "blocked",
            Self::Ended => "ended",
            Self::TimedOut => "timedOut",
            Self::Skipped => "skipped",
            Self::Unreadable => "unreadable",
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Migrated | Self::Already | Self::Requested | Self::Possible => 0,
            Self::Refused | Self::Blocked | Self::Ended | Self::Skipped => 1,
            Self::Unreadable => 2,
            Self::TimedOut => 3,
        }
    }

    /// Whether no further object is requested: a migration of this one was requested, and is open,
    /// or the cluster cannot be read.
    pub(super) fn stops(self) -> bool {
        matches!(self, Self::Blocked | Self::Ended | Self::TimedOut | Self::Unreadable)
    }
}

/// An object, how the command ended for it, and the messages about it.
#[derive(Debug)]
pub(super) struct Reported {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) outcome: Outcome,
    pub(super) messages: Vec<String>,
}

/// The exit code for all objects: 2 if one cannot be read; otherwise 3 if a timeout has passed;
/// otherwise 1 if one is refused or blocked. A skipped object does not hide why it was skipped.
pub(super) fn code(all: &[Reported]) -> u8 {
    let codes = |wanted: u8| all.iter().any(|one| one.outcome.code() == wanted);
    [2, 3, 1].into_iter().find(|wanted| codes(*wanted)).unwrap_or_default()
}

/// The sum of several objects.
pub(super) fn summary(all: &[Reported]) -> String {
    let mut counts: BTreeMap<Outcome, usize> = BTreeMap::new();
    for one in all {
        *counts.entry(one.outcome).or_default() += 1;
    }
    let counts = counts
        .iter()
        .map(|(outcome, count)| format!("{count} {}", outcome.as_str()));
    format!("{} objects: {}", all.len(), counts.collect::<Vec<_>>().join(", "))
}

/// All objects as `-o json` and `-o yaml` print them.
pub(super) fn value(namespace: &str, all: &[Reported]) -> Value {
    let objects = all.iter().map(|one| {
        json!({"kind": one.kind, "namespace": namespace, "name": one.name, "result": one.outcome.as_str(),
            "messages": one.messages})
    });
    json!({"exitCode": code(all), "objects": objects.collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(outcomes: &[Outcome]) -> Vec<Reported> {
        let one = |outcome: &Outcome| Reported {
            kind: String::from("Machine"),
            name: String::from("a"),
            outcome: *outcome,
            messages: Vec::new(),
        };
        outcomes.iter().map(one).collect()
    }

    #[test]
    fn the_exit_code_is_that_of_the_object_that_needs_a_user_most() {
        use Outcome::{Already, Blocked, Migrated, Refused, Skipped, TimedOut, Unreadable};
        for (outcomes, expected) in [
            (&[Migrated, Already][..], 0),
            (&[Migrated, Refused], 1),
            (&[Blocked, Skipped], 1),
            (&[TimedOut, Skipped], 3),
            (&[Refused, Unreadable], 2),
            (&[], 0),
        ] {
            assert_eq!(code(&reported(outcomes)), expected, "{outcomes:?}");
        }
    }

    #[test]
    fn a_refusal_does_not_stop_the_migration_of_the_next_object() {
        assert!(!Outcome::Refused.stops() && !Outcome::Migrated.stops() && !Outcome::Requested.stops());
        assert!(Outcome::Blocked.stops() && Outcome::TimedOut.stops() && Outcome::Unreadable.stops());
    }
}
