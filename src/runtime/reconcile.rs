//! What a controller is: data, and pure functions over what was read.
//!
//! A controller never writes. It says what it watches, observes one object in a view, plans steps
//! as data, and reports. The [`Reconciler`](super::Reconciler) reads live before it acts, carries
//! out the steps with their preconditions, and calls back with what came of them.

use std::future::Future;

use capstan_core::api::kind::KindInfo;
use capstan_core::api::meta::ObjectMeta;
use capstan_core::model::ObjectRef;
use jiff::Timestamp;
use tokio::time::Instant;

use super::caches::View;
use super::cluster::{Cluster, Written};
use super::events::EventSpec;
use super::step_error::StepError;
use super::watch::Watch;
use super::write::Write;

/// The same moment by two clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The wall clock, as objects carry it.
    pub time: Timestamp,
    /// A clock that never goes back.
    pub instant: Instant,
    /// When the objects had been read, by the same clock: later than `instant` after a live read.
    /// What is seen for the first time was not there before, so its age counts from here (V311).
    pub seen: Instant,
}

/// Where an observed view comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The caches, which may be behind.
    Caches,
    /// A live read, right before a write.
    Live,
}

/// What one object and its surroundings look like.
#[derive(Debug)]
pub enum Observation<T> {
    /// What a decision depends on is not known yet, or the object is gone. There is nothing to do.
    Nothing,
    /// Nothing changed since the last reconcile, which had nothing to do. Time alone changes the
    /// answer from then on.
    Idle(Option<Timestamp>),
    /// This was observed.
    Found(T),
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What is written.
    pub write: Write,
    /// A label of the metric: `create`, `delete`, `patch`, `apply`.
    pub action: &'static str,
    /// Why, as a sentence for the log.
    pub because: String,
    /// Whether the step is taken only if the plans from the caches and from the live read agree on
    /// it. Every step is taken only while the live read is fresh.
    pub disruptive: bool,
    /// Whether the step is taken only if every step before it succeeded, apart from optional steps
    /// that were refused.
    pub needs_success: bool,
    /// Whether no step is taken after this one if it fails.
    pub gates_others: bool,
    /// Whether the other steps are taken also if a rule of the API server refuses this one.
    pub optional: bool,
}

impl Step {
    /// A step that creates or deletes an object.
    pub fn disruptive(write: Write, action: &'static str, because: impl Into<String>) -> Self {
        Self {
            write,
            action,
            because: because.into(),
            disruptive: true,
            needs_success: true,
            gates_others: false,
            optional: false,
        }
    }
}

/// What a reconcile did, before it reports.
#[derive(Debug)]
pub struct Reconciled<'a, T> {
    /// The view from the caches.
    pub view: &'a View,
    /// What was observed last: live if steps were planned, in the caches otherwise.
    pub observed: &'a T,
    /// The positions of the steps that were taken.
    pub taken: &'a [usize],
    /// What failed.
    pub errors: &'a [StepError],
    /// What has been failing without a break, and since when. Conflicts do not count.
    pub failing: Option<&'a (Timestamp, String)>,
    /// Whether the caches alone showed that there is nothing to do.
    pub calm: bool,
    /// Whether the status was written. It is not when steps were taken without an error: the next
    /// reconcile reports what they changed.
    pub reported: bool,
    /// When the reconcile began.
    pub moment: Moment,
}

#[cfg(test)]
impl<'a, T> Reconciled<'a, T> {
    /// A reconcile at a time that had nothing to do.
    pub(crate) fn calm(view: &'a View, observed: &'a T, time: Timestamp) -> Self {
        let instant = tokio::time::Instant::now();
        Self {
            view,
            observed,
            taken: &[],
            errors: &[],
            failing: None,
            calm: true,
            reported: true,
            moment: Moment {
                time,
                instant,
                seen: instant,
            },
        }
    }
}

/// What a reconcile says at its end.
#[derive(Debug, Default)]
pub struct Report<'a> {
    /// The metadata of the object that events are about. `None`: no events.
    pub about: Option<ObjectMeta>,
    /// Events that are published once while they last.
    pub lasting: Vec<EventSpec<'a>>,
    /// Events that are published each time.
    pub once: Vec<EventSpec<'a>>,
    /// When to reconcile again although nothing changed.
    pub requeue_at: Option<Timestamp>,
}

