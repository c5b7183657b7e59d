//! A recording of the installation.
//!
//! All worlds of the same shape are installed in the same way. The first one records the answers of the API server, and the
//! others replay them. This saves time only: a replayed installation must leave the same state as a recorded one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use crate::api::{Api, Change, Failure, Reply, Request};

/// The answer to a request, and the changes that it made.
type Recorded = (Result<Reply, Failure>, Vec<Change>);

static INSTALLATIONS: Mutex<BTreeMap<String, Arc<Installation>>> = Mutex::new(BTreeMap::new());

/// A recorded installation.
struct Installation {
    answers: Vec<Recorded>,
    /// The API server after the installation.
    api: Api,
}

/// What answers the requests of an installation.
pub(super) enum Tape {
    /// The API server answers, and the tape records it under a name.
    Recording(String, Vec<Recorded>),
    /// The tape answers. The API server already is in its final state.
    Replaying(VecDeque<Recorded>),
}

impl Tape {
    /// Begins the installation of this name.
    pub(super) fn begin(name: String, api: &mut Api) -> Self {
        let known = INSTALLATIONS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&name)
            .cloned();
        match known {
            Some(known) => {
                api.become_copy_of(&known.api);
                Self::Replaying(known.answers.iter().cloned().collect())
            }
            None => Self::Recording(name, Vec::new()),
        }
    }

    /// Answers the next request of the installation.
    pub(super) fn answer(&mut self, api: &mut Api, request: &Request, now: Timestamp) -> Recorded {
        match self {
            Self::Recording(_, answers) => {
                let recorded = api.apply(request, now);
                answers.push(recorded.clone());
                recorded
            }
            Self::Replaying(answers) => answers.pop_front().unwrap_or_else(|| api.apply(request, now)),
        }
    }

    /// Ends the installation.
    pub(super) fn end(self, api: &Api) {
        if let Self::Recording(name, answers) = self {
            let mut copy = Api::new(Arc::default(), api.options());
            copy.become_copy_of(api);
            let installation = Arc::new(Installation { answers, api: copy });
            INSTALLATIONS
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(name, installation);
        }
    }
}
