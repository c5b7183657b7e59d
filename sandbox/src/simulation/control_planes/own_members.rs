//! The etcd of a control plane without an etcd operator (`--etcd-members capstan`), as the
//! controller reaches it.
//!
//! Nodes add and promote their own members, as in the other environment. The controller asks the
//! members and removes them. What the controller removes takes effect at once for its next
//! question, and in the environment before its next event.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use capstan::controllers::control_plane::{Answer, EtcdPort};
use capstan_core::model::UnknownMembers;
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::bugs::Bug;

/// What the members answer.
#[derive(Debug)]
struct Shown {
    members: Answer,
    removed: BTreeSet<String>,
    bug: Option<Bug>,
}

/// The members, shared by the environment and the controllers.
#[derive(Clone, Debug)]
pub(super) struct OwnMembers(Arc<Mutex<Shown>>);

impl OwnMembers {
    /// Members that do not answer yet.
    pub(super) fn new(bug: Option<Bug>) -> Self {
        Self(Arc::new(Mutex::new(Shown {
            members: Err(UnknownMembers::NoAnswer("they do not answer".to_owned())),
            removed: BTreeSet::new(),
            bug,
        })))
    }

    /// The members that the controller removed since the last call.
    pub(super) fn take_removed(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.shown().removed)
    }

    /// Shows the controller this answer from now on.
    pub(super) fn show(&self, answer: Answer) {
        self.shown().members = answer;
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EtcdPort for OwnMembers {
    fn members(&self) -> BoxFuture<'_, Answer> {
        let shown = self.shown();
        let mut answer = shown.members.clone();
        if let (Ok(members), Some(Bug::AllAnswer)) = (&mut answer, shown.bug) {
            members.iter_mut().for_each(|member| member.is_healthy = true);
        }
        std::future::ready(answer).boxed()
    }

    fn remove<'a>(&'a self, member: &'a str, _successors: &'a [String]) -> BoxFuture<'a, Result<(), String>> {
        let mut shown = self.shown();
        let removed = match &mut shown.members {
            Err(reason) => Err(reason.to_string()),
            Ok(members) => {
                members.retain(|one| one.name != member);
                Ok(())
            }
        };
        if removed.is_ok() && shown.bug != Some(Bug::MembersStay) {
            shown.removed.insert(member.to_owned());
        }
        std::future::ready(removed).boxed()
    }
}
