//! Plan: what the migration of an object from one API to the other does next, as a pure function of what is seen.
//!
//! The controller that acts on it comes later; admission says with it what a request for a migration will lead to. Every
//! state has a next step, and every request can be taken back: `synchronizedAPI` remembers where the lead came from.
//!
//! Source: the Converting Machine API to Cluster API enhancement, "Migration of resources"; decisions 12 and 13.

use super::spec::{Api, Decided, PairMember};

/// What the migration looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Which API should lead.
    pub wanted: Api,
    /// Who leads, as it was last decided.
    pub decided: Option<Decided>,
    /// Which API led when both were last alike.
    pub synchronized_api: Option<Api>,
    /// Whether the condition Synchronized is true.
    pub synchronized: bool,
    /// The generation of the source that the copy is like.
    pub synchronized_generation: Option<i64>,
    /// The generation of the half that leads, or led before the hand-over; `None` where it is not known.
    pub source_generation: Option<i64>,
    /// Whether the controllers of the source acknowledged, for this hand-over, that they leave it alone.
    pub source_paused: bool,
    /// Whether the controllers of the target leave it alone.
    pub target_paused: bool,
    /// Whether the target holds the finalizers that it needs to lead.
    pub target_has_finalizers: bool,
    /// Whether a deletion was asked for.
    pub deleting: bool,
}

impl Facts {
    /// What the two halves say. What only the controller sees (an acknowledgement of this hand-over, finalizers) is taken
    /// as not done yet.
    pub fn of(machine_api: &PairMember, cluster_api: Option<&PairMember>) -> Self {
        let source = match machine_api.lead() {
            Decided::Leads(api) => api,
            Decided::Migrating => machine_api
                .synchronized_api
                .unwrap_or_else(|| machine_api.wanted().other()),
        };
        Self {
            wanted: machine_api.wanted(),
            decided: machine_api.decided,
            synchronized_api: machine_api.synchronized_api,
            synchronized: machine_api
                .synchronized
                .as_ref()
                .is_some_and(super::spec::Observed::holds),
            synchronized_generation: machine_api.synchronized_generation,
            source_generation: match source {
                Api::MachineApi => machine_api.generation,
                Api::ClusterApi => cluster_api.and_then(|half| half.generation),
            },
            source_paused: false,
            target_paused: true,
            target_has_finalizers: false,
            deleting: machine_api.deleting || cluster_api.is_some_and(|half| half.deleting),
        }
    }

    /// Where the lead is, or came from before the hand-over. Where nobody remembers, the request tells.
    fn source(&self) -> Api {
        match self.decided {
            Some(Decided::Leads(api)) => api,
            Some(Decided::Migrating) => self.synchronized_api.unwrap_or_else(|| self.wanted.other()),
            None => self.wanted,
        }
    }

    fn is_current(&self) -> bool {
        self.source_generation.is_some() && self.synchronized_generation == self.source_generation
    }
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The status is written for the first time: this API leads.
    Decide(Api),
    /// Nothing: the API that should lead does.
    Rest(Api),
    /// Nothing yet: both halves must be alike first.
    AwaitSynchronization {
        /// Which API leads.
        from: Api,
    },
    /// The hand-over begins: both sides are locked.
    Begin {
        /// Which API leads.
        from: Api,
    },
    /// The source is asked to stop, and acknowledges.
    PauseSource {
        /// Which API led.
        from: Api,
    },
    /// The last changes are carried over.
    Synchronize {
        /// Which API led.
        from: Api,
    },
    /// The target gets the finalizers that it needs to lead.
    HandOverFinalizers {
        /// Which API will lead.
        to: Api,
    },
    /// The target leads, and starts after that is written.
    Finish {
        /// Which API leads from now on.
        to: Api,
    },
    /// The request was taken back: the target is stopped again.
    PauseTarget {
        /// Which API led, and will.
        back_to: Api,
    },
    /// The request was taken back: the source leads again.
    Cancel {
        /// Which API leads again.
        back_to: Api,
    },
}

