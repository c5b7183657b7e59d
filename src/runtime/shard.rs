//! A controller whose objects several processes share: the side of a shard in the controller
//! sharding of timebertt/kubernetes-controller-sharding.
//!
//! The sharder assigns each object to a process with a label. A process watches only the objects
//! that are assigned to it, and holds a Lease of its own by which the sharder knows it. To move an
//! object, the sharder adds the drain label: the process removes both labels and does nothing else
//! with the object. This module must never assign an object. No safety rests on the assignment: two
//! processes that reconcile one object do no more harm than two leaders (decision 15).

use std::collections::BTreeMap;

use capstan_core::api::kind::KindInfo;
use capstan_core::model::{ObjectRef, Precondition};
use serde_json::{Value, json};

use super::caches::View;
use super::cluster::{Cluster, Written};
use super::leader::Election;
use super::reconcile::{Moment, Observation, Reconcile, Reconciled, Report, Source, Step};
use super::step_error::StepError;
use super::watch::Watch;
use super::write::{Verb, Write};

/// The label of the Lease of a shard. Its value is the name of the ring.
const RING: &str = "alpha.sharding.timebertt.dev/controllerring";
/// The beginning of the label of an object that is assigned to a shard. The ring follows.
const SHARD_PREFIX: &str = "shard.alpha.sharding.timebertt.dev/";
/// The beginning of the label of an object that is about to move.
const DRAIN_PREFIX: &str = "drain.alpha.sharding.timebertt.dev/";
/// The longest name of a ring and of a shard: each is part of a label.
const LONGEST: usize = 63;

/// One of the processes that share the objects of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    ring: String,
    name: String,
}

impl Shard {
    /// A shard of a ControllerRing. Its name is that of its Lease.
    ///
    /// # Errors
    /// A name cannot be the value of a label and the name of a Lease.
    pub fn new(ring: &str, name: &str) -> Result<Self, String> {
        for (what, text) in [("ControllerRing", ring), ("shard", name)] {
            let is_valid = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
            let inner = |character: char| is_valid(character) || character == '-' || character == '.';
            let ends = text.starts_with(is_valid) && text.ends_with(is_valid);
            if text.len() > LONGEST || !ends || !text.chars().all(inner) {
                return Err(format!(
                    "the name of the {what} must have at most {LONGEST} characters, only lower-case letters, digits, '-', \
                     and '.', and must begin and end with a letter or digit: {text:?}"
                ));
            }
        }
        Ok(Self {
            ring: ring.to_owned(),
            name: name.to_owned(),
        })
    }

    /// The name of the shard: of its Lease, and of this process.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The label of an object that is assigned to a shard of the ring.
    pub fn shard_label(&self) -> String {
        format!("{SHARD_PREFIX}{}", self.ring)
    }

    /// The label of an object that this shard must give away.
    pub fn drain_label(&self) -> String {
        format!("{DRAIN_PREFIX}{}", self.ring)
    }

    /// The election in which this process is the only candidate.
    #[must_use]
    pub fn election(&self, election: Election) -> Election {
        Election {
            name: self.name.clone(),
            identity: self.name.clone(),
            ..election
        }
    }

    /// The labels of the Lease of this process.
    pub fn lease_labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(RING.to_owned(), self.ring.clone())])
    }

    /// The watches of a controller of a kind. Only the objects of this shard are watched; objects
    /// of other kinds are not assigned.
    pub fn watches(&self, kind: &KindInfo, watches: Vec<Watch>) -> Vec<Watch> {
        let selector = format!("{}={}", self.shard_label(), self.name);
        let select = |watch: Watch| {
            if watch.kind() == kind {
                watch.labelled(&selector)
            } else {
                watch
            }
        };
        watches.into_iter().map(select).collect()
    }
}

/// A controller of the objects of one shard.
#[derive(Debug)]
pub struct Sharded<R> {
    controller: R,
    shard: Shard,
}

impl<R> Sharded<R> {
    /// A controller that reconciles only what is assigned to the shard.
    pub fn new(controller: R, shard: Shard) -> Self {
        Self { controller, shard }
    }
}

/// What is observed of an object.
#[derive(Debug)]
pub enum Assigned<T> {
    /// This shard must give the object away.
    Drained {
        /// The object.
        object: ObjectRef,
        /// The object as it was read.
        precondition: Precondition,
    },
    /// The object is assigned to this shard.
    Own(T),
}

impl<R: Reconcile> Sharded<R> {
    /// The patch that removes both labels.
    fn release(&self, object: &ObjectRef, precondition: &Precondition) -> Step {
        let labels: BTreeMap<String, Value> = [self.shard.shard_label(), self.shard.drain_label()]
            .map(|label| (label, Value::Null))
            .into();
        let mut metadata = precondition.metadata();
        metadata.insert(String::from("labels"), json!(labels));
        let verb = Verb::Patch(json!({ "metadata": metadata }));
        let write = Write::new(self.controller.kind(), &object.namespace, &object.name, verb);
        Step {
            disruptive: false,
            ..Step::disruptive(write, "patch", "the sharder moves the object to another process")
        }
    }
}

impl<R: Reconcile> Reconcile for Sharded<R> {
    const NAME: &'static str = R::NAME;

    type State = R::State;
    type Observed = Assigned<R::Observed>;

    fn kind(&self) -> &KindInfo {
        self.controller.kind()
    }

    fn watches(&self) -> Vec<Watch> {
        self.shard.watches(self.controller.kind(), self.controller.watches())
    }

