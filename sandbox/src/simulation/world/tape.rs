//! The installation as the API server answered it once: it is the same for every world of the same shape.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use crate::api::{Api, Change, Failure, Reply, Request};
use crate::simulation::schedule::Schedule;

type Said = (Result<Reply, Failure>, Vec<Change>);
/// What decides an installation: how many machines, the strategy, the state of the set, whether fields have owners.
type Shape = (u32, &'static str, &'static str, bool);

static INSTALLED: Mutex<BTreeMap<Shape, Arc<Installed>>> = Mutex::new(BTreeMap::new());

/// An installation that was played.
struct Installed {
    answers: Vec<Said>,
    api: Api,
}

/// What answers while a world is installed.
pub(super) enum Tape {
    /// The API server, and it is written down.
    Recording(Shape, Vec<Said>),
    /// What was written down; the API server is already where it will be in the end.
    Playing(VecDeque<Said>),
}

impl Tape {
    /// Begins an installation.
    pub(super) fn begin(schedule: &Schedule, api: &mut Api) -> Self {
        let shape = (schedule.replicas, schedule.strategy, schedule.state, schedule.generates);
        let known = INSTALLED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&shape)
            .cloned();
        match known {
            Some(known) => {
                api.become_copy_of(&known.api);
                Self::Playing(known.answers.iter().cloned().collect())
            }
            None => Self::Recording(shape, Vec::new()),
        }
    }

    /// Answers the next request of the installation.
    pub(super) fn answer(&mut self, api: &mut Api, request: &Request, now: Timestamp) -> Said {
        match self {
            Self::Recording(_, answers) => {
                let said = api.apply(request, now);
                answers.push(said.clone());
                said
            }
            Self::Playing(answers) => answers.pop_front().unwrap_or_else(|| api.apply(request, now)),
        }
    }

    /// Ends the installation.
    pub(super) fn end(self, api: &Api) {
        if let Self::Recording(shape, answers) = self {
            let mut kept = Api::new(Arc::default(), api.options());
            kept.become_copy_of(api);
            let installed = Arc::new(Installed { answers, api: kept });
            INSTALLED
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(shape, installed);
        }
    }
}
