//! Plans the migration of an object from one API to the other: a pure function from the observed
//! state to the next step.
//!
//! Admission uses the plan to report the effect of a migration request, and `migration` carries it
//! out. Every request can be cancelled: `synchronizedAPI` records which API was authoritative
//! before the migration. So a migration does not begin before the record is stored (`recording`),
//! and one without that record stops.
//!
//! Source: the Converting Machine API to Cluster API enhancement, "Migration of resources";
//! decisions 12 and 13.

use super::recording;
use super::spec::{Api, Authority, ObservedCondition, PairMember};

/// The observed state of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The API that should be authoritative.
    pub desired: Api,
    /// `status.authoritativeAPI`.
    pub authority: Option<Authority>,
    /// `status.synchronizedAPI`: the API that was authoritative at the last synchronization.
    pub synchronized_api: Option<Api>,
    /// Whether the condition Synchronized is true.
    pub synchronized: bool,
    /// Whether the mirror was made from the source as it is now.
    pub is_current: bool,
    /// Whether the status records what a migration needs to come back.
    pub is_recorded: bool,
    /// Whether the source can be migrated: it has an instance, and its controllers report that they
    /// act on it.
    pub source_is_ready: bool,
    /// Whether the controllers of the source acknowledged the pause of this migration.
    pub source_paused: bool,
    /// Whether the target is paused.
    pub target_paused: bool,
    /// Whether the target has the finalizers that an authoritative object needs.
    pub target_has_finalizers: bool,
    /// Whether one of the two objects is being deleted.
    pub deleting: bool,
}

impl Observed {
    /// Reads the state from the two objects. The pause of the source and the finalizers of the
    /// target count as missing, and the source counts as ready, because admission does not read the
    /// infrastructure. The generations tell whether the mirror is current.
    pub fn of(machine_api: &PairMember, cluster_api: Option<&PairMember>) -> Self {
        let condition = machine_api.synchronized.as_ref();
        let mut observed = Self {
            desired: machine_api.desired_api(),
            authority: machine_api.status_authority,
            synchronized_api: machine_api.synchronized_api,
            synchronized: condition.is_some_and(ObservedCondition::is_true),
            is_current: false,
            is_recorded: false,
            source_is_ready: true,
            source_paused: false,
            target_paused: true,
            target_has_finalizers: false,
            deleting: machine_api.deleting || cluster_api.is_some_and(|member| member.deleting),
        };
        // A source that the status does not record counts for the way back only.
        let goes_back = |api: &Api| *api == observed.desired || observed.deleting;
        let copied_from = recording::source(machine_api, cluster_api).filter(goes_back);
        observed.synchronized_api = observed.synchronized_api.or(copied_from);
        let generation = match observed.source() {
            Some(Api::MachineApi) => machine_api.generation,
            Some(Api::ClusterApi) => cluster_api.and_then(|member| member.generation),
            None => None,
        };
        observed.is_recorded = recording::missing(machine_api, generation).is_empty();
        observed.is_current = generation.is_some() && machine_api.synchronized_generation == generation;
        observed
    }

    /// The API that is authoritative, or was before the migration began. `None` during a migration
    /// that does not record it, except on the way back.
    pub fn source(&self) -> Option<Api> {
        match self.authority {
            Some(Authority::Stable(api)) => Some(api),
            Some(Authority::Migrating) => self.synchronized_api,
            None => Some(self.desired),
        }
    }
}

/// The next step of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Writes `status.authoritativeAPI` for the first time.
    InitializeStatus(Api),
    /// Does nothing: this API is authoritative, and no migration is due.
    Idle(Api),
    /// Does nothing: a migration is in progress, and the status does not record its source.
    Stop,
    /// Waits until the source has an instance and its controllers act on it.
    AwaitSource {
        /// The authoritative API.
        from: Api,
    },
    /// Waits until the mirror is synchronized.
    AwaitSynchronization {
        /// The authoritative API.
        from: Api,
    },
    /// Waits until the status records what a migration needs to come back.
    AwaitRecord {
        /// The authoritative API.
        from: Api,
    },
    /// Sets `status.authoritativeAPI` to Migrating, which locks both objects.
    Begin {
        /// The API that was authoritative.
        from: Api,
    },
    /// Pauses the source and waits for the acknowledgement of its controllers.
    PauseSource {
        /// The API that was authoritative.
        from: Api,
    },
    /// Copies the last changes from the source to the target.
    Synchronize {
        /// The API that was authoritative.
        from: Api,
    },
    /// Adds the finalizers that an authoritative object needs to the target.
    HandOverFinalizers {
        /// The API that becomes authoritative.
        to: Api,
    },
    /// Makes the target authoritative; the target is unpaused after that write.
    Finish {
        /// The API that becomes authoritative.
        to: Api,
    },
    /// Pauses the target, because the migration was cancelled.
    PauseTarget {
        /// The API that was authoritative and becomes authoritative again.
        back_to: Api,
    },
    /// Makes the source authoritative again, because the migration was cancelled.
    Cancel {
        /// The API that becomes authoritative again.
        back_to: Api,
    },
}