/// A controller.
pub trait Reconcile: Send + Sync + Sized + 'static {
    /// The name in metrics and logs.
    const NAME: &'static str;

    /// What is kept of one object between reconciles. Its size must be bounded.
    type State: Default + Send + 'static;

    /// What one object and its surroundings look like.
    type Observed: Send + Sync;

    /// The kind of the objects that are reconciled.
    fn kind(&self) -> &KindInfo;

    /// What is watched.
    fn watches(&self) -> Vec<Watch>;

    /// The objects to reconcile after a process begins to lead. By default all objects of the kind.
    fn all(&self, view: &View) -> Vec<ObjectRef> {
        view.objects.keys(self.kind())
    }

    /// The objects to reconcile after an object changed. By default the object itself.
    fn affected(&self, changed: &ObjectRef, _view: &View) -> Vec<ObjectRef> {
        Vec::from_iter(self.kind().is_kind_of(changed).then(|| changed.clone()))
    }

    /// Whether nothing is left to do about an object, so that its state is forgotten. By default
    /// when the view does not show it.
    fn is_gone(&self, object: &ObjectRef, view: &View) -> bool {
        view.objects.metadata(object).is_none()
    }

    /// This process has begun to lead, or no longer leads.
    fn leadership(&self, _is_leader: bool) {}

    /// What an object and its surroundings look like in a view.
    fn observe(
        &self,
        object: &ObjectRef,
        view: &View,
        source: Source,
        state: &mut Self::State,
        moment: Moment,
    ) -> Observation<Self::Observed>;

    /// Requests from the API server what decides the plan and what no cache contains. Returns
    /// whether there is a new answer: then the object is observed again. By default it requests
    /// nothing.
    fn inquire<C: Cluster>(&self, _cluster: &C, _observed: &Self::Observed) -> impl Future<Output = bool> + Send {
        async { false }
    }

    /// Reads live what the planned steps depend on, and returns the view with it. `None`: the steps
    /// need no live read.
    fn read_live<C: Cluster>(
        &self,
        object: &ObjectRef,
        cluster: &C,
        view: &View,
        observed: &Self::Observed,
    ) -> impl Future<Output = Result<Option<View>, StepError>> + Send;

    /// What to do, in order.
    fn plan(&self, observed: &Self::Observed, state: &mut Self::State, moment: Moment) -> Vec<Step>;

    /// A write that must succeed before a step is taken, such as the record of a creation.
    fn before(
        &self,
        _observed: &Self::Observed,
        _step: usize,
        _state: &mut Self::State,
        _moment: Moment,
    ) -> Option<Write> {
        None
    }

    /// Does what belongs to a step and is not a write to the API server, right before the write. If
    /// it fails, the step fails. It must have the same effect if it is repeated. By default it does
    /// nothing.
    fn perform(&self, _observed: &Self::Observed, _step: usize) -> impl Future<Output = Result<(), StepError>> + Send {
        async { Ok(()) }
    }

    /// A step failed. Returns what is attempted in its place, if anything.
    fn failed(
        &self,
        _observed: &Self::Observed,
        _step: usize,
        _error: &StepError,
        _state: &mut Self::State,
        _moment: Moment,
    ) -> Option<Write> {
        None
    }

    /// A step failed for good. Returns whether the controller accepts that, so that the step is not
    /// retried until something changes.
    fn tolerated(
        &self,
        _observed: &Self::Observed,
        _error: &StepError,
        _state: &mut Self::State,
        _moment: Moment,
    ) -> bool {
        false
    }

    /// The writes that report the status. Each is made only if it is returned, so a controller
    /// returns none while the status is as it should be.
    fn status(&self, reconciled: &Reconciled<'_, Self::Observed>, state: &mut Self::State) -> Vec<Write>;

    /// A write of [`status`](Self::status) was stored.
    fn stored(&self, _observed: &Self::Observed, _write: &Write, _written: &Written, _state: &mut Self::State) {}

    /// Events, metrics, and when to reconcile again. By default none.
    fn report<'a>(&self, _reconciled: &Reconciled<'a, Self::Observed>, _state: &mut Self::State) -> Report<'a> {
        Report::default()
    }
}
