//! The state of a mirrored Machine or MachineSet as the sync controller reports it: for metrics,
//! and for events about the Machine of the Machine API.
//!
//! Must never: report a Machine as synchronized on the basis of a generation. The condition
//! Synchronized tells it, which was written after a comparison.

use super::pair::{Decision, Pair, Part, Verb, Write};
use super::report::Synchronized;
use super::spec::{Authority, Kind};

/// The state of a mirrored Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// The Machine exists in Cluster API only, and is not mirrored.
    NotMirrored,
    /// The mirror agrees with the authoritative Machine.
    Synchronized,
    /// The mirror is being made, or was not compared yet.
    Pending,
    /// The mirror cannot be made to agree: the condition Synchronized is False.
    Blocked,
    /// A migration is requested and has not begun.
    MigrationRequested,
    /// A migration has begun.
    Migrating,
    /// A migration has no recorded source, and stopped.
    MigrationStopped,
    /// One of the Machines is being deleted.
    Deleting,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::NotMirrored,
        Self::Synchronized,
        Self::Pending,
        Self::Blocked,
        Self::MigrationRequested,
        Self::Migrating,
        Self::MigrationStopped,
        Self::Deleting,
    ];

    /// The label of the metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotMirrored => "not_mirrored",
            Self::Synchronized => "synchronized",
            Self::Pending => "pending",
            Self::Blocked => "blocked",
            Self::MigrationRequested => "migration_requested",
            Self::Migrating => "migrating",
            Self::MigrationStopped => "migration_stopped",
            Self::Deleting => "deleting",
        }
    }

    /// Whether a migration that a user requested has not ended.
    pub fn is_migration(self) -> bool {
        matches!(
            self,
            Self::MigrationRequested | Self::Migrating | Self::MigrationStopped
        )
    }
}

/// The state of a pair.
pub fn state(pair: &Pair) -> State {
    let Some(machine) = &pair.machine_api else {
        return State::NotMirrored;
    };
    let deleting = |part: Part| pair.part(part).is_some_and(|object| object.member.deleting);
    if deleting(Part::MachineApi) || deleting(Part::ClusterApi) {
        return State::Deleting;
    }
    let member = &machine.member;
    match member.status_authority {
        Some(Authority::Migrating) if member.synchronized_api.is_none() => State::MigrationStopped,
        Some(Authority::Migrating) => State::Migrating,
        Some(Authority::Stable(api)) if api != member.desired_api() => State::MigrationRequested,
        _ => match member.synchronized.as_ref().map(|condition| condition.status.as_str()) {
            Some("True") => State::Synchronized,
            Some("False") => State::Blocked,
            _ => State::Pending,
        },
    }
}

/// Something that a user should know about a Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether it is a warning.
    pub warning: bool,
    /// The reason of the event.
    pub reason: &'static str,
    /// The text.
    pub message: String,
}

/// What lasts for a pair in this state: a conversion that is blocked, or a migration that waits.
pub fn notice(pair: &Pair, decision: &Decision) -> Option<Notice> {
    let machine = pair.machine_api.as_ref()?;
    let state = state(pair);
    let condition = machine.member.synchronized.as_ref();
    let blocked = condition.filter(|condition| condition.status == "False");
    let blocked = blocked.map(|condition| format!("{}: {}", condition.reason, condition.message));
    match (state, blocked, decision) {
        (State::Blocked | State::MigrationStopped, Some(message), _) => Some(Notice {
            warning: true,
            reason: "SynchronizationBlocked",
            message,
        }),
        (State::MigrationRequested | State::Migrating, Some(message), _) => Some(Notice {
            warning: true,
            reason: "MigrationBlocked",
            message,
        }),
        (State::MigrationRequested | State::Migrating, None, Decision::Wait(message)) => Some(Notice {
            warning: false,
            reason: "MigrationWaiting",
            message: message.clone(),
        }),
        _ => None,
    }
}

/// The notice about a write that changes which API is authoritative.
pub fn change_of_authority(write: &Write) -> Option<Notice> {
    let Verb::PatchStatus(patch) = &write.verb else {
        return None;
    };
    let authority = patch.pointer("/status/authoritativeAPI")?.as_str()?;
    Some(Notice {
        warning: false,
        reason: "AuthorityChanged",
        message: format!("status.authoritativeAPI is {authority}: {}", write.because),
    })
}