/// The next step. Repeating it after each executed step reaches [`Step::Idle`] from every state but
/// a migration without a source, which stays at [`Step::Stop`].
pub fn next(observed: &Observed) -> Step {
    let Some(from) = observed.source() else {
        return Step::Stop;
    };
    let to = observed.desired;
    match observed.authority {
        None => Step::InitializeStatus(to),
        Some(Authority::Stable(api)) if api == to || observed.deleting => Step::Idle(api),
        Some(Authority::Stable(_)) if !(observed.synchronized && observed.is_current) => {
            Step::AwaitSynchronization { from }
        }
        Some(Authority::Stable(_)) if !observed.is_recorded => Step::AwaitRecord { from },
        Some(Authority::Stable(_)) if !observed.source_is_ready => Step::AwaitSource { from },
        Some(Authority::Stable(_)) => Step::Begin { from },
        // A cancelled migration, and the migration of an object that is being deleted, go back to
        // the source.
        Some(Authority::Migrating) if to == from || observed.deleting => {
            if observed.target_paused {
                Step::Cancel { back_to: from }
            } else {
                Step::PauseTarget { back_to: from }
            }
        }
        Some(Authority::Migrating) if !observed.source_paused => Step::PauseSource { from },
        Some(Authority::Migrating) if !observed.is_current => Step::Synchronize { from },
        Some(Authority::Migrating) if !observed.target_has_finalizers => Step::HandOverFinalizers { to },
        Some(Authority::Migrating) => Step::Finish { to },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executes a step as the controller would, and everything that the step waits for.
    fn apply(observed: &mut Observed, step: Step) {
        match step {
            Step::InitializeStatus(api) => {
                observed.authority = Some(Authority::Stable(api));
                observed.synchronized_api = Some(api);
            }
            Step::Idle(_) | Step::Stop => {}
            Step::AwaitSource { .. } => observed.source_is_ready = true,
            Step::AwaitRecord { from } => {
                observed.is_recorded = true;
                observed.synchronized_api = Some(from);
            }
            Step::AwaitSynchronization { .. } | Step::Synchronize { .. } => {
                observed.synchronized = true;
                observed.is_current = true;
            }
            Step::Begin { from } => {
                observed.authority = Some(Authority::Migrating);
                observed.synchronized_api = Some(from);
                observed.source_paused = false;
            }
            Step::PauseSource { .. } => observed.source_paused = true,
            Step::HandOverFinalizers { .. } => observed.target_has_finalizers = true,
            Step::Finish { to } | Step::Cancel { back_to: to } => {
                observed.authority = Some(Authority::Stable(to));
                observed.synchronized_api = Some(to);
                observed.synchronized = false;
                observed.is_current = false;
            }
            Step::PauseTarget { .. } => observed.target_paused = true,
        }
    }

    fn states() -> Vec<Observed> {
        let apis = [Api::MachineApi, Api::ClusterApi];
        let mut states = Vec::new();
        for bits in 0..128_u8 {
            let bit = |position: u8| bits & (1 << position) != 0;
            for desired in apis {
                for authority in [
                    None,
                    Some(Authority::Stable(Api::MachineApi)),
                    Some(Authority::Stable(Api::ClusterApi)),
                    Some(Authority::Migrating),
                ] {
                    for synchronized_api in [None, Some(Api::MachineApi), Some(Api::ClusterApi)] {
                        states.push(Observed {
                            desired,
                            authority,
                            synchronized_api,
                            synchronized: bit(0),
                            is_current: bit(1),
                            is_recorded: bit(6),
                            source_is_ready: bit(5),
                            source_paused: bit(2),
                            target_paused: bit(3),
                            target_has_finalizers: bit(4),
                            deleting: false,
                        });
                    }
                }
            }
        }
        states.retain(|state| state.source().is_some());
        states
    }

    #[test]
    fn a_migration_without_a_recorded_source_stops() {
        for desired in [Api::MachineApi, Api::ClusterApi] {
            for mut observed in states() {
                observed.desired = desired;
                observed.authority = Some(Authority::Migrating);
                observed.synchronized_api = None;
                assert_eq!(next(&observed), Step::Stop, "{observed:?}");
            }
        }
    }

    #[test]
    fn every_state_reaches_idle_at_the_desired_api() {
        for start in states() {
            let mut observed = start.clone();
            for _ in 0..12 {
                let step = next(&observed);
                apply(&mut observed, step);
            }
            assert_eq!(next(&observed), Step::Idle(start.desired), "{start:?}");
        }
    }

    #[test]
    fn a_migration_can_be_cancelled_after_every_step() {
        for start in states() {
            let mut observed = start.clone();
            for _ in 0..6 {
                let step = next(&observed);
                apply(&mut observed, step);
                let mut back = Observed {
                    desired: observed.desired.other(),
                    ..observed.clone()
                };
                for _ in 0..12 {
                    let step = next(&back);
                    apply(&mut back, step);
                }
                assert_eq!(next(&back), Step::Idle(back.desired), "{start:?}");
            }
        }
    }

    #[test]
    fn the_authority_changes_only_after_the_source_is_paused_and_the_target_is_synchronized() {
        for observed in states() {
            match next(&observed) {
                Step::Finish { .. } => assert!(
                    observed.source_paused && observed.target_has_finalizers && observed.is_current,
                    "{observed:?}"
                ),
                Step::Begin { .. } => assert!(
                    observed.synchronized && observed.is_current && observed.is_recorded && observed.source_is_ready,
                    "{observed:?}"
                ),
                Step::Cancel { back_to } => {
                    assert!(observed.target_paused, "{observed:?}");
                    assert_eq!(observed.source(), Some(back_to));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn an_object_that_is_being_deleted_stays_with_its_source_api() {
        for start in states() {
            let mut observed = Observed {
                deleting: true,
                ..start.clone()
            };
            let source = observed.source().unwrap();
            for _ in 0..4 {
                let step = next(&observed);
                assert!(!matches!(step, Step::Begin { .. } | Step::Finish { .. }), "{start:?}");
                apply(&mut observed, step);
            }
            assert_eq!(next(&observed), Step::Idle(source), "{start:?}");
        }
    }
}