    fn all(&self, view: &View) -> Vec<ObjectRef> {
        self.controller.all(view)
    }

    fn affected(&self, changed: &ObjectRef, view: &View) -> Vec<ObjectRef> {
        self.controller.affected(changed, view)
    }

    fn is_gone(&self, object: &ObjectRef, view: &View) -> bool {
        self.controller.is_gone(object, view)
    }

    fn leadership(&self, is_leader: bool) {
        self.controller.leadership(is_leader);
    }

    /// A live read may show that the object is another shard's by now.
    fn observe(
        &self,
        object: &ObjectRef,
        view: &View,
        source: Source,
        state: &mut R::State,
        moment: Moment,
    ) -> Observation<Self::Observed> {
        let Some(metadata) = view.objects.metadata(object) else {
            return Observation::Nothing;
        };
        if metadata.labels.get(&self.shard.shard_label()) != Some(&self.shard.name) {
            return Observation::Nothing;
        }
        if metadata.labels.contains_key(&self.shard.drain_label()) {
            let precondition = Precondition {
                uid: metadata.uid().to_owned(),
                resource_version: metadata.resource_version.clone().unwrap_or_default(),
            };
            let object = object.clone();
            return Observation::Found(Assigned::Drained { object, precondition });
        }
        match self.controller.observe(object, view, source, state, moment) {
            Observation::Nothing => Observation::Nothing,
            Observation::Idle(at) => Observation::Idle(at),
            Observation::Found(observed) => Observation::Found(Assigned::Own(observed)),
        }
    }

    async fn inquire<C: Cluster>(&self, cluster: &C, observed: &Self::Observed) -> bool {
        match observed {
            Assigned::Drained { .. } => false,
            Assigned::Own(own) => self.controller.inquire(cluster, own).await,
        }
    }

    async fn read_live<C: Cluster>(
        &self,
        object: &ObjectRef,
        cluster: &C,
        view: &View,
        observed: &Self::Observed,
    ) -> Result<Option<View>, StepError> {
        match observed {
            // The patch has a precondition.
            Assigned::Drained { .. } => Ok(None),
            Assigned::Own(own) => self.controller.read_live(object, cluster, view, own).await,
        }
    }

    fn plan(&self, observed: &Self::Observed, state: &mut R::State, moment: Moment) -> Vec<Step> {
        match observed {
            Assigned::Drained { object, precondition } => vec![self.release(object, precondition)],
            Assigned::Own(own) => self.controller.plan(own, state, moment),
        }
    }

    fn before(&self, observed: &Self::Observed, step: usize, state: &mut R::State, moment: Moment) -> Option<Write> {
        match observed {
            Assigned::Drained { .. } => None,
            Assigned::Own(own) => self.controller.before(own, step, state, moment),
        }
    }

    async fn perform(&self, observed: &Self::Observed, step: usize) -> Result<(), StepError> {
        match observed {
            Assigned::Drained { .. } => Ok(()),
            Assigned::Own(own) => self.controller.perform(own, step).await,
        }
    }

    fn failed(
        &self,
        observed: &Self::Observed,
        step: usize,
        error: &StepError,
        state: &mut R::State,
        moment: Moment,
    ) -> Option<Write> {
        match observed {
            Assigned::Drained { .. } => None,
            Assigned::Own(own) => self.controller.failed(own, step, error, state, moment),
        }
    }

    fn tolerated(&self, observed: &Self::Observed, error: &StepError, state: &mut R::State, moment: Moment) -> bool {
        match observed {
            Assigned::Drained { .. } => false,
            Assigned::Own(own) => self.controller.tolerated(own, error, state, moment),
        }
    }

    fn status(&self, reconciled: &Reconciled<'_, Self::Observed>, state: &mut R::State) -> Vec<Write> {
        match reconciled.observed {
            Assigned::Drained { .. } => Vec::new(),
            Assigned::Own(own) => self.controller.status(&of(reconciled, own), state),
        }
    }

    fn stored(&self, observed: &Self::Observed, write: &Write, written: &Written, state: &mut R::State) {
        if let Assigned::Own(own) = observed {
            self.controller.stored(own, write, written, state);
        }
    }

    fn report<'a>(&self, reconciled: &Reconciled<'a, Self::Observed>, state: &mut R::State) -> Report<'a> {
        match reconciled.observed {
            Assigned::Drained { .. } => Report::default(),
            Assigned::Own(own) => self.controller.report(&of(reconciled, own), state),
        }
    }
}

/// The same for the controller of the object.
fn of<'a, T>(reconciled: &Reconciled<'a, Assigned<T>>, observed: &'a T) -> Reconciled<'a, T> {
    Reconciled {
        view: reconciled.view,
        observed,
        taken: reconciled.taken,
        errors: reconciled.errors,
        failing: reconciled.failing,
        calm: reconciled.calm,
        reported: reconciled.reported,
        moment: reconciled.moment,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_must_fit_into_labels() {
        let long = "a".repeat(64);
        for (ring, name) in [
            ("", "a"),
            ("Ring", "a"),
            ("ring", "a_b"),
            ("ring", "-a"),
            ("ring", &long),
        ] {
            assert!(Shard::new(ring, name).is_err(), "{ring} {name}");
        }
        let shard = Shard::new("kcp", "capstan-7c6-x2v").unwrap();
        assert_eq!(shard.shard_label(), "shard.alpha.sharding.timebertt.dev/kcp");
        assert_eq!(shard.drain_label(), "drain.alpha.sharding.timebertt.dev/kcp");
    }
}