/// The condition after the API server refused a write of the synchronization. `None` for a write to
/// the status, which cannot report its own refusal.
pub fn refused(kind: Kind, write: &Write, error: String) -> Option<Synchronized> {
    match kind {
        Kind::MachineSet => return refused_of_set(write, error),
        Kind::MachineHealthCheck => return refused_of_check(write, error),
        _ => {}
    }
    let reason = match (&write.verb, write.part) {
        (Verb::PatchStatus(_), Part::MachineApi) => return None,
        (_, Part::Template(_) | Part::Member(_)) => return None,
        (Verb::Create(_), Part::MachineApi) => "FailedToCreateMAPIMachine",
        (Verb::Create(_), Part::ClusterApi) => "FailedToCreateCAPIMachine",
        (Verb::Create(_), Part::Infrastructure) => "FailedToCreateCAPIInfraMachine",
        (_, Part::MachineApi) => "FailedToUpdateMAPIMachine",
        (_, Part::ClusterApi) => "FailedToUpdateCAPIMachine",
        (_, Part::Infrastructure) => "FailedToUpdateCAPIInfraMachine",
    };
    Some(Synchronized::blocked(reason, error))
}

fn refused_of_check(write: &Write, error: String) -> Option<Synchronized> {
    let reason = match (&write.verb, write.part) {
        (Verb::PatchStatus(_), Part::MachineApi) => return None,
        (Verb::Create(_), Part::ClusterApi) => "FailedToCreateCAPIMachineHealthCheck",
        (_, Part::ClusterApi) => "FailedToUpdateCAPIMachineHealthCheck",
        _ => "FailedToUpdateMAPIMachineHealthCheck",
    };
    Some(Synchronized::blocked(reason, error))
}

fn refused_of_set(write: &Write, error: String) -> Option<Synchronized> {
    let reason = match (&write.verb, write.part) {
        (Verb::PatchStatus(_), Part::MachineApi) | (_, Part::Member(_)) => return None,
        (Verb::Create(_), Part::ClusterApi) => "FailedToCreateCAPIMachineSet",
        (_, Part::MachineApi) => "FailedToUpdateMAPIMachineSet",
        (_, Part::ClusterApi) => "FailedToUpdateCAPIMachineSet",
        (Verb::Delete { .. }, _) => "FailedToDeleteCAPIInfraMachineTemplate",
        (_, Part::Infrastructure | Part::Template(_)) => "FailedToCreateCAPIInfraMachineTemplate",
    };
    Some(Synchronized::blocked(reason, error))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::authority::pair::FullObject;

    fn pair(spec: &str, status: &Value) -> Pair {
        let machine = json!({"kind": "Machine", "metadata": {"name": "a"}, "spec": {"authoritativeAPI": spec},
            "status": status});
        Pair {
            machine_api: Some(FullObject::from(machine)),
            ..Pair::default()
        }
    }

    fn synchronized(status: &str) -> Value {
        json!([{"type": "Synchronized", "status": status, "reason": "R", "message": "spec.x: m"}])
    }

    #[test]
    fn a_state_follows_from_the_status_of_the_machine() {
        assert_eq!(state(&Pair::default()), State::NotMirrored);
        let status = json!({"authoritativeAPI": "MachineAPI", "conditions": synchronized("True")});
        assert_eq!(state(&pair("MachineAPI", &status)), State::Synchronized);
        assert_eq!(state(&pair("ClusterAPI", &status)), State::MigrationRequested);
        let migrating = json!({"authoritativeAPI": "Migrating", "synchronizedAPI": "MachineAPI"});
        assert_eq!(state(&pair("ClusterAPI", &migrating)), State::Migrating);
        let stopped = json!({"authoritativeAPI": "Migrating"});
        assert_eq!(state(&pair("ClusterAPI", &stopped)), State::MigrationStopped);
        let unknown = json!({"authoritativeAPI": "MachineAPI", "conditions": synchronized("Unknown")});
        assert_eq!(state(&pair("MachineAPI", &unknown)), State::Pending);
    }

    #[test]
    fn a_migration_that_waits_tells_what_it_waits_for() {
        let status = json!({"authoritativeAPI": "MachineAPI", "conditions": synchronized("True")});
        let waits = Decision::wait("the instance");
        let told = notice(&pair("ClusterAPI", &status), &waits).unwrap();
        assert_eq!(
            (told.reason, told.message.as_str()),
            ("MigrationWaiting", "the instance")
        );
        assert_eq!(notice(&pair("MachineAPI", &status), &waits), None);
        let status = json!({"authoritativeAPI": "MachineAPI", "conditions": synchronized("False")});
        let told = notice(&pair("ClusterAPI", &status), &waits).unwrap();
        assert_eq!(
            (told.reason, told.message.as_str()),
            ("MigrationBlocked", "R: spec.x: m")
        );
        let told = notice(&pair("MachineAPI", &status), &waits).unwrap();
        assert_eq!(told.reason, "SynchronizationBlocked");
    }
}