/// The next step. Doing it, and asking again, comes to [`Step::Rest`] from every state.
pub fn next(facts: &Facts) -> Step {
    let from = facts.source();
    let to = facts.wanted;
    match facts.decided {
        None => Step::Decide(to),
        Some(Decided::Leads(lead)) if lead == to || facts.deleting => Step::Rest(lead),
        Some(Decided::Leads(_)) if !(facts.synchronized && facts.is_current()) => Step::AwaitSynchronization { from },
        Some(Decided::Leads(_)) => Step::Begin { from },
        // A request that was taken back, and an object that is being deleted, go back to where the lead came from.
        Some(Decided::Migrating) if to == from || facts.deleting => {
            if facts.target_paused {
                Step::Cancel { back_to: from }
            } else {
                Step::PauseTarget { back_to: from }
            }
        }
        Some(Decided::Migrating) if !facts.source_paused => Step::PauseSource { from },
        Some(Decided::Migrating) if !facts.is_current() => Step::Synchronize { from },
        Some(Decided::Migrating) if !facts.target_has_finalizers => Step::HandOverFinalizers { to },
        Some(Decided::Migrating) => Step::Finish { to },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a step as the controller would, with everything that it waits for happening at once.
    fn apply(facts: &mut Facts, step: Step) {
        match step {
            Step::Decide(api) => {
                facts.decided = Some(Decided::Leads(api));
                facts.synchronized_api = Some(api);
            }
            Step::Rest(_) => {}
            Step::AwaitSynchronization { .. } | Step::Synchronize { .. } => {
                facts.synchronized = true;
                facts.source_generation = facts.source_generation.or(Some(1));
                facts.synchronized_generation = facts.source_generation;
            }
            Step::Begin { from } => {
                facts.decided = Some(Decided::Migrating);
                facts.synchronized_api = Some(from);
                facts.source_paused = false;
            }
            Step::PauseSource { .. } => facts.source_paused = true,
            Step::HandOverFinalizers { .. } => facts.target_has_finalizers = true,
            Step::Finish { to } | Step::Cancel { back_to: to } => {
                facts.decided = Some(Decided::Leads(to));
                facts.synchronized_api = Some(to);
                facts.synchronized = false;
                facts.synchronized_generation = Some(0);
            }
            Step::PauseTarget { .. } => facts.target_paused = true,
        }
    }

    fn states() -> Vec<Facts> {
        let apis = [Api::MachineApi, Api::ClusterApi];
        let mut states = Vec::new();
        for bits in 0..32_u8 {
            let bit = |position: u8| bits & (1 << position) != 0;
            for wanted in apis {
                for decided in [
                    None,
                    Some(Decided::Leads(Api::MachineApi)),
                    Some(Decided::Leads(Api::ClusterApi)),
                    Some(Decided::Migrating),
                ] {
                    for synchronized_api in [None, Some(Api::MachineApi), Some(Api::ClusterApi)] {
                        states.push(Facts {
                            wanted,
                            decided,
                            synchronized_api,
                            synchronized: bit(0),
                            synchronized_generation: Some(i64::from(bit(1))),
                            source_generation: Some(1),
                            source_paused: bit(2),
                            target_paused: bit(3),
                            target_has_finalizers: bit(4),
                            deleting: false,
                        });
                    }
                }
            }
        }
        states
    }

    #[test]
    fn every_state_comes_to_rest_at_what_is_wanted() {
        for start in states() {
            let mut facts = start.clone();
            for _ in 0..12 {
                let step = next(&facts);
                apply(&mut facts, step);
            }
            assert_eq!(next(&facts), Step::Rest(start.wanted), "{start:?}");
        }
    }

    #[test]
    fn a_request_can_be_taken_back_after_every_step() {
        for start in states() {
            let mut facts = start.clone();
            for _ in 0..6 {
                let step = next(&facts);
                apply(&mut facts, step);
                let mut back = Facts {
                    wanted: facts.wanted.other(),
                    ..facts.clone()
                };
                for _ in 0..12 {
                    let step = next(&back);
                    apply(&mut back, step);
                }
                assert_eq!(next(&back), Step::Rest(back.wanted), "{start:?}");
            }
        }
    }

    #[test]
    fn the_lead_never_changes_hands_before_the_source_has_stopped_and_everything_was_carried_over() {
        for facts in states() {
            match next(&facts) {
                Step::Finish { .. } => assert!(
                    facts.source_paused && facts.target_has_finalizers && facts.is_current(),
                    "{facts:?}"
                ),
                Step::Begin { .. } => assert!(facts.synchronized && facts.is_current(), "{facts:?}"),
                Step::Cancel { back_to } => {
                    assert!(facts.target_paused, "{facts:?}");
                    assert_eq!(facts.source(), back_to);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn what_is_being_deleted_stays_or_goes_back_to_where_it_came_from() {
        for start in states() {
            let mut facts = Facts {
                deleting: true,
                ..start.clone()
            };
            let source = facts.source();
            for _ in 0..4 {
                let step = next(&facts);
                assert!(!matches!(step, Step::Begin { .. } | Step::Finish { .. }), "{start:?}");
                apply(&mut facts, step);
            }
            assert_eq!(next(&facts), Step::Rest(source), "{start:?}");
        }
    }
}
